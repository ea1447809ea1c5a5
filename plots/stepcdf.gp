# Share of the steps that took no longer than x.
# Reads plots/stepcdf.csv.
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/stepcdf.csv'
stats data using 'step_s' name 'S' nooutput
pad = (S_max - S_min) * 0.04 + S_max * 0.01
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.17 : 0.10)
    set rmargin at screen 0.98
    set tmargin at screen top_above
    set bmargin at screen (small ? 0.23 : 0.16)
    set xrange [S_min - pad:S_max + pad]
    set yrange [0:102]
    set xlabel 'step time (s)' font small_font offset 0,0.3
    eval set_y('steps that are not longer (%)')
    eval key_above
    plot for [k=1:nruns] data using (strcol('run') eq name_of_run(k) ? column('step_s') : NaN):(100 * column('share_ratio')) with steps lc rgb colour_of(k) lw 1.6 dt k title name_of_run(k)
    unset output
}
