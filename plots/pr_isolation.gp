# Who averages with whom, without and with a guard: a line joins the workers of a group.
# Reads isolation.csv (tests/sync_figures.sh).
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/isolation.csv'
stats data using (keep_text(strcol('setting'))) nooutput
n = nkept
stats data using 't_s' name 'T' nooutput
first(x) = real(word(strcol('members'), 1))
last(x) = real(word(strcol('members'), words(strcol('members'))))
stats data using (last(0)) name 'W' nooutput
in(k) = strcol('setting') eq kept[k]
member(k, j) = in(k) && words(strcol('members')) >= j ? real(word(strcol('members'), j)) : NaN
until = T_max > 24 ? 24 : T_max
do for [fmt in formats] {
    eval open_of(fmt)
    set multiplot
    set lmargin at screen (small ? 0.13 : 0.08)
    set rmargin at screen 0.98
    set xrange [0:until]
    set yrange [-0.5:W_max + 0.5]
    set ytics 1
    unset grid
    above = small ? 0.82 : 0.87
    do for [k=1:n] {
        top = above - (above - (small ? 0.20 : 0.14)) * (k - 1) / n
        bottom = above - (above - (small ? 0.20 : 0.14)) * k / n + 0.05
        set tmargin at screen top - 0.03
        set bmargin at screen bottom
        if (k == n) { set xlabel 'time (s)' font small_font offset 0,0.3; set format x '%g' } else { unset xlabel; set format x '' }
        set label 2 'worker' at screen 1.0 * font / W, graph 0.5 center rotate by 90 noenhanced font small_font
        set label 4 kept[k] at graph 0, graph 1.08 left noenhanced font small_font
        if (k == 1) {
            eval "set key at screen 0.99,screen ".(small ? '0.94' : '0.96')." top right horizontal Left reverse samplen 2 maxrows 1"
        } else { unset key }
        plot data using (in(k) && column('guard') == 0 ? column('t_s') : NaN):(first(0)):(0):(last(0) - first(0)) with vectors nohead lc rgb c_forward lw 1.4 title 'group', \
             data using (in(k) && column('guard') == 1 ? column('t_s') : NaN):(first(0)):(0):(last(0) - first(0)) with vectors nohead lc rgb c_move lw 1.4 title 'of the guard', \
             for [j=1:W_max + 1] data using 't_s':(member(k, j)) with points pt 7 ps (small ? 0.3 : 0.4) lc rgb '#333333' notitle
        unset label 1
    }
    unset multiplot
    unset label 4
    set format x '%g'
    eval set_title
    unset output
}
