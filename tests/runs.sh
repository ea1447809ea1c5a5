# tests/runs.sh: what scripts that start real runs share; they source it.
export LC_ALL=C
L=${LUOSHU:-$PWD/luoshu} S=$PWD/scenarios H=$PWD/scenarios/host
tmp=$(mktemp -d)
n=0; bad=0
check() { # NAME CONDITION..: the condition is a command
    local name=$1; shift; n=$((n + 1))
    "$@" && return
    echo "FAIL $name"; bad=$((bad + 1))
}
finish() {
    echo "$((100 * (n - bad) / n))%: Checks: $n, Failures: $bad, Errors: 0"
    [ $bad = 0 ]
}
now() { date +%s.%N; }
calc_s() { awk "BEGIN {printf \"%.3f\", $(now) - $1}"; } # seconds since
whole_check() { [ "${LUO_SCALE:-1}" != 1 ]; } # make check-all: also what takes long
calc() { awk "BEGIN {exit !($1)}"; } # CONDITION on numbers

# A run that went wrong shows what it said.
run() { # OUT WANTED_EXIT arguments of `luoshu`...
    local out=$1 want=$2 rc; shift 2
    "$L" "$@" --out "$tmp/$out" --quiet >"$tmp/$out.out" 2>"$tmp/$out.err"; rc=$?
    [ $rc = "$want" ] || { echo "exit $rc, not $want: luoshu $*"; head -n 5 "$tmp/$out.err"; return 1; }
}
host() { local out=$1 want=$2; shift 2; run "$out" "$want" run "$@" --backend host --plots off --limit-s 600; }

# ---- tables ----
# A cell in quotes may hold commas; they become semicolons.
cells='{while (match($0, /"[^"]*"/)) {q = substr($0, RSTART + 1, RLENGTH - 2); gsub(",", ";", q)
            $0 = substr($0, 1, RSTART - 1) q substr($0, RSTART + RLENGTH)}
        n = split($0, c, ",")}'
without() { # FILE COLUMN...: the table without these columns
    local f=$1; shift
    awk -v drop=" $* " "$cells"'
        NR == 1 {for (i = 1; i <= n; i++) gone[i] = index(drop, " " c[i] " ") > 0}
        {s = ""; for (i = 1; i <= n; i++) if (!gone[i]) s = s c[i] ","; print s}' "$f"
}
column() { # FILE COLUMN...: these columns without the header
    local f=$1; shift
    awk -v take="$*" "$cells"'
        NR == 1 {m = split(take, t, " "); for (i = 1; i <= n; i++) at[c[i]] = i; next}
        {s = c[at[t[1]]]; for (k = 2; k <= m; k++) s = s " " c[at[t[k]]]; print s}' "$f"
}
# Loss of each step as it stayed: of its last attempt.
curve() { column "$1/steps.csv" step loss | awk '{loss[$1] = $2; if ($1 > last) last = $1}
    END {for (k = 0; k <= last; k++) if (k in loss) print k, loss[k]}'; }
final() { curve "$1" | tail -n 1; }
near() { # TOLERANCE FILE FILE: step and loss; relative, the same steps in both
    paste -d ' ' "$2" "$3" | awk -v tol="$1" 'NF != 4 || $1 != $3 {print "steps differ: " $0; bad = 1; exit}
        {e = $2 > $4 ? $2 - $4 : $4 - $2; if (e > tol * $4) {print "step " $1 ": " $2 " and " $4; bad = 1; exit}}
        END {exit bad || NR == 0}'
}
state_of() { grep -ho '"state": "[a-z]*"' "$1/manifest.json"; }

# Every CSV: the header's number of cells in each row, the last row ended. A row that was cut in the
# middle of its write is a comment (core/io/result/table.c): readers skip it.
whole() { # FILE...
    local f ok=0
    for f in "$@"; do
        [ -z "$(tail -c 1 "$f")" ] || [ "$(tail -n 1 "$f" | head -c 1)" = '#' ] || { echo "$f: the last row is cut"; ok=1; }
        awk -F, '/^#/ {next} {gsub(/"[^"]*"/, "q")} FNR == 1 {n = NF} NF != n {print FILENAME ":" FNR ": " NF " cells of " n; bad++}
            bad > 2 {exit} END {exit bad > 0}' "$f" || ok=1
    done
    return $ok
}

# ---- processes ----
# Of a run that was started here, whatever else runs on this machine.
family() { # PID: it and all that it has started
    local p
    echo "$1"
    for p in $(pgrep -P "$1"); do family "$p"; done
}
ranks() { # PID: its luoshu-rank processes, by rank
    local p
    for p in $(family "$1"); do case $(cat "/proc/$p/comm" 2>/dev/null) in luoshu-rank*) echo "$p" ;; esac; done | sort -n
}
rows() { if [ -f "$1" ]; then wc -l <"$1"; else echo 0; fi; }
until_rows() { # FILE ROWS PID: until the file has them; false if the process ends before
    until [ "$(rows "$1")" -ge "$2" ]; do kill -0 "$3" 2>/dev/null || return 1; sleep 0.01; done
}
until_says() { # FILE TEXT PID
    until grep -qs "$2" "$1"; do kill -0 "$3" 2>/dev/null || return 1; sleep 0.01; done
}
# The processes of this list that still run 5 s later: none is wanted.
left_of() { # PID...
    local p some
    for _ in $(seq 100); do
        some=
        for p in "$@"; do [ -d "/proc/$p" ] && ! grep -q '^State:.*[ZX]' "/proc/$p/status" 2>/dev/null && some="$some $p"; done
        [ -n "$some" ] || return 0
        sleep 0.05
    done
    echo "still there:$some"
    return 1
}
# Whatever happens, nothing that was started here stays.
mine=()
cleanup() {
    local p
    for p in "${mine[@]}"; do kill -KILL $(family "$p") 2>/dev/null; done
    rm -rf "$tmp"
}
trap cleanup EXIT
