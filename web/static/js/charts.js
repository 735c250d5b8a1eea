// The two charts over time: memory by tier as stacked areas with the saving as a line, and host pressure.
// uPlot is a global of its own script; colours come from the stylesheet so that both themes stay in one place.

import { $, el, text } from "./dom.js";
import { bytes, clock, duration, percent, unitFor } from "./format.js";

const tone = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// Steps of a byte axis: powers of two, so that labels are round in MiB and GiB.
const byteSteps = Array.from({ length: 50 }, (_, i) => 2 ** i);

const memory = {
  id: "memory",
  title: "Memory by tier",
  show: bytes,
  // Drawn from the top of the stack down; `value` is what the legend says, `y` where the edge lies.
  series: [
    { key: "disk", label: "Disk", fill: true, value: (p) => p.disk_bytes, y: (p) => p.resident_bytes + p.pool_bytes + p.disk_bytes },
    { key: "pool", label: "Compressed pool", fill: true, value: (p) => p.pool_bytes, y: (p) => p.resident_bytes + p.pool_bytes },
    { key: "resident", label: "Resident", fill: true, value: (p) => p.resident_bytes, y: (p) => p.resident_bytes },
    { key: "saving", label: "Net saving", value: (p) => p.saving_net_bytes, y: (p) => p.saving_net_bytes },
  ],
  legend: ["resident", "pool", "disk", "saving"],
  range: (max) => [0, Math.max(max * 1.06, 1 << 20)],
  steps: byteSteps,
  ticks: (splits) => {
    const { size, name } = unitFor(Math.max(...splits));
    return splits.map((v) => (v === 0 ? "0" : `${+(v / size).toFixed(2)} ${name}`));
  },
};

const pressure = {
  id: "pressure",
  title: "Host pressure",
  show: percent,
  series: [
    { key: "io", label: "IO some", value: (p) => p.io_some, y: (p) => p.io_some },
    { key: "mem", label: "Memory some", value: (p) => p.mem_some, y: (p) => p.mem_some },
  ],
  legend: ["mem", "io"],
  range: (max) => [0, Math.max(max * 1.15, 0.01)],
  steps: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1],
  ticks: (splits) => splits.map((v) => `${+(100 * v).toFixed(1)} %`),
};

class Chart {
  constructor(spec) {
    this.spec = spec;
    this.box = $(`chart-${spec.id}`);
    this.points = [];
    this.values = {};
    const list = $(`legend-${spec.id}`);
    for (const key of spec.legend) {
      const s = spec.series.find((x) => x.key === key);
      const v = el("b", {}, "–");
      this.values[key] = v;
      list.append(el("li", {}, el("i", { class: "swatch", "data-tone": key, "data-line": !s.fill }), `${s.label} `, v));
    }
    this.at = el("li", { class: "at" });
    list.append(this.at);
    new ResizeObserver(() => this.#resize()).observe(this.box);
    this.box.addEventListener("keydown", (e) => this.#key(e));
    this.box.addEventListener("blur", () => this.plot?.setCursor({ left: -10, top: -10 }));
  }

  #size() {
    return { width: Math.max(this.box.clientWidth, 120), height: Math.max(this.box.clientHeight, 120) };
  }

  #resize() {
    const s = this.#size();
    if (this.plot && (this.plot.width !== s.width || this.plot.height !== s.height)) this.plot.setSize(s);
  }

  /** Makes the plot anew, in the colours of the present theme. */
  restyle() {
    this.plot?.destroy();
    this.plot = null;
    this.draw(this.points, this.gap);
  }

