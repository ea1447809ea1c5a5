# How much slower each stage makes the step: time with only its slowness kept / time with none.
# Reads plots/slowdown.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/slowdown.csv'
stats data using 'pipeline' name 'P' nooutput
stats data using 'stage' name 'S' nooutput
stats data using 'caused_slowdown' name 'V' nooutput
set palette defined (0 '#FFFFFF', 0.5 '#F4C27A', 1 '#D55E00')
columns = S_max + 1
rows = P_max + 1
left = small ? 44 : 50
bar_room = small ? 62 : 84
cell = (W - left - bar_room) / columns
numbers = cell >= 4 * char_room && rows <= 40
digits = cell >= 6 * char_room ? '%.3f' : '%.2f'
above = title_room + 18
height = rows * 18 < 60 ? 60 : rows * 18 > 500 ? 500 : rows * 18
H = above + height + foot_room
every(n, room) = n * 14 > room ? ceil(n * 14.0 / room) : 1

title = seen('How much slower each stage makes the step (time with its slowness alone / time without any)', 'How much slower each stage makes a step')
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen from_left(left)
    set rmargin at screen from_right(bar_room)
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot_room)
    unset grid
    set xrange [-0.5:S_max + 0.5]
    set yrange [P_max + 0.5:-0.5]
    set xlabel 'stage' font small_font offset 0,0.3
    eval set_y('pipeline')
    set xtics every(columns, cell * columns) scale 0
    set ytics every(rows, height) scale 0
    set cbrange [1:(V_max > 1.02 ? V_max : 1.02)]
    set colorbox user origin screen from_right(bar_room - 10), from_bottom(foot_room) size screen from_left(9), 1.0 * height / H
    set cbtics ('1' 1, sprintf('%.2f', V_max > 1.02 ? V_max : 1.02) (V_max > 1.02 ? V_max : 1.02), sprintf('%.2f', 0.5 + 0.5 * (V_max > 1.02 ? V_max : 1.02)) 0.5 + 0.5 * (V_max > 1.02 ? V_max : 1.02)) font tiny_font
    set label 3 'slowdown' at screen from_right(6), screen from_bottom(foot_room + height + 14) right font tiny_font
    plot data using 'stage':'pipeline':(column('stage') - 0.48):(column('stage') + 0.48):(column('pipeline') - 0.47):(column('pipeline') + 0.47):'caused_slowdown' with boxxyerror fs solid 1 border rgb '#BBBBBB' lc palette notitle, \
         data using 'stage':'pipeline':(numbers ? sprintf(digits, column('caused_slowdown')) : '') with labels font tiny_font notitle
    unset output
}
