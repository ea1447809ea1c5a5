# Tokens that stayed, over run time: lost work goes back.
# Reads plots/throughput.csv, plots/marks.csv; with bands=1, of several seeds, plots/bands.csv, plots/seeds_kept.csv and
# plots/paired.csv: at the left what the policies kept, as a share of what the first plan would have done undisturbed (the
# mean, a thin line a seed, and a band from the 10th to the 90th of 100); at the right how much more the best one kept than
# each of the others, seed by seed, with the mean and its 95 % interval.
if (!exists("bands")) bands = 0
if (!exists("alone")) alone = 0 # one policy: no pairs
if (bands) { no_runs = 1; nmarks = 0 }
with_marks = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.(bands ? '/plots/bands.csv' : '/plots/throughput.csv')
stats data using 't_s' name 'T' nooutput
eval use_time(T_max)
npaired = 0
if (bands) {
    stats data using (keep_text(strcol('run'))) nooutput
    nruns = nkept
    do for [k=1:nruns] { run_name[k] = kept[k]; if (strlen(kept[k]) > longest_run) { longest_run = strlen(kept[k]) } }
    share(name) = 100.0 * column(name) / column('ideal_tokens')
    lines = run.'/plots/seeds_kept.csv'
    stats lines using (column('t_s') > T_max / 50 ? share('kept_tokens') : NaN) name 'L' nooutput
    least = 5 * floor((L_min < 60 ? 0 : L_min - 2) / 5)
    most = L_max > 100 ? L_max : 100
    # A seed is told from the one before it in the rows by its first point.
    cut = T_max / 1e6
    paired = run.'/plots/paired.csv'
    nkept = 0
    best = ''
    if (!alone) { stats paired using (best = strcol('run'), keep_text(strcol('other'))) nooutput }
    npaired = nkept
    longest_other = 1
    do for [k=1:npaired] { if (strlen(kept[k]) > longest_other) { longest_other = strlen(kept[k]) } }
    end_of_mean(side) = percent(side.'95_ratio') > -1e300 ? percent(side.'95_ratio') : percent('mean_ratio') # of one seed there is none
    percent(name) = 100 * column(name)
    smaller(a, b) = a < b ? a : b
    larger(a, b) = a > b ? a : b
    if (!alone) {
        stats paired using (smaller(percent('difference_ratio'), end_of_mean('low'))) name 'D' nooutput
        stats paired using (larger(percent('difference_ratio'), end_of_mean('high'))) name 'E' nooutput
    }
} else {
    stats data using 'kept_tokens' name 'K' nooutput
    unit = K_max > 2e9 ? 1e9 : K_max > 2e6 ? 1e6 : K_max > 2e3 ? 1e3 : 1
    unit_name = unit == 1e9 ? ' (thousand million)' : unit == 1e6 ? ' (million)' : unit == 1e3 ? ' (thousand)' : ''
    top = K_max / unit * 1.04
}

title = bands ? (alone ? seen('Kept tokens over all seeds', 'Kept tokens over all seeds') : seen('Kept tokens over all seeds; how much more `'.best.'` keeps, seed by seed', 'Kept tokens; what `'.best.'` keeps more')) : seen('Tokens of the steps that stayed'.(nruns > 1 ? ', by policy' : ''), 'Tokens of the steps that stayed')
above = key_room(nruns, longest_run) + (bands ? 4 : mark_room)
# Narrow, the differences stand below what was kept.
pairs_room = bands && small ? npaired * lying_room + 40 : 0
foot = foot_room + marks_foot
H = above + (small ? 115 : 230) + foot + pairs_room
middle = small || alone ? W : W * 0.6
left = small ? 50 : 56
do for [fmt in formats] {
    eval open_of(fmt)
    if (bands) { set multiplot }
    set lmargin at screen from_left(left)
    set rmargin at screen from_left(bands ? middle - 12 : W - (small ? 8 : 30))
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot + pairs_room)
    set xrange [0:T_max / tdiv]
    set xlabel 'run time ('.tname.')' font small_font offset 0,0.3
    eval key_in_rows(nruns, longest_run)
    if (bands) {
        set yrange [least:most]
        eval set_y(small ? 'of an undisturbed run (%)' : 'kept tokens of an undisturbed run (%)')
        plot for [k=1:nruns] data using (strcol('run') eq name_of_run(k) && column('t_s') > 0 ? column('t_s') / tdiv : NaN):(share('kept_p10_tokens')):(share('kept_p90_tokens')) with filledcurves fs transparent solid 0.15 noborder lc rgb colour_of(k) notitle, \
             for [k=1:nruns] lines using (strcol('run') eq name_of_run(k) && column('t_s') > cut ? column('t_s') / tdiv : NaN):(share('kept_tokens')) with lines lc rgb colour_of(k) lw 0.3 dt 1 notitle, \
             for [k=1:nruns] data using (strcol('run') eq name_of_run(k) && column('t_s') > 0 ? column('t_s') / tdiv : NaN):(share('kept_mean_tokens')) with lines lc rgb colour_of(k) lw width_of(k, nruns < 4 ? nruns : 4) dt k title name_of_run(k)
        # A point a seed; a bar at the mean and its interval.
        if (!alone) {
            unset key; unset label 1; unset label 2; unset label 9
            set lmargin at screen from_left(small ? room_of_names(longest_other) : middle + room_of_names(longest_other))
            set rmargin at screen from_right(small ? 8 : 14)
            set tmargin at screen small ? from_bottom(foot_room + pairs_room - 48) : from_top(above)
            set bmargin at screen from_bottom(foot_room)
            span = E_max - D_min > 1 ? E_max - D_min : 1
            set xrange [(D_min < 0 ? D_min : 0) - 0.06 * span:(E_max > 0 ? E_max : 0) + 0.06 * span] noextend
            set yrange [npaired + 0.5:0.5]
            set ytics () scale 0 noenhanced font tiny_font
            do for [k=1:npaired] { set ytics add (as_tic(shortened(kept[k], chars_of_room(room_of_names(longest_other)))) k) }
            set xlabel (small ? 'keeps more (% of goodput)' : 'keeps more (% of goodput)') font small_font offset 0,0.3
            set grid noy x lc rgb '#E4E4E4' lw 0.4 lt 1
            set arrow 900 from first 0, graph 0 to first 0, graph 1 nohead lc rgb '#333333' lw 0.8 back
            plot for [k=1:npaired] paired using (strcol('other') eq kept[k] ? percent('difference_ratio') : NaN):(k + 0.16) with points pt 7 ps (small ? 0.25 : 0.35) lc rgb '#7F7F7F' notitle, \
                 for [k=1:npaired] paired using (strcol('other') eq kept[k] ? percent('mean_ratio') : NaN):(k - 0.12):(end_of_mean('low')):(end_of_mean('high')) with xerrorbars pt 5 ps (small ? 0.35 : 0.5) lw 1.2 lc rgb '#000000' notitle
            unset arrow 900
        }
        unset multiplot
        set grid nox y lc rgb '#E4E4E4' lw 0.4 lt 1
        set ytics auto scale 0.5 font small_font
    } else {
        do for [k=1:marked] { eval mark(k); eval label_of_mark(k) }
        set yrange [0:top]
        eval set_y('kept tokens'.unit_name)
        plot for [k=1:nruns] data using (strcol('run') eq name_of_run(k) ? column('t_s') / tdiv : NaN):(column('kept_tokens') / unit) with lines lc rgb colour_of(k) lw width_of(k, nruns < 4 ? nruns : 4) dt k title name_of_run(k)
    }
    unset output
}
