# Tokens that stayed, over run time: lost work goes back.
# Reads plots/throughput.csv, plots/marks.csv.
with_marks = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/throughput.csv'
stats data using 't_s' name 'T' nooutput
stats data using 'kept_tokens' name 'K' nooutput
eval use_time(T_max)
unit = K_max > 2e9 ? 1e9 : 1e6
top = K_max / unit * 1.04

do for [fmt in "svg png"] {
    eval (fmt eq 'svg' ? open_svg : open_png)
    set lmargin at screen (small ? 0.20 : 0.10)
    set rmargin at screen 0.98
    set tmargin at screen top_above
    set bmargin at screen (small ? 0.23 : 0.16)
    set xrange [0:T_max / tdiv]
    set yrange [0:top]
    set xlabel 'run time ('.tname.')' font small_font offset 0,0.3
    eval set_y(unit > 5e8 ? 'kept tokens (thousand million)' : 'kept tokens (million)')
    eval key_above
    do for [k=1:words(mark_at)] { eval mark(k) }
    plot for [k=1:nruns] data using (strcol('run') eq name_of_run(k) ? column('t_s') / tdiv : NaN):(column('kept_tokens') / unit) with lines lc rgb colour_of(k) lw 1.6 dt k title name_of_run(k)
    unset output
}
