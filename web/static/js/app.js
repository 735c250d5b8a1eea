// The page: joins the poller, the charts, the table and the drawer, and fills everything that is a number.

import { $, announce, attr, el, text, typing, width } from "./dom.js";
import { bytes, clock, count, date, duration, percent, rate, splitPath, visible, when } from "./format.js";
import { Poller } from "./api.js";
import { Charts } from "./charts.js";
import { Drawer } from "./drawer.js";
import { endurance, panel, steering } from "./node.js";
import { reasonTone, verdict } from "./row.js";
import { Table } from "./table.js";

const drawer = new Drawer();
const table = new Table((path) => drawer.open(path));
const charts = new Charts();
let state = { name: "loading" };
let frozen = false;
let painted = false; // the first rows; the mark is for whoever measures the page

const poller = new Poller((data, same) => {
  const s = data.status;
  header(s);
  figures(s, data.history.at(-1));
  table.update(data.cgroups, s);
  if (painted) return rest(data, same);
  // The rows first: drawing an hour of history takes as long as everything else.
  painted = true;
  requestAnimationFrame(() => setTimeout(() => {
    performance.mark("rows-painted");
    rest(data, same);
  }));
}, setState);

function rest(data, same) {
  const s = data.status;
  charts.update(data.history, s.period);
  tiers(s.tiers || []);
  lists(s);
  panel("endurance", s.endurance, () => endurance(s.endurance));
  panel("steering", [s.psi_share, s.psi_share_why, s.file_refault, s.file_refault_why, s.can, s.cannot], () => steering(s));
  if (!same.decisionsSame) decisions(data.decisions);
  drawer.refresh(Date.parse(s.now));
}

function header(s) {
  text($("f-node"), visible(s.node || location.hostname));
  text($("f-kernel"), visible(s.kernel));
  text($("f-mode"), visible(`${s.cgroup_mode}, ${s.actuator}`));
  text($("f-law"), visible(`${s.law}, every ${duration(s.period)}${s.dry_run ? ", dry run" : ""}`));
  text($("f-cost"), `${percent((s.self?.cpu || 0) + (s.self?.worker_cpu || 0))} of a core, ${bytes(s.self?.rss_bytes)}`);
  text($("build"), visible(`· ${s.version}${s.commit ? ` (${s.commit.slice(0, 12)})` : ""} · pid ${s.pid}, since ${date(s.started)} ${clock(s.started, false)}`));
  $("paused").hidden = !s.paused;
  text($("paused-text"), visible(s.paused || ""));
}

function figures(s, last) {
  const h = s.host;
  const resident = last?.resident_bytes ?? 0;
  const disk = last?.disk_bytes ?? 0;
  const without = resident + h.saving_net_bytes; // what managed cgroups would occupy without offloading
  const share = without > 0 ? h.saving_net_bytes / without : 0;
  text($("v-saving"), bytes(h.saving_net_bytes));
  text($("n-saving"), without > 0 ? `${percent(share)} of ${bytes(without)} managed` : "nothing is managed yet");
  width($("m-saving"), share);
  text($("v-resident"), bytes(resident));
  text($("n-resident"), `${count(s.managed)} managed, ${count(s.observed)} observed`);
  width($("m-resident"), resident / h.mem_total_bytes);
  text($("v-pool"), bytes(h.pool_bytes));
  text($("n-pool"), h.stored_bytes > 0 ? `holds ${bytes(h.stored_bytes)}${h.pool_bytes > 0 ? `, ${(h.stored_bytes / h.pool_bytes).toFixed(1)}×` : ""}` : "empty");
  width($("m-pool"), h.stored_bytes > 0 ? h.pool_bytes / h.stored_bytes : 0);
  text($("v-disk"), bytes(disk));
  text($("n-disk"), `${bytes(h.disk_written_bytes)} written since the start`);
  width($("m-disk"), h.swap_total_bytes > 0 ? disk / h.swap_total_bytes : 0);
  text($("v-avail"), bytes(h.mem_available_bytes));
  text($("n-avail"), `of ${bytes(h.mem_total_bytes)}`);
  width($("m-avail"), h.mem_available_bytes / h.mem_total_bytes);
}

