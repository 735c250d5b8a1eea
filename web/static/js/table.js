// The table of cgroups: sorted, filtered, shown a page at a time. Only the rows of the page are in the document,
// and they are updated in place, so that 2,000 cgroups cost what 30 do.

import { $, announce, attr, el, text } from "./dom.js";
import { bytes, count, rate, visible } from "./format.js";
import { fillRow, makeRow, tierLabel, verdict } from "./row.js";

const pageSize = 30;
const maxTiers = 4; // columns for tiers; the rest goes into "other"

const offloaded = (c) => Object.values(c.offloaded_bytes || {}).reduce((a, b) => a + b, 0);

const used = (c) => c.usage_bytes + c.offloaded;

const fixed = [
  { key: "path", label: "Cgroup", kind: "text", value: (c) => c.path },
  { key: "class", label: "Class", kind: "text", value: (c) => c.class },
  { key: "used", label: "Used", title: "Resident and offloaded together", value: used, show: bytes },
  { key: "resident", label: "Resident", value: (c) => c.usage_bytes, show: bytes },
  { key: "saving", label: "Saving", title: "Memory no longer used, net of the compressed pool", value: (c) => c.saving_net_bytes, show: bytes },
  { key: "pressure", label: "Mem / IO", title: "Pressure: share of time some task waited for memory and for IO", value: (c) => (c.psi ? Math.max(c.mem_some, c.io_some) : -1) },
  { key: "refaults", label: "Refaults/s", title: "Pages brought back, a second", value: (c) => c.refaults_per_s, show: rate },
  { key: "last", label: "Last decision", kind: "text", value: (c) => (c.last_decision ? verdict(c.last_decision) : "~") },
];

export class Table {
  #all = [];
  #view = [];
  #tiers = [];
  #sort = { key: "saving", down: true };
  #show = "managed";
  #chosen = false; // the user picked what to show
  #page = 0;
  #active = 0; // row of the page that has the tab stop
  #rows = []; // row objects, reused

