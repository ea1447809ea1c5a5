# Iterations of all workers a second, by how slow the slow one is, for each way of waiting.
# Reads sync_sweep.csv (tests/sync_figures.sh).
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/sync_sweep.csv'
set datafile missing NaN # rows of other curves do not cut this one
stats data using (strcol('figure') eq 'sync_rate' ? keep_text(strcol('setting')) : 1) nooutput
n = nkept
at(k) = strcol('figure') eq 'sync_rate' && strcol('setting') eq kept[k] ? column('x') : NaN
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.15 : 0.08)
    set rmargin at screen (small ? 0.62 : 0.80)
    set tmargin at screen (small ? 0.88 : 0.92)
    set bmargin at screen (small ? 0.23 : 0.16)
    set xrange [*:*] noextend
    set yrange [0:*]
    set xlabel 'factor by which one worker is slow' font small_font offset 0,0.3
    eval set_y('iterations a second')
    eval "set key at screen 0.995,screen 0.55 right center vertical Left reverse samplen 2 maxrows 20 width 0"
    plot for [k=1:n] data using (at(k)):'updates_per_s' with linespoints pt (k % 2 ? 7 : 5) ps (small ? 0.35 : 0.45) lc rgb colour_of(k) lw width_of(k, n) dt k title kept[k]
    unset output
}
