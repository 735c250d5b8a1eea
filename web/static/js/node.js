// What is known of the whole node beside its memory: how swapping wears its drives, what its kernel counts as pressure,
// and what can be steered.

import { $, bar, el, facts } from "./dom.js";
import { bytes, date, duration, number, percent, visible } from "./format.js";

const day = 86_400;

/** How the write budget stands, as a word, a tone and a sentence. */
export function budgetState(e) {
  if (!e.drives?.length) return { word: "no drive", tone: "wait", says: "Nothing is written: no drive is behind swap." };
  const gone = Math.min(Math.max(e.price || 0, 0), 1);
  if (gone >= 1 || e.left_bytes === 0) return { word: "hard stop", tone: "bad", says: "Hard stop: no step may write to a drive until older writes leave the ten-minute window. Steps take file cache alone where the kernel can be told, else nothing." };
  if (gone >= 0.5) return { word: "dear", tone: "brake", says: "Steps that may write to a drive get smaller as the budget goes." };
  return { word: "within", tone: "go", says: "" };
}

/** The panel's content; e is the API's endurance, undefined when it is switched off or the daemon is older. */
export function endurance(e) {
  if (!e) return [el("p", { class: "quiet" }, "No budget for writing to flash: it is switched off (offload.endurance.off), or this daemon is older than it.")];
  const s = budgetState(e);
  const out = [el("p", { class: "chips" }, el("b", {}, `${percent(e.price)} gone`), el("span", { class: "quiet" }, "of ten minutes' worth"), el("span", { class: "chip", "data-tone": s.tone }, s.word)), bar(e.price, s.tone === "bad" ? "bad" : "disk")];
  if (s.says) out.push(el("p", { class: s.tone === "bad" ? "notice" : "quiet", "data-kind": "bad" }, s.says));
  out.push(facts([
    ["Budget a day", bytes(e.budget_bytes_per_day)], ["Counts", e.whole_drive ? "every write" : "swapping"],
    ["Left for steps now", bytes(e.left_bytes)], ["Swapping wrote", bytes(e.written_bytes)],
    ["Rated for", e.rating_bytes > 0 ? `${number(e.rating_bytes / 1e12)} TB` : null],
  ], "pairs"));
  out.push(...(e.drives || []).map((d) => drive(d, e)));
  return out;
}

function drive(d, e) {
  // A share of the budget means something only where the budget counts every write, as these figures do.
  const whole = e.whole_drive && e.budget_bytes_per_day > 0;
  const cells = (rate) => [`${bytes(rate)}/s`, bytes(rate * day)].concat(whole ? percent((rate * day) / e.budget_bytes_per_day) : []);
  const row = (name, rate) => el("tr", {}, el("th", { scope: "row" }, name), ...cells(rate).map((t) => el("td", {}, Number.isFinite(rate) ? t : "–")));
  const heads = ["All writes, last", "pace", "a day at it"].concat(whole ? "of budget" : []);
  return el("div", { class: "drive" },
    el("div", { class: "big" }, el("h3", {}, visible(d.device)), d.years > 0 ? el("p", {}, el("b", {}, d.years >= 100 ? "over 100" : number(d.years)), " years") : null),
    el("p", { class: "quiet" }, visible(d.forecast || "no forecast")),
    el("table", { class: "mini" },
      el("caption", { class: "unseen" }, `Writes to ${visible(d.device)}`),
      el("thead", {}, el("tr", {}, ...heads.map((t) => el("th", { scope: "col" }, t)))),
      el("tbody", {}, row("10 min", d.ten_minutes_bytes_per_s), row("hour", d.hour_bytes_per_s), row("day", d.day_bytes_per_s))),
    el("p", { class: "source" }, `${bytes(d.written_bytes)} written by anybody${Number.isFinite(Date.parse(d.since)) ? ` since ${date(d.since)}` : ""}${whole ? "" : "; the budget counts what swapping writes"}.`));
}

/** What the kernel counts and what it can be told; null when the daemon says neither. */
export function steering(s) {
  const out = [];
  const share = s.psi_share;
  if (Number.isFinite(share)) {
    out.push(el("p", {}, el("b", {}, percent(share)), ` of the time that refaults cost counts as memory pressure${s.psi_share_why ? ` (${visible(s.psi_share_why)})` : ""}.`), bar(share, "mem"));
    if (share < 0.5) out.push(el("p", { class: "quiet" }, "Too little to rely on pressure alone: refault cost is the brake."));
  } else if (s.psi_share_why) {
    out.push(el("p", { class: "quiet" }, el("b", {}, "Share of refault cost that counts as pressure: "), `unknown, ${visible(s.psi_share_why)}`));
  }
  const f = s.file_refault;
  if (f) {
    out.push(el("h3", {}, "Bringing back a page of a file"), facts([["alone, p50", duration(f.p50)], ["alone, p99", duration(f.p99)], ["in order, each", duration(f.in_order)]], "pairs"),
      el("p", { class: "source" }, visible(`Measured in ${f.dir} (${f.fs})${f.note ? `: ${f.note}` : ""}.`)));
  } else if (s.file_refault_why) {
    out.push(el("p", { class: "quiet" }, el("b", {}, "Cost of bringing back a page of a file: "), `unknown, ${visible(s.file_refault_why)}`));
  }
  const list = (title, items, tone) => (items?.length ? [el("h3", {}, title), el("ul", { class: "knobs", "data-tone": tone }, ...items.map((t) => el("li", {}, visible(t))))] : []);
  out.push(...list("Can be steered", s.can, "go"), ...list("Cannot", s.cannot, "wait"));
  return out.length ? out : null;
}

/** Fills a panel only when what it is made from has changed. */
export function panel(id, from, make) {
  const box = $(id);
  const key = JSON.stringify(from) ?? "none";
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  const kids = make();
  box.closest("section").hidden = kids === null;
  box.replaceChildren(...(kids || []));
}
