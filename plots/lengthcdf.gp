# Share of the sequences, and of the tokens, that are in sequences not longer than x.
# Reads plots/lengthcdf.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/lengthcdf.csv'
array source[8]
longest = 12
stats data using (source[int(column('curve'))] = strcol('source'), longest = strlen(strcol('source')) > longest ? strlen(strcol('source')) : longest, column('curve')) name 'C' nooutput
stats data using 'length_tokens' name 'X' nooutput
n = int(C_max)
lo = X_min * 0.8
hi = X_max * 1.25
# A tick at every power of 2, of 4 .. of as many as have room; as numbers, which are the unit of the table.
octaves = log(hi / lo) / log(2)
every = ceil(octaves / (small ? 4.0 : 9.0)); every = every < 1 ? 1 : every
is(k) = column('curve') == k
# One distribution: a colour a curve. Several: a colour each, and what is dashed is said once.
lines = n == 1 ? 2 : n + 2
longest_line = n == 1 ? longest + 14 : longest

title = seen('Lengths: share of the sequences, and of their tokens, in sequences that are not longer', 'Share of sequences and tokens by length')
above = key_room(lines, longest_line)
H = above + (small ? 120 : 230) + foot_room
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen from_left(small ? 46 : 54)
    set rmargin at screen from_right(small ? 12 : 20)
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot_room)
    set logscale x 2
    set xrange [lo:hi]
    set yrange [0:102]
    set xtics ()
    do for [e=0:int(ceil(log(hi) / log(2))):every] { set xtics add (sprintf('%.0f', 2.0 ** e) 2.0 ** e) }
    set ytics 0,20,100
    set grid x y lc rgb '#E4E4E4' lw 0.4 lt 1
    set xlabel 'length of a sequence (tokens)' font small_font offset 0,0.3
    eval set_y('not longer (%)')
    eval key_in_rows(lines, longest_line)
    if (n == 1) {
        plot data using 'length_tokens':(100 * column('sequences_ratio')) with lines lc rgb colour_of(1) lw 1.6 dt 1 title 'by sequences, '.source[1], \
             data using 'length_tokens':(100 * column('tokens_ratio')) with lines lc rgb colour_of(5) lw 1.6 dt 2 title 'by tokens, '.source[1]
    } else {
        plot for [k=1:n] data using (is(k) ? column('length_tokens') : NaN):(100 * column('sequences_ratio')) with lines lc rgb colour_of(k) lw 1.6 dt 1 title source[k], \
             for [k=1:n] data using (is(k) ? column('length_tokens') : NaN):(100 * column('tokens_ratio')) with lines lc rgb colour_of(k) lw 1.6 dt 2 notitle, \
             keyentry with lines lc rgb '#333333' lw 1.6 dt 1 title 'by sequences', \
             keyentry with lines lc rgb '#333333' lw 1.6 dt 2 title 'by tokens'
    }
    unset output
}
