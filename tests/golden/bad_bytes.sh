# Bytes of a file, of its name and of the command line that are no UTF-8 or would move the terminal:
# what is printed is UTF-8 without control characters, and --json is what a strict reader takes.
printf 't_s,kind,target\n1,f\377ail,device:3\n' >bytes.csv
printf 't_s,kind,target\n1,f\033[31mail,device:3\n' >escape.csv
printf 't_s,kind\n' >$'na\377me\033.csv'
for f in *.csv; do
    "$LUOSHU" check --json "$f" >out 2>err; echo "exit $?"
    iconv -f utf-8 -t utf-8 out >copy && cmp out copy
    tail -n 5 out; cat err
done
"$LUOSHU" $'\033[31m\377'; echo "exit $?"
"$LUOSHU" check --$'\033[31m\377'; echo "exit $?"
