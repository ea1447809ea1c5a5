# Predicted against measured time, with the diagonal and a band of 10 %: steps, and ops by kind; or
# the cases of suites. What the model was fitted on is hollow.
# Reads plots/predicted.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'

data = run.'/plots/predicted.csv'
stats data using (keep_text(strcol('suite'))) nooutput
stats data using 'measured_s':'predicted_s' name 'P' nooutput
lo = (P_min_x < P_min_y ? P_min_x : P_min_y) * 0.7
hi = (P_max_x > P_max_y ? P_max_x : P_max_y) * 1.4
is(name, hollow) = strcol('suite') eq name && (strcol('role') eq 'calibration') == hollow
size_of(name) = (name eq 'step' ? 0.9 : 0.55) * (small ? 0.8 : 1)
longest = 6
do for [k=1:nkept] { if (strlen(kept[k]) > longest) { longest = strlen(kept[k]) } }
title = seen('Predicted beside measured times (hollow: fitted on)', 'Predicted beside measured times')
above = key_room(nkept + 2, longest)
H = above + (small ? 180 : 330) + foot_room
do for [fmt in formats] {
    eval open_of(fmt)
    set lmargin at screen (small ? 0.20 : 0.11)
    set rmargin at screen from_right(small ? 10 : 16)
    set tmargin at screen from_top(above)
    set bmargin at screen from_bottom(foot_room)
    set logscale xy
    if (hi / lo > 100) { set format xy '10^{%T}' } else {
        set format xy '%g'
        set xtics (); set ytics ()
        do for [e=-9:6] { do for [m in '1 2 5'] { set xtics add (real(m) * 10.0 ** e); set ytics add (real(m) * 10.0 ** e) } }
    }
    set xrange [lo:hi]
    set yrange [lo:hi]
    set samples 200
    set grid x y lc rgb '#E4E4E4' lw 0.4 lt 1
    set xlabel 'measured (s)' font small_font offset 0,0.3
    eval set_y('predicted (s)')
    eval key_in_rows(nkept + 2, longest)
    plot '+' using 1:($1 / 1.1):($1 * 1.1) with filledcurves fs solid 1 noborder lc rgb '#EEEEEE' title '±10 %', \
         x with lines lc rgb '#333333' lw 0.6 title 'equal', \
         for [k=1:nkept] data using (is(kept[k], 0) ? column('measured_s') : NaN):'predicted_s' with points pt 7 ps size_of(kept[k]) lc rgb colour_of(k) title kept[k], \
         for [k=1:nkept] data using (is(kept[k], 1) ? column('measured_s') : NaN):'predicted_s' with points pt 6 lw 0.8 ps size_of(kept[k]) lc rgb colour_of(k) notitle
    unset output
}
