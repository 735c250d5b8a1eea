// One cgroup: its signals beside their targets, how cold it is, what offloading costs its service, what its memory
// consists of, the request it should have, and its newest decisions. All of it is read when it is opened, and only then.

import { $, el, facts, text, width } from "./dom.js";
import { bytes, clock, duration, percent, rate, visible } from "./format.js";
import { detail, explain } from "./api.js";
import { cold } from "./cold.js";
import { memory, sizing } from "./sizing.js";
import { slo } from "./slo.js";
import { reasonTone, tierLabel, verdict } from "./row.js";

const signals = { "mem-psi": "Memory pressure", "io-psi": "IO pressure", "refault-cost": "Refault cost", "promotion-rate": "Promotions a minute", endurance: "Write budget that is gone" };

// Parameters that are not a share, and the words for all of them. An unknown one is shown as it is.
const params = {
  ratio: ["Taken a period, without pressure", percent],
  max_step: ["Never more than", percent],
  mem_pressure: ["Memory pressure target", percent],
  io_pressure: ["IO pressure target", percent],
  refault_cost: ["Refault cost target", percent],
  hold: ["Periods of rest after a brake", String],
  hold_periods: ["Periods of rest after a brake", String],
  floor_bytes: ["Floor", bytes],
  promotion: ["Promotion target a minute", percent],
  percentile: ["Percentile of ages", String],
  warmup_seconds: ["Watched before a step", duration],
};

// How often a part that changes slowly is read again, in milliseconds; one that cannot be had is not asked for again.
const parts = { heat: 15_000, recommend: 30_000 };

// In the order they are shown; the names are fragments of ids.
const sections = [["signals", "Signals and their targets"], ["cold", "How cold its memory is"], ["slo", "Service level"], ["size", "Recommended request"], ["memory", "Memory"], ["log", "Recent decisions"], ["params", "Targets of its class"]];

export class Drawer {
  #path = null; // what is open
  #asked = null; // what is being read
  #more = {}; // by part: what it answered, and when to ask again
  #now = 0; // the daemon's clock

