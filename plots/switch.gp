# Every switch of a run: how long training stood still, and for what.
# Reads switches.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/switches.csv'
all = 'detect_s plan_s specialize_s move_s'
hues = '#882255 '.c_backward.' '.c_recompute.' '.c_move
parts = all
stats data using (stack(4)) name 'S' nooutput
event_of(id) = S_records > 12 ? '' : id
length_of(s) = S_records > (small ? 4 : 12) ? '' : sprintf('%.1f s', s)
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.17 : 0.10)
    set rmargin at screen (small ? 0.66 : 0.80)
    set tmargin at screen top_right
    set bmargin at screen (small ? 0.32 : S_records > 6 ? 0.22 : 0.18)
    set xrange [-0.6:S_records - 0.4]
    set yrange [0:S_max * 1.08]
    eval set_y('seconds')
    set xlabel 'switch (event that caused it)' font small_font offset 0,0.3
    set xtics scale 0 noenhanced; eval small || S_records > 6 ? 'set xtics rotate by 25 right' : 'set xtics norotate center'
    eval key_right
    plot for [k=1:4] data using ($0):(0):($0 - 0.32):($0 + 0.32):(stack(k - 1)):(stack(k)):xtic(as_tic(event_of(strcol('event')))) with boxxyerror fs solid 1 border rgb '#FFFFFF' lw 0.3 lc rgb word(hues, k) title word(all, k)[1:strlen(word(all, k)) - 2], \
         for [k=1:4] data using ($0):(0):($0 - 0.32):($0 + 0.32):(stack(k - 1)):(stack(k)) with boxxyerror fs transparent pattern (k == 4 ? 0 : k + 3) noborder lc rgb hatch lw 0.3 notitle, \
         data using ($0):(stack(4)):(length_of(stack(4))) with labels offset 0,0.6 font tiny_font notitle
    unset output
}
