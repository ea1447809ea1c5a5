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
used = ' '
stats data using (strstrt(used, ' '.strcol('class').' ') ? 1 : (used = used.strcol('class').' ', 1)) nooutput
shown = ''
do for [c in classes] { if (strstrt(used, ' '.c.' ')) { shown = shown.' '.c } }
share(x) = x == x ? 100 * x : 0
stats data using (share(column('utilisation_ratio'))) name 'U' nooutput
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.28 : 0.17)
    set rmargin at screen (small ? 0.72 : 0.86)
    set tmargin at screen (small ? 0.88 : 0.92)
    set bmargin at screen (small ? 0.23 : 0.15)
    unset grid
    set grid x lc rgb '#E4E4E4' lw 0.4 lt 1
    set xrange [0:(U_max > 0 ? U_max : 1e-6) * (small ? 1.35 : 1.15)]
    set yrange [U_records - 0.4:-0.6]
    set xlabel (small ? 'share of capacity (%)' : 'carried over the run, as a share of what the link could carry (%)') font small_font offset 0,0.3
    set ytics scale 0 noenhanced font tiny_font
    eval key_right; set key noinvert
    plot data using (share(column('utilisation_ratio'))):'rank':(0):(share(column('utilisation_ratio'))):(column('rank') - 0.36):(column('rank') + 0.36):(shade(strcol('class'))):ytic(as_tic(strcol('link'))) with boxxyerror fs solid 1 noborder lc rgb variable notitle, \
         for [c in shown] NaN with boxes fs solid 1 noborder lc rgb word(hues, class_of(c)) title c, \
         data using (share(column('utilisation_ratio'))):'rank':(amount(column('bytes'))) with labels left offset 0.4,0 font tiny_font notitle
    unset output
}
