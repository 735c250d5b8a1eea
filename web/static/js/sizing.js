// What memory request one cgroup should have, and how sure that is. And what its memory consists of.

import { bar, el, facts, width } from "./dom.js";
import { bytes, duration, percent, visible } from "./format.js";

/** The section's content; answer is what `detail` returned, undefined while it is read. */
export function sizing(answer) {
  if (!answer) return [el("p", { class: "quiet" }, "Reading…")];
  if (!answer.data) {
    if (answer.kind === "not found") return [el("p", { class: "quiet" }, "This daemon does not say it: it is older than recommendations.")];
    return [el("p", { class: "quiet" }, el("b", {}, "No recommendation: "), `${visible(answer.why)}${answer.hint ? `. ${visible(answer.hint)}` : ""}`)];
  }
  const r = answer.data[0];
  if (!r) return [el("p", { class: "quiet" }, "Nothing to recommend yet.")];
  const out = [el("div", { class: "big" },
    el("p", {}, el("b", {}, `${r.upper_bound ? "≤ " : ""}${bytes(r.request_bytes)}`), " memory request"),
    el("p", { class: "quiet" }, r.resources?.requests?.memory ? el("code", {}, visible(`requests.memory: ${r.resources.requests.memory}`)) : ""))];
  if (r.upper_bound) out.push(el("p", { class: "detail" }, "An upper bound: a smaller request may do."));
  out.push(el("p", { class: "ends" }, el("span", { class: "quiet" }, "Confidence"), el("span", {}, `${visible(r.level || "")} ${percent(r.confidence)}`.trim())), bar(r.confidence, "saving"));
  const why = [r.why, r.raise && `To raise it: ${r.raise}`].filter(Boolean);
  for (const s of why) out.push(el("p", { class: "detail" }, visible(s)));
  out.push(facts([
    ["Usage, p98", r.usage_p98_bytes > 0 ? bytes(r.usage_p98_bytes) : "–"],
    ["Of it at rest, p98", r.need_p98_bytes > 0 ? bytes(r.need_p98_bytes) : "never rested"],
    ["Size that did not hurt", r.safe_size_bytes > 0 ? bytes(r.safe_size_bytes) : "none found"],
    ["Refault cost there", percent(r.refault_cost)],
    ["Watched", duration(r.watched)],
    ["Of it at rest", duration(r.resting)],
  ]));
  return out;
}

/** What the memory consists of: file cache beside anonymous memory, how the last step chose, and where it went. */
export function memory(c, tierLabel) {
  const [anon, file] = [c.anon_bytes || 0, c.file_bytes || 0];
  const out = [];
  if (anon + file > 0) {
    const [a, f] = [el("i", { "data-tone": "anon" }), el("i", { "data-tone": "file" })];
    width(a, anon / (anon + file));
    width(f, file / (anon + file));
    out.push(el("span", { class: "bar-of", "aria-hidden": "true" }, a, f),
      el("ul", { class: "legend" },
        el("li", {}, el("i", { class: "swatch", "data-tone": "anon" }), `Anonymous ${bytes(anon)}, ${percent(anon / (anon + file))}`),
        el("li", {}, el("i", { class: "swatch", "data-tone": "file" }), `File cache ${bytes(file)}, ${percent(file / (anon + file))}`)));
  }
  if (c.incompressible) out.push(el("p", { class: "notice", "data-kind": "warn" }, el("b", {}, "Incompressible: "), "its pages do not shrink, and are kept out of compressed pools."));
  if (c.mix) out.push(el("p", { class: "detail" }, visible(`The last step ${c.mix}.`)));
  else if (c.managed) out.push(el("p", { class: "quiet" }, "No step has chosen between the two yet."));
  out.push(facts([
    ["Resident", bytes(c.usage_bytes)], ["Peak", bytes(c.peak_bytes)], ["Floor", bytes(c.floor_bytes)], ["Net saving", bytes(c.saving_net_bytes)],
    ...Object.entries(c.offloaded_bytes || {}).map(([t, n]) => [`In ${tierLabel(t)}`, bytes(n)]),
    ["Written to drives", Number.isFinite(c.written_bytes) ? bytes(c.written_bytes) : null],
  ]));
  return out;
}
