# Predicted memory of every device of a plan (plan = number, 0 unless given), its capacity as a line;
# what lies above it is hatched.
# Reads memory.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/memory.csv'
if (!exists("plan")) plan = 0
all = 'reserved_bytes weights_bytes gradients_bytes optimizer_bytes activations_bytes buffers_bytes communicators_bytes'
hues = '#999999 '.c_forward.' '.c_recompute.' '.c_tp.' '.c_backward.' '.c_pp.' '.c_dp
gib = 2.**30
parts = all
mine(x) = column('plan') == plan ? x : NaN
# On many devices a row stands for several of a stage that need the same: then a row is drawn, not a
# device.
stats data using (mine(strcol('devices') eq '' ? 0 : 1)) name 'R' nooutput
place(x) = R_max > 0 ? column(0) : column('device')
stats data using (mine(place(0))) name 'D' nooutput
stats data using (mine(stack(7))) name 'U' nooutput
stats data using (mine(column('capacity_bytes'))) name 'C' nooutput
over = ''
stats data using (mine(stack(7) > column('capacity_bytes') ? (over = 'over', 1) : 0)) nooutput
top = (U_max > C_max ? U_max : C_max) / gib * 1.06
# The name of a node stands below its first device.
last = ''
nodes = 0
array first_device[1024]
first_of(node) = node eq last ? 0 : (last = node, 1)
stats data using (nodes < 1024 && mine(1) == 1 && first_of(strcol('node')) ? (nodes = nodes + 1, kept[nodes] = strcol('node'), first_device[nodes] = place(0), 1) : 0) nooutput
every = nodes / (small ? 4 : 12) + 1
title = seen('Predicted memory of every device', 'Predicted memory of every device')
above = key_room(9, 13)
H = above + (small ? 120 : 230) + foot_room
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.17 : 0.10)
    set rmargin at screen from_right(small ? 14 : 20)
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot_room)
    set xrange [D_min - 0.7:D_max + 0.7]
    set yrange [0:top]
    eval set_y('memory (GiB)')
    set xlabel R_max > 0 ? 'devices of a stage that need the same, by the node of the first' : 'device, by node' font small_font offset 0,0.3
    set xtics () scale 0.5 noenhanced left offset (small ? -0.5 : -0.8),0 font tiny_font
    do for [k=1:nodes:every] { set xtics add (as_tic(kept[k]) first_device[k] - 0.5) }
    eval key_in_rows(9, 13)
    plot for [k=1:7] data using (mine(place(0))):(0):(place(0) - 0.42):(place(0) + 0.42):(stack(k - 1) / gib):(stack(k) / gib) with boxxyerror fs solid 1 noborder lc rgb word(hues, k) title word(all, k)[1:strlen(word(all, k)) - 6], \
         for [k=1:7] data using (mine(place(0))):(0):(place(0) - 0.42):(place(0) + 0.42):(stack(k - 1) / gib):(stack(k) / gib) with boxxyerror fs transparent pattern (k == 2 ? 0 : k % 4 + 4) noborder lc rgb hatch lw 0.3 notitle, \
         data using (mine(stack(7) > column('capacity_bytes') ? place(0) : NaN)):(0):(place(0) - 0.42):(place(0) + 0.42):(column('capacity_bytes') / gib):(stack(7) / gib) with boxxyerror fs transparent pattern 2 border rgb '#D00000' lc rgb '#D00000' lw 0.8 title over, \
         data using (mine(place(0) - 0.5)):(column('capacity_bytes') / gib):(1):(0) with vectors nohead lc rgb '#000000' lw 1.4 title 'capacity'
    unset output
}
