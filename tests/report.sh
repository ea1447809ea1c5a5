#!/usr/bin/env bash
# The page of `luoshu report`, by its text and in a headless Chromium: it opens from disk, says nothing on the console,
# asks for nothing from elsewhere, sorts its tables, shows a slice that is clicked and what links carry under the pointer, opens
# what is closed for print, and stays under 5 MB.
set -u
L=${LUOSHU:-$PWD/luoshu} S=$PWD/scenarios
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
n=0; bad=0
check() { # WHAT COMMAND..
    n=$((n + 1)); local what=$1; shift
    "$@" >"$tmp/out" 2>&1 || { echo "FAIL $what"; head -n 5 "$tmp/out"; bad=$((bad + 1)); }
}
end() {
    echo "$((100 * (n - bad) / n))%: Checks: $n, Failures: $bad, Errors: 0"
    [ $bad = 0 ]; exit
}
cd "$tmp"
# Texts of a scenario are data: a label that would be an element, an id that would be a script.
sed -e 's/^name: .*/name: page/' "$S/examples/small.yaml" >small.yaml
cp -r "$S" scenarios 2>/dev/null; cp small.yaml scenarios/examples/page.yaml
check "sim" "$L" sim scenarios/examples/page.yaml --out set --quiet
check "report" "$L" report set --quiet
P=set/report.html
check "size" [ "$(wc -c <$P)" -lt 5000000 ]
check "nothing from elsewhere" eval '! grep -oE "(src|href)=\"(https?:)?//[^\"]*|url\((\"|'"'"')?https?:|@import|fetch\(|XMLHttpRequest" '$P
check "twice the same" eval "cp $P first.html; '$L' report set --quiet && cmp $P first.html"
check "figures are SVG in the page" [ "$(grep -c 'src="data:image/svg+xml;base64,' $P)" -ge 5 ]
check "runs are in the table without a script" eval "sed -n '/<tbody>/,/<.tbody>/p' $P | grep -q '<td class=.word.>restart</td>'"
check "assumptions" grep -q '<h4>Assumed, chosen or a default</h4>' $P
check "a run alone" eval "'$L' report set/restart --quiet && [ -s set/restart/report.html ]"
check "its figures once" eval "! grep -o '<figcaption>[^<]*' set/restart/report.html | sort | uniq -d | grep ."
check "figures of a run of a set once" eval "! grep -o '<figcaption>[^<]*' $P | sort | uniq -d | grep ."
check "several runs" eval "'$L' report set/restart set/static --out two --quiet && [ -s two/plots/throughput.svg ]"
check "what is no run" eval "! '$L' report small.yaml 2>err && grep -q 'holds no run' err && [ ! -e small.yaml.lock ]"
check "a folder that has something" eval "mkdir full && touch full/x && ! '$L' report set/restart set/static --out full 2>err"
# Hostile names: of a folder, and in tables.
cp -r set/restart '<img src=x onerror=alert(1)>'
sed -i '2s/^\([^,]*,[^,]*,[^,]*\),[^,]*/\1,"<\/script><script>document.title=1<\/script>"/' '<img src=x onerror=alert(1)>/events.csv'
check "hostile names" eval "'$L' report '<img src=x onerror=alert(1)>' set/static --out evil --quiet && ! grep -q '<img src=x' evil/report.html && ! grep -q 'document.title=1' evil/report.html"
# A sweep, --least and a replay: what their files say, first.
sweep() { "$L" sweep scenarios/examples/small.yaml --policies static --quiet "$@"; }
check "sweep" eval "sweep --grid 'events[0].slowdown=1.5,3' --grid model.layers=4,8 --seeds 1-2 --out swept >said"
check "least" eval "sweep --least 'step_s>=0.008' --over model.layers=1:16 --out least >least.said"
check "replay" eval "'$L' replay '$S/examples/recorded.csv' --out replayed --quiet >replay.said"
text() { sed 's/&gt;/>/g; s/&lt;/</g; s/&#39;/'"'"'/g; s/&amp;/\&/g' "$1"; } # what a reader of the page sees of `<` and the like
answers() { # FOLDER SAID N: the page has the first N lines that the command printed, in order, and the question above
    "$L" report "$1" --quiet || return
    text "$1/report.html" | sed -n 's/^<p[^>]*>\(.*\)<\/p>$/\1/p' | sed -n "2,$(($3 + 1))p" | cmp - <(head -n "$3" "$2") || return
    text "$1/report.html" | grep -q '^<p class="question">.*?</p>' || return
    [ "$(wc -c <"$1/report.html")" -lt 5000000 ] || return
    cp "$1/report.html" once.html && "$L" report "$1" --quiet && cmp "$1/report.html" once.html
}
check "sweep: question and answer" answers swept said 3
check "least: question and answer" answers least least.said 4
check "replay: question and answer" answers replayed replay.said 1
rows() { sed -n "/<section id=\"$2\"/,/<.section>/p" "$1/report.html" | grep -c '^<tr'; }
check "a row a cell" [ "$(rows swept cells)" = 4 ]
check "a row a cell of least" [ "$(rows least cells)" = 6 ]
check "the best cell stands out" eval "grep '<tr class=\"best\"' swept/report.html | grep -q '>1.5</td><td>4</td>.*static'"
check "no cell of least stands out" eval "! grep -q '<tr class=\"best\"' least/report.html"
check "goodput as in sweep.csv" eval "[ \"\$(sed -n '/<tbody>/,/<.tbody>/p' least/report.html | sed -n 's/^<tr><td>8<.td><td class=.word.>static<.td><td>\([0-9]*\)<.*/\1/p')\" = \"\$(awk -F, '\$1 == 7 {printf \"%.0f\", \$11}' least/sweep.csv)\" ]"
check "a row a cause" [ "$(rows replayed attribution)" = "$(($(wc -l <replayed/attribution.csv) - 1))" ]
check "the slowest rank first" eval "sed -n '/Ranks/,/<.tbody>/p' replayed/report.html | grep -m 1 '^<tr>' | grep -q '^<tr><td>0</td><td>1</td><td>1.1627'"
figures() { grep -o '<figcaption>[^<]*' "$1/report.html" | cut -d'>' -f2 | tr '\n' ' '; }
check "figures" [ "$(figures swept)$(figures least)$(figures replayed)" = "sweep-1 sweep-2 sweep-1 gantt slowdown " ]
check "figures are drawn where there were none" eval "rm -r swept/plots/*.svg replayed/plots/*.svg && '$L' report swept --quiet && '$L' report replayed --quiet && [ -s swept/plots/sweep-2.svg ] && [ -s replayed/plots/slowdown.svg ]"
refused() { # WORDS ARGUMENTS..: exit 2 or 3, in these words, and nothing is written
    local words=$1 rc; shift
    "$L" report "$@" 2>err; rc=$?
    [ $rc = 2 ] || [ $rc = 3 ] || return
    grep -qF "$words" err || { cat err; return 1; }
}
check "a sweep beside a run" refused "the folder of a sweep" swept set --out both
check "two replays" refused "the folder of a replay" replayed replayed --out both
check "nothing of them" [ ! -e both ]
mkdir other half && echo '{"schema": "luoshu.sim/1", "kind": "layer"}' >other/summary.json && cp swept/sweep.json half
check "results of another kind" refused "kind \`layer\`" other
check "a sweep without an answer" refused "sweep-answer.json yet" half
echo '{"schema": "luoshu.sweep-answer/1", "answer": "x", "cases": 3}' >half/sweep-answer.json
check "an answer of another form" refused "is not as luoshu wrote it" half
cp -r replayed old && sed -i '/"answer"/d' old/summary.json
check "a replay without an answer" refused "no \`answer\`" old
cp -r replayed part && rm part/attribution.csv
check "a replay without a table" refused "part/attribution.csv" part
mkdir long && cp -r swept/sweep.json long && awk 'BEGIN {
    print "{\"schema\": \"luoshu.sweep-answer/1\", \"question\": \"?\", \"condition\": null, \"answer\": \"x\", \"more_cases\": 5, \"cases\": ["
    for (value = "v"; length(value) < 4096;) value = value value
    for (i = 0; i < 2000; i++) printf "%s{\"cell\": %d, \"values\": {\"a\": \"%s\", \"b\": 1}, \"policy\": \"p\", \"state\": \"complete\"}", i ? "," : "", i, value
    print "]}" }' >long/sweep-answer.json