/** Fills a list only when what it says has changed, so that a selection or a reader in it is not disturbed. */
function fill(id, items, make) {
  const list = $(id);
  const key = JSON.stringify(items);
  if (list.dataset.key === key) return;
  list.dataset.key = key;
  list.replaceChildren(...items.map(make));
}

function tiers(ts) {
  fill("tiers", ts, (t) => el("li", { "data-state": t.state },
    el("p", { class: "name" }, el("b", {}, visible(t.name)), el("span", { class: "chip", "data-tone": t.state === "active" ? "go" : "wait" }, visible(t.state)), t.ours ? el("span", { class: "chip" }, "made here") : null),
    el("dl", {},
      el("div", {}, el("dt", {}, "holds"), el("dd", {}, bytes(t.stored_bytes))),
      el("div", {}, el("dt", {}, "occupies"), el("dd", {}, bytes(t.used_bytes))),
      el("div", {}, el("dt", {}, "ratio"), el("dd", {}, t.compression > 0 ? `${t.compression.toFixed(1)}×` : "–")),
      el("div", {}, el("dt", {}, "p50"), el("dd", {}, t.p50 > 0 ? duration(t.p50) : "–")),
      el("div", {}, el("dt", {}, "p99"), el("dd", {}, t.p99 > 0 ? duration(t.p99) : "–")),
      el("div", {}, el("dt", {}, "size"), el("dd", {}, t.size_bytes > 0 ? bytes(t.size_bytes) : "–"))),
    el("p", { class: "quiet" }, visible(`${t.detail || ""}${Number.isFinite(when(t.measured_at)) ? `${t.detail ? " · " : ""}measured ${clock(t.measured_at, false)}` : ""}`))));
  if (!ts.length) fill("tiers", ["none"], () => el("li", { class: "quiet" }, "No swap and no compressed pool: anonymous memory has nowhere to go."));
}

function lists(s) {
  const item = (t) => el("li", {}, visible(t));
  // What can be steered has a panel of its own.
  const own = new Set([...(s.can || []), ...(s.cannot || [])].map((t) => `be able to ${t}`));
  fill("will", (s.will || []).filter((t) => !own.has(t)), item);
  fill("wont", (s.wont || []).filter((t) => !own.has(t)), item);
  fill("advice", s.advice || [], item);
  $("advice-panel").hidden = !(s.advice || []).length;
}

function decisions(ds) {
  if (!ds.length) {
    fill("decisions", ["none"], () => el("li", { class: "quiet" }, "None yet."));
    return;
  }
  fill("decisions", ds.slice(0, 20), (d) => {
    const [dir, base] = splitPath(d.cgroup);
    const open = el("button", { type: "button", class: "open", "aria-haspopup": "dialog", title: visible(d.cgroup) }, el("span", { class: "dir" }, dir), el("span", { class: "base" }, base));
    open.addEventListener("click", () => drawer.open(d.cgroup));
    return el("li", {}, el("time", { datetime: d.time }, clock(d.time)), open,
      el("span", { class: "reason", "data-tone": reasonTone(d) }, visible(verdict(d))),
      el("span", { class: "num" }, d.step_bytes > 0 ? `−${bytes(d.reclaimed_bytes || d.step_bytes)}` : ""),
      el("span", { class: "detail", title: visible(d.error || d.detail) }, visible(d.error || d.detail)));
  });
}

// States. What is announced is the change, never the seconds.
const words = { loading: "Connecting", live: "Live", stale: "Stale", disconnected: "Disconnected", error: "Error" };
const lamps = { loading: "wait", live: "good", stale: "warn", disconnected: "bad", error: "bad" };

