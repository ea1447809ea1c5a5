# Which of three exchanges of experts is the fastest: by bytes of a device and nodes, and by bytes and devices of a
# node. Upright lines: S*, below which leader is faster than flat. The arrow at the right: the cluster's own.
# Reads a2a_sweep.csv (luoshu moe exchange).
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/a2a_sweep.csv'
set datafile missing NaN
ways = 'flat leader 2d'
fill(way) = way eq 'flat' ? 0x0072B2 : way eq 'leader' ? 0xE69F00 : 0xA6DCCB
axes = 'nodes devices_per_node'
array called[2] = ['nodes', 'devices of a node']
array own[2] = [0, 0]
array rows[2] = [0, 0]
array most[2] = [1, 1]
array limits[2] = [0, 0]
stats data using (strcol('figure') eq 'a2a_size' ? (own[1] = column('nodes'), own[2] = column('devices_per_node'), 1) : 1) nooutput
do for [k=1:2] {
    stats data using (strcol('swept') eq word(axes, k) ? (rows[k] = rows[k] + 1, most[k] = column(word(axes, k)), limits[k] = limits[k] + (strcol('limit_bytes') ne '')) : 1) nooutput
}
panels = rows[2] > 0 ? 2 : 1
log2(x) = log(x) / log(2)
legend = "unset border; unset xtics; unset ytics; unset xlabel; unset ylabel; unset arrow; set lmargin at screen 0.05; set rmargin at screen 0.98; set tmargin at screen from_top(above); set bmargin at screen from_bottom(foot_room)"
panel = "set key off; unset label 1; unset label 9; set border 3 ls 100; set tics out scale 0.5 font small_font; set xtics nomirror; set ytics nomirror; unset grid"
half = 0.25 # octave: half a step of the sweep
swept(k) = strcol('swept') eq word(axes, k)
y(k) = swept(k) ? log2(column(word(axes, k))) : NaN
title = seen('Which of three exchanges of experts is the fastest (arrow: as the cluster is)', 'Fastest exchange (arrow: the cluster)')
above = key_room(4, 6) + 4
H = above + (small ? 140 : 250) + foot_room
do for [fmt in formats] {
    eval open_of(fmt)
    set multiplot
    eval legend
    eval key_in_rows(4, 6)
    any = limits[1] + limits[2] > 0 ? ", keyentry with lines lc rgb '#000000' lw 1.2 title 'S*'" : ''
    eval "plot [0:1] [0:1] -1 notitle, for [j=1:3] keyentry with boxes fs solid 1 noborder lc rgb fill(word(ways, j)) title word(ways, j)".any
    eval panel
    set xrange [10 - half:30 + half] noextend
    if (small) { set xtics nomirror ('KiB' 10, '' 15, 'MiB' 20, '' 25, 'GiB' 30) } else { set xtics nomirror ('1 KiB' 10, '32 KiB' 15, '1 MiB' 20, '32 MiB' 25, '1 GiB' 30) }
    set ytics nomirror ('1' 0, '2' 1, '4' 2, '8' 3, '16' 4, '32' 5, '64' 6, '128' 7, '256' 8, '512' 9, '1024' 10, '2048' 11, '4096' 12)
    set xlabel 'bytes of a device' font small_font offset 0,0.3
    do for [k=1:panels] {
        set lmargin at screen (k == 1 ? (small ? 0.16 : 0.085) : (small ? 0.64 : 0.58))
        set rmargin at screen (panels == 1 || k == 2 ? (small ? 0.95 : 0.955) : (small ? 0.47 : 0.46))
        set yrange [(k == 1 ? 0.5 : -0.5):log2(most[k]) + 0.5] noextend
        set ylabel (small && k == 2 ? 'devices / node' : called[k]) font small_font offset (small ? 2.2 - k : 1),0
        set arrow 1 from graph (panels == 1 ? 1.025 : 1.05), first log2(own[k]) to graph 1, first log2(own[k]) filled size screen 0.012,25 lc rgb '#000000' lw 1
        border = limits[k] > 0 ? ", data using (swept(k) && strcol('limit_bytes') ne '' ? log2(real(strcol('limit_bytes'))) : NaN):(y(k) - 0.5):(0):(1) with vectors nohead lc rgb '#000000' lw 1.2 notitle" : ''
        eval "plot data using (log2(column('bytes'))):(y(k)):(half + (small ? 0.05 : 0.01)):(0.51):(fill(strcol('winner'))) with boxxyerror fs solid 1 noborder lc rgb variable notitle".border
    }
    unset multiplot
    unset output
}
