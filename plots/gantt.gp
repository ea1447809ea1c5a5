# One traced step: what the first device of every stage does when. Per device: compute (tall), below
# it tp, pp, and dp, move or io. A paler shade below is busy for a part of the time only. Grey: the compute
# stream waits.
# Reads plots/gantt.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/gantt.csv'
longest = 1
stats data using (longest = strlen(strcol('name')) > longest ? strlen(strcol('name')) : longest, column('row')) name 'R' nooutput
stats data using 't_start_s' name 'A' nooutput
stats data using 't_end_s' name 'Z' nooutput
nrows = R_max + 1
kinds = 'forward backward backward-input backward-weight recompute other tp pp dp move io'
hues = '0x0072B2 0xE69F00 0xE69F00 0x8A4B00 0x56B4E9 0x7F7F7F 0x009E73 0xCC79A7 0xF0E442 0xD55E00 0x999933'
used = ''
stats data using (strstrt(' '.used, ' '.strcol('kind').' ') ? 1 : (used = used.strcol('kind').' ', 1)) nooutput
shown = ''
nshown = 1
longest_kind = 7
do for [k in kinds] { if (strstrt(' '.used, ' '.k.' ')) { shown = shown.' '.k; nshown = nshown + 1; longest_kind = strlen(k) > longest_kind ? strlen(k) : longest_kind } }
kind_of(name) = (sum [j=1:11] (word(kinds, j) eq name ? j : 0))
shade(name, covered) = int(kind_of(name) ? word(hues, kind_of(name)) : '0x7F7F7F') + (int(255 * (1 - covered)) << 24)
# Lanes inside a row of height 1.
lane_top(l) = l == 0 ? -0.44 : l == 1 ? 0.0 : l == 2 ? 0.15 : 0.30
lane_low(l) = l == 0 ? -0.02 : l == 1 ? 0.14 : l == 2 ? 0.29 : 0.44
t0 = A_min

title = seen('One step: what the first device of every stage does', 'One step, the first device of every stage')
above = key_room(nshown, longest_kind)
# A row is as high as a name at least.
row_height = nrows > 12 ? 13 : nrows > 6 ? 20 : 30
left = room_of_names(longest)
H = above + nrows * row_height + foot_room + 6
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen from_left(left)
    set rmargin at screen from_right(14)
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot_room)
    unset grid
    set xrange [0:Z_max - t0]
    set yrange [nrows - 0.45:-0.55]
    set xlabel sprintf(small ? 's since %.3f s' : 'time (s) since %.3f s of run time', t0) font small_font offset 0,0.3
    set ytics scale 0 noenhanced font tiny_font
    eval key_in_rows(nshown, longest_kind)
    do for [r=0:nrows - 1] { set object (r + 1) rectangle from 0,r + lane_top(0) to Z_max - t0,r + lane_low(0) fs solid 1 noborder fc rgb c_bubble behind }
    plot data using (column('t_start_s') - t0):'row':(column('t_start_s') - t0):(column('t_end_s') - t0):(column('row') + lane_top(column('lane'))):(column('row') + lane_low(column('lane'))):(shade(strcol('kind'), column('lane') == 0 ? 1 : column('covered_ratio'))):ytic(as_tic(shortened(strcol('name'), chars_of_room(left)))) with boxxyerror fs solid 1 noborder lc rgb variable notitle, \
         data using (strcol('kind') eq 'backward-weight' && column('t_end_s') - column('t_start_s') > 0.01 * (Z_max - t0) ? column('t_start_s') - t0 : NaN):'row':(column('t_start_s') - t0):(column('t_end_s') - t0):(column('row') + lane_top(0)):(column('row') + lane_low(0)) with boxxyerror fs transparent pattern 4 noborder lc rgb '#FFFFFF' lw 0.3 notitle, \
         for [k in shown] keyentry with boxes fs solid 1 noborder lc rgb '#'.word(hues, kind_of(k))[3:] title k, \
         keyentry with boxes fs solid 1 noborder lc rgb c_bubble title 'bubble'
    unset output
}
