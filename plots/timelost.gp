# Where the time of each run went, as shares of its total.
# Reads plots/timelost.csv.
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/timelost.csv'
all = 'compute_s recompute_s tp_s ep_s cp_s pp_s dp_s move_s io_s bubble_s redone_s detect_s plan_s specialize_s switch_s checkpoint_s restart_s wait_s'
hues = c_forward.' '.c_recompute.' '.c_tp.' #44AA99 #117733 '.c_pp.' '.c_dp.' '.c_move.' #999933 '.c_bubble.' #000000 #882255 #AA4499 #332288 #D55E00 #661100 #E69F00 #FFFFFF'
parts = all
# Parts that no run has are not listed.
shown = ''
nshown = 0
longest = 1
do for [p in all] {
    stats data using (column(p) / stack(18)) nooutput
    if (STATS_max > 0.0002) { shown = shown.' '.p; nshown = nshown + 1; longest = strlen(p) - 2 > longest ? strlen(p) - 2 : longest }
}
index_of(p) = (sum [j=1:18] (word(all, j) eq p ? j : 0))
below(p) = (sum [j=1:index_of(p) - 1] column(word(all, j))) / stack(18) * 100
above_of(p) = (sum [j=1:index_of(p)] column(word(all, j))) / stack(18) * 100
end_of(k) = state_of(k) eq 'complete' ? '' : state_of(k)
ended = 0
do for [k=1:nruns] { if (strlen(end_of(k)) > ended) { ended = strlen(end_of(k)) } }
# A run that waits is white within a black line, in the bar as in the legend.
edge(p) = p eq 'wait_s' ? '#000000' : '#FFFFFF'
edge_width(p) = p eq 'wait_s' ? 0.8 : 0.3
pattern(p) = p eq 'wait_s' ? 0 : pattern_of(index_of(p))

title = seen('Where the time of each run went', 'Where the time of each run went')
above = key_room(nshown, longest)
key_lines = key_rows(nshown, longest)
do for [fmt in formats] {
    eval lying(nruns, longest_run, above, foot_room)
    eval open_of(fmt)
    eval lying(nruns, longest_run, above, foot_room)
    set rmargin at screen from_right(14 + ended * char_room)
    set xrange [0:100]
    set xlabel 'share of run time (%)' font small_font offset 0,0.3
    do for [k=1:nruns] { set ytics add (as_tic(shortened(name_of_run(k), chars_of_room(room_of_names(longest_run)))) k) }
    eval key_in_rows(nshown, longest)
    do for [k=1:nruns] { set label (10 + k) end_of(k) at 100,k left offset 0.6,0 font tiny_font noenhanced }
    plot for [p in shown] data using (50):($0 + 1):(below(p)):(above_of(p)):($0 + 0.64):($0 + 1.36) with boxxyerror fs solid 1 border rgb edge(p) lw edge_width(p) lc rgb word(hues, index_of(p)) title p[1:strlen(p) - 2], \
         for [p in shown] data using (50):($0 + 1):(below(p)):(above_of(p)):($0 + 0.64):($0 + 1.36) with boxxyerror fs transparent pattern pattern(p) noborder lc rgb hatch lw 0.3 notitle
    unset output
}
