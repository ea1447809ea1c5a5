# The links (and directions) that carried most over the run, by class: how much of what they could carry they carried when;
# what they carried over the run stands beside them.
# Reads plots/busiest.csv, link_windows.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/busiest.csv'
windows = run.'/link_windows.csv'
# Classes and directions in words.
words_of(name) = name eq 'nvlink' ? 'NVLink' : name eq 'pcie' ? 'PCIe' : name eq 'socket' ? 'between sockets' : name eq 'nic' ? 'network cards' : name eq 'uplink' ? 'uplinks of switches' : name eq 'line' ? 'lines between sites' : name
way(link) = link[1:strlen(link) - 1].(link[strlen(link):] eq '>' ? ' out' : link[strlen(link):] eq '<' ? ' in' : link[strlen(link):])
amount(b) = b >= 1e15 ? sprintf('%.1f PB', b * 1e-15) : b >= 1e12 ? sprintf('%.1f TB', b * 1e-12) : b >= 1e9 ? sprintf('%.1f GB', b * 1e-9) : sprintf('%.1f MB', b * 1e-6)
# A line of its own above the links of each class.
longest = 1
array place[1024]
array heading[1024]
array heading_at[1024]
headings = 0
last = ''
see(link, class) = (longest = strlen(way(link)) > longest ? strlen(way(link)) : longest, keep_text(link), class eq last ? 1 : (headings = headings + 1, last = class, heading[headings] = words_of(class), heading_at[headings] = nkept + headings - 1, 1), place[nkept] = nkept + headings, 1)
stats data using (see(strcol('link'), strcol('class'))) nooutput
place_of(name) = number_of_text(name) > 0 && number_of_text(name) <= nkept ? place[number_of_text(name)] : NaN
share(x) = x == x ? 100 * x : 0
stats windows using (share(column('utilisation_ratio'))) name 'U' nooutput
stats windows using 't_end_s' name 'T' nooutput
eval use_time(T_max)
most = U_max > 0 ? U_max : 1e-6
set palette defined (0 '#FFFFFF', 0.5 '#7FB2D9', 1 '#003F6B')

title = seen('How busy links were over the run; the six of each class that carried most', 'How busy links were over the run')
above = title_room + 34 # the scale of colours
left = room_of_names(longest)
right = 12 + 8 * char_room
rows = nkept + headings
H = above + rows * 14 + foot_room + 4
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen from_left(left)
    set rmargin at screen from_right(right)
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot_room)
    unset grid
    unset key
    set xrange [0:T_max / tdiv] noextend
    set yrange [rows + 0.6:0.4]
    set ytics scale 0 noenhanced font tiny_font
    set xlabel 'run time ('.tname.')' font small_font offset 0,0.3
    set cbrange [0:most]
    set colorbox horizontal user origin screen from_left(left), from_top(title_room + 11) size screen 1.0 * (W - left - right) / (small ? 2 : 3) / W, from_bottom(8)
    set cbtics (sprintf('0') 0, sprintf('%.2g %%%%', most) most) scale 0 offset 0,0.6 font tiny_font
    set label 3 (small ? 'of what it could carry' : 'of what the link could carry') at screen from_left(left) + 1.0 * (W - left - right) / (small ? 2 : 3) / W + from_left(24), screen from_top(title_room + 7) left font tiny_font
    do for [k=1:headings] { set label (10 + k) heading[k] at screen from_left(left), first heading_at[k] right offset -0.6,0 noenhanced font tiny_font tc rgb '#666666' }
    plot windows using (column('t_start_s') / tdiv):(place_of(strcol('link'))):(column('t_start_s') / tdiv):(column('t_end_s') / tdiv):(place_of(strcol('link')) - 0.45):(place_of(strcol('link')) + 0.45):(share(column('utilisation_ratio'))) with boxxyerror fs solid 1 noborder lc palette notitle, \
         data using (T_max / tdiv):(place_of(strcol('link'))):(amount(column('bytes'))):ytic(as_tic(shortened(way(strcol('link')), chars_of_room(left)))) with labels left offset 0.6,0 font tiny_font notitle
    unset output
}