check "long values" eval "'$L' report long --plots off --quiet && [ \$(wc -c <long/report.html) -lt 5000000 ] && grep -q \"<p>\$((2005 - \$(rows long cells))) more are in sweep.csv\" long/report.html"
cp -r swept evil-sweep && sed -i 's/"policy": "static"/"policy": "<script>document.title=1<\/script>"/; s/"question": "/&<img src=x onerror=alert(1)>/' evil-sweep/sweep-answer.json
check "hostile words of a sweep" eval "'$L' report evil-sweep --quiet && grep -q 'lt;script&gt;document' evil-sweep/report.html && ! grep -q '<img src=x\|<script>document' evil-sweep/report.html"

chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
[ -n "$chromium" ] || { echo "not run in a browser: chromium is not installed (tests/deps.sh page)"; end; }
dom() { # FILE: its elements after eight seconds of the page's own clock; what it said on the console in $tmp/console
    timeout 120 "$chromium" --headless --no-sandbox --disable-gpu --user-data-dir="$tmp/profile" --enable-logging=stderr \
        --window-size=1280,2000 --virtual-time-budget=8000 --dump-dom "file://$tmp/$1" 2>"$tmp/console"
}
dom $P >dom.html
check "ready" grep -q '<html[^>]* data-ready="1"' dom.html
check "charts" [ "$(grep -c 'class="u-wrap"\|u-wrap' dom.html)" -ge 1 ]
check "console" eval "! grep -E 'CONSOLE' '$tmp/console'"
# Clicks, by a script at the end of a copy.
cat >click.html <<'END'
<script>
const wait = setInterval(() => {
  if (document.documentElement.dataset.ready !== "1") return;
  clearInterval(wait);
  const heads = document.querySelectorAll("table.sorts th");
  heads[7].click();
  const order = [...document.querySelectorAll("table.sorts tbody tr")].map(r => parseFloat(r.cells[7].textContent));
  document.documentElement.dataset.sorted = order.every((v, i) => i === 0 || order[i - 1] <= v) ? "1" : "0";
  const canvas = document.getElementById("canvas"), box = canvas.getBoundingClientRect();
  canvas.setPointerCapture = () => {};
  const at = (type, x, y) => canvas.dispatchEvent(new PointerEvent(type, {clientX: box.left + x, clientY: box.top + y, pointerId: 1, bubbles: true}));
  for (let x = 130; x < 600; x += 7) { at("pointerdown", x, 30); at("pointerup", x, 30); }
  canvas.dispatchEvent(new WheelEvent("wheel", {deltaY: -400, clientX: box.left + 300, clientY: box.top + 30, cancelable: true}));
  const over = document.querySelector("#traffic-over-run .u-over"), frame = over.getBoundingClientRect();
  over.dispatchEvent(new MouseEvent("mousemove", {clientX: frame.left + frame.width / 2, clientY: frame.top + 20, bubbles: true}));
  setTimeout(() => {
    document.documentElement.dataset.links = [...document.querySelectorAll("#traffic-over-run .u-value")].map(v => v.textContent).join("; ");
    window.dispatchEvent(new Event("beforeprint"));
    const closed = () => document.querySelectorAll("#assumptions details:not([open]), #origin details:not([open])").length;
    const onPaper = closed();
    window.dispatchEvent(new Event("afterprint"));
    document.documentElement.dataset.closed = `${onPaper} of ${closed()}`;
  }, 200);
  document.documentElement.dataset.clicked = "1";
}, 50);
</script>
END
sed "/<\/body>/e cat click.html" $P >clicked.html
dom clicked.html >dom.html
check "clicked" grep -q 'data-clicked="1"' dom.html
check "sorted by goodput" grep -q 'data-sorted="1"' dom.html
check "a slice says what it is" grep -qE 'id="slice"[^>]*>[^<]* on (compute|tp|pp|dp), device [0-9]+ \(pipeline' dom.html
check "links under the pointer" grep -qE 'data-links="[0-9.]+ (s|ms|us) to [0-9.]+ (s|ms|us); [0-9.e-]+ %, [0-9.]+ [GMk]B/s' dom.html
check "nothing is closed on paper" grep -q 'data-closed="0 of 4"' dom.html
check "console after clicks" eval "! grep -E 'CONSOLE' '$tmp/console'"
# Pages without runs: each column of each table sorts both ways, as numbers or as words.
cat >sort.html <<'END'
<script>
const wait = setInterval(() => {
  if (document.documentElement.dataset.ready !== "1") return;
  clearInterval(wait);
  let n = 0, bad = 0;
  for (const table of document.querySelectorAll("table.sorts"))
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const cells = () => [...table.tBodies[0].rows].map(r => r.cells[column].textContent);
      const value = t => t === "-" ? -Infinity : parseFloat(t);
      const rising = at => at.every((t, i) => i === 0 || (head.classList.contains("word") ? at[i - 1].localeCompare(t) <= 0 : value(at[i - 1]) <= value(t)));
      head.click();
      if (!rising(cells())) bad++;
      head.click();
      if (!rising(cells().reverse())) bad++;
      n++;
    });
  document.documentElement.dataset.sorted = `${bad} of ${n}`;
}, 50);
</script>
END
for one in "swept 14" "least 11" "replayed 20"; do
    set -- $one
    sed "/<\/body>/e cat sort.html" "$1/report.html" >"$1.html"
    dom "$1.html" >dom.html
    check "$1: ready, $2 columns sort" grep -q "<html[^>]* data-ready=\"1\"[^>]* data-sorted=\"0 of $2\"" dom.html
    check "$1: console" eval "! grep -E 'CONSOLE' '$tmp/console'"
done
dom evil/report.html >dom.html
check "hostile names run nothing" eval "grep -q 'data-ready=\"1\"' dom.html && ! grep -q '<title>1</title>' dom.html"
end
