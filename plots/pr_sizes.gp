# How many groups of each size there were, those of the guard apart.
# Reads groups.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/groups.csv'
size_of(x) = words(strcol('members'))
stats data using (size_of(0)) name 'S' nooutput
stats data using 'guard' name 'G' nooutput
title = seen('Groups of each size', 'Groups of each size')
above = G_max > 0 ? key_room(2, 12) : title_room + 8
H = above + (small ? 125 : 230) + foot_room
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.17 : 0.10)
    set rmargin at screen 0.98
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot_room)
    set xrange [0.3:S_max + 0.7]
    set yrange [0:*]
    set boxwidth 0.7 absolute
    eval (S_max <= (small ? 10 : 24) ? 'set xtics 1 scale 0' : 'set xtics autofreq')
    set xlabel 'workers of a group' font small_font offset 0,0.3
    eval set_y('groups')
    eval key_in_rows(2, 12)
    if (G_max > 0) {
        # Of a bar the upper part is the guard's.
        plot data using (size_of(0)):(1) smooth frequency with boxes fs solid 1 noborder lc rgb c_move title 'of the guard', \
             data using (size_of(0)):(1) smooth frequency with boxes fs transparent pattern 4 noborder lc rgb hatch lw 0.3 notitle, \
             data using (size_of(0)):(column('guard') == 0 ? 1 : 0) smooth frequency with boxes fs solid 1 noborder lc rgb c_forward title 'in time or full'
    } else {
        plot data using (size_of(0)):(1) smooth frequency with boxes fs solid 1 noborder lc rgb c_forward notitle
    }
    unset output
}
