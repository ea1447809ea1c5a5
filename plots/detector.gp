# The detector of changed speeds under noise: how many steps until a jump is told (median, and dots
# for the 99th percentile), and how often one is told that was none, beside two simpler rules.
# Synthetic samples.
# Reads plots/detector.csv, which `make detector` writes (tests/curves/detector.c).
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/detector.csv'
rules = 'detector median mean'
says(k) = word(small ? '"this" "median" "mean of 2"' : '"this detector" "its median alone" "mean of 2"', k)
jumps = '1.35 1.5 2.57 5.42'
stats data using 'noise_sigma' name 'S' nooutput
stats data using (strcol('slowdown') eq '1' && column('alarms') > 0 ? column('alarms_per_1000_steps') : NaN) name 'A' nooutput
stats data using (strcol('slowdown') eq '1' ? column('device_steps') : NaN) name 'N' nooutput
least = 1000.0 / N_max # one alarm
is(rule, slow) = strcol('rule') eq rule && strcol('slowdown') eq slow
told(c) = column('found_ratio') >= 0.99 ? column(c) : NaN
title = seen('The detector of changed speeds under noise: how late (median; dots: 99th of 100), how often for nothing', 'The detector under noise (dots: 99th of 100)')
above = title_room + (small ? 48 : 40)
H = above + (small ? 130 : 240) + foot_room
do for [fmt in formats] {
    eval open_of(fmt)
    set multiplot
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot_room)
    set xrange [0:S_max * 1.04]
    set xtics 0.1
    set mxtics 2
    set xlabel (small ? 'noise σ' : 'spread of a sample (σ of ln)') font small_font offset 0,0.3
    set lmargin at screen (small ? 0.16 : 0.08)
    set rmargin at screen (small ? 0.46 : 0.47)
    eval set_y(small ? 'delay (steps)' : 'delay of a jump (steps)')
    set yrange [0:*]
    set key at screen (small ? 0.09 : 0.08), screen from_top(title_room) left top horizontal Left reverse samplen (small ? 0.9 : 1.6) maxrows 2 width -1 spacing (small ? 0.85 : 1.1)
    plot for [k=1:words(jumps)] data using (is('detector', word(jumps, k)) ? column('noise_sigma') : NaN):(told('delay_p50_steps')) with lines lc rgb colour_of(k) lw width_of(k, 4) dt k title '× '.word(jumps, k), \
         for [k=1:words(jumps)] data using (is('detector', word(jumps, k)) ? column('noise_sigma') : NaN):(told('delay_p99_steps')) with points pt 7 ps (small ? 0.35 : 0.45) lc rgb colour_of(k) notitle
    unset label 1
    unset label 2
    unset label 9
    set lmargin at screen (small ? 0.67 : 0.59)
    set rmargin at screen 0.985
    set label 2 (small ? 'alarms per 1,000' : 'false alarms per 1,000 steps') at screen (small ? 0.505 : 0.515), graph 0.5 center rotate by 90 noenhanced font small_font
    set logscale y
    set format y '10^{%T}'
    set yrange [least / 2:1000]
    set key at screen (small ? 0.60 : 0.59), screen from_top(title_room) left top horizontal Left reverse samplen (small ? 0.9 : 1.6) maxrows 3 width 0 spacing (small ? 0.85 : 1.1)
    plot for [k=1:words(rules)] data using (is(word(rules, k), '1') ? column('noise_sigma') : NaN):(column('alarms') > 0 ? column('alarms_per_1000_steps') : NaN) with linespoints pt 7 ps (small ? 0.3 : 0.4) lc rgb colour_of(k) lw 1.6 dt k title says(k), \
         for [k=1:words(rules)] data using (is(word(rules, k), '1') ? column('noise_sigma') : NaN):(column('alarms') > 0 ? NaN : least / 2) with points pt 6 ps (small ? 0.5 : 0.7) lw 0.8 lc rgb colour_of(k) notitle
    unset multiplot
    unset logscale y
    set format y '%g'
    unset output
}