  constructor(onOpen) {
    this.onOpen = onOpen;
    this.body = $("rows");
    this.#columns([]);
    $("filter").addEventListener("input", () => {
      this.#page = 0;
      this.#refresh(true);
    });
    for (const b of $("show").children) b.addEventListener("click", () => this.show(b.dataset.show));
    $("prev").addEventListener("click", () => this.turn(-1));
    $("next").addEventListener("click", () => this.turn(1));
    $("sort").addEventListener("change", (e) => {
      const [key, dir] = e.target.value.split(" ");
      this.#sort = { key, down: dir === "down" };
      this.#refresh(true);
    });
    this.body.addEventListener("click", (e) => {
      const tr = e.target.closest("tr");
      if (tr && !getSelection().toString()) this.#open(tr);
    });
    this.body.addEventListener("keydown", (e) => this.#key(e));
    this.body.addEventListener("focusin", (e) => this.#setActive(this.#rows.findIndex((r) => r.tr.contains(e.target))));
    new ResizeObserver(() => this.#scrollable()).observe($("scroll"));
  }

  show(which) {
    this.#show = which;
    this.#chosen = true;
    this.#page = 0;
    this.#refresh(true);
  }

  /** The part of the page that is a table's own box takes the focus only while there is something to scroll. */
  #scrollable() {
    const s = $("scroll");
    attr(s, "tabindex", s.scrollWidth > s.clientWidth + 1 ? "0" : null);
  }

  #columns(tiers) {
    if (this.cols && tiers.join("\n") === this.#tiers.join("\n")) return;
    this.#tiers = tiers;
    const extra = tiers.map((name) => ({
      key: `tier:${name}`,
      label: name === "" ? "Other tiers" : tierLabel(name),
      title: name === "" ? "Offloaded to further tiers" : `Offloaded to ${visible(name)}, before compression`,
      tier: name,
      value: (c) => (name === "" ? c.offloaded - tiers.reduce((a, t) => a + (c.offloaded_bytes?.[t] || 0), 0) : c.offloaded_bytes?.[name] || 0),
      show: bytes,
    }));
    this.cols = fixed.toSpliced(4, 0, ...extra);
    const head = $("head");
    head.replaceChildren(...this.cols.map((c) => {
      const b = el("button", { type: "button", title: c.title }, el("span", {}, c.label), el("i", { class: "arrow", "aria-hidden": "true" }));
      b.addEventListener("click", () => this.sortBy(c.key));
      return el("th", { scope: "col", role: "columnheader", class: c.kind === "text" ? "" : "num", "data-col": c.key.split(":")[0] }, b);
    }));
    $("sort").replaceChildren(...this.cols.flatMap((c) => (c.kind === "text" ? ["up"] : ["down", "up"]).map((dir) =>
      el("option", { value: `${c.key} ${dir}` }, c.kind === "text" ? c.label : `${c.label}, ${dir === "down" ? "most" : "least"} first`))));
    this.#rows = [];
    this.body.replaceChildren();
  }

  sortBy(key) {
    const col = this.cols.find((c) => c.key === key);
    if (this.#sort.key === key) this.#sort.down = !this.#sort.down;
    else this.#sort = { key, down: col.kind !== "text" };
    this.#page = 0;
    this.#refresh(true);
    announce(`Sorted by ${col.label}, ${this.#sort.down ? "descending" : "ascending"}`);
  }

  update(cgroups, status) {
    this.status = status;
    const sums = new Map();
    for (const c of cgroups) {
      c.offloaded = offloaded(c);
      for (const [t, n] of Object.entries(c.offloaded_bytes || {})) sums.set(t, (sums.get(t) || 0) + n);
    }
    // Columns are added when a tier holds something and stay, so that the table does not jump.
    for (const t of this.#tiers) if (t !== "" && !sums.has(t)) sums.set(t, 0);
    const names = [...sums.keys()].filter((t) => sums.get(t) > 0 || this.#tiers.includes(t)).sort((a, b) => rank(status, a) - rank(status, b) || (a < b ? -1 : 1));
    const shown = names.slice(0, maxTiers);
    if (names.length > maxTiers) shown.push("");
    this.#columns(shown);
    this.#all = cgroups;
    if (!this.#chosen) this.#show = cgroups.length === 0 || cgroups.some((c) => c.managed) ? "managed" : "observed";
    const managed = cgroups.filter((c) => c.managed).length;
    text($("c-managed"), count(managed));
    text($("c-observed"), count(cgroups.length - managed));
    this.#refresh(false);
  }

  /** Sorts and filters anew. Unasked it keeps the order while somebody points at the rows or works in them. */
  #refresh(asked) {
    const col = this.cols.find((c) => c.key === this.#sort.key) || this.cols[0];
    const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const hit = (c) => {
      if (this.#show !== "all" && c.managed !== (this.#show === "managed")) return false;
      if (!words.length) return true;
      const hay = `${visible(c.path)} ${c.class} ${c.last_decision ? verdict(c.last_decision) : ""}`.toLowerCase();
      return words.every((w) => hay.includes(w));
    };
    let view = this.#all.filter(hit);
    if (!asked && (this.body.matches(":hover") || this.body.contains(document.activeElement))) {
      const place = new Map(this.#view.map((c, i) => [c.path, i]));
      view = view.map((c) => [c, place.get(c.path) ?? Infinity]).sort((a, b) => (a[1] === b[1] ? 0 : a[1] - b[1])).map((x) => x[0]);
    } else {
      const sign = this.#sort.down ? -1 : 1;
      const keyed = view.map((c) => [col.value(c), c]);
      keyed.sort((a, b) => (a[0] < b[0] ? -sign : a[0] > b[0] ? sign : used(b[1]) - used(a[1]) || (a[1].path < b[1].path ? -1 : 1)));
      view = keyed.map((x) => x[1]);
    }
    this.#view = view;
    for (const b of $("show").children) attr(b, "aria-pressed", b.dataset.show === this.#show);
    for (const th of $("head").children) {
      const on = this.cols[th.cellIndex].key === col.key;
      attr(th, "aria-sort", on ? (this.#sort.down ? "descending" : "ascending") : "none");
    }
    $("sort").value = `${col.key} ${this.#sort.down ? "down" : "up"}`;
    if (asked && words.length) announce(`${count(view.length)} cgroups match`);
    this.#paint();
  }

  #paint() {
    const pages = Math.max(1, Math.ceil(this.#view.length / pageSize));
    this.#page = Math.min(this.#page, pages - 1);
    const from = this.#page * pageSize;
    const part = this.#view.slice(from, from + pageSize);
    while (this.#rows.length < part.length) {
      const r = makeRow(this.cols);
      this.#rows.push(r);
      this.body.append(r.tr);
    }
    while (this.#rows.length > part.length) this.#rows.pop().tr.remove();
    const biggest = part.reduce((m, c) => Math.max(m, used(c)), 1);
    part.forEach((c, i) => fillRow(this.#rows[i], c, this.cols, biggest));
    this.#active = Math.max(0, Math.min(this.#active, part.length - 1));
    this.#rows.forEach((r, i) => attr(r.open, "tabindex", i === this.#active ? 0 : -1));
    attr($("table"), "aria-rowcount", this.#view.length + 1);
    this.#rows.forEach((r, i) => attr(r.tr, "aria-rowindex", from + i + 2));
    const none = part.length === 0;
    $("table").hidden = none;
    $("hint").hidden = none || !this.status || this.status.managed > 0;
    $("empty").hidden = !none;
    if (none) this.#whyEmpty();
    $("pager").hidden = pages === 1;
    text($("range"), `${count(from + 1)}–${count(from + part.length)} of ${count(this.#view.length)}`);
    $("prev").disabled = this.#page === 0;
    $("next").disabled = this.#page >= pages - 1;
    this.#scrollable();
  }

  #whyEmpty() {
    const e = $("empty");
    const say = (...kids) => {
      const key = kids.map((k) => k.textContent).join("\n");
      if (e.dataset.key !== key) {
        e.dataset.key = key;
        e.replaceChildren(...kids);
      }
    };
    if (!this.status) return say(el("p", {}, "Reading the cgroups…"));
    if ($("filter").value) return say(el("h3", {}, "Nothing matches the filter"), el("p", {}, "Clear it with ", el("kbd", {}, "Esc"), " in the field, or look at all cgroups with ", el("kbd", {}, "a"), "."));
    if (this.#show !== "managed") return say(el("p", {}, "There are no such cgroups."));
    const roots = this.status.roots || [];
    return say(
      el("h3", {}, "No cgroup is managed yet"),
      el("p", {}, roots.length
        ? `Spillway acts only below ${roots.map(visible).join(", ")}, and there is no cgroup with enough memory there. It goes on as soon as one starts.`
        : "Spillway only watches: it has no roots to act below, and there is no kubepods on this machine."),
      el("p", {}, "Name the cgroups it may offload, in the configuration or on the command line:"),
      el("pre", {}, "offload:\n  roots: [/system.slice]\n\nspillway up --root /system.slice"),
      el("p", {}, "Press ", el("kbd", {}, "o"), " to see what it observes; what each would save stands under “Could also be saved”."));
  }

  turn(by) {
    const before = this.#page;
    this.#page = Math.max(0, Math.min(this.#page + by, Math.ceil(this.#view.length / pageSize) - 1));
    if (this.#page === before) return;
    const had = this.body.contains(document.activeElement);
    this.#active = 0;
    this.#paint();
    if (had) this.#rows[0]?.open.focus();
    announce($("range").textContent);
  }

  /** Moves the focus by rows; from outside the table it goes to the row that has the tab stop. */
  move(by) {
    if (!this.#rows.length) return;
    const inside = this.body.contains(document.activeElement);
    this.#setActive(Math.max(0, Math.min(inside ? this.#active + by : this.#active, this.#rows.length - 1)));
    const r = this.#rows[this.#active];
    r.open.focus({ preventScroll: true });
    r.tr.scrollIntoView({ block: "nearest" });
  }

  #setActive(i) {
    if (i < 0) return;
    attr(this.#rows[this.#active]?.open ?? this.#rows[i].open, "tabindex", -1);
    this.#active = i;
    attr(this.#rows[i].open, "tabindex", 0);
  }

  #key(e) {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -pageSize, End: pageSize }[e.key];
    if (!by || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    e.stopPropagation();
    this.move(by);
  }

  #open(tr) {
    const r = this.#rows.find((x) => x.tr === tr);
    if (!r) return;
    r.open.focus({ preventScroll: true });
    this.onOpen(r.path);
  }
}

/** Memory tiers before disk tiers, in the daemon's order. */
function rank(status, name) {
  const i = (status?.tiers || []).findIndex((t) => t.name === name);
  return i < 0 ? 99 : i + (["zswap", "zram"].includes(status.tiers[i].kind) ? 0 : 50);
}
