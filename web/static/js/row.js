// One row of the table of cgroups, and the words and colours of a decision.

import { attr, el, text, width } from "./dom.js";
import { bytes, duration, percents, splitPath, visible } from "./format.js";

/** Short name of a tier for a column; the whole one is its tooltip. */
export function tierLabel(name) {
  const v = visible(name);
  return v.startsWith("swap:") ? v.slice(v.lastIndexOf("/") + 1) || v : v;
}

/** What a decision came to, in a word. */
export function verdict(d) {
  if (d.error) return "failed";
  return d.reason;
}

/** Makes the elements of a row, empty. */
export function makeRow(cols) {
  const r = { cells: [], path: "" };
  r.dir = el("span", { class: "dir" });
  r.base = el("span", { class: "base" });
  r.open = el("button", { type: "button", class: "open", tabindex: "-1", "aria-haspopup": "dialog" }, r.dir, r.base);
  r.bar = el("i", { class: "bar-resident" });
  r.bar2 = el("i", { class: "bar-off" });
  r.tr = el("tr", { role: "row" }, ...cols.map((c) => {
    const td = el("td", { role: "cell", class: c.kind === "text" ? "" : "num", "data-label": c.label, "data-col": c.key.split(":")[0] });
    if (c.key === "path") td.append(r.open);
    else if (c.key === "used") {
      const v = el("span");
      td.append(el("span", { class: "split", "aria-hidden": "true" }, r.bar, r.bar2), v);
      r.cells.push(v);
      return td;
    } else if (c.key === "last") {
      r.reason = el("span", { class: "reason" });
      r.size = el("span", { class: "size" });
      td.append(r.reason, r.size);
    }
    r.cells.push(td);
    return td;
  }));
  return r;
}

/** Fills a row with a cgroup; biggest is the scale of the bars. Only what changed is touched. */
export function fillRow(r, c, cols, biggest) {
  cols.forEach((col, i) => {
    const cell = r.cells[i];
    if (col.key === "path") {
      if (r.path === c.path) return;
      r.path = c.path;
      const [dir, base] = splitPath(c.path);
      text(r.dir, dir);
      text(r.base, base);
      attr(r.open, "title", visible(c.path));
    } else if (col.key === "class") {
      text(cell, visible(c.class));
      attr(cell, "title", visible(c.why || ""));
    } else if (col.key === "pressure") {
      text(cell, c.psi ? percents(c.mem_some, c.io_some) : "n/a");
      attr(cell, "title", c.psi ? null : visible(c.psi_why || "unavailable"));
      cell.classList.toggle("quiet", !c.psi);
    } else if (col.key === "last") fillLast(r, c.last_decision);
    else {
      const v = col.value(c);
      text(cell, col.show(v));
      cell.classList.toggle("quiet", v === 0);
      if (col.key === "used") {
        width(r.bar, c.usage_bytes / biggest);
        width(r.bar2, c.offloaded / biggest);
      }
    }
  });
}

const brakes = new Set(["mem-pressure", "io-pressure", "refault-cost", "host-pressure", "swap-full", "write-budget", "promotion-rate", "slo", "no-signal", "incompressible"]);

/** Which colour a decision's reason has: taking, waiting, braking, failing. */
export function reasonTone(d) {
  if (d.error) return "bad";
  if (d.step_bytes > 0) return "go";
  return brakes.has(d.reason) ? "brake" : "wait";
}

function fillLast(r, d) {
  text(r.reason, d ? visible(verdict(d)) : "none yet");
  attr(r.reason, "data-tone", d ? reasonTone(d) : "wait");
  text(r.size, d && d.step_bytes > 0 ? `−${bytes(d.reclaimed_bytes || d.step_bytes)}` : "");
  attr(r.reason.parentElement, "title", d ? `${visible(d.detail)}${d.took ? ` (${duration(d.took)})` : ""}` : null);
}
