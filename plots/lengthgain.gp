# Mean step of the rivals over that of hydraulis, by distribution of lengths and size (tests/rivals_lengths.sh grid).
# Reads rivals_lengths.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/rivals_lengths.csv'
# Padding takes 10 to 50 times as long, and would leave no room for the others.
rivals = 'pack_static pack_dynamic uniform_best hotspa one_plan'
np = words(rivals)
setting_of(x) = strcol('lengths').', '.strcol('model')[7:].' on '.strcol('gpus')
ns = 0
stats data using (ns == 1024 ? 1 : (ns = ns + 1, kept[ns] = setting_of(0), 1)) nooutput
ratio_of(p) = column(p.'_s') / column('hydraulis_s')
most = 1; least = 1
do for [k=1:np] {
    stats data using (ratio_of(word(rivals, k))) name 'R' nooutput
    most = R_max > most ? R_max : most
    least = R_min < least ? R_min : least
}

title = seen('Step of the rivals over that of hydraulis, simulated, synthetic lengths', 'Step of rivals / step of hydraulis')
above = key_room(np, 12)
H = above + (small ? 120 : 220) + (small ? 110 : 135)
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.20 : 0.10)
    set rmargin at screen 0.98
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(small ? 110 : 135)
    set logscale y
    set yrange [least * 0.96:most * 1.08]
    set ytics ('0.9' 0.9, '1' 1, '1.1' 1.1, '1.2' 1.2, '1.3' 1.3, '1.4' 1.4, '1.5' 1.5, '1.7' 1.7, '2' 2, '3' 3, '5' 5, '10' 10)
    set xrange [0.5:ns + 0.5]
    set xtics rotate by 45 right font tiny_font noenhanced
    set for [j=1:ns] xtics add (as_tic(kept[j]) j)
    eval set_y('step / step of hydraulis')
    eval key_in_rows(np, 12)
    plot for [k=1:np] data using ($0 + 1 + 0.8 * (k - 0.5 * (np + 1)) / np):(ratio_of(word(rivals, k))) with points pt (k % 2 ? 7 : 5) ps (small ? 0.5 : 0.7) lc rgb colour_of(k) title word(rivals, k), \
         1 with lines lc rgb '#333333' lw 0.6 notitle
    unset output
}
