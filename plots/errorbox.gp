# Errors of predictions by suite: quartiles, whiskers to 1.5 of their distance, single points beyond.
# Rows that a model was fitted on count only where a suite has no others; its name then has a star.
# Reads plots/predicted.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/predicted.csv'
used = ' '
scored = ' ' # suites with rows that nothing was fitted on
stats data using (strstrt(used, ' '.strcol('suite').' ') ? 1 : (used = used.strcol('suite').' ', 1)) nooutput
stats data using ((strcol('role') eq 'calibration' || strstrt(scored, ' '.strcol('suite').' ')) ? 1 : (scored = scored.strcol('suite').' ', 1)) nooutput
fitted(name) = strstrt(scored, ' '.name.' ') == 0
counts(name) = strcol('suite') eq name && (strcol('role') eq 'calibration') == fitted(name)
err_of(x) = 100 * (column('predicted_s') / column('measured_s') - 1)
stats data using (err_of(0)) name 'E' nooutput
names = ''
do for [k=1:words(used)] { names = names.sprintf("%s'%s' %d", k > 1 ? ', ' : 'set xtics (', word(used, k).(fitted(word(used, k)) ? '*' : ''), k) }
names = names.')'
reach = (E_max > -E_min ? E_max : -E_min) * 1.08 + 1
do for [fmt in "svg png"] {
    eval (fmt eq 'svg' ? open_svg : open_png)
    set lmargin at screen (small ? 0.17 : 0.10)
    set rmargin at screen 0.98
    set tmargin at screen top_right
    set bmargin at screen (small ? 0.40 : 0.30)
    set xrange [0.3:words(used) + 0.7]
    set yrange [-reach:reach]
    set xtics rotate by 40 right noenhanced font tiny_font
    eval names
    eval set_y('predicted / measured - 1 (%)')
    set style boxplot range 1.5 outliers pointtype 7
    set boxwidth 0.5
    set object 1 rectangle from graph 0, first -10 to graph 1, first 10 behind fc rgb '#EEEEEE' fs solid noborder
    unset key
    plot 0 with lines lc rgb '#333333' lw 0.6, \
         for [k=1:words(used)] data using (k):(counts(word(used, k)) ? err_of(0) : NaN) with boxplot lw 0.9 ps (small ? 0.2 : 0.3) lc rgb colour_of(k) fs solid 0.25 border
    unset output
}