  #make(data) {
    const { spec } = this;
    const axis = {
      stroke: tone("muted"),
      font: `11px ${tone("font")}`,
      grid: { stroke: tone("grid"), width: 1 },
      ticks: { show: false },
    };
    const opts = {
      ...this.#size(),
      padding: [8, 12, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: "time" }, drag: { x: false, y: false }, points: { size: 6 }, y: false },
      scales: { x: { time: true }, y: { range: (_u, _min, max) => spec.range(max || 0) } },
      axes: [
        { ...axis, space: 72, size: 26, values: (_u, splits) => this.#times(splits) },
        { ...axis, size: 62, space: 34, gap: 6, incrs: spec.steps, values: (_u, splits) => spec.ticks(splits) },
      ],
      series: [{}].concat(spec.series.map((s) => ({
        label: s.label,
        stroke: tone(s.key),
        width: s.fill ? 1 : 1.75,
        fill: s.fill ? tone(`${s.key}-fill`) : undefined,
        points: { show: false },
      }))),
      hooks: { setCursor: [(u) => this.#read(u.cursor.idx)] },
    };
    // Each area is filled down to the one below it, so that fills do not mix.
    const areas = spec.series.filter((s) => s.fill).length;
    opts.bands = Array.from({ length: Math.max(areas - 1, 0) }, (_, i) => ({ series: [i + 1, i + 2] }));
    this.plot = new uPlot(opts, data, this.box);
    this.plot.root.setAttribute("aria-hidden", "true");
  }

  #times(splits) {
    const close = splits.length > 1 && splits[1] - splits[0] < 60;
    return splits.map((t) => clock(t * 1000, close));
  }

  draw(points, gap) {
    this.points = points;
    this.gap = gap;
    if (!window.uPlot || points.length === 0) return;
    const rows = [];
    let before = NaN;
    for (const p of points) {
      const t = Date.parse(p.time) / 1000;
      if (t - before > gap) rows.push({ t: before + gap / 2, p: null }); // nothing was known in between
      rows.push({ t, p });
      before = t;
    }
    this.rows = rows;
    const data = [rows.map((r) => r.t)].concat(this.spec.series.map((s) => rows.map((r) => (r.p ? s.y(r.p) : null))));
    if (this.plot) this.plot.setData(data);
    else this.#make(data);
    this.#read(this.plot.cursor.idx);
    this.#describe();
  }

  /** Shows one sample in the legend, the newest without a cursor. */
  #read(idx) {
    const r = Number.isInteger(idx) ? this.rows?.[idx] : null;
    const p = r?.p ?? this.points.at(-1);
    if (!p) return;
    for (const s of this.spec.series) text(this.values[s.key], this.spec.show(s.value(p)));
    text(this.at, r?.p ? clock(p.time) : "");
  }

  #describe() {
    const first = Date.parse(this.points[0].time);
    const last = this.points.at(-1);
    const says = this.spec.legend.map((k) => {
      const s = this.spec.series.find((x) => x.key === k);
      return `${s.label} ${this.spec.show(s.value(this.points[0]))} to ${this.spec.show(s.value(last))}`;
    });
    const span = duration((Date.parse(last.time) - first) / 1000);
    this.box.setAttribute("aria-label", `${this.spec.title} over the last ${span}: ${says.join(", ")}.`);
  }

  #key(e) {
    if (!this.plot || !["ArrowLeft", "ArrowRight", "Home", "End"].includes(e.key)) return;
    e.preventDefault();
    const last = this.rows.length - 1;
    const from = this.plot.cursor.idx ?? last;
    let i = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last }[e.key];
    i = Math.min(Math.max(i, 0), last);
    this.plot.setCursor({ left: this.plot.valToPos(this.rows[i].t, "x"), top: 1 });
    const p = this.rows[i].p;
    if (!p) return;
    const says = this.spec.series.map((s) => `${s.label} ${this.spec.show(s.value(p))}`);
    $("announce").textContent = `${clock(p.time)}: ${says.join(", ")}`;
  }
}

export class Charts {
  constructor() {
    this.all = [new Chart(memory), new Chart(pressure)];
    this.span = 3600;
    this.history = [];
    for (const b of $("ranges").children) {
      b.addEventListener("click", () => {
        this.span = Number(b.dataset.range);
        for (const o of $("ranges").children) o.setAttribute("aria-pressed", o === b);
        this.#draw();
      });
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.restyle());
  }

  update(history, period) {
    this.history = history;
    this.gap = Math.max(3 * (period || 1), 5);
    this.#draw();
  }

  #draw() {
    let points = this.history;
    if (this.span && points.length) {
      const from = Date.parse(points.at(-1).time) - this.span * 1000;
      points = points.filter((p) => Date.parse(p.time) >= from);
    }
    for (const c of this.all) c.draw(points, this.gap);
  }

  restyle() {
    for (const c of this.all) c.restyle();
  }
}
