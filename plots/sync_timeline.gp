# What every worker does when: computes, waits, communicates; the first workers and the beginning.
# Reads iterations.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/iterations.csv'
stats data using 'worker' name 'N' nooutput
most = small ? 8 : 12
shown = N_max + 1 > most ? most : N_max + 1
# About as many iterations as can be told apart.
stats data using (column('worker') == 0 && column('iteration') < (small ? 8 : 16) ? column('end_s') : NaN) name 'A' nooutput
until = A_max
# With a group who waits does so after computing; with a clock before.
grouped(x) = strcol('group') ne '' ? x : 0
clocked(x) = strcol('group') eq '' ? x : 0
y(w) = shown - 1 - w
begin_wait(x) = grouped(column('start_s') + column('compute_s')) + clocked(column('start_s') - column('wait_s'))
begin_comm(x) = column('start_s') + column('compute_s') + grouped(column('wait_s'))
see(x) = column('worker') < shown && column('start_s') - column('wait_s') <= until ? x : NaN
title = seen('What each worker does when: computes, waits, communicates', 'What each worker does when')
above = key_room(3, 12)
H = above + shown * (small ? 13 : 18) + foot_room + 10
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen from_left(small ? 38 : 46)
    set rmargin at screen 0.98
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot_room)
    set xrange [0:until]
    set yrange [-0.6:shown - 0.4]
    set ytics scale 0
    unset ytics
    set ytics ()
    do for [w=0:shown - 1] { set ytics add (sprintf('%d', w) y(w)) }
    set grid noy x lc rgb '#E4E4E4' lw 0.4 lt 1
    set xlabel 'time (s)' font small_font offset 0,0.3
    eval set_y('worker')
    eval key_in_rows(3, 12)
    plot data using (see(column('start_s'))):(y(column('worker'))):(column('start_s')):(column('start_s') + column('compute_s')):(y(column('worker')) - 0.36):(y(column('worker')) + 0.36) with boxxyerror fs solid 1 noborder lc rgb c_forward title 'computes', \
         data using (see(begin_wait(0))):(y(column('worker'))):(begin_wait(0)):(begin_wait(0) + column('wait_s')):(y(column('worker')) - 0.36):(y(column('worker')) + 0.36) with boxxyerror fs solid 1 noborder lc rgb c_bubble title 'waits', \
         data using (see(begin_comm(0))):(y(column('worker'))):(begin_comm(0)):(column('end_s')):(y(column('worker')) - 0.36):(y(column('worker')) + 0.36) with boxxyerror fs solid 1 noborder lc rgb c_backward title 'communicates'
    unset output
}
