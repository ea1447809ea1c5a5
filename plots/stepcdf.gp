# Share of the steps that took no longer than x, from none to all; dots at the median and the 99th of 100, whose values stand
# in the legend. The axis starts at 0 s and ends behind the longest of these 99ths: what took longer is said below.
# Reads plots/stepcdf.csv.
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/stepcdf.csv'
stats data using 'step_s' name 'S' nooutput
array p50[1024]
array p99[1024]
do for [k=1:nruns] { p50[k] = NaN; p99[k] = NaN }
# Rows of a run are ascending: the first that reaches a share is its quantile.
see(k) = k < 1 ? 1 : (column('share_ratio') >= 0.5 && p50[k] != p50[k] ? (p50[k] = column('step_s')) : 1, column('share_ratio') >= 0.99 && p99[k] != p99[k] ? (p99[k] = column('step_s')) : 1, 1)
stats data using (see(number_of_run(strcol('run')))) nooutput
most = 0
do for [k=1:nruns] { if (p99[k] > most) { most = p99[k] } }
is_cut = S_max > 1.5 * most
end = is_cut ? 1.3 * most : S_max * 1.03
unit = S_max < 0.5 ? 1e3 : 1
unit_name = unit == 1 ? 's' : 'ms'
in_words(x) = x == x ? sprintf(x * unit >= 100 ? '%.0f' : x * unit >= 10 ? '%.1f' : '%.2f', x * unit) : '-'
entry_of(k) = name_of_run(k).': '.in_words(p50[k]).', '.in_words(p99[k])
longest = 8
do for [k=1:nruns] { if (strlen(entry_of(k)) > longest) { longest = strlen(entry_of(k)) } }

title = seen('How long steps took: share of the steps that are not longer (legend: median, 99th of 100, '.unit_name.')', 'Step time (legend: median, 99th of 100)')
# Wide, the legend stands beside the data, narrow above.
beside = small ? 8 : (longest + 7) * char_room + 6
above = small ? key_room(nruns, longest) : title_room + 8
H = above + (small ? 120 : nruns > 13 ? nruns * row_room + 40 : 240) + foot_room
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen from_left(small ? 46 : 52)
    set rmargin at screen from_right(beside)
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot_room)
    set xrange [0:unit * end] noextend
    set yrange [0:102]
    set ytics 0,25,100
    set xlabel 'step time ('.unit_name.(is_cut ? '), up to '.in_words(S_max) : ')') font small_font offset 0,0.3
    eval set_y(small ? 'steps not longer (%)' : 'steps that are not longer (%)')
    if (small) { eval key_in_rows(nruns, longest) } else { set key at screen from_right(4), screen from_top(above) top right vertical Left reverse samplen 2 maxrows 60 maxcols 1 width -0.08 * longest + 0.3 }
    set arrow 50 from graph 0, first 50 to graph 1, first 50 nohead lc rgb '#999999' lw 0.5 dt (4,4) back
    set arrow 99 from graph 0, first 99 to graph 1, first 99 nohead lc rgb '#999999' lw 0.5 dt (4,4) back
    set label 50 'p50' at graph 0, first 50 left offset 0.4,0.45 font tiny_font tc rgb '#666666'
    set label 99 'p99' at graph 0, first 99 left offset 0.4,-0.5 font tiny_font tc rgb '#666666'
    plot for [k=1:nruns] data using (strcol('run') eq name_of_run(k) ? unit * column('step_s') : NaN):(100 * column('share_ratio')) with steps lc rgb colour_of(k) lw width_of(k, nruns < 4 ? nruns : 4) dt k title entry_of(k), \
         for [k=1:nruns] '+' using (unit * p50[k]):(50) every ::0::0 with points pt 7 ps (small ? 0.35 : 0.45) lc rgb colour_of(k) notitle, \
         for [k=1:nruns] '+' using (unit * p99[k]):(99) every ::0::0 with points pt 7 ps (small ? 0.35 : 0.45) lc rgb colour_of(k) notitle
    unset output
}
