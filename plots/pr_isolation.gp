# Who averages with whom, without and with a guard: a line joins the workers of a group.
# Reads isolation.csv (tests/sync_figures.sh).
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/isolation.csv'
stats data using (keep_text(strcol('setting'))) nooutput
n = nkept
stats data using 't_s' name 'T' nooutput
first(x) = real(word(strcol('members'), 1))
last(x) = real(word(strcol('members'), words(strcol('members'))))
stats data using (last(0)) name 'W' nooutput
in(k) = strcol('setting') eq kept[k]
member(k, j) = in(k) && words(strcol('members')) >= j ? real(word(strcol('members'), j)) : NaN
until = T_max > 24 ? 24 : T_max
title = seen('Which workers average with which: a line joins a group', 'Which workers average with which')
above = key_room(2, 12)
lane_room = small ? 78 : 120
H = above + n * lane_room + foot_room
do for [fmt in formats] {
    eval open_of(fmt)
    set multiplot
    set lmargin at screen from_left(small ? 36 : 46)
    set rmargin at screen 0.98
    set xrange [0:until]
    set yrange [-0.5:W_max + 0.5]
    set ytics 1
    unset grid
    do for [k=1:n] {
        set tmargin at screen from_top(above + (k - 1) * lane_room + 20)
        set bmargin at screen from_top(above + k * lane_room)
        if (k == n) { set xlabel 'time (s)' font small_font offset 0,0.3; set format x '%g' } else { unset xlabel; set format x '' }
        set label 2 'worker' at screen 1.0 * font / W, graph 0.5 center rotate by 90 noenhanced font small_font
        set label 4 kept[k] at graph 0, graph 1.08 left noenhanced font small_font
        if (k == 1) { eval key_in_rows(2, 12) } else { unset key }
        plot data using (in(k) && column('guard') == 0 ? column('t_s') : NaN):(first(0)):(0):(last(0) - first(0)) with vectors nohead lc rgb c_forward lw 1.4 title 'group', \
             data using (in(k) && column('guard') == 1 ? column('t_s') : NaN):(first(0)):(0):(last(0) - first(0)) with vectors nohead lc rgb c_move lw 1.4 title 'of the guard', \
             for [j=1:W_max + 1] data using 't_s':(member(k, j)) with points pt 7 ps (small ? 0.3 : 0.4) lc rgb '#333333' notitle
        unset label 1; unset label 9
    }
    unset multiplot
    unset label 4
    set format x '%g'
    unset output
}
