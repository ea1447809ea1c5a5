# Every option that the help of a verb lists is taken by its parser, with a value where the help shows
# one, and no other option is (each by itself: tests/unit/check_args.c).
for verb in $("$LUOSHU" help | awk '/^  [a-z]/ {print $1}'); do
    all=(); n=0
    while read -r name value; do
        one=("$name" ${value:+x}); n=$((n + 1))
        all+=("${one[@]}")
    done < <("$LUOSHU" help "$verb" | awk '/^options/ {on=1; next} /^$/ {on=0}
        on && /^  --/ {print $1, ($2 ~ /^[A-Z0-9][A-Z0-9=,x]*$/ ? $2 : "")}')
    "$LUOSHU" "$verb" "${all[@]}" --help >got # help of `plan` goes on with the keys of its file
    "$LUOSHU" help "$verb" | head -n "$(wc -l <got)" | cmp - got
    "$LUOSHU" "$verb" --no-such-option; echo "$verb: $n options, exit $?"
done
"$LUOSHU" >out; echo "exit $? $(wc -c <out)"
"$LUOSHU" --help | head -n 1; "$LUOSHU" -h | tail -n 1
# Options of other verbs and of other tools.
for o in "sim --sync bsp" "run x --moe layer" "sim x --tp 3" "plan uniform --gbs 3" "plan uniform --seq-len 3" "sim x --trace all" "plan uniform --progress x" "plan auto --progress x"; do "$LUOSHU" $o; done
# Planners: what the help of one lists is taken, and what only others list is refused.
planners=$("$LUOSHU" plan --help | awk '/^planners:/ {on=1; next} /^`/ {on=0} on {print $1}')
for planner in $planners; do
    "$LUOSHU" help plan $planner >$planner.help; "$LUOSHU" plan $planner --help | cmp - $planner.help
    awk '/^options/ {on=1; next} /^$/ {on=0} on && /^  --/ {print $1, ($2 ~ /^[A-Z0-9][A-Z0-9=,x]*$/ ? "x" : "")}' \
        $planner.help | sort >$planner.options
done
sort -u *.options >all
for planner in $planners; do
    mapfile -t own < <(xargs -n1 <$planner.options)
    "$LUOSHU" plan $planner "${own[@]}" --help | cmp - $planner.help
    refused=0; others=0
    while read -r name value; do
        others=$((others + 1))
        "$LUOSHU" plan $planner $name $value 2>&1 | grep -q 'is an option of planner' && refused=$((refused + 1))
    done < <(comm -23 all $planner.options)
    echo "plan $planner: $(wc -l <$planner.options) options, $refused of $others others are refused"
done
