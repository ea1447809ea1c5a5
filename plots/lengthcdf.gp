# Share of the sequences, and of the tokens, that are in sequences not longer than x.
# Reads plots/lengthcdf.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/lengthcdf.csv'
array source[8]
stats data using (source[int(column('curve'))] = strcol('source'), column('curve')) name 'C' nooutput
stats data using 'length_tokens' name 'X' nooutput
n = int(C_max)
lo = X_min * 0.8
hi = X_max * 1.25
# A tick at every power of 2, of 4 .. of as many as have room.
octaves = log(hi / lo) / log(2)
every = ceil(octaves / (small ? 5.0 : 11.0)); every = every < 1 ? 1 : every
word_of(x) = x < 1024 ? sprintf('%.0f', x) : x < 1048576 ? sprintf('%.0fK', x / 1024) : x < 1073741824 ? sprintf('%.0fM', x / 1048576) : sprintf('%.0fG', x / 1073741824)
is(k) = column('curve') == k
# One distribution: a colour a curve. Several: a colour each, and what is dashed is said once.
rows = small && n > 1 ? 4 : 2
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.17 : 0.10)
    set rmargin at screen 0.98
    set tmargin at screen 1 - (1.6 * font * (rows + 1) + 8) / H
    set bmargin at screen (small ? 0.23 : 0.16)
    set logscale x 2
    set xrange [lo:hi]
    set yrange [0:1.02]
    set xtics ()
    do for [e=0:int(ceil(log(hi) / log(2))):every] { set xtics add (word_of(2.0 ** e) 2.0 ** e) }
    set ytics 0.2
    set grid x y lc rgb '#E4E4E4' lw 0.4 lt 1
    set xlabel 'length (tokens)' font small_font offset 0,0.3
    eval set_y(small ? 'share not longer' : 'share that is not longer')
    set key at screen 0.99,screen (small ? 0.93 : 0.955) top right vertical Left reverse samplen 2 maxrows rows
    if (n == 1) {
        plot data using 'length_tokens':'sequences_ratio' with lines lc rgb colour_of(1) lw 1.6 dt 1 title 'by sequences, '.source[1], \
             data using 'length_tokens':'tokens_ratio' with lines lc rgb colour_of(5) lw 1.6 dt 2 title 'by tokens, '.source[1]
    } else {
        plot for [k=1:n] data using (is(k) ? column('length_tokens') : NaN):'sequences_ratio' with lines lc rgb colour_of(k) lw 1.6 dt 1 title source[k], \
             for [k=1:n] data using (is(k) ? column('length_tokens') : NaN):'tokens_ratio' with lines lc rgb colour_of(k) lw 1.6 dt 2 notitle, \
             NaN with lines lc rgb '#333333' lw 1.6 dt 1 title 'by sequences', \
             NaN with lines lc rgb '#333333' lw 1.6 dt 2 title 'by tokens'
    }
    unset output
}
