# plots/common.gp: one style for all figures (plots/README.md). Loaded by every FIGURE.gp; see
# README.md for how to call them.
#
# Before: run (folder), out (path without ending) or svg and png (whole paths). Optional: ran (what ran, in small print
#         below the figure), title (instead of the figure's own), column = 1 (84 mm wide), formats = some of
#         'svg png pdf' (else all).
# After:  small, nruns, name_of_run(i), state_of(i); colours; open_of(fmt) for eval.
#
# Places are counted in units of 1/96 inch, W x H of them a figure: from_top(n) and from_bottom(n) are screen
# coordinates. A figure sets H before open_of where its number of rows, or of names in its legend, asks for it.
#
# Texts of tables are data: they stay in columns and arrays, and no command is put together of them, in which quotes,
# backticks and @ would be read as code. They are drawn with noenhanced, and as tics through as_tic().
if (!exists("ran")) ran = run
if (!exists("column")) column = 0
small = column ? 1 : 0
if (!exists("formats")) formats = 'svg png pdf'
if (strstrt(formats, 'svg') && !exists("svg")) svg = out.'.svg'
if (strstrt(formats, 'png') && !exists("png")) png = out.'.png'
if (strstrt(formats, 'pdf') && !exists("pdf")) pdf = out.'.pdf'

set encoding utf8
set datafile separator comma
set datafile columnheaders
set decimalsign '.'

# Sizes: 174 mm and 84 mm wide at 96 dpi (SVG) and 300 dpi (PNG), and as such (PDF). Pango makes texts of the latter two
# 96/72 times as large as asked, which the scale of fonts takes back.
W = small ? 317 : 658
H = small ? 240 : 392
font = small ? 9.4 : 11 # 9.4 units are 7 pt in print, the least
from_top(n) = 1 - 1.0 * n / H
from_bottom(n) = 1.0 * n / H
from_left(n) = 1.0 * n / W
from_right(n) = 1 - 1.0 * n / W
open_svg(n) = sprintf("set terminal svg size %d,%d dynamic enhanced font 'DejaVu Sans,%g' background rgb 'white'; set output svg", W, H, font)
open_png(n) = sprintf("set terminal pngcairo size %d,%d enhanced font 'DejaVu Sans,%g' fontscale %.3f linewidth %.3f pointscale 3.125 background rgb 'white'; set output png", W * 3.125, H * 3.125, font, 2.34375, 3.125)
open_pdf(n) = sprintf("set terminal pdfcairo size %.4fin,%.4fin enhanced font 'DejaVu Sans,%g' fontscale %.3f linewidth %.3f pointscale %.3f background rgb 'white'; set output pdf", W / 96.0, H / 96.0, font, 0.5625, 1.5, 0.75)
# A file is opened with what stands in every figure: above, what is seen; below, in small print, what ran.
open_of(fmt) = (fmt eq 'svg' ? open_svg(0) : fmt eq 'png' ? open_png(0) : open_pdf(0)).sprintf("; set label 1 title at screen %g, screen %g left noenhanced font heading_font tc rgb '#111111'; set label 9 ran at screen %g, screen %g left noenhanced font tiny_font tc rgb '#666666'", from_left(5), from_top(small ? 9 : 11), from_left(5), from_bottom(8))
heading_font = sprintf("DejaVu Sans,%g", small ? 9.4 : 11.5)
# The figure's own title: wide, and where there is room for half of it alone.
seen(wide, narrow) = exists("title") ? title : small ? narrow : wide
small_font = sprintf("DejaVu Sans,%g", small ? 9.4 : 10)
tiny_font = "DejaVu Sans,9.4"

# Okabe-Ito colours, told apart by colour-blind readers.
c_forward = '#0072B2'; c_backward = '#E69F00'; c_recompute = '#56B4E9'; c_tp = '#009E73'
c_pp = '#CC79A7'; c_dp = '#F0E442'; c_move = '#D55E00'; c_bubble = '#DDDDDD'; c_other = '#7F7F7F'
set dashtype 1 solid
set dashtype 2 (9,4)
set dashtype 3 (3,3)
set dashtype 4 (12,3,3,3)
set dashtype 5 (6,6)
set dashtype 6 (12,3,3,3,3,3)
set dashtype 7 (18,4)
set dashtype 8 (2,6)
array hue[8] = ['#0072B2', '#E69F00', '#009E73', '#CC79A7', '#D55E00', '#56B4E9', '#000000', '#8A7F00']
colour_of(i) = hue[(i - 1) % 8 + 1]
# Of line k of n where several may lie upon each other: the first is the widest and shows beside those above it.
width_of(k, n) = k < n ? 1.2 + 0.5 * (n - k) : 1.2

