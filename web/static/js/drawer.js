// The explanation of one cgroup: its signals beside their targets, its numbers, its newest decisions.

import { $, el, text, width } from "./dom.js";
import { bytes, clock, duration, percent, rate, visible } from "./format.js";
import { explain } from "./api.js";
import { reasonTone, tierLabel, verdict } from "./row.js";

const signals = { "mem-psi": "Memory pressure", "io-psi": "IO pressure", "refault-cost": "Refault cost" };

// Parameters that are not a share, and the words for all of them. An unknown one is shown as it is.
const params = {
  ratio: ["Taken a period, without pressure", percent],
  max_step: ["Never more than", percent],
  mem_pressure: ["Memory pressure target", percent],
  io_pressure: ["IO pressure target", percent],
  refault_cost: ["Refault cost target", percent],
  hold: ["Periods of rest after a brake", String],
};

export class Drawer {
  #path = null; // what is open
  #asked = null; // what is being read

  constructor() {
    this.dialog = $("drawer");
    this.dialog.addEventListener("close", () => {
      if (this.dialog.open) return; // the event comes late, and another explanation is open already
      this.#path = null;
      $("d-body").replaceChildren();
      if (location.hash.startsWith("#cgroup=")) history.replaceState(null, "", location.pathname);
    });
  }

  open(path) {
    this.#path = path;
    text($("d-title"), visible(path));
    text($("d-class"), "");
    text($("d-why"), "");
    $("d-body").replaceChildren(el("p", { class: "quiet" }, "Reading…"));
    if (!this.dialog.open) this.dialog.showModal();
    history.replaceState(null, "", `#cgroup=${encodeURIComponent(path)}`);
    return this.refresh();
  }

  /** Reads again what is shown. An answer that comes after another cgroup was opened is dropped. */
  async refresh() {
    const path = this.#path;
    if (path === null || path === this.#asked) return;
    this.#asked = path;
    try {
      const ex = await explain(path);
      if (path !== this.#path) return;
      if (ex === null) this.#say("The daemon does not know this cgroup any more: it ended, or its name was never seen.");
      else this.#fill(ex);
    } catch (e) {
      if (path === this.#path) this.#say(`Could not read it: ${e.message}. ${e.hint || ""}`);
    } finally {
      if (this.#asked === path) this.#asked = null;
    }
  }

  #say(s) {
    $("d-body").replaceChildren(el("p", { class: "quiet" }, s));
  }

  #fill({ cgroup: c, params: ps, decisions }) {
    text($("d-class"), visible(`${c.class} · ${c.managed ? "managed" : "observed"}`));
    text($("d-why"), visible(c.why || ""));
    const body = $("d-body");
    const top = body.scrollTop;
    body.replaceChildren(
      ...this.#signals(decisions[0], c),
      el("h3", {}, "Memory"),
      this.#facts(c),
      el("h3", {}, "Decisions"),
      this.#decisions(decisions),
      ...this.#params(ps));
    body.scrollTop = top;
  }

  #signals(d, c) {
    const out = [el("h3", {}, "Signals and their targets")];
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

  #facts(c) {
    const rows = [
      ["Resident", bytes(c.usage_bytes)], ["Peak", bytes(c.peak_bytes)], ["Floor", bytes(c.floor_bytes)],
      ["Anonymous", bytes(c.anon_bytes)], ["Files", bytes(c.file_bytes)], ["Net saving", bytes(c.saving_net_bytes)],
      ...Object.entries(c.offloaded_bytes || {}).map(([t, n]) => [`In ${tierLabel(t)}`, bytes(n)]),
      ["Refaults/s", rate(c.refaults_per_s)], ["Major faults/s", rate(c.major_faults_per_s)],
    ];
    if (c.psi) rows.push(["Memory some", percent(c.mem_some)], ["IO some", percent(c.io_some)]);
    return el("dl", { class: "grid" }, ...rows.map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, v))));
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
    return [el("h3", {}, "Targets of its class"), el("dl", { class: "grid" }, ...keys.sort().map((k) => {
      const [label, show] = params[k] || [visible(k), String];
      return el("div", {}, el("dt", {}, label), el("dd", {}, show(ps[k])));
    }))];
  }
}
