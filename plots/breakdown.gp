# Parts of a mean step, per run of a set or per plan of a run, and the range of simulated ones. A bar that is more than three
# times as long as the middle one is cut, and says how long it is, so that the others can be read.
# Reads plots/breakdown.csv.
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/breakdown.csv'
all = 'compute_s recompute_s tp_s ep_s cp_s pp_s dp_s move_s io_s bubble_s'
hues = c_forward.' '.c_recompute.' '.c_tp.' #44AA99 #117733 '.c_pp.' '.c_dp.' '.c_move.' #999933 '.c_bubble
parts = all
shown = ''
nshown = 0
longest = 7
do for [p in all] {
    stats data using (column(p) / stack(10)) nooutput
    if (STATS_max > 0.0005) { shown = shown.' '.p; nshown = nshown + 1; longest = strlen(p) - 2 > longest ? strlen(p) - 2 : longest }
}
stats data using (stack(10)) name 'B' nooutput
longest_name = 1
stats data using (longest_name = strlen(strcol('name')) > longest_name ? strlen(strcol('name')) : longest_name, 1) nooutput
# The longest that is no outlier.
limit = 3 * B_median
stats data using (stack(10) <= limit ? stack(10) : 0) name 'I' nooutput
end_of_range(row) = valid(14) && stack(10) <= limit ? column('high_s') : 0 # 0: no range
stats data using (end_of_range(0)) name 'R' nooutput
top = (R_max > I_max ? R_max : I_max) * 1.04
is_cut(row) = stack(10) > top
k = I_max < 0.1 ? 1000 : 1 # short steps in ms
unit = k == 1 ? 's' : 'ms'
index_of(p) = (sum [j=1:10] (word(all, j) eq p ? j : 0))
end_of(j) = k * (stack(j) > top ? top : stack(j))
said(row) = sprintf(k * stack(10) >= 100 ? '%.0f %s' : '%.2f %s', k * stack(10), unit).(is_cut(0) ? ' »' : '')

title = seen('Parts of a mean step', 'Parts of a mean step')
above = key_room(nshown + (R_max > 0), longest)
key_lines = key_rows(nshown + (R_max > 0), longest)
stats data using (strlen(said(0))) name 'N' nooutput
do for [fmt in formats] {
    eval lying(B_records, longest_name, above, foot_room)
    eval open_of(fmt)
    eval lying(B_records, longest_name, above, foot_room)
    set rmargin at screen from_right(12 + N_max * char_room)
    set xrange [0:k * top]
    set xlabel 'mean step ('.unit.')' font small_font offset 0,0.3
    eval key_in_rows(nshown + (R_max > 0), longest)
    plot for [p in shown] data using (0):($0 + 1):(end_of(index_of(p) - 1)):(end_of(index_of(p))):($0 + 0.64):($0 + 1.36):ytic(as_tic(shortened(strcol('name'), chars_of_room(room_of_names(longest_name))))) with boxxyerror fs solid 1 border rgb '#FFFFFF' lw 0.3 lc rgb word(hues, index_of(p)) title p[1:strlen(p) - 2], \
         for [p in shown] data using (0):($0 + 1):(end_of(index_of(p) - 1)):(end_of(index_of(p))):($0 + 0.64):($0 + 1.36) with boxxyerror fs transparent pattern pattern_of(index_of(p)) noborder lc rgb hatch lw 0.3 notitle, \
         data using (k * top):($0 + 1):(said(0)) with labels left offset 0.6,0 font tiny_font notitle, \
         data using (is_cut(0) ? NaN : k * column('low_s')):($0 + 1.2):(k * (column('high_s') - column('low_s'))):(0) with vectors heads size screen 0.004,90 lw 0.9 lc rgb '#000000' title R_max > 0 ? 'range' : ''
    unset output
}
