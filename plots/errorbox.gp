# Errors of predictions by suite: quartiles, whiskers to 1.5 of their distance, single points beyond.
# Rows that a model was fitted on count only where a suite has no others; its name then has a star.
# Reads plots/predicted.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/predicted.csv'
stats data using (keep_text(strcol('suite'))) nooutput
array scored[1024] # suites with rows that nothing was fitted on
do for [k=1:nkept] { scored[k] = 0 }
stats data using (number_of_text(strcol('suite')) == 0 || strcol('role') eq 'calibration' ? 1 : (scored[number_of_text(strcol('suite'))] = 1, 1)) nooutput
fitted(name) = scored[number_of_text(name)] == 0
counts(name) = strcol('suite') eq name && (strcol('role') eq 'calibration') == fitted(name)
err_of(x) = 100 * (column('predicted_s') / column('measured_s') - 1)
stats data using (err_of(0)) name 'E' nooutput
reach = (E_max > -E_min ? E_max : -E_min) * 1.08 + 1
longest = 1
do for [k=1:nkept] { if (strlen(kept[k]) > longest) { longest = strlen(kept[k]) } }
foot = 28 + (longest + 1) * char_room * 0.64 # names at 40 degrees
title = seen('Errors of predictions, by suite (*: fitted on these rows)', 'Errors of predictions, by suite')
above = title_room + 8
H = above + (small ? 130 : 240) + foot
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.17 : 0.10)
    set rmargin at screen 0.98
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot)
    set xrange [0.3:nkept + 0.7]
    set yrange [-reach:reach]
    set xtics () rotate by 40 right noenhanced font tiny_font
    do for [k=1:nkept] { set xtics add (as_tic(kept[k]).(fitted(kept[k]) ? '*' : '') k) }
    eval set_y('predicted / measured - 1 (%)')
    set style boxplot range 1.5 outliers pointtype 7
    set boxwidth 0.5
    set object 1 rectangle from graph 0, first -10 to graph 1, first 10 behind fc rgb '#EEEEEE' fs solid noborder
    unset key
    plot 0 with lines lc rgb '#333333' lw 0.6, \
         for [k=1:nkept] data using (k):(counts(kept[k]) ? err_of(0) : NaN) with boxplot lw 0.9 ps (small ? 0.2 : 0.3) lc rgb colour_of(k) fs solid 0.25 border
    unset output
}
