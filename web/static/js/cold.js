// How long the memory of one cgroup has lain idle: the cold curve as a drawing with axes, and the same as a table.

import { el, facts, svg } from "./dom.js";
import { bytes, clock, duration, minutes, percent, visible } from "./format.js";

const height = 190;
const pad = { left: 46, right: 66, top: 10, bottom: 40 };

/**
 * The section's content. answer is what `detail` returned, undefined while it is read; now is the daemon's clock in
 * milliseconds, wide the room in pixels.
 */
export function cold(answer, now, wide) {
  if (!answer) return [el("p", { class: "quiet" }, "Reading…")];
  if (!answer.data) return [nothing(answer)];
  const h = answer.data;
  const curve = (h.curve || []).filter((p) => p.idle > 0 && Number.isFinite(p.bytes)).sort((a, b) => a.idle - b.idle);
  const seen = h.seen_bytes || 0;
  if (!curve.length || !(seen > 0)) return [el("p", { class: "quiet" }, `No reading yet from ${visible(h.source || "the source")}: nothing was seen in use.`), source(h)];
  const old = (now - Date.parse(h.time)) / 1000;
  const out = [];
  if (old > Math.max(3 * (h.scan || 0), 300)) out.push(el("p", { class: "notice", "data-kind": "warn" }, `This reading is ${duration(old)} old: the scans have stopped or got slower.`));
  out.push(draw(curve, seen, wide), table(curve, seen));
  out.push(facts([["Seen by the source", bytes(seen)], ["Touched within 2 min", Number.isFinite(h.working_set_bytes) ? `${bytes(h.working_set_bytes)}, ${percent(h.working_set_bytes / seen)}` : null]]));
  out.push(source(h));
  return out;
}

function nothing({ why, hint, kind }) {
  const text = `${visible(why)}${hint ? `. ${visible(hint)}` : ""}`;
  if (kind === "not found") return el("p", { class: "quiet" }, "This daemon does not say it: it is older than access tracking.");
  if (kind === "unknown") return el("p", { class: "quiet" }, el("b", {}, "No reading yet: "), text);
  return el("p", { class: "quiet" }, el("b", {}, "No source: "), text);
}

function source(h) {
  const says = [`Source ${visible(h.source || "unnamed")}`];
  if (h.scan > 0) says.push(`a scan every ${minutes(h.scan)}`);
  if (h.span > 0) says.push(`watched for ${minutes(Math.round(h.span))}`);
  if (h.scan_cpu > 0) says.push(`the last scan of all cgroups took ${duration(h.scan_cpu)} of a core`);
  if (Number.isFinite(Date.parse(h.time))) says.push(`read ${clock(h.time)}`);
  return el("p", { class: "source" }, `${says.join(" · ")}.`);
}

/** The curve over the logarithm of the age: 1 to 60 minutes lie about evenly. */
function draw(curve, seen, wide) {
  const w = Math.max(wide, 260);
  const known = curve.filter((p) => p.known);
  const [lo, hi] = [Math.log(curve[0].idle), Math.log(curve.at(-1).idle)];
  const x = (idle) => pad.left + 14 + ((Math.log(idle) - lo) / (hi - lo || 1)) * (w - pad.left - pad.right - 28);
  const y = (share) => pad.top + (1 - Math.min(Math.max(share, 0), 1)) * (height - pad.top - pad.bottom);
  const base = y(0);
  const g = svg("svg", { class: "cold", width: w, height, viewBox: `0 0 ${w} ${height}`, role: "img", "aria-label": describe(curve, seen) });
  for (const s of [0, 0.25, 0.5, 0.75, 1]) {
    g.append(svg("line", { class: "rule", x1: pad.left, x2: w - pad.right, y1: y(s), y2: y(s) }));
    if (s * 4 % 2) continue;
    g.append(svg("text", { x: pad.left - 7, y: y(s) + 4, "text-anchor": "end" }, `${100 * s} %`),
      svg("text", { x: w - pad.right + 7, y: y(s) + 4 }, s ? bytes(s * seen) : "0"));
  }
  for (const p of curve) {
    g.append(svg("line", { class: "tick", x1: x(p.idle), x2: x(p.idle), y1: base, y2: base + 4 }),
      svg("text", { x: x(p.idle), y: base + 17, "text-anchor": "middle" }, minutes(p.idle)));
  }
  g.append(svg("text", { class: "axis", x: (pad.left + w - pad.right) / 2, y: height - 5, "text-anchor": "middle" }, "not touched for at least"));
  if (known.length) {
    const line = known.map((p, i) => `${i ? "L" : "M"}${x(p.idle).toFixed(1)} ${y(p.bytes / seen).toFixed(1)}`).join("");
    if (known.length > 1) {
      g.append(svg("path", { class: "area", d: `${line}L${x(known.at(-1).idle).toFixed(1)} ${base}L${x(known[0].idle).toFixed(1)} ${base}Z` }),
        svg("path", { class: "line", d: line }));
    }
    for (const p of known) g.append(svg("circle", { cx: x(p.idle), cy: y(p.bytes / seen), r: 3.5 }));
  }
  if (known.length < curve.length) {
    const from = known.length ? (x(known.at(-1).idle) + x(curve[known.length].idle)) / 2 : pad.left;
    const mid = (from + w - pad.right) / 2;
    g.append(svg("rect", { class: "beyond", x: from, y: pad.top, width: Math.max(w - pad.right - from, 0), height: base - pad.top }),
      ...["watched", "for less"].map((s, i) => svg("text", { x: mid, y: pad.top + 18 + 14 * i, "text-anchor": "middle" }, s)));
  }
  return g;
}

function describe(curve, seen) {
  return `Cold curve. ${curve.map((p) => `not touched for ${minutes(p.idle)}: ${p.known ? `${percent(p.bytes / seen)}, ${bytes(p.bytes)}` : "not watched that long"}`).join("; ")}.`;
}

function table(curve, seen) {
  const cells = (say) => curve.map((p) => el("td", {}, p.known ? say(p) : "–"));
  return el("table", { class: "mini" },
    el("caption", { class: "unseen" }, "Memory not touched for at least"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Idle"), ...curve.map((p) => el("th", { scope: "col" }, minutes(p.idle))))),
    el("tbody", {},
      el("tr", {}, el("th", { scope: "row" }, "Share"), ...cells((p) => percent(p.bytes / seen))),
      el("tr", {}, el("th", { scope: "row" }, "Memory"), ...cells((p) => bytes(p.bytes)))));
}
