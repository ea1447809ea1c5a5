# Parts of a mean step, per run of a set or per plan of a run, and the range of simulated ones.
# Reads plots/breakdown.csv.
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/breakdown.csv'
all = 'compute_s recompute_s tp_s ep_s cp_s pp_s dp_s move_s io_s bubble_s'
hues = c_forward.' '.c_recompute.' '.c_tp.' #44AA99 #117733 '.c_pp.' '.c_dp.' '.c_move.' #999933 '.c_bubble
parts = all
shown = ''
do for [p in all] {
    stats data using (column(p) / stack(10)) nooutput
    if (STATS_max > 0.0005) { shown = shown.' '.p }
}
stats data using (stack(10)) name 'B' nooutput
end_of_range(row) = valid(14) ? column('high_s') : 0 # 0: no range
stats data using (end_of_range(0)) name 'H' nooutput
top = H_max > B_max ? H_max : B_max
k = B_max < 0.1 ? 1000 : 1 # short steps in ms
unit = k == 1 ? 's' : 'ms'
index_of(p) = (sum [j=1:10] (word(all, j) eq p ? j : 0))
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.17 : 0.10)
    set rmargin at screen (small ? 0.66 : 0.80)
    set tmargin at screen top_right
    set bmargin at screen (small ? 0.24 : 0.11)
    set xrange [0.4:B_records + 0.6]
    set yrange [0:k * top * 1.08]
    eval set_y('mean step ('.unit.')')
    set xtics scale 0 noenhanced; eval small ? 'set xtics rotate by 30 right' : 'set xtics norotate center'
    eval key_right
    plot for [p in shown] data using ($0 + 1):(0):($0 + 0.68):($0 + 1.32):(k * stack(index_of(p) - 1)):(k * stack(index_of(p))):xtic(as_tic(strcol('name'))) with boxxyerror fs solid 1 border rgb '#FFFFFF' lw 0.3 lc rgb word(hues, index_of(p)) title p[1:strlen(p) - 2], \
         for [p in shown] data using ($0 + 1):(0):($0 + 0.68):($0 + 1.32):(k * stack(index_of(p) - 1)):(k * stack(index_of(p))) with boxxyerror fs transparent pattern (index_of(p) == 1 ? 0 : index_of(p) % 4 + 4) noborder lc rgb hatch lw 0.3 notitle, \
         data using ($0 + 1):(k * stack(10)):(sprintf('%.2f '.unit, k * stack(10))) with labels offset 0,0.6 font tiny_font notitle, \
         data using ($0 + 0.86):(k * column('low_s')):(0):(k * (column('high_s') - column('low_s'))) with vectors heads size screen 0.004,90 lw 0.8 lc rgb '#000000' title H_max > 0 ? 'range' : ''
    unset output
}
