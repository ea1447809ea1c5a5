# One traced step: what the first device of every stage does when. Per device: compute (tall), below
# it tp, pp, and dp, move or io. A paler shade below is busy for a part of the time only. Grey: the compute
# stream waits.
# Reads plots/gantt.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/gantt.csv'
stats data using 'row' name 'R' nooutput
stats data using 't_start_s' name 'A' nooutput
stats data using 't_end_s' name 'Z' nooutput
nrows = R_max + 1
kinds = 'forward backward recompute other tp pp dp move io'
hues = '0x0072B2 0xE69F00 0x56B4E9 0x7F7F7F 0x009E73 0xCC79A7 0xF0E442 0xD55E00 0x999933'
used = ''
stats data using (strstrt(used, strcol('kind').' ') ? 1 : (used = used.strcol('kind').' ', 1)) nooutput
shown = ''
do for [k in kinds] { if (strstrt(' '.used, ' '.k.' ')) { shown = shown.' '.k } }
kind_of(name) = (sum [j=1:9] (word(kinds, j) eq name ? j : 0))
shade(name, covered) = int(kind_of(name) ? word(hues, kind_of(name)) : '0x7F7F7F') + (int(255 * (1 - covered)) << 24)
# Lanes inside a row of height 1.
lane_top(l) = l == 0 ? -0.44 : l == 1 ? 0.0 : l == 2 ? 0.15 : 0.30
lane_low(l) = l == 0 ? -0.02 : l == 1 ? 0.14 : l == 2 ? 0.29 : 0.44
t0 = A_min
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.32 : 0.17)
    set rmargin at screen 0.975
    set tmargin at screen (small ? 0.70 : 0.865)
    set bmargin at screen (small ? 0.23 : 0.15)
    unset grid
    set xrange [0:Z_max - t0]
    set yrange [nrows - 0.45:-0.55]
    set xlabel sprintf('time (s) since %.3f s of run time', t0) font small_font offset 0,0.3
    set ytics scale 0 noenhanced font tiny_font
    eval key_above; set key samplen 1 width (small ? -2 : 0) maxrows (small ? 3 : 1) font tiny_font
    do for [r=0:nrows - 1] { set object (r + 1) rectangle from 0,r + lane_top(0) to Z_max - t0,r + lane_low(0) fs solid 1 noborder fc rgb c_bubble behind }
    plot data using (column('t_start_s') - t0):'row':(column('t_start_s') - t0):(column('t_end_s') - t0):(column('row') + lane_top(column('lane'))):(column('row') + lane_low(column('lane'))):(shade(strcol('kind'), column('lane') == 0 ? 1 : column('covered_ratio'))):ytic(as_tic(strcol('name'))) with boxxyerror fs solid 1 noborder lc rgb variable notitle, \
         for [k in shown] NaN with boxes fs solid 1 noborder lc rgb '#'.word(hues, kind_of(k))[3:] title k, \
         NaN with boxes fs solid 1 noborder lc rgb c_bubble title 'bubble'
    unset output
}