set style line 100 lc rgb '#333333' lw 0.6
set border 3 ls 100
set tics nomirror out scale 0.5 font small_font
set grid y lc rgb '#E4E4E4' lw 0.4 lt 1
# The name of the y axis stands at the edge, whatever the width of its numbers.
set_y(text) = (name_of_y = text, sprintf("set label 2 name_of_y at screen %g, graph 0.5 center rotate by 90 noenhanced font small_font", 1.0 * font / W))
set key noenhanced font small_font samplen 2 spacing 1.1

# Stacked bars: part k of `parts` from stack(k-1) to stack(k), in colour, and over it a thin pattern
# of its own, so that grey print tells them apart.
parts = ''
stack(k) = k < 1 ? 0 : (sum [j=1:k] column(word(parts, j)))
# Room: of a line of the legend, of a character of small_font and of tiny_font, of the title with what follows it;
# below the data with the name of the axis, and with its numbers alone.
row_room = small ? 12.2 : 13
char_room = small ? 5.6 : 5.8
title_room = small ? 19 : 23
foot_room = small ? 52 : 56
bare_foot_room = small ? 36 : 38
# Texts beside an axis: the longest has its room, up to 42 of 100 of the width.
room_of_names(longest) = longest * char_room + 12 > 0.42 * W ? 0.42 * W : longest * char_room + 12
chars_of_room(room) = int((room - 12) / char_room + 0.01)
shortened(name, most) = strlen(name) <= most ? name : name[1:most - 1].'…'
# Legends: lines of their own below the title, as many as n names of the longest length need.
key_columns(n, longest) = int((W - 12) / ((longest + 7) * char_room)) < 1 ? 1 : int((W - 12) / ((longest + 7) * char_room)) > n ? n : int((W - 12) / ((longest + 7) * char_room))
key_rows(n, longest) = ceil(1.0 * n / key_columns(n, longest))
key_room(n, longest) = title_room + key_rows(n, longest) * row_room + 6
key_in_rows(n, longest) = sprintf("set key at screen %g,screen %g top left vertical Left reverse samplen 2 maxcols auto maxrows %d width %g", from_left(5), from_top(title_room - 3), key_rows(n, longest), -0.08 * longest + 1.1)
# Bars that lie: n of them, the names beside them; H and the margins that they need, below `above` units. gnuplot gives a
# legend no more lines than find room in the height of the data, so bars of a legend of key_lines lines are as high as it.
lying_room = small ? 15 : 18 # of one
key_lines = 1
bars_room(n) = n * lying_room + 8 < key_lines * row_room + 6 ? key_lines * row_room + 6 : n * lying_room + 8
lying(n, longest, above, foot) = sprintf("H = %g; set lmargin at screen from_left(%g); set tmargin at screen from_top(%g); set bmargin at screen from_bottom(%g); set yrange [%g:0.4]; set ytics () scale 0 noenhanced font tiny_font; unset grid; set grid x lc rgb '#E4E4E4' lw 0.4 lt 1", above + bars_room(n) + foot, room_of_names(longest), above, foot, n + 0.6)
pattern_of(j) = j == 1 ? 0 : j % 4 + 4
hatch = '#C8222222'

# Different texts of a table in the order of their rows: keep_text(strcol('..')) in a stats of it, then kept[1] to kept[nkept].
array kept[1024]
nkept = 0
number_of_text(name) = (sum [j=1:nkept] (kept[j] eq name ? j : 0))
keep_text(name) = number_of_text(name) || nkept == 1024 ? 1 : (nkept = nkept + 1, kept[nkept] = name, 1)
# Lines of a sweep that lie upon each other: take(k, y) in a stats of its rows, at each x the lines in one order; then
# same_as(k) is the first line that never differs from line k by more than 1 %, 0 if there is none.
array taken[8192]
array ntaken[128]
do for [k=1:128] { ntaken[k] = 0 }
take(k, y) = k < 1 || k > 128 || ntaken[k] == 64 ? 1 : (ntaken[k] = ntaken[k] + 1, taken[(k - 1) * 64 + ntaken[k]] = y, 1)
differ(j, k) = ntaken[j] != ntaken[k] || (sum [p=1:ntaken[k]] (abs(taken[(j - 1) * 64 + p] - taken[(k - 1) * 64 + p]) > 0.01 * abs(taken[(k - 1) * 64 + p]))) > 0
first_same(j, k) = j >= k ? 0 : differ(j, k) ? first_same(j + 1, k) : j
same_as(k) = k > 128 ? 0 : first_same(1, k)
named_line(k) = kept[k].(same_as(k) ? ' (as '.kept[same_as(k)].')' : '')
# A label of a tic is a format: each % is doubled.
as_tic(name) = strstrt(name, '%') == 0 ? name : name[1:strstrt(name, '%')].'%'.as_tic(name[strstrt(name, '%') + 1:])

