# Tokens that stayed, over run time: lost work goes back.
# Reads plots/throughput.csv, plots/marks.csv; with bands=1 plots/bands.csv: of several seeds the
# mean, its 95 % interval (dark) and the 10th to 90th of 100 (light), as a share of what the first
# plan would have done undisturbed.
if (!exists("bands")) bands = 0
if (bands) { no_runs = 1; nmarks = 0 }
with_marks = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.(bands ? '/plots/bands.csv' : '/plots/throughput.csv')
stats data using 't_s' name 'T' nooutput
eval use_time(T_max)
if (bands) {
    stats data using (keep_text(strcol('run'))) nooutput
    nruns = nkept
    name_of_run(i) = kept[i]
    share(name) = 100.0 * column(name) / column('ideal_tokens')
    stats data using (column('t_s') > T_max / 100 ? share('kept_p10_tokens') : NaN) name 'L' nooutput
    least = 5 * floor((L_min < 60 ? 0 : L_min - 2) / 5)
} else {
    stats data using 'kept_tokens' name 'K' nooutput
    unit = K_max > 2e9 ? 1e9 : 1e6
    top = K_max / unit * 1.04
}

do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.20 : 0.10)
    set rmargin at screen 0.98
    set tmargin at screen top_above
    set bmargin at screen (small ? 0.23 : 0.16)
    set xrange [0:T_max / tdiv]
    set xlabel 'run time ('.tname.')' font small_font offset 0,0.3
    eval key_above
    do for [k=1:marked] { eval mark(k) }
    if (bands) {
        set yrange [least:100]
        eval set_y('kept tokens of an undisturbed run (%)')
        plot for [k=1:nruns] data using (strcol('run') eq name_of_run(k) && column('t_s') > 0 ? column('t_s') / tdiv : NaN):(share('kept_p10_tokens')):(share('kept_p90_tokens')) with filledcurves fs transparent solid 0.12 noborder lc rgb colour_of(k) notitle, \
             for [k=1:nruns] data using (strcol('run') eq name_of_run(k) && column('t_s') > 0 ? column('t_s') / tdiv : NaN):(share('kept_low95_tokens')):(share('kept_high95_tokens')) with filledcurves fs transparent solid 0.25 noborder lc rgb colour_of(k) notitle, \
             for [k=1:nruns] data using (strcol('run') eq name_of_run(k) && column('t_s') > 0 ? column('t_s') / tdiv : NaN):(share('kept_mean_tokens')) with lines lc rgb colour_of(k) lw 1.6 dt k title name_of_run(k)
    } else {
        set yrange [0:top]
        eval set_y(unit > 5e8 ? 'kept tokens (thousand million)' : 'kept tokens (million)')
        plot for [k=1:nruns] data using (strcol('run') eq name_of_run(k) ? column('t_s') / tdiv : NaN):(column('kept_tokens') / unit) with lines lc rgb colour_of(k) lw 1.6 dt k title name_of_run(k)
    }
    unset output
}
