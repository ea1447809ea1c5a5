# The links (and directions) that carried most over the run, by class; what they carried stands
# beside them.
# Reads plots/busiest.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/busiest.csv'
classes = 'nvlink pcie socket nic uplink line storage'
hues = c_tp.' '.c_recompute.' '.c_pp.' '.c_forward.' '.c_backward.' '.c_move.' '.c_other
class_of(name) = (sum [j=1:7] (word(classes, j) eq name ? j : 0))
shade(name) = int('0x'.(class_of(name) ? word(hues, class_of(name)) : c_other)[2:])
amount(b) = b >= 1e15 ? sprintf('%.1f PB', b * 1e-15) : b >= 1e12 ? sprintf('%.1f TB', b * 1e-12) : sprintf('%.1f GB', b * 1e-9)
# Classes and directions in words.
words_of(name) = name eq 'nvlink' ? 'NVLink' : name eq 'pcie' ? 'PCIe' : name eq 'socket' ? 'between sockets' : name eq 'nic' ? 'network card' : name eq 'uplink' ? 'uplink of a switch' : name eq 'line' ? 'line between sites' : name
way(link) = link[1:strlen(link) - 1].(link[strlen(link):] eq '>' ? ' out' : link[strlen(link):] eq '<' ? ' in' : link[strlen(link):])
longest = 1
longest_class = 1
used = ' '
stats data using (strstrt(used, ' '.strcol('class').' ') ? 1 : (used = used.strcol('class').' ', 1)) nooutput
shown = ''
nshown = 0
do for [c in classes] { if (strstrt(used, ' '.c.' ')) { shown = shown.' '.c; nshown = nshown + 1; longest_class = strlen(words_of(c)) > longest_class ? strlen(words_of(c)) : longest_class } }
share(x) = x == x ? 100 * x : 0
stats data using (share(column('utilisation_ratio'))) name 'U' nooutput
stats data using (longest = strlen(way(strcol('link'))) > longest ? strlen(way(strcol('link'))) : longest, 1) nooutput
title = seen('The busiest links of each class: what they carried, and share of what they could', 'The busiest links of each class')
above = key_room(nshown, longest_class)
do for [fmt in formats] {
    eval lying(U_records, longest, above, foot_room)
    eval open_of(fmt)
    eval lying(U_records, longest, above, foot_room)
    set rmargin at screen from_right(12 + 9 * char_room)
    set xrange [0:U_max > 0 ? U_max : 1e-6]
    set xlabel (small ? 'share of capacity (%)' : 'carried over the run, as a share of what the link could carry (%)') font small_font offset 0,0.3
    eval key_in_rows(nshown, longest_class)
    plot data using (0):(column('rank') + 1):(0):(share(column('utilisation_ratio'))):(column('rank') + 0.64):(column('rank') + 1.36):(shade(strcol('class'))):ytic(as_tic(shortened(way(strcol('link')), chars_of_room(room_of_names(longest))))) with boxxyerror fs solid 1 noborder lc rgb variable notitle, \
         for [c in shown] keyentry with boxes fs solid 1 noborder lc rgb word(hues, class_of(c)) title words_of(c), \
         data using (share(column('utilisation_ratio'))):(column('rank') + 1):(amount(column('bytes'))) with labels left offset 0.4,0 font tiny_font notitle
    unset output
}
