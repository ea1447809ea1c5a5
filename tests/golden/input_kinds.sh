# Paths of inputs that are no files: a pipe with a writer is read, as often as it takes; nothing else
# is, and nothing waits for ever.
S=$TOP/scenarios
plan="$HERE/plans/tiny-pp2.json" with="--model $S/models/tiny-llama.yaml --cluster $S/clusters/tiny2.yaml"
luoshu() { timeout 20 "$LUOSHU" "$@"; local rc=$?; [ $rc = 0 ] || echo "exit $rc"; }
mkfifo idle late
luoshu check <(cat "$plan") | sed 's|/dev/fd/[0-9]*|<()|'
cat "$plan" | luoshu check /dev/stdin
luoshu check /dev/stdin <"$plan"
(sleep 0.1; cat "$plan" >late) & luoshu check late
luoshu sim <(cat "$plan") $with --steps 2 --plots off --out run --quiet >out; cmp run/plan/config/[0-9]* "$plan"
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
mkdir folder
truncate -s 65M big.yaml
for path in idle socket folder /dev/zero big.yaml; do luoshu check $path; done
luoshu check --json big.yaml | grep message
head -c 65M /dev/zero | luoshu check /dev/stdin
for option in --model --cluster; do luoshu explain "$plan" $with $option idle; done
luoshu plan malleus $with --seq-length 64 --global-batch-size 4 --rates idle
luoshu plan malleus $with --params folder
luoshu compare idle
luoshu run "$plan" --backend host $with --quiet --out r1 --data idle
luoshu run "$plan" --backend host $with --quiet --out r2 --load idle
luoshu run "$plan" --backend host $with --quiet --out r3 --resume idle
luoshu run "$plan" --backend host $with --quiet --out r4 --hostfile idle
