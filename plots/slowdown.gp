# How much slower each stage makes the step: time with only its slowness kept / time with none.
# Reads plots/slowdown.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/slowdown.csv'
stats data using 'pipeline' name 'P' nooutput
stats data using 'stage' name 'S' nooutput
stats data using 'caused_slowdown' name 'V' nooutput
set palette defined (0 '#FFFFFF', 0.5 '#F4C27A', 1 '#D55E00')
numbers = (P_max + 1) * (S_max + 1) <= 256
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.17 : 0.10)
    set rmargin at screen (small ? 0.70 : 0.81)
    set tmargin at screen (small ? 0.84 : 0.88)
    set bmargin at screen (small ? 0.23 : 0.16)
    unset grid
    set xrange [-0.5:S_max + 0.5]
    set yrange [P_max + 0.5:-0.5]
    set xlabel 'stage' font small_font offset 0,0.3
    eval set_y('pipeline')
    set xtics 1 scale 0
    set ytics 1 scale 0
    set cbrange [1:(V_max > 1.02 ? V_max : 1.02)]
    set cblabel 'caused slowdown (factor)' font small_font
    set cbtics font tiny_font
    plot data using 'stage':'pipeline':(column('stage') - 0.47):(column('stage') + 0.47):(column('pipeline') - 0.45):(column('pipeline') + 0.45):'caused_slowdown' with boxxyerror fs solid 1 border rgb '#BBBBBB' lc palette notitle, \
         data using 'stage':'pipeline':(numbers ? sprintf('%.3f', column('caused_slowdown')) : '') with labels font small_font notitle
    unset output
}
