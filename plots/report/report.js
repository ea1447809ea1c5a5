// report.js: what moves in the page of `luoshu report`. Data are in #data: gzip, base64, JSON of
// core/io/report/report_data.c. Nothing is fetched.
(() => {
"use strict";
const root = document.documentElement;
root.dataset.script = "1";
const $ = id => document.getElementById(id);
const css = name => getComputedStyle(root).getPropertyValue(name).trim();
// Okabe and Ito: told apart by colour-blind readers.
const palette = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"];
const bright = ["#56B4E9", "#E69F00", "#2fd0a0", "#e5a3ca", "#F0E442", "#6aa9ff", "#ffffff", "#b5b5b5"];
const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [1, 4], [12, 4], [3, 6]];
const dark = matchMedia("(prefers-color-scheme: dark)");
const colour = i => (dark.matches && !matchMedia("print").matches ? bright : palette)[i % 8];

// ---- the table ----
const numberOf = text => {
  const v = parseFloat(text);
  return Number.isNaN(v) ? -Infinity : v;
};
const sortBy = (head, column) => {
  const body = head.closest("table").tBodies[0];
  const down = head.getAttribute("aria-sort") === "ascending";
  const words = head.classList.contains("word");
  const rows = [...body.rows].sort((a, b) => {
    const x = a.cells[column].textContent, y = b.cells[column].textContent;
    const order = words ? x.localeCompare(y) : numberOf(x) - numberOf(y);
    return down ? -order : order;
  });
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...rows);
};
for (const table of document.querySelectorAll("table.sorts"))
  [...table.tHead.rows[0].cells].forEach((head, i) => head.addEventListener("click", () => sortBy(head, i)));

// ---- charts ----
const repaint = []; // what draws again in the colours and at the width that hold now
const seconds = s => s === 0 ? "0" : s >= 7200 ? (s / 3600).toPrecision(4) + " h" : s >= 1 ? +s.toPrecision(5) + " s"
  : s >= 1e-3 ? +(s * 1e3).toPrecision(5) + " ms" : +(s * 1e6).toPrecision(5) + " us";
const short = v => v >= 1e9 ? +(v / 1e9).toPrecision(3) + "G" : v >= 1e6 ? +(v / 1e6).toPrecision(3) + "M"
  : v >= 1e4 ? +(v / 1e3).toPrecision(3) + "k" : String(+v.toPrecision(3));
const axis = label => ({label, stroke: css("--ink"), grid: {stroke: css("--line"), width: 0.5},
                        ticks: {stroke: css("--line")}, labelFont: "13px sans-serif", font: "12px sans-serif"});