function setState(next) {
  const changed = next.name !== state.name;
  state = next;
  document.body.dataset.state = next.name;
  attr($("lamp"), "data-kind", frozen ? "wait" : lamps[next.name]);
  text($("state-text"), frozen ? "Frozen" : words[next.name]);
  const box = $("notice");
  box.hidden = next.name === "live" || next.name === "loading";
  attr(box, "data-kind", next.name === "stale" ? "warn" : "bad");
  $("retry").hidden = next.name !== "disconnected" && next.name !== "error";
  if (next.name === "error") text($("notice-title"), "The daemon answers with an error.");
  else if (next.name === "disconnected") text($("notice-title"), "The daemon does not answer.");
  else if (next.name === "stale") text($("notice-title"), "These figures are old.");
  tick();
  if (changed) {
    if (next.name === "live") announce(poller.data.status ? "Live" : "");
    else announce(`${words[next.name]}. ${$("notice-title").textContent}`);
  }
}

/** Once a second: ages and the countdown. */
function tick() {
  const known = !!poller.data.status;
  const age = poller.age();
  text($("age"), known && Number.isFinite(age) ? `${duration(Math.floor(age))} old` : "");
  const left = Math.max(0, Math.ceil(((state.retryAt || 0) - performance.now()) / 1000));
  const shown = known ? ` What is shown is from ${clock(poller.newest)}.` : "";
  if (state.name === "disconnected") text($("notice-text"), `It ended, or the tunnel did; start it with “spillway up”. Trying again in ${left} s.${shown}`);
  else if (state.name === "error") text($("notice-text"), visible(`${state.text}${state.hint ? ` (${state.hint})` : ""}. Trying again in ${left} s.${shown}`));
  else if (state.name === "stale") text($("notice-text"), `The daemon answers, but its newest sample is ${duration(Math.floor(age))} old, more than three periods. See its log: journalctl -u spillway.`);
  const wrong = { disconnected: "The daemon does not answer.", error: "The daemon answers with an error.", stale: "These figures are old." }[state.name];
  drawer.warn(wrong ? `${wrong}${shown}` : "");
}

setInterval(() => {
  if (state.name === "live" || state.name === "stale") poller.check();
  else tick();
}, 1000);

function freeze() {
  frozen = !frozen;
  attr($("freeze"), "aria-pressed", frozen);
  text($("freeze"), frozen ? "Go on" : "Freeze");
  poller.freeze(frozen);
  setState(state);
  announce(frozen ? "Frozen" : "Going on");
}

const themeNames = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" };
function theme() {
  const t = window.spillwayTheme.next();
  text($("theme"), themeNames[t]);
  charts.restyle();
  announce(themeNames[t]);
}

text($("theme"), themeNames[window.spillwayTheme.get()]);
$("theme").addEventListener("click", theme);
$("freeze").addEventListener("click", freeze);
$("retry").addEventListener("click", () => poller.now());
$("help").addEventListener("click", () => $("keys").showModal());
for (const d of document.querySelectorAll("dialog")) {
  d.querySelector("[data-close]").addEventListener("click", () => d.close());
  d.addEventListener("click", (e) => {
    if (e.target === d) d.close(); // the backdrop
  });
}
$("filter").addEventListener("keydown", (e) => {
  if (e.key === "Escape" && e.target.value) {
    e.preventDefault();
    e.target.value = "";
    e.target.dispatchEvent(new Event("input"));
  } else if (e.key === "Escape") e.target.blur();
  else if (e.key === "Enter" || e.key === "ArrowDown") {
    e.preventDefault();
    table.move(0);
  }
});

const keys = {
  "/": () => $("filter").focus(),
  j: () => table.move(1),
  k: () => table.move(-1),
  "[": () => table.turn(-1),
  "]": () => table.turn(1),
  m: () => table.show("managed"),
  o: () => table.show("observed"),
  a: () => table.show("all"),
  p: freeze,
  t: theme,
  "?": () => $("keys").showModal(),
};
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || typing(e.target)) return;
  const onChart = e.target.closest?.(".chart");
  const f = keys[e.key] ?? (onChart ? null : { ArrowDown: keys.j, ArrowUp: keys.k }[e.key]);
  if (!f || (e.key.startsWith("Arrow") && e.target !== document.body)) return;
  e.preventDefault();
  f();
});

poller.now();
drawer.follow(); // a link to one cgroup
