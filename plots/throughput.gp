# Tokens per second over run time, a line per policy, events, and below it the time without progress.
# Reads plots/throughput.csv, plots/lost.csv, plots/marks.csv.
with_marks = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/throughput.csv'
lost = run.'/plots/lost.csv'
stats data using 't_s' name 'T' nooutput
stats data using 'tokens_per_s' name 'R' nooutput
eval use_time(T_max)
top = R_max / 1000. * 1.06

x_label = "set xlabel 'run time ('.tname.')' font small_font offset 0,0.3"
lane = small ? 0.05 : 0.042
low = small ? 0.23 : 0.16
high = small || marked == 0 ? top_above : 0.64
do for [fmt in formats] {
    eval open_of(fmt)
    set multiplot
    set lmargin at screen (small ? 0.17 : 0.10)
    set rmargin at screen (small ? 0.98 : 0.95)
    set xrange [0:T_max / tdiv]

    # The rates.
    set tmargin at screen high
    set bmargin at screen low + (nlost > 0 ? lane * nruns + 0.025 : 0)
    set yrange [0:top]
    eval set_y('thousand tokens/s')
    set format x (nlost > 0 ? '' : '%g')
    eval nlost > 0 ? 'unset xlabel' : x_label
    eval key_above
    do for [k=1:marked] { eval mark(k); if (!small && mark_at[k] < 0.96 * T_max) { eval mark_label(k) } }
    plot for [k=1:nruns] data using (strcol('run') eq name_of_run(k) ? column('t_s') / tdiv : NaN):(column('tokens_per_s') / 1000.) with lines lc rgb colour_of(k) lw 1.6 dt k title name_of_run(k)

    # Lanes, where there is any: when a policy made no progress; a cross where a run was lost.
    if (nlost > 0) {
        set tmargin at screen low + lane * nruns
        set bmargin at screen low
        unset key
        unset grid
        unset label 1
        unset label 2
        set format x '%g'
        eval x_label
        set yrange [nruns + 0.5:0.5]
        set ytics (small ? "lost" : "no\nprogress" (nruns + 1) / 2.) scale 0 font tiny_font
        do for [k=1:marked] { unset arrow k; unset label (100 + k) }
        plot for [k=1:nruns] lost using (strcol('run') eq name_of_run(k) ? column('t_start_s') / tdiv : NaN):(k):(column('t_start_s') / tdiv):(column('t_end_s') / tdiv):(k - 0.4):(k + 0.4) with boxxyerror fs solid 1 noborder lc rgb colour_of(k) notitle, \
             for [k=1:nruns] lost using (strcol('run') eq name_of_run(k) && strcol('kind') eq 'lost' ? column('t_end_s') / tdiv : NaN):(k) with points pt 2 ps (small ? 0.5 : 0.7) lw 1.5 lc rgb colour_of(k) notitle
    }
    set ytics auto scale 0.5 font small_font
    set grid y
    eval set_title
    unset multiplot
    unset output
}