# Runs, in the order of the set.
array run_name[1024]
array run_state[1024]
nruns = 0
if (!exists("no_runs")) {
    stats run.'/plots/timelost.csv' using (nruns == 1024 ? 1 : (nruns = nruns + 1, run_name[nruns] = strcol('run'), run_state[nruns] = strcol('state'), 1)) nooutput
}
name_of_run(i) = run_name[i]
# 0: no run is called so, or several are.
number_of_run(name) = (number = (sum [j=1:nruns] (run_name[j] eq name ? j : 0)), number <= nruns && number > 0 && run_name[number] eq name ? number : 0)
longest_run = 1
do for [k=1:nruns] { if (strlen(run_name[k]) > longest_run) { longest_run = strlen(run_name[k]) } }
state_of(i) = run_state[i]

# Tables that may be empty, which gnuplot complains about: their number of rows, if it is known.
if (!exists("nmarks")) nmarks = 1
if (!exists("nlost")) nlost = 1

# Run time reads best in its own unit.
use_time(longest_s) = sprintf("tdiv_end = %g; tdiv = %g; tname = '%s'", longest_s, longest_s > 7200 ? 3600.0 : longest_s > 600 ? 60.0 : 1.0, longest_s > 7200 ? 'h' : longest_s > 600 ? 'min' : 's')

# Events of all runs as upright lines over the whole height, and their labels above. Set with_marks before this file is
# loaded; mark() and label_of_mark() need use_time().
array mark_at[1024]
array mark_text[1024]
marked = 0
longest_mark = 0
if (nmarks > 0 && exists("with_marks")) {
    stats run.'/plots/marks.csv' using (marked == 1024 || strcol('run') ne '-' ? 1 : (marked = marked + 1, mark_at[marked] = column('t_s'), mark_text[marked] = shortened(strcol('label'), 22), longest_mark = strlen(mark_text[marked]) > longest_mark ? strlen(mark_text[marked]) : longest_mark, 1)) nooutput
}
mark(k) = sprintf("set arrow %d from first %g, graph 0 to first %g, graph 1 nohead lc rgb '#000000' lw 0.5 dt (4,4) back", k, mark_at[k] / tdiv, mark_at[k] / tdiv)
mark_label(k) = sprintf("set label %d (mark_text[%d] eq '-' ? '' : mark_text[%d]) at first %g, graph 1 rotate by 60 left offset -0.1,0.4 noenhanced font tiny_font", 100 + k, k, k, mark_at[k] / tdiv)
mark_room = small || longest_mark < 2 ? (small && longest_mark > 1 ? 13 : 4) : 14 + 0.9 * 5.6 * longest_mark # of the labels above the data
# Narrow, there are numbers instead, where there is room for one, and their labels in lines of their own at the foot.
array mark_number[1024]
numbered = 0
if (small && longest_mark > 1) {
    stats run.'/plots/throughput.csv' using 't_s' name 'ALL' nooutput
    mark_last = -ALL_max
    do for [k=1:marked] {
        mark_number[k] = 0
        if (mark_text[k] ne '-' && mark_at[k] - mark_last > ALL_max / 18) { numbered = numbered + 1; mark_number[k] = numbered; mark_last = mark_at[k] }
    }
}
mark_columns = int((W - 10) / ((longest_mark + 4) * char_room)) < 1 ? 1 : int((W - 10) / ((longest_mark + 4) * char_room))
mark_lines = numbered ? ceil(1.0 * numbered / mark_columns) : 0
marks_foot = mark_lines * 11.5
mark_digits(k) = sprintf("set label %d '%d' at first %g, graph 1 center offset 0,0.45 font tiny_font", 100 + k, mark_number[k], mark_at[k] / tdiv)
mark_entry(k) = sprintf("set label %d '%d  '.mark_text[%d] at screen %g, screen %g left noenhanced font tiny_font", 1200 + k, mark_number[k], k, from_left(5 + (W - 10) / mark_columns * ((mark_number[k] - 1) / mark_lines)), from_bottom(20 + 11.5 * (mark_lines - 1 - (mark_number[k] - 1) % mark_lines)))
label_of_mark(k) = small ? (mark_number[k] ? mark_digits(k).'; '.mark_entry(k) : '') : (mark_at[k] < 0.97 * tdiv_end ? mark_label(k) : '')
