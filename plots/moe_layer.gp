# What the time of a layer with experts is made of, forward and backward, by how busy the busiest expert is.
# Reads moe_layer.csv (luoshu moe layer).
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/moe_layer.csv'
set datafile missing NaN
parts = 'gate_s transform_s exchange_s experts_s'
names = 'gate transform exchange experts'
array fill[4] = [c_pp, c_tp, c_backward, c_recompute]
passes = 'forward backward'
of(pass, v) = strcol('pass') eq pass ? v : NaN
top = 0
stats data using (top = (v = 1e3 * stack(4), v > top ? v : top), 1) nooutput
legend = "unset border; unset xtics; unset ytics; unset xlabel; unset label 2; unset label 3; set lmargin at screen 0.05; set rmargin at screen 0.98; set tmargin at screen from_top(above); set bmargin at screen from_bottom(foot_room)"
panel = "set key off; unset label 1; unset label 9; set border 3 ls 100; set tics out scale 0.5 font small_font; set xtics nomirror; set ytics nomirror; set format y '%g'; set grid y lc rgb '#E4E4E4' lw 0.4 lt 1"
stats data using 'expert_ratio' name 'E' nooutput
title = seen('Time of a layer with experts by how busy the busiest one is', 'Layer with experts by the busiest one')
above = key_room(4, 9) + 12
H = above + (small ? 130 : 240) + foot_room
do for [fmt in formats] {
    eval open_of(fmt)
    set multiplot
    eval legend
    eval key_in_rows(4, 9)
    plot [0:1] [0:1] -1 notitle, for [j=1:4] keyentry with boxes fs solid 1 noborder lc rgb fill[j] title word(names, j)
    eval panel
    set yrange [0:top * 1.03] noextend
    set xrange [1:*] noextend
    set xlabel (small ? 'busiest / mean' : 'rows of the busiest expert over the mean') font small_font offset 0,0.3
    if (small) { E_step = E_max > 5 ? 2 : E_max > 2.2 ? 0.5 : E_max > 1.5 ? 0.2 : 0.1; set xtics 1, E_step }
    do for [k=1:2] {
        set lmargin at screen (k == 1 ? (small ? 0.17 : 0.085) : (small ? 0.60 : 0.56))
        set rmargin at screen (k == 1 ? (small ? 0.55 : 0.515) : (small ? 0.98 : 0.975))
        set label 3 word(passes, k) at graph 0.03, graph 1.06 left font small_font
        if (k == 1) { eval set_y('ms') } else { unset label 2; set format y '' }
        plot for [j=1:4] data using (of(word(passes, k), column('expert_ratio'))):(1e3 * stack(j - 1)):(1e3 * stack(j)) with filledcurves fs solid 1 noborder lc rgb fill[j] notitle, \
             for [j=1:4] data using (of(word(passes, k), column('expert_ratio'))):(1e3 * stack(j)) with lines lc rgb '#333333' lw 0.5 notitle
    }
    unset multiplot
    unset output
}
