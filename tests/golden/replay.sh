# A recorded job replayed: synthetic, ms by hand. A worker of 2 x 2 computes 1.5 times as long: 134 instead of 115.25.
S=$TOP/scenarios/examples/recorded.csv
r() { "$LUOSHU" replay "$@"; local rc=$?; [ $rc = 0 ] || echo "exit $rc: $(echo "$*" | sed "s|$TOP/||g")"; }
r "$S" --out one; ls one one/plots; cat one/attribution.csv one/devices.csv one/compare_steps.csv one/compare_steps-ideal.csv
sed "s|$TOP/||" one/summary.json; cut -d, -f2 one/plots/gantt.csv | sort -u
cp -r one first; r "$S" --out one --force >/dev/null; diff -r one first && echo "the same again"
"$LUOSHU" check one/recorded.csv one/ideal.csv; r one/ideal.csv --plots off --out ideal | head -n 2 # without stragglers: 1
# three steps, the second one without the slow worker: alone it has no stragglers
{ cat "$S"; grep '^0' one/ideal.csv | sed 's/^0/5/'; grep '^0' "$S" | sed 's/^0/9/'; } >three.csv
r three.csv --steps 5 --plots off --out s | head -n 2; r three.csv --steps 0,6-9 --plots off --out s --force --json 2>text | grep '"slowdown"\|"steps"'; head -n 1 text
r three.csv --steps 6-8 --out x; r three.csv --steps 1- --out x; r "$S" --out one; r; r missing.csv; r "$S" --plots maybe
# what does not fit together
bad() { grep -v "$1" "$S" >bad.csv; r bad.csv --out x; }
bad '^0,1,1,pp,forward-recv,-1,-1,1'; bad '^0,.,1,pp,forward-recv,-1,-1,1'; [ -e x ] || echo "nothing written"
bad '^0,.,1,compute,forward'; bad '^0,0,0,.*gc,'; bad '^0,0'; bad '^0,.,1,dp,embedding'; bad '^0'; bad '^0,.,0,compute,forward-compute,0,1'
sed 's/,optimizer,/,optimiser,/; s/^\(0,1,1,.*\),/\1,-/' "$S" | head -n 40 >bad.csv; r bad.csv --out x
# one pipeline, which is its own mean
grep -v '^0,1' "$S" >alone.csv; r alone.csv --plots off --out alone | grep -v 1.0000
# stage 1 says that it began with the second micro-batch: its first forward waits for itself
sed 's/^\(0,.,1,compute,forward-compute,0,0,0\),[0-9.]*/\1,0.09/' "$S" >bad.csv; r bad.csv --out x
"$LUOSHU" compare one
