# How many iterations a worker is ahead of the slowest living one when it ends an iteration.
# Reads ahead.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/ahead.csv'
stats data using 'iterations' name 'I' nooutput
stats data using 'ahead' name 'A' nooutput
title = seen('How far workers are ahead of the slowest one when they end an iteration', 'How far workers are ahead of the slowest')
above = title_room + 8
H = above + (small ? 130 : 240) + foot_room
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.19 : 0.10)
    set rmargin at screen 0.98
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot_room)
    set xrange [-0.7:A_max + 0.7]
    set yrange [0:105.0 * I_max / I_sum]
    eval (A_max <= (small ? 10 : 20) ? 'set xtics 1 scale 0' : 'set xtics autofreq')
    set xlabel (small ? 'ahead when one ends (staleness s: up to s + 1)' : 'iterations ended more than by the slowest worker, when one ends (staleness s allows up to s + 1)') font small_font offset 0,0.3
    eval set_y('share of iterations (%)')
    unset key
    plot data using 'ahead':(100.0 * column('iterations') / I_sum):(A_max > 60 ? 1 : 0.7) with boxes fs solid 1 noborder lc rgb c_forward notitle
    unset output
}
