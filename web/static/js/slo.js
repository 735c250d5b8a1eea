// What is known of one cgroup's service level, and what offloading has cost it.

import { bar, el, facts, width } from "./dom.js";
import { count, duration, number, visible } from "./format.js";

const good = new Set(["good"]);
const waits = new Set(["starting", "empty", "few", "reset"]);

/** The section's content; s is the API's slo, undefined or null when there is no signal. */
export function slo(s) {
  if (!s) return [el("p", { class: "quiet" }, "No signal: the targets of its class apply as they stand. Name one under offload.slo in the configuration.")];
  const tone = good.has(s.state) ? "go" : waits.has(s.state) ? "wait" : "bad";
  const out = [el("p", { class: "chips" },
    el("span", { class: "chip", "data-tone": tone }, visible(s.state || "unknown")),
    s.holds ? el("span", { class: "chip", "data-tone": "brake" }, "holds: nothing is taken now") : null,
    el("span", { class: "source" }, visible(s.source || "source not named")))];
  if (s.state_why) out.push(el("p", { class: "detail" }, visible(s.state_why)));
  const known = s.p99 > 0;
  const p99 = known ? `${s.at_least ? "over " : ""}${duration(s.p99)}` : "not measured";
  const over = known && s.max_p99 > 0 && s.p99 > s.max_p99;
  out.push(el("div", { class: "big" }, el("p", {}, el("b", { "data-tone": over ? "bad" : undefined }, p99), " last p99"), el("p", { class: "quiet" }, s.max_p99 > 0 ? `at most ${duration(s.max_p99)}` : "no absolute bound")));
  if (known && s.max_p99 > 0) {
    const fill = el("i", { "data-over": over });
    width(fill, ((s.p99 / s.max_p99) * 2) / 3);
    out.push(el("span", { class: "gauge", "aria-hidden": "true" }, fill, el("b")));
  }
  out.push(facts([
    ["Last p50", s.p50 > 0 ? duration(s.p50) : null],
    ["Requests in it", Number.isFinite(s.requests) ? count(s.requests) : null],
    ["Multiplier of refault cost", s.multiplier > 0 ? `${number(s.multiplier)}×` : null],
    ["Blocks", Number.isFinite(s.blocks) ? `${count(s.blocks)}, ${count(s.pairs || 0)} pairs compared` : null],
  ]));
  // Steps of the multiplier are factors, so the scale is in factors, too.
  if (s.multiplier > 0) out.push(bar((Math.log2(s.multiplier) + 2) / 4, "saving"), el("p", { class: "ends scale", "aria-hidden": "true" }, ...["¼×", "½×", "1×", "2×", "4×"].map((x) => el("span", {}, x))));
  if (s.why) out.push(el("p", { class: "detail" }, visible(s.why)));
  out.push(el("dl", { class: "costs" }, ...[
    ["p99 per MiB saved", s.us_per_mib, " µs"],
    ["p99 per 0.1 % of refault cost", s.us_per_permille, " µs"],
    [`p99 taking ÷ holding${s.max_inflation > 0 ? `, at most ${number(s.max_inflation)}` : ""}`, s.inflation, ""],
  ].map(([name, i, unit]) => el("div", {}, el("dt", {}, name), el("dd", {}, ...interval(i, unit))))));
  return out;
}

/** An estimate with its interval; a bound that the data do not give is open. */
function interval(i, unit) {
  if (!i) return [el("span", { class: "quiet" }, "not known yet")];
  const side = (v, open) => (Number.isFinite(v) ? number(v) : open);
  return [el("b", {}, `${number(i.estimate)}${unit}`), el("span", { class: "quiet" }, ` (95 %: ${side(i.low, "−∞")} to ${side(i.high, "∞")}${unit})`)];
}
