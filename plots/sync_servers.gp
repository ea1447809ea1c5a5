# What each parameter server moved: pushed to it, pulled from it; a line at the mean.
# Reads servers.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/servers.csv'
stats data using (column('in_bytes') > column('out_bytes') ? column('in_bytes') : column('out_bytes')) name 'B' nooutput
stats data using 'in_bytes' name 'I' nooutput
stats data using 'server' name 'S' nooutput
unit = B_max >= 2e9 ? 1e9 : B_max >= 2e6 ? 1e6 : 1e3
unit_name = unit == 1e9 ? 'GB' : unit == 1e6 ? 'MB' : 'kB'
title = seen('Bytes that each parameter server moved', 'Bytes of each parameter server')
above = key_room(3, 11)
H = above + (small ? 120 : 230) + foot_room
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.17 : 0.10)
    set rmargin at screen 0.98
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot_room)
    set xrange [-0.6:S_max + 0.6]
    set yrange [0:B_max * 1.08 / unit]
    eval (S_max <= (small ? 12 : 32) ? 'set xtics 1 scale 0' : 'set xtics autofreq')
    set xlabel 'server' font small_font offset 0,0.3
    eval set_y(unit_name)
    eval key_in_rows(3, 11)
    plot data using (column('server') - 0.19):(column('in_bytes') / unit):(0.36) with boxes fs solid 1 noborder lc rgb c_forward title 'pushed', \
         data using (column('server') + 0.19):(column('out_bytes') / unit):(0.36) with boxes fs solid 1 noborder lc rgb c_backward title 'pulled', \
         data using (column('server') + 0.19):(column('out_bytes') / unit):(0.36) with boxes fs transparent pattern 4 noborder lc rgb hatch lw 0.3 notitle, \
         I_mean / unit with lines lc rgb '#333333' lw 0.8 dt 2 title 'mean pushed'
    unset output
}
