# Goodput by the values of one swept key, a line (of texts points) a policy, 95 % interval over seeds as a band (bars).
# Reads plots/swept.csv, rows of key number `swept` (1 unless given).
if (!exists("swept")) swept = 1
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/swept.csv'
set datafile missing NaN # rows of other lines do not cut this one
key_name = ''; numeric = 0; least = 1e300; most = -1e300; top = 0; banded = 0
array tic_text[1024]
array tic_at[1024]
ntics = 0
keep_tic(x) = ntics == 1024 ? 1 : (ntics = ntics + 1, tic_at[ntics] = x, tic_text[ntics] = strcol('value'), 1)
keep_row(x, y, high) = (key_name = strcol('name'), numeric = column('numeric') > 0.5, keep_text(strcol('policy')), \
    least = x < least ? x : least, most = x > most ? x : most, top = y > top ? y : top, \
    banded = banded || high > 0, top = high > top ? high : top, \
    (sum [j=1:ntics] (tic_at[j] == x)) ? 1 : keep_tic(x))
stats data using (column('key') == swept ? keep_row(column('x'), column('goodput_mean_tokens_per_s'), column('goodput_high95_tokens_per_s')) : 1) nooutput
if (least > most) { least = 0; most = 1 }
room = numeric ? (most > least ? 0.02 * (most - least) : 1) : 0.5
unit = top > 2e6 ? 1e6 : top > 2e3 ? 1e3 : 1.0
of(k, name) = column('key') == swept && strcol('policy') eq kept[k] ? column(name) / (name eq 'x' ? 1 : unit) : NaN
mean(k) = of(k, 'goodput_mean_tokens_per_s')
end_of(k, side) = of(k, 'goodput_'.side.'95_tokens_per_s') > -1e300 ? of(k, 'goodput_'.side.'95_tokens_per_s') : mean(k) # of one seed there is none

stats data using (column('key') == swept ? take(number_of_text(strcol('policy')), column('goodput_mean_tokens_per_s')) : 1) nooutput
longest = 1
do for [k=1:nkept] { if (strlen(named_line(k)) > longest) { longest = strlen(named_line(k)) } }
title = seen('Goodput by the values of one key'.(banded ? ', with its 95 % interval over seeds' : ''), 'Goodput by one key')
above = key_room(nkept, longest)
foot = numeric || ntics <= 6 ? foot_room : foot_room + 40
H = above + (small ? 125 : 230) + foot
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.17 : 0.10)
    set rmargin at screen 0.98
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot)
    set xrange [least - room:most + room]
    set yrange [0:top > 0 ? top / unit * 1.1 : 1]
    if (!numeric) {
        set xtics () rotate by (ntics > 6 ? 30 : 0) font tiny_font noenhanced
        if (ntics > 6) { set xtics right }
        set for [j=1:ntics] xtics add (as_tic(tic_text[j]) tic_at[j])
    }
    set xlabel key_name font small_font noenhanced offset 0,0.3
    eval set_y(unit > 5e5 ? 'million tokens/s' : unit > 500 ? 'thousand tokens/s' : 'tokens/s')
    eval key_in_rows(nkept, longest)
    # Categories: a point beside each other a policy, a bar over its interval. A plot of no curve at all is one of
    # gnuplot's warnings, so bands have a place of their own.
    if (!numeric) {
        plot for [k=1:nkept] data using (of(k, 'x') + 0.3 * (k - 0.5 * (nkept + 1)) / nkept):(mean(k)):(end_of(k, 'low')):(end_of(k, 'high')) with yerrorbars pt (k % 2 ? 7 : 5) ps (small ? 0.5 : 0.7) lc rgb colour_of(k) title named_line(k)
    }
    if (numeric && banded) {
        plot for [k=1:nkept] data using (of(k, 'x')):(end_of(k, 'low')):(end_of(k, 'high')) with filledcurves fs transparent solid 0.2 noborder lc rgb colour_of(k) notitle, \
             for [k=1:nkept] data using (of(k, 'x')):(mean(k)) with linespoints pt (k % 2 ? 7 : 5) ps (small ? 0.35 : 0.45) lc rgb colour_of(k) lw width_of(k, nkept) dt k title named_line(k)
    }
    if (numeric && !banded) {
        plot for [k=1:nkept] data using (of(k, 'x')):(mean(k)) with linespoints pt (k % 2 ? 7 : 5) ps (small ? 0.35 : 0.45) lc rgb colour_of(k) lw width_of(k, nkept) dt k title named_line(k)
    }
    unset output
}
