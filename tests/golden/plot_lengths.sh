# What `plot` takes instead of runs: tables of lengths, and presets.
S=$TOP/scenarios
u() { "$LUOSHU" plot "$@"; local rc=$?; [ $rc = 0 ] || echo "exit $rc: ${*//$TOP\//}"; }
printf 'length_tokens\n1\n1\n2\n4\n' >four.csv
printf 'low_tokens,high_tokens,count\n1,3,4\n' >classes.csv
mkdir a b syn-code; cp four.csv a; cp classes.csv b/four.csv
u four.csv; cat lengthcdf/plots/lengthcdf.csv; ls lengthcdf/plots
u a/four.csv b/four.csv --out both --column 1; cut -d, -f1,2 both/plots/lengthcdf.csv | uniq
u syn-web classes.csv --out web --ctx 4096 --seed 1 --figure lengthcdf; cut -d, -f1,2 web/plots/lengthcdf.csv | uniq
u syn-web --out web --ctx 4096; grep -o 'syn-web, 100000[^<]*' web/plots/lengthcdf.svg
u nothing; u syn-web a; u a; u four.csv --ctx 64; u four.csv --seed 1; u a --out x; u syn-web --ctx 3
u four.csv --figure gantt; u four.csv four.csv classes.csv --column 1; u four.csv four.csv four.csv four.csv four.csv
u "$S/examples/rates.csv" --out x; printf 'length_tokens\n0\n' >none.csv; u none.csv --out x
