#!/usr/bin/env bash
# The page of `luoshu report`, by its text and in a headless Chromium: it opens from disk, says nothing on the console,
# asks for nothing from elsewhere, sorts its table, shows a slice that is clicked and what links carry under the pointer, opens
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
check "runs are in the table without a script" eval "sed -n '/<tbody>/,/<.tbody>/p' $P | grep -q '<td>restart</td>'"
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
dom evil/report.html >dom.html
check "hostile names run nothing" eval "grep -q 'data-ready=\"1\"' dom.html && ! grep -q '<title>1</title>' dom.html"
end
