# Wrong use of `luoshu run`: exit code and one sentence, before any process is started.
S=$TOP/scenarios P=$HERE/plans/tiny-pp2.json
u() { "$LUOSHU" run "$@" >out; echo "exit $?: ${*//$TOP\//}"; [ ! -s out ] || cat out; }
u; u a b --backend host; u "$P"; u "$P" --backend sim; u "$P" --backend cuda
u "$P" --backend host --launcher bsub; u "$P" --backend host --ranks 0; u "$P" --backend host --stuck-s 0
u "$P" --backend host --data nowhere.txt; u "$P" --backend host --resume nowhere
u "$P" --backend host --load x --hostfile nowhere
touch w; u "$P" --backend host --load w --resume .; u "$P" --backend host --save-init x --resume .
u "$P" --backend host --checkpoint-every; u "$P" --backend host --comm flow
ls
