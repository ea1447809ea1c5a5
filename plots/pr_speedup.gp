# Iterations a second over those of all-reduce, by how long a worker sleeps that sleeps.
# Reads sync_sweep.csv (tests/sync_figures.sh).
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/sync_sweep.csv'
set datafile missing NaN # rows of other curves do not cut this one
stats data using (strcol('figure') eq 'pr_speedup' ? keep_text(strcol('setting')) : 1) nooutput
n = nkept
at(k) = strcol('figure') eq 'pr_speedup' && strcol('setting') eq kept[k] ? column('x') : NaN
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.17 : 0.10)
    set rmargin at screen (small ? 0.60 : 0.77)
    set tmargin at screen (small ? 0.88 : 0.92)
    set bmargin at screen (small ? 0.23 : 0.16)
    set xrange [*:*] noextend
    set yrange [0:*]
    set xlabel 'sleep of a worker that sleeps (s)' font small_font offset 0,0.3
    eval set_y('rate / rate of allreduce')
    eval "set key at screen 0.995,screen 0.55 right center vertical Left reverse samplen 2 maxrows 20 width 0"
    plot for [k=1:n] data using (at(k)):'speedup' with linespoints pt (k % 2 ? 7 : 5) ps (small ? 0.35 : 0.45) lc rgb colour_of(k) lw 1.4 dt k title kept[k]
    unset output
}
