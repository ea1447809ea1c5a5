# Iterations a second over those of all-reduce, by how long a worker sleeps that sleeps.
# Reads sync_sweep.csv (tests/sync_figures.sh).
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/sync_sweep.csv'
set datafile missing NaN # rows of other curves do not cut this one
stats data using (strcol('figure') eq 'pr_speedup' ? keep_text(strcol('setting')) : 1) nooutput
n = nkept
stats data using (strcol('figure') eq 'pr_speedup' ? take(number_of_text(strcol('setting')), column('speedup')) : 1) nooutput
at(k) = strcol('figure') eq 'pr_speedup' && strcol('setting') eq kept[k] ? column('x') : NaN
longest = 1
do for [k=1:nkept] { if (strlen(named_line(k)) > longest) { longest = strlen(named_line(k)) } }
title = seen('Rate beside that of all-reduce when workers sleep now and then', 'Rate beside all-reduce, by sleep')
above = key_room(n, longest)
H = above + (small ? 125 : 230) + foot_room
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen from_left(small ? 44 : 54)
    set rmargin at screen from_right(small ? 10 : 16)
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot_room)
    set xrange [*:*] noextend
    set yrange [0:*]
    set xlabel 'sleep of a worker that sleeps (s)' font small_font offset 0,0.3
    eval set_y('rate / rate of allreduce')
    eval key_in_rows(n, longest)
    plot for [k=1:n] data using (at(k)):'speedup' with linespoints pt (k % 2 ? 7 : 5) ps (small ? 0.35 : 0.45) lc rgb colour_of(k) lw width_of(k, n < 4 ? n : 4) dt k title named_line(k)
    unset output
}
