# Tokens per second over run time, a line per policy, events; below it, of each policy that stood still at some time, when
# it made no progress, and the events that it alone met.
# Reads plots/throughput.csv, plots/lost.csv, plots/marks.csv.
with_marks = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/throughput.csv'
lost = run.'/plots/lost.csv'
marks = run.'/plots/marks.csv'
stats data using 't_s' name 'T' nooutput
stats data using 'tokens_per_s' name 'R' nooutput
eval use_time(T_max)
unit = R_max >= 2e6 ? 1e6 : R_max >= 2000 ? 1e3 : 1
top = R_max / unit * 1.06

# Lanes, where there is something in them.
array lane_of[1024]
do for [k=1:1024] { lane_of[k] = 0 }
in_lane(name) = number_of_run(name) > 0 ? (lane_of[number_of_run(name)] = 1, 1) : 1
own = 0
stopped = 0 # was there a time without progress?
if (nlost > 0) { stats lost using (stopped = 1, in_lane(strcol('run'))) nooutput }
if (nmarks > 0) { stats marks using (strcol('run') ne '-' ? (own = 1, in_lane(strcol('run'))) : 1) nooutput }
lanes = 0
do for [k=1:nruns] { if (lane_of[k]) { lanes = lanes + 1; lane_of[k] = lanes } }
y(k) = lane_of[k]

title = seen('Tokens per second'.(nruns > 1 ? ' of each policy' : '').(stopped ? '; below, when there was no progress' : own ? '; below, events of one alone' : ''), 'Tokens per second'.(stopped ? '; below: no progress' : own ? '; below: events of one' : ''))
left = small ? 56 : lanes && room_of_names(longest_run) > 64 ? room_of_names(longest_run) : 64
lane_room = small ? 8 : 12
lanes_room = lanes ? lanes * lane_room + 10 : 0
above = key_room(nruns + (own ? 1 : 0), longest_run > 10 || !own ? longest_run : 10) + mark_room
foot = foot_room + marks_foot
H = above + (small ? 110 : 200) + lanes_room + foot
x_label = "set xlabel 'run time ('.tname.')' font small_font offset 0,0.3"
do for [fmt in formats] {
    eval open_of(fmt)
    set multiplot
    set lmargin at screen from_left(left)
    set rmargin at screen from_right(small ? 8 : 30)
    set xrange [0:T_max / tdiv]

    # The rates.
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot + lanes_room)
    set yrange [0:top]
    eval set_y(unit == 1e6 ? 'million tokens/s' : unit == 1e3 ? 'thousand tokens/s' : 'tokens/s')
    set format x (lanes ? '' : '%g')
    eval lanes ? 'unset xlabel' : x_label
    eval key_in_rows(nruns + (own ? 1 : 0), longest_run > 10 || !own ? longest_run : 10)
    do for [k=1:marked] { eval mark(k); eval label_of_mark(k) }
    plot for [k=1:nruns] data using (strcol('run') eq name_of_run(k) ? column('t_s') / tdiv : NaN):(column('tokens_per_s') / unit) with lines lc rgb colour_of(k) lw width_of(k, nruns < 4 ? nruns : 4) dt k title name_of_run(k), \
         keyentry with points pt 9 ps (small ? 0.5 : 0.6) lc rgb '#000000' title (own ? 'event' : '')

    # The lanes; a cross where a run was lost, a triangle where an event struck this policy alone.
    if (lanes) {
        set tmargin at screen from_bottom(foot + lanes * lane_room)
        set bmargin at screen from_bottom(foot)
        unset key
        unset grid
        unset label 1
        unset label 2
        unset label 9
        set format x '%g'
        eval x_label
        set yrange [lanes + 0.5:0.5]
        set ytics () scale 0 noenhanced font tiny_font
        if (small) { set ytics add (lanes > 1 && stopped ? "no\nprogress" : '' (lanes + 1) / 2.) } else {
            do for [k=1:nruns] { if (lane_of[k]) { set ytics add (as_tic(shortened(name_of_run(k), chars_of_room(left))) y(k)) } }
        }
        do for [k=1:marked] { unset arrow k; unset label (100 + k); unset label (1200 + k) }
        # A plot of no curve is one of gnuplot's warnings.
        stood = ", for [k=1:nruns] lost using (strcol('run') eq name_of_run(k) ? column('t_start_s') / tdiv : NaN):(y(k)):(column('t_start_s') / tdiv):(column('t_end_s') / tdiv):(y(k) - 0.4):(y(k) + 0.4) with boxxyerror fs solid 1 border rgb colour_of(k) lw 0.5 lc rgb colour_of(k) notitle, for [k=1:nruns] lost using (strcol('run') eq name_of_run(k) && strcol('kind') eq 'lost' ? column('t_end_s') / tdiv : NaN):(y(k)) with points pt 2 ps (small ? 0.5 : 0.7) lw 1.5 lc rgb colour_of(k) notitle"
        struck = ", for [k=1:nruns] marks using (strcol('run') eq name_of_run(k) ? column('t_s') / tdiv : NaN):(y(k)) with points pt 9 ps (small ? 0.35 : 0.45) lc rgb colour_of(k) notitle"
        eval "plot for [k=1:nruns] (y(k) ? y(k) : NaN) with lines lc rgb '#E4E4E4' lw 0.4 notitle".(nlost > 0 ? stood : '').(own ? struck : '')
        set ytics auto scale 0.5 font small_font
        set grid y
    }
    unset multiplot
    unset output
}
