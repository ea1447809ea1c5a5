# Seconds of three exchanges of experts by the bytes of a device; dots on the fastest that fits, an upright line at S*,
# below which leader is faster than flat. Leader is thin where its buffers do not fit.
# Reads a2a_sweep.csv (luoshu moe exchange).
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/a2a_sweep.csv'
set datafile missing NaN # rows of other figures and of other winners do not cut a line
ways = 'flat leader 2d'
colour(way) = colour_of(way eq 'flat' ? 1 : way eq 'leader' ? 2 : 3)
rgb(way) = int('0x'.colour(way)[2:])
limit = 0; nodes = 0; each = 0; narrow = 0; wide = 0
is_mine(dummy) = strcol('figure') eq 'a2a_size'
fits(dummy) = strcol('leader_fits') eq 'yes'
stats data using (is_mine(0) ? (nodes = column('nodes'), each = column('devices_per_node'), limit = strcol('limit_bytes') eq '' ? 0 : real(strcol('limit_bytes')), fits(0) ? (wide = wide + 1) : (narrow = narrow + 1)) : 1) nooutput
ms(way) = is_mine(0) ? 1e3 * column(way.'_s') : NaN
first = 1024.0; last = 1024.0 ** 3
title = seen('Time of three exchanges of experts by the bytes of a device', 'Three exchanges by the bytes of a device')
above = key_room(5, 7) + 12
H = above + (small ? 130 : 240) + foot_room
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.20 : 0.105)
    set rmargin at screen (small ? 0.94 : 0.965)
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot_room)
    set logscale x 2
    set logscale y 10
    set xrange [first:last * 1.001]
    set xtics ('1 KiB' 1024, '32 KiB' 2**15, '1 MiB' 2**20, '32 MiB' 2**25, '1 GiB' 2**30)
    set xlabel sprintf('bytes of a device (%d nodes of %d)', nodes, each) font small_font offset 0,0.3
    eval set_y('ms')
    eval key_in_rows(5, 7)
    if (limit > first && limit < last) {
        set arrow 1 from first limit, graph 0 to first limit, graph 1 nohead lc rgb '#333333' lw 0.8 dt (4,4)
        set label 3 'S*' at first limit, graph 1.04 center font small_font tc rgb '#333333'
    }
    thin = narrow > 0 ? "data using 'bytes':(fits(0) ? NaN : ms('leader')) with lines lc rgb colour('leader') lw 0.9 dt 3 title (wide == 0 ? 'leader' : small ? '' : 'no room'), " : ''
    thick = wide > 0 ? "data using 'bytes':(fits(0) ? ms('leader') : NaN) with lines lc rgb colour('leader') lw 1.8 dt 2 title 'leader', " : ''
    eval "plot data using 'bytes':(ms('flat')) with lines lc rgb colour('flat') lw 1.8 dt 1 title 'flat', ".thick.thin."data using 'bytes':(ms('2d')) with lines lc rgb colour('2d') lw 1.8 dt 3 title '2d', data using 'bytes':(strstrt(' '.ways.' ', ' '.strcol('winner').' ') ? ms(strcol('winner')) : NaN):(rgb(strcol('winner'))) with points pt 7 ps (small ? 0.3 : 0.4) lc rgb variable notitle, keyentry with points pt 7 ps (small ? 0.3 : 0.4) lc rgb '#333333' title 'fastest'"
    unset output
}