const charts = new Map(); // by place: a chart that is drawn again takes the place of the one before
const chart = (place, xs, series, unit, x, more) => {
  if (charts.has(place)) charts.get(place).destroy();
  charts.set(place, new uPlot({
    width: place.clientWidth || 1100, height: 300,
    scales: {x: {time: false}, y: {range: (u, lo, hi) => [0, hi > 0 ? hi * 1.08 : 1]}},
    axes: [axis(x.label),
           {...axis(unit), size: 70, values: (u, v) => v.map(short)}],
    ...more,
    cursor: {focus: {prox: 30}, ...more.cursor},
    series: [{label: "at", value: (u, v) => v == null ? "-" : seconds(v * x.unit), ...more.at},
             ...series.map((s, i) => ({label: s.name, stroke: colour(i), dash: dashes[i % 8], width: widthOf(i, series.length),
                                       points: {show: false}, value: (u, v) => v == null ? "-" : short(v), ...s.more}))],
  }, [xs.map(t => t / x.unit), ...series.map(s => s.at)], place));
};
// Lines that lie upon each other: the first is the widest and shows beside those above it.
const widthOf = (i, n) => 1.5 + 0.6 * Math.max(0, Math.min(n, 6) - 1 - i);
const runTime = end => end > 7200 ? {label: "run time, h", unit: 3600} : {label: "run time, s", unit: 1};
const drawEvents = (u, events, unit) => {
  const {ctx, bbox} = u;
  ctx.save();
  ctx.strokeStyle = css("--quiet");
  ctx.setLineDash([3, 3]);
  for (const [t] of events) {
    const at = u.valToPos(t / unit, "x", true);
    if (at < bbox.left || at > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
};

const drawRate = data => {
  const points = Math.max(...data.runs.map(r => r.rate.length), 1);
  const xs = Array.from({length: points}, (_, i) => (i + 0.5) * data.width_s);
  const series = data.runs.map(r => ({name: r.name, at: xs.map((_, i) => r.rate[i] ?? null)}));
  const end = points * data.width_s;
  const x = runTime(end);
  let near = -1; // the run whose line the pointer is nearest to
  const marks = u =>
    drawEvents(u, near >= 0 ? data.runs[near].events : data.runs.length === 1 ? data.runs[0].events : [], x.unit);
  const say = u => {
    const t = u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") * x.unit : null;
    const run = data.runs[near >= 0 ? near : 0];
    let best = null;
    if (t != null && run)
      for (const e of run.events) if (!best || Math.abs(e[0] - t) < Math.abs(best[0] - t)) best = e;
    $("event").textContent = best ? `${run.name}, at ${seconds(best[0])}: ${best[1]}` : "\u00a0";
  };
  chart($("rate"), xs, series, "tokens/s", x, {
    hooks: {draw: [marks], setCursor: [say],
            setSeries: [(u, i) => { near = i == null ? -1 : i - 1; u.redraw(false); }]},
    focus: {alpha: 0.35},
  });
};

// ---- links ----
const classWords = {nvlink: "NVLink", pcie: "PCIe", socket: "between sockets", nic: "network cards",
                    uplink: "uplinks of switches", line: "lines between sites", storage: "storage"};
const LINK_WIDE = 4; // numbers of a window: begin, end, bytes, share of what the link could carry
const share = (link, k) => link.windows[LINK_WIDE * k + 3];
const rate = (link, k) => link.windows[LINK_WIDE * k + 2] / (link.windows[LINK_WIDE * k + 1] - link.windows[LINK_WIDE * k]);
const countOf = link => link.windows.length / LINK_WIDE;
const busiest = link => Math.max(0, ...Array.from({length: countOf(link)}, (_, k) => share(link, k) ?? 0));
const sayRate = v => v >= 1e9 ? short(v / 1e9) + " GB/s" : v >= 1e6 ? short(v / 1e6) + " MB/s" : short(v / 1e3) + " kB/s";

// Steps of a line: the value of a window from its begin to its end. The pointer says the window it is in.
const drawLinks = runs => {
  const run = runs[+$("links-run").value];
  const links = run.links.filter(l => l.class === $("links-class").value);
  const first = links[0].windows, n = countOf(links[0]);
  const xs = Array.from({length: n + 1}, (_, k) => k < n ? first[LINK_WIDE * k] : first[LINK_WIDE * n - 3]);
  const known = links.every(l => Array.from({length: n}, (_, k) => share(l, k)).every(v => v != null));
  const valueOf = (l, k) => known ? 100 * share(l, k) : rate(l, k) / 1e9;
  const windowAt = at => Math.max(0, xs.slice(0, n).findLastIndex(t => t <= at * x.unit));
  const words = (l, k) => k == null || k >= n ? "-"
    : (known ? +valueOf(l, k).toPrecision(3) + " %, " : "") + sayRate(rate(l, k));
  const x = runTime(xs[n]);
  chart($("traffic-over-run"), xs, links.map(l => ({
    name: l.link, at: xs.map((_, k) => valueOf(l, Math.min(k, n - 1))),
    more: {paths: uPlot.paths.stepped({align: 1}), value: (u, v, s, k) => words(l, k)},
  })), known ? "% of what the link could carry" : "GB/s", x, {
    at: {value: (u, v, s, k) => k == null || k >= n ? "-" : `${seconds(xs[k])} to ${seconds(xs[k + 1])}`},
    cursor: {dataIdx: (u, s, k, at) => windowAt(at)},
    hooks: {draw: [u => drawEvents(u, run.events, x.unit)]}, focus: {alpha: 0.35},
  });
};
// The class that was fullest at some time stands first.
const chooseLinks = runs => {
  const run = runs[+$("links-run").value];
  const classes = [...new Set(run.links.map(l => l.class))];
  const most = c => Math.max(...run.links.filter(l => l.class === c).map(busiest));
  classes.sort((a, b) => most(b) - most(a));
  $("links-class").replaceChildren(...classes.map(c => new Option(classWords[c] ?? c, c)));
  drawLinks(runs);
};
const startLinks = data => {
  const runs = data.runs.filter(r => r.links.length > 0);
  if (runs.length === 0) { $("links").remove(); return; }
  $("links-run").replaceChildren(...runs.map((r, i) => new Option(r.name, i)));
  $("links-run").addEventListener("change", () => chooseLinks(runs));
  $("links-class").addEventListener("change", () => drawLinks(runs));
  chooseLinks(runs);
  repaint.push(() => drawLinks(runs));
};

// ---- the timeline ----
const WIDE = 9; // numbers of a slice
const look = { // by kind and phase
  F: ["forward", "#0072B2"], B: ["backward", "#E69F00"], R: ["recompute", "#56B4E9"],
  tp: ["tp", "#009E73"], pp: ["pp", "#CC79A7"], dp: ["dp", "#F0E442"], move: ["move", "#D55E00"],
  io: ["io", "#8a6d3b"], other: ["other", "#999999"],
};
const timeline = {run: null, step: null, from: 0, to: 1, top: 0, rows: []};
const HEAD = 22, LABEL = 118;

const lookOf = (tl, s, i) => {
  const stream = tl.streams[s[i + 1]], phase = tl.phases[s[i + 4]];
  if (stream !== "compute") return look[stream] ? stream : "other";
  if (phase === "recompute") return "R";
  return phase === "F" ? "F" : phase[0] === "B" ? "B" : "other";
};

// Slices of a step by row, ordered by their begin; rows by pipeline, stage and device.
const arrange = (tl, step) => {
  if (step.by) return step.by;
  const order = tl.rows.map((r, i) => i).sort((a, b) => {
    const x = tl.rows[a], y = tl.rows[b];
    return x[1] - y[1] || x[2] - y[2] || x[0] - y[0];
  });
  const place = [];
  order.forEach((r, i) => place[r] = i);
  const by = order.map(r => ({row: tl.rows[r], main: [], comm: []}));
  let end = 0;
  for (let i = 0; i < step.slices.length; i += WIDE) {
    const lane = tl.streams[step.slices[i + 1]] === "compute" ? "main" : "comm";
    by[place[step.slices[i]]][lane].push(i);
    end = Math.max(end, step.slices[i + 6] + step.slices[i + 7]);
  }
  const starts = (a, b) => step.slices[a + 6] - step.slices[b + 6];
  const filled = by.filter(r => r.main.length + r.comm.length > 0);
  for (const r of filled) { r.main.sort(starts); r.comm.sort(starts); }
  step.end = end || 1;
  return step.by = filled;
};

const canvas = $("canvas");
let rowHeight = 18, height = 0, ratio = 1;

const resize = () => {
  const rows = timeline.rows.length;
  ratio = window.devicePixelRatio || 1;
  rowHeight = rows > 64 ? 9 : rows > 24 ? 13 : 20;
  height = HEAD + rows * rowHeight + 4;
  canvas.style.height = height + "px";
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
  canvas.height = Math.round(height * ratio);
};

const xOf = t => LABEL + (t - timeline.from) / (timeline.to - timeline.from) * (canvas.clientWidth - LABEL);
const tOf = x => timeline.from + (x - LABEL) / (canvas.clientWidth - LABEL) * (timeline.to - timeline.from);

// Of slices that would share a pixel the longest is drawn.
const drawLane = (ctx, list, slices, tl, y, h) => {
  let last = -1;
  for (const i of list) {
    const t0 = slices[i + 6], t1 = t0 + slices[i + 7];
    if (t1 < timeline.from) continue;
    if (t0 > timeline.to) break;
    const x0 = Math.max(LABEL, xOf(t0)), x1 = Math.max(x0 + 0.6, xOf(t1));
    if (x1 < last + 0.6) continue;
    ctx.fillStyle = look[lookOf(tl, slices, i)][1];
    ctx.fillRect(x0, y, x1 - x0 - (x1 - x0 > 3 ? 0.5 : 0), h);
    last = x1;
  }
};

const ticks = ctx => {
  const span = timeline.to - timeline.from, raw = span / 8;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const by = [1, 2, 5, 10].map(k => k * unit).find(k => k >= raw);
  ctx.fillStyle = css("--quiet");
  ctx.strokeStyle = css("--line");
  for (let t = Math.ceil(timeline.from / by) * by; t <= timeline.to; t += by) {
    const x = xOf(t);
    ctx.fillText(seconds(t / 1e9), x + 3, 14);
    ctx.beginPath();
    ctx.moveTo(x, 0);
    ctx.lineTo(x, height);
    ctx.stroke();
  }
};

const eventsHere = () => {
  const begin = timeline.step.begin_s, end = begin + timeline.step.end / 1e9;
  return timeline.run.events.filter(e => e[0] >= begin && e[0] <= end);
};

const drawTimeline = () => {
  const {run, step, rows} = timeline;
  if (!run) return;
  const ctx = canvas.getContext("2d"), tl = run.timeline;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, canvas.clientWidth, height);
  ctx.font = `${Math.min(11, rowHeight)}px sans-serif`;
  ticks(ctx);
  let group = "";
  rows.forEach((r, k) => {
    const y = HEAD + k * rowHeight, comm = Math.max(3, Math.round(rowHeight * 0.35));
    drawLane(ctx, r.main, step.slices, tl, y + 1, rowHeight - comm - 2);
    drawLane(ctx, r.comm, step.slices, tl, y + rowHeight - comm - 1, comm);
    const name = r.row[1] < 0 ? "no stage" : `p${r.row[1]} s${r.row[2]}`;
    ctx.fillStyle = css("--ink");
    if (name !== group) ctx.fillText(name, 4, y + rowHeight - 3);
    if (name !== group) { ctx.fillStyle = css("--line"); ctx.fillRect(0, y, canvas.clientWidth, 1); }
    group = name;
    ctx.fillStyle = css("--quiet");
    ctx.fillText("dev " + r.row[0], 62, y + rowHeight - 3);
  });
  ctx.fillStyle = css("--ink");
  for (const [t, text] of eventsHere()) {
    const x = xOf((t - step.begin_s) * 1e9);
    if (x < LABEL) continue;
    ctx.fillRect(x, 0, 1.5, height);
    ctx.fillText(text.split(":")[0], x + 4, HEAD - 2);
  }
};

const sliceAt = (x, y) => {
  const r = timeline.rows[Math.floor((y - HEAD) / rowHeight)];
  if (!r || x < LABEL) return -1;
  const comm = Math.max(3, Math.round(rowHeight * 0.35)), slices = timeline.step.slices;
  const low = (y - HEAD) % rowHeight >= rowHeight - comm - 1;
  const t = tOf(x), reach = (timeline.to - timeline.from) / (canvas.clientWidth - LABEL);
  for (const list of low ? [r.comm, r.main] : [r.main, r.comm])
    for (const i of list)
      if (slices[i + 6] - reach <= t && t <= slices[i + 6] + slices[i + 7] + reach) return i;
  return -1;
};

const saySlice = i => {
  const tl = timeline.run.timeline, s = timeline.step.slices;
  if (i < 0) return;
  const [device, pipeline, stage] = tl.rows[s[i]];
  const place = pipeline < 0 ? "outside of pipelines" : `pipeline ${pipeline}, stage ${stage}`;
  const micro = s[i + 5] < 0 ? "" : `, micro-batch ${s[i + 5]}`;
  const bytes = s[i + 8] > 0 ? `, ${s[i + 8].toLocaleString("en")} bytes` : "";
  $("slice").textContent = `${tl.ops[s[i + 2]]}: ${tl.kinds[s[i + 3]]} on ${tl.streams[s[i + 1]]}, ` +
    `device ${device} (${place}), phase ${tl.phases[s[i + 4]]}${micro}${bytes}; ` +
    `from ${seconds(s[i + 6] / 1e9)} for ${seconds(s[i + 7] / 1e9)}`;
};

const keepInside = () => {
  const span = Math.min(timeline.to - timeline.from, timeline.step.end);
  timeline.from = Math.max(0, Math.min(timeline.from, timeline.step.end - span));
  timeline.to = timeline.from + span;
  requestAnimationFrame(drawTimeline);
};

// ---- traffic of the step ----
const drawTraffic = () => {
  const {run, step} = timeline, tl = run.timeline, N = 400, width = step.end / N;
  const streams = tl.streams.filter(s => s !== "compute");
  const sums = streams.map(() => new Float64Array(N));
  const s = step.slices;
  for (let i = 0; i < s.length; i += WIDE) {
    const k = streams.indexOf(tl.streams[s[i + 1]]);
    if (k < 0 || !(s[i + 8] > 0) || !(s[i + 7] > 0)) continue;
    const rate = s[i + 8] / s[i + 7]; // bytes a nanosecond: GB/s
    for (let b = Math.floor(s[i + 6] / width); b < N && b * width < s[i + 6] + s[i + 7]; b++) {
      const lo = Math.max(s[i + 6], b * width), hi = Math.min(s[i + 6] + s[i + 7], (b + 1) * width);
      sums[k][b] += rate * (hi - lo) / width;
    }
  }
  const xs = Array.from({length: N}, (_, b) => (b + 0.5) * width / 1e9);
  const shown = streams.map((name, k) => ({name, at: [...sums[k]]})).filter(x => x.at.some(v => v > 0));
  $("no-traffic").hidden = shown.length > 0;
  $("traffic").hidden = shown.length === 0;
  if (shown.length === 0) return;
  chart($("traffic"), xs, shown, "GB/s", {label: "time of the step, ms", unit: 1e-3}, {});
};

const showStep = () => {
  const tl = timeline.run.timeline;
  timeline.step = tl.steps[+$("step").value];
  timeline.rows = arrange(tl, timeline.step);
  timeline.from = 0;
  timeline.to = timeline.step.end;
  resize();
  drawTimeline();
  drawTraffic();
};

const showRun = runs => {
  timeline.run = runs[+$("run").value];
  $("step").replaceChildren(...timeline.run.timeline.steps.map((s, i) =>
    new Option(`${s.step}${s.attempt ? ", attempt " + s.attempt : ""}, at ${seconds(s.begin_s)}`, i)));
  showStep();
};

const startTimeline = data => {
  const runs = data.runs.filter(r => r.timeline && r.timeline.steps.length > 0);
  if (runs.length === 0) { $("timeline").remove(); return; }
  $("run").replaceChildren(...runs.map((r, i) => new Option(r.name + (r.timeline.cut ? " (in part)" : ""), i)));
  $("legend").replaceChildren(...Object.values(look).map(([name, fill]) => {
    const item = document.createElement("span"), box = document.createElement("i");
    box.style.background = fill;
    item.append(box, name);
    return item;
  }));
  $("run").addEventListener("change", () => showRun(runs));
  $("step").addEventListener("change", showStep);
  $("all").addEventListener("click", () => { timeline.from = 0; timeline.to = timeline.step.end; keepInside(); });
  canvas.addEventListener("wheel", e => {
    e.preventDefault();
    const t = tOf(Math.max(LABEL, e.offsetX)), f = Math.exp(e.deltaY * 0.0015);
    timeline.from = t - (t - timeline.from) * f;
    timeline.to = Math.max(timeline.from + 10, t + (timeline.to - t) * f);
    keepInside();
  }, {passive: false});
  let held = null;
  canvas.addEventListener("pointerdown", e => { held = {x: e.offsetX, from: timeline.from, moved: false}; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener("pointermove", e => {
    if (!held) return;
    const span = timeline.to - timeline.from, dx = e.offsetX - held.x;
    held.moved = held.moved || Math.abs(dx) > 3;
    timeline.from = held.from - dx / (canvas.clientWidth - LABEL) * span;
    timeline.to = timeline.from + span;
    keepInside();
  });
  canvas.addEventListener("pointerup", e => { if (held && !held.moved) saySlice(sliceAt(e.offsetX, e.offsetY)); held = null; });
  showRun(runs);
  repaint.push(() => { resize(); drawTimeline(); drawTraffic(); });
};

// ---- begin ----
const unpack = async () => {
  const bytes = Uint8Array.from(atob($("data").textContent.trim()), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
};
const start = data => {
  if (data) {
    if (data.runs.length > 0) { drawRate(data); repaint.push(() => drawRate(data)); } else $("time").remove();
    startLinks(data);
    startTimeline(data);
  }
  const all = () => repaint.forEach(draw => draw());
  for (const query of [dark, matchMedia("print")]) query.addEventListener("change", all);
  window.addEventListener("resize", all);
  // Paper shows what a reader could open.
  const opened = [];
  window.addEventListener("beforeprint", () => {
    for (const closed of document.querySelectorAll("#assumptions details:not([open]), #origin details:not([open])")) {
      closed.open = true;
      opened.push(closed);
    }
  });
  window.addEventListener("afterprint", () => { for (const one of opened.splice(0)) one.open = false; });
  root.dataset.ready = "1";
};
if ($("data")) unpack().then(start); else start(null); // pages without runs are tables and figures
})();
