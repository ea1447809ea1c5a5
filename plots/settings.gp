# Step with stragglers over step without them, by setting and policy (tests/papers.sh).
# Reads settings.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/settings.csv'
stats data using (keep_text(strcol('setting'))) nooutput
ns = nkept # policies come behind them, each of them once
stats data using (keep_text(strcol('policy'))) nooutput
np = nkept - ns
stats data using 'slowed_ratio' name 'R' nooutput

longest = 1
do for [k=ns + 1:nkept] { if (strlen(kept[k]) > longest) { longest = strlen(kept[k]) } }
title = seen('A step with stragglers over a step without, by setting and policy', 'Step with stragglers / without')
above = key_room(np, longest)
H = above + (small ? 120 : 220) + (small ? 95 : 115)
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.20 : 0.10)
    set rmargin at screen 0.98
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(small ? 95 : 115)
    set logscale y
    set yrange [0.9:R_max * 1.2]
    set ytics ('1' 1, '1.2' 1.2, '1.5' 1.5, '2' 2, '3' 3, '5' 5, '10' 10, '20' 20, '50' 50, '100' 100)
    set xrange [0.5:ns + 0.5]
    set xtics rotate by 45 right font tiny_font noenhanced
    set for [j=1:ns] xtics add (as_tic(kept[j]) j)
    eval set_y('step / healthy step')
    eval key_in_rows(np, longest)
    plot for [k=1:np] data using (strcol('policy') eq kept[ns + k] ? number_of_text(strcol('setting')) + 0.8 * (k - 0.5 * (np + 1)) / np : NaN):'slowed_ratio' with points pt (k % 2 ? 7 : 5) ps (small ? 0.5 : 0.7) lc rgb colour_of(k) title kept[ns + k], \
         1 with lines lc rgb '#333333' lw 0.6 notitle
    unset output
}
