# Bytes that an iteration of a worker moves, by both bounds, for each policy of the cache; the line of no
# cache, and the one that is 88 % below it, which HET's abstract states as the best of its runs.
# Reads embed_sweep.csv (tests/embed_figures.sh).
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/embed_sweep.csv'
set datafile missing NaN # rows of other settings do not break a line
stats data using (strcol('figure') eq 'het_bound' && strcol('setting') ne 'none' ? keep_text(strcol('setting')) : 1) nooutput
n = nkept
stats data using (strcol('figure') eq 'het_bound' ? take(number_of_text(strcol('setting')), column('bytes_per_iteration')) : 1) nooutput
is(name) = strcol('figure') eq 'het_bound' && strcol('setting') eq name ? column('x') : NaN
longest = 8
do for [k=1:nkept] { if (strlen(named_line(k)) > longest) { longest = strlen(named_line(k)) } }
title = seen('Bytes of an iteration of a worker by the bound of staleness', 'Bytes by the bound of staleness')
above = key_room(n + 2, longest)
H = above + (small ? 125 : 230) + foot_room
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen from_left(small ? 50 : 58)
    set rmargin at screen from_right(small ? 14 : 20)
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot_room)
    set logscale x
    set xrange [*:*] noextend
    set yrange [0:*]
    set xlabel 'pull and push bound (updates)' font small_font offset 0,0.3
    eval set_y('MB of an iteration')
    eval key_in_rows(n + 2, longest)
    plot data using (is('none')):(column('bytes_per_iteration') / 1e6) with lines lc rgb '#333333' lw 1.4 dt 1 title 'no cache', \
         for [k=1:n] data using (is(kept[k])):(column('bytes_per_iteration') / 1e6) with linespoints pt (k % 2 ? 7 : 5) ps (small ? 0.35 : 0.45) lc rgb colour_of(k) lw width_of(k, n) dt k title named_line(k), \
         data using (is('none')):(0.12 * column('bytes_per_iteration') / 1e6) with lines lc rgb '#7F7F7F' lw 1.2 dt 3 title '88 % less'
    unset output
}
