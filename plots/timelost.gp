# Where the time of each run went, as shares of its total.
# Reads plots/timelost.csv.
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/timelost.csv'
all = 'compute_s recompute_s tp_s ep_s cp_s pp_s dp_s move_s io_s bubble_s redone_s detect_s plan_s specialize_s switch_s checkpoint_s restart_s wait_s'
hues = c_forward.' '.c_recompute.' '.c_tp.' #44AA99 #117733 '.c_pp.' '.c_dp.' '.c_move.' #999933 '.c_bubble.' #000000 #882255 #AA4499 #332288 #D55E00 #661100 #E69F00 #FFFFFF'
parts = all
# Parts that no run has are not listed.
shown = ''
named = ' ' # in the legend
do for [p in all] {
    stats data using (column(p) / stack(18)) nooutput
    if (STATS_max > 0.0002) { shown = shown.' '.p }
    if (STATS_max > (small ? 0.015 : 0.002)) { named = named.' '.p }
}
index_of(p) = (sum [j=1:18] (word(all, j) eq p ? j : 0))
title_of(p) = strstrt(named.' ', ' '.p.' ') ? p[1:strlen(p) - 2] : ''
below(p) = (sum [j=1:index_of(p) - 1] column(word(all, j))) / stack(18) * 100
above(p) = (sum [j=1:index_of(p)] column(word(all, j))) / stack(18) * 100
end_of(k) = state_of(k) eq 'complete' ? '' : state_of(k)
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.17 : 0.10)
    set rmargin at screen (small ? 0.66 : 0.80)
    set tmargin at screen top_right
    set bmargin at screen (small ? 0.24 : 0.11)
    set xrange [0.4:nruns + 0.6]
    set yrange [0:100]
    eval set_y('share of run time (%)')
    set xtics () scale 0 noenhanced; eval small ? 'set xtics rotate by 30 right' : 'set xtics norotate center'
    do for [k=1:nruns] { set xtics add (as_tic(name_of_run(k)) k) }
    eval key_right
    do for [k=1:nruns] { set label (10 + k) end_of(k) at k,100 center offset 0,0.6 font tiny_font noenhanced }
    plot for [p in shown] data using ($0 + 1):(50):($0 + 0.68):($0 + 1.32):(below(p)):(above(p)) with boxxyerror fs solid 1 border rgb '#FFFFFF' lw 0.3 lc rgb word(hues, index_of(p)) title title_of(p), \
         for [p in shown] data using ($0 + 1):(50):($0 + 0.68):($0 + 1.32):(below(p)):(above(p)) with boxxyerror fs transparent pattern (index_of(p) == 1 ? 0 : index_of(p) % 4 + 4) noborder lc rgb hatch lw 0.3 notitle
    unset output
}
