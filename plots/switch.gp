# Every switch of a run: how long training stood still, and for what.
# Reads switches.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/switches.csv'
all = 'detect_s plan_s specialize_s move_s'
hues = '#882255 '.c_backward.' '.c_recompute.' '.c_move
parts = all
stats data using (stack(4)) name 'S' nooutput
longest = 1
stats data using (longest = strlen(strcol('event')) > longest ? strlen(strcol('event')) : longest, 1) nooutput
# Names stand beside up to 64 switches.
every = S_records / 64 + 1
name_of_row(row) = int(row) % every == 0 ? as_tic(shortened(strcol('event'), chars_of_room(room_of_names(longest)))) : ''
bar = S_records > 24 ? 11 : lying_room
lying_room = S_records > 64 ? 11.0 / every : bar
length_of(s) = S_records > 64 ? '' : sprintf(s >= 100 ? '%.0f s' : '%.1f s', s)
limit = S_max > 0 ? S_max : 1

title = seen('Each switch, by the event that caused it: how long training stood still, and for what', 'Each switch: how long training stood still')
above = key_room(4, 10)
key_lines = key_rows(4, 10)
do for [fmt in formats] {
    eval lying(S_records, longest, above, foot_room)
    eval open_of(fmt)
    eval lying(S_records, longest, above, foot_room)
    set rmargin at screen from_right(12 + 7 * char_room)
    set xrange [0:limit]
    set xlabel 'seconds without a step' font small_font offset 0,0.3
    eval key_in_rows(4, 10)
    plot for [k=1:4] data using (0):($0 + 1):(stack(k - 1)):(stack(k)):($0 + 0.64):($0 + 1.36):ytic(name_of_row($0)) with boxxyerror fs solid 1 border rgb '#FFFFFF' lw 0.3 lc rgb word(hues, k) title word(all, k)[1:strlen(word(all, k)) - 2], \
         for [k=1:4] data using (0):($0 + 1):(stack(k - 1)):(stack(k)):($0 + 0.64):($0 + 1.36) with boxxyerror fs transparent pattern (k == 4 ? 0 : k + 3) noborder lc rgb hatch lw 0.3 notitle, \
         data using (stack(4)):($0 + 1):(length_of(stack(4))) with labels left offset 0.4,0 font tiny_font notitle
    unset output
}
