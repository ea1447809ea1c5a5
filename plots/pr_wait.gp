# Partial reduce: iterations a second, and lambda2 (0: mixes at once, 1: never), by how long a group
# waits. Their product as a rate is a proxy of ours.
# Reads sync_sweep.csv (tests/sync_figures.sh).
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/sync_sweep.csv'
is(x) = strcol('figure') eq 'pr_wait' ? column(x) : NaN
title = seen('Partial reduce: rate and mixing, by how long a group waits', 'Rate and mixing, by the wait of a group')
above = key_room(3, small ? 25 : 30)
H = above + (small ? 125 : 230) + foot_room
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.15 : 0.08)
    set rmargin at screen (small ? 0.82 : 0.92)
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot_room)
    set border 11 ls 100
    set xrange [0:*] noextend
    set yrange [0:*]
    set y2range [0:1.02]
    set ytics nomirror
    set y2tics 0.2 out scale 0.5 font small_font
    set xlabel 'wait of a group (s)' font small_font offset 0,0.3
    eval set_y('iterations a second')
    set label 3 'λ_2' at screen (small ? 0.97 : 0.975), graph 0.5 center rotate by 90 font small_font
    eval key_in_rows(3, small ? 25 : 30)
    plot data using (is('x')):'updates_per_s' with linespoints pt 7 ps (small ? 0.35 : 0.45) lc rgb colour_of(1) lw 1.6 dt 1 title 'iterations a second', \
         data using (is('x')):(column('updates_per_s') * (1 - column('lambda2'))) with linespoints pt 5 ps (small ? 0.35 : 0.45) lc rgb colour_of(3) lw 1.6 dt 3 title (small ? 'times 1 - lambda2, proxy' : 'times 1 - lambda2: our proxy'), \
         data using (is('x')):'lambda2' axes x1y2 with linespoints pt 6 ps (small ? 0.35 : 0.45) lc rgb colour_of(2) lw 1.6 dt 2 title 'lambda2 (right)'
    unset output
}
