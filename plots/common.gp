# plots/common.gp: one style for all figures (plots/README.md). Loaded by every FIGURE.gp; see
# README.md for how to call them.
#
# Before: run (folder), out (path without ending) or svg and png (whole paths). Optional: title, column = 1 (84 mm wide),
#         formats = some of 'svg png pdf' (else all).
# After:  small, nruns, name_of_run(i), state_of(i); colours; open_of(fmt), set_title for eval.
#
# Texts of tables are data: they stay in columns and arrays, and no command is put together of them, in which quotes,
# backticks and @ would be read as code. They are drawn with noenhanced, and as tics through as_tic().
if (!exists("title")) title = run
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

# Sizes: 174 mm and 84 mm wide at 96 dpi (SVG) and 300 dpi (PNG), and as such (PDF).
W = small ? 317 : 658
H = small ? 227 : 378
font = small ? 9.4 : 11 # 9.4 units are 7 pt in print, the least
open_svg = sprintf("set terminal svg size %d,%d dynamic enhanced font 'DejaVu Sans,%g' background rgb 'white'; set output svg", W, H, font)
open_png = sprintf("set terminal pngcairo size %d,%d enhanced font 'DejaVu Sans,%g' fontscale %.3f linewidth %.3f pointscale 3.125 background rgb 'white'; set output png", W * 3.125, H * 3.125, font, 3.125, 3.125)
open_pdf = sprintf("set terminal pdfcairo size %.4fin,%.4fin enhanced font 'DejaVu Sans,%g' fontscale %.3f linewidth %.3f pointscale %.3f background rgb 'white'; set output pdf", W / 96.0, H / 96.0, font, 0.75, 1.5, 0.75)
open_of(fmt) = fmt eq 'svg' ? open_svg : fmt eq 'png' ? open_png : open_pdf
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
width_of(k, n) = 1.2 + 0.5 * (n - k)

set style line 100 lc rgb '#333333' lw 0.6
set border 3 ls 100
set tics nomirror out scale 0.5 font small_font
set grid y lc rgb '#E4E4E4' lw 0.4 lt 1
# What ran stands above every figure, small.
set_title = sprintf("set label 1 title at screen 0.012, screen %g left noenhanced font tiny_font tc rgb '#666666'", 1 - 0.9 * font / H)
eval set_title
# The name of the y axis stands at the edge, whatever the width of its numbers.
set_y(text) = (name_of_y = text, sprintf("set label 2 name_of_y at screen %g, graph 0.5 center rotate by 90 noenhanced font small_font", 1.0 * font / W))
set key noenhanced font small_font samplen 2 spacing 1.1

# Stacked bars: part k of `parts` from stack(k-1) to stack(k), in colour, and over it a thin pattern
# of its own, so that grey print tells them apart.
parts = ''
stack(k) = k < 1 ? 0 : (sum [j=1:k] column(word(parts, j)))
# Legends: a line of its own above the data, or a column to the right of it.
key_above = sprintf("set key at screen 0.99,screen %g top right horizontal Left reverse samplen 2 maxrows %d", small ? 0.93 : 0.955, small ? 2 : 1)
key_right = "set key at screen 0.995,screen 0.52 right center vertical Left reverse invert samplen 1.4 maxrows 20 width 0"
top_above = small ? 0.77 : 0.86 # upper edge of the data below key_above
top_right = small ? 0.82 : 0.88 # the same beside key_right
hatch = '#C8222222'

# Different texts of a table in the order of their rows: keep_text(strcol('..')) in a stats of it, then kept[1] to kept[nkept].
array kept[1024]
nkept = 0
number_of_text(name) = (sum [j=1:nkept] (kept[j] eq name ? j : 0))
keep_text(name) = number_of_text(name) || nkept == 1024 ? 1 : (nkept = nkept + 1, kept[nkept] = name, 1)
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
state_of(i) = run_state[i]

# Tables that may be empty, which gnuplot complains about: their number of rows, if it is known.
if (!exists("nmarks")) nmarks = 1
if (!exists("nlost")) nlost = 1

# Run time reads best in its own unit.
use_time(longest_s) = sprintf("tdiv = %g; tname = '%s'", longest_s > 7200 ? 3600.0 : longest_s > 600 ? 60.0 : 1.0, longest_s > 7200 ? 'h' : longest_s > 600 ? 'min' : 's')

# Events as upright lines over the whole height, and their labels above. Set with_marks before this file is loaded;
# mark() and mark_label() need tdiv.
array mark_at[1024]
array mark_text[1024]
marked = 0
if (nmarks > 0 && exists("with_marks")) {
    stats run.'/plots/marks.csv' using (marked == 1024 ? 1 : (marked = marked + 1, mark_at[marked] = column('t_s'), mark_text[marked] = strcol('label'), 1)) nooutput
}
mark(k) = sprintf("set arrow %d from first %g, graph 0 to first %g, graph 1 nohead lc rgb '#000000' lw 0.5 dt (4,4) back", k, mark_at[k] / tdiv, mark_at[k] / tdiv)
mark_label(k) = sprintf("set label %d (mark_text[%d] eq '-' ? '' : mark_text[%d]) at first %g, graph 1 rotate by 60 left offset -0.1,0.4 noenhanced font tiny_font", 100 + k, k, k, mark_at[k] / tdiv)
