# Every option that the help of a verb lists is taken by its parser, with a value where the help shows
# one, and no other option is (each by itself: tests/unit/check_args.c).
for verb in $("$LUOSHU" help | awk '/^  [a-z]/ {print $1}'); do
    all=(); n=0
    while read -r name value; do
        one=("$name" ${value:+x}); n=$((n + 1))
        all+=("${one[@]}")
    done < <("$LUOSHU" help "$verb" | awk '/^options:/ {on=1; next} /^$/ {on=0}
        on && /^  --/ {print $1, ($2 ~ /^[A-Z0-9][A-Z0-9=,x]*$/ ? $2 : "")}')
    "$LUOSHU" "$verb" "${all[@]}" --help >got # help of `plan` goes on with the keys of its file
    "$LUOSHU" help "$verb" | head -n "$(wc -l <got)" | cmp - got
    "$LUOSHU" "$verb" --no-such-option; echo "$verb: $n options, exit $?"
done
"$LUOSHU" >out; echo "exit $? $(wc -c <out)"
"$LUOSHU" --help | head -n 1; "$LUOSHU" -h | tail -n 1
# Options of other verbs and of other tools.
for o in "sim --sync bsp" "run x --moe layer" "sim x --tp 3" "plan uniform --gbs 3" "plan uniform --seq-len 3" "sim x --trace all"; do "$LUOSHU" $o; done