  constructor() {
    this.dialog = $("drawer");
    this.dialog.addEventListener("close", () => {
      if (this.dialog.open) return; // the event comes late, and another explanation is open already
      this.#path = null;
      $("d-body").replaceChildren();
      if (location.hash.startsWith("#cgroup=")) history.replaceState(null, "", location.pathname);
    });
    new ResizeObserver(() => this.#cold()).observe($("d-body"));
    addEventListener("hashchange", () => this.follow());
  }

  /** Opens what the address names, if it names a cgroup. */
  follow() {
    const named = location.hash.match(/^#cgroup=(.+)$/);
    if (!named) return;
    try {
      const path = decodeURIComponent(named[1]);
      if (path !== this.#path) this.open(path);
    } catch {
      // a broken link: the page itself is still good
    }
  }

  open(path) {
    this.#path = path;
    this.#more = {};
    text($("d-title"), visible(path));
    text($("d-class"), "");
    text($("d-why"), "");
    this.#say("Reading…");
    if (!this.dialog.open) this.dialog.showModal();
    history.replaceState(null, "", `#cgroup=${encodeURIComponent(path)}`);
    return this.refresh();
  }

  /** What is wrong with the figures as a whole; "" for nothing. The notice of the page lies behind the drawer. */
  warn(s) {
    $("d-state").hidden = !s;
    text($("d-state"), s);
  }

  /** Reads again what is shown; now is the daemon's clock. An answer that comes after another cgroup was opened is dropped. */
  async refresh(now) {
    this.#now = now || this.#now || Date.now();
    const path = this.#path;
    if (path === null || path === this.#asked) return;
    this.#asked = path;
    try {
      const ex = await explain(path);
      if (path !== this.#path) return;
      if (ex === null) {
        this.#say("The daemon does not know this cgroup any more: it ended, or its name was never seen.");
        return;
      }
      this.#fill(ex);
      await Promise.all(Object.keys(parts).map((part) => this.#read(part, path)));
    } catch (e) {
      if (path === this.#path) this.#say(`Could not read it: ${visible(e.message)}. ${visible(e.hint || "")}`);
    } finally {
      if (this.#asked === path) this.#asked = null;
    }
  }

  async #read(part, path) {
    if (performance.now() < (this.#more[part]?.again ?? 0)) return this.#show(part);
    const answer = await detail(part, path);
    if (path !== this.#path) return;
    const never = ["not found", "unsupported"].includes(answer.kind);
    this.#more[part] = { answer, again: performance.now() + (never ? Infinity : parts[part]) };
    this.#show(part);
  }

  #show(part) {
    if (part === "heat") this.#cold();
    else this.#put("size", this.#more.recommend.answer, () => sizing(this.#more.recommend.answer));
  }

  #cold() {
    const box = $("d-cold");
    if (!box) return;
    const answer = this.#more.heat?.answer;
    const wide = box.clientWidth;
    this.#put("cold", [answer, wide, Math.floor(this.#now / 60_000)], () => cold(answer, this.#now, wide));
  }

  #say(s) {
    $("d-body").replaceChildren(el("p", { class: "quiet" }, s));
  }

  /** Fills a section only when what it is made from has changed, so that a selection or a reader in it is not disturbed. */
  #put(name, from, make) {
    const box = $(`d-${name}`);
    const key = JSON.stringify(from) ?? "none";
    if (!box || box.dataset.key === key) return;
    box.dataset.key = key;
    const kids = make();
    box.closest("section").hidden = !kids.length;
    box.replaceChildren(...kids);
  }

  #fill({ cgroup: c, params: ps, decisions }) {
    const ds = decisions || [];
    text($("d-class"), visible(`${c.class} · ${c.managed ? "managed" : "observed"}${c.incompressible ? " · incompressible" : ""}`));
    text($("d-why"), visible(c.why || ""));
    if (!$("d-signals")) {
      $("d-body").replaceChildren(...sections.map(([name, title]) => el("section", { "aria-labelledby": `d-h-${name}` },
        el("h3", { id: `d-h-${name}` }, title), el("div", { id: `d-${name}` }))));
    }
    this.#put("signals", [ds[0], c.psi, c.psi_why], () => this.#signals(ds[0], c));
    this.#cold();
    this.#put("slo", c.slo, () => slo(c.slo));
    if (!this.#more.recommend) this.#put("size", "reading", () => sizing());
    this.#put("memory", c, () => memory(c, tierLabel).concat(this.#traffic(c)));
    this.#put("log", ds.slice(0, 60), () => [this.#decisions(ds)]);
    this.#put("params", ps, () => this.#params(ps));
  }

  #signals(d, c) {
    const out = [];
    if (!c.psi) out.push(el("p", { class: "quiet" }, `Pressure is unavailable: ${visible(c.psi_why || "no reason given")}. Refault cost is the brake.`));
    if (!d?.inputs?.length) {
      out.push(el("p", { class: "quiet" }, "No decision yet."));
      return out;
    }
    const list = el("ul", { class: "signals" });
    for (const i of d.inputs) {
      // The target stands at two thirds, so that a signal twice over still shows how far.
      const over = i.target > 0 ? i.value / i.target : 0;
      const fill = el("i", { "data-over": over >= 1 });
      width(fill, (over * 2) / 3);
      list.append(el("li", {},
        el("span", { class: "name" }, signals[i.signal] || visible(i.signal)),
        el("span", { class: "num" }, percent(i.value)),
        el("span", { class: "gauge", "aria-hidden": "true" }, fill, el("b")),
        el("span", { class: "target" }, `target ${percent(i.target)}, ${over >= 1 ? "reached: brakes" : "below"}${i.signal === d.signal ? " · binds" : ""}`)));
    }
    out.push(el("p", { class: "detail" }, visible(d.detail)), list);
    return out;
  }

  #traffic(c) {
    const rows = [["Refaults/s", rate(c.refaults_per_s)], ["Major faults/s", rate(c.major_faults_per_s)]];
    if (c.psi) rows.push(["Memory some", percent(c.mem_some)], ["IO some", percent(c.io_some)]);
    return facts(rows);
  }

  #decisions(ds) {
    if (!ds.length) return el("p", { class: "quiet" }, "None yet.");
    return el("ol", { class: "log" }, ...ds.slice(0, 60).map((d) => el("li", {},
      el("time", { datetime: d.time }, clock(d.time)),
      el("span", { class: "reason", "data-tone": reasonTone(d) }, visible(verdict(d))),
      el("span", { class: "num" }, d.step_bytes > 0 ? `−${bytes(d.reclaimed_bytes)} of ${bytes(d.step_bytes)} in ${duration(d.took)}` : "nothing taken"),
      el("p", {}, visible(d.error || d.detail)))));
  }

  #params(ps) {
    const keys = Object.keys(ps || {});
    if (!keys.length) return [];
    return [el("dl", { class: "grid" }, ...keys.sort().map((k) => {
      const [label, show] = params[k] || [visible(k), String];
      return el("div", {}, el("dt", {}, label), el("dd", {}, show(ps[k])));
    }))];
  }
}
