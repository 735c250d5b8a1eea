// Numbers and names as people read them. Units are binary, times are this browser's.

const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** "1.50 GiB": three significant digits, a real minus sign. */
export function bytes(n) {
  if (!Number.isFinite(n)) return "–";
  let v = Math.abs(n);
  let u = 0;
  while (v >= 1024 && u < units.length - 1) {
    v /= 1024;
    u++;
  }
  if (v >= 999.5 && u > 0 && u < units.length - 1) {
    v /= 1024;
    u++;
  }
  const digits = u === 0 || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2;
  return `${n < 0 && v > 0 ? "−" : ""}${v.toFixed(digits)} ${units[u]}`;
}

/** The unit in which n has one to three digits before the point, with its size. */
export function unitFor(n) {
  let u = 0;
  let size = 1;
  while (n / size >= 1000 && u < units.length - 1) {
    size *= 1024;
    u++;
  }
  return { size, name: units[u] };
}

/** A share as percent: "0.12 %"; 0 stays "0 %". */
export function percent(x) {
  if (!Number.isFinite(x)) return "–";
  const p = 100 * x;
  if (p === 0) return "0 %";
  if (Math.abs(p) < 0.01) return "<0.01 %";
  return `${p.toFixed(Math.abs(p) >= 9.95 ? 0 : Math.abs(p) >= 0.995 ? 1 : 2)} %`;
}

/** Two shares in one unit: "0.01 / 0.42 %". */
export function percents(a, b) {
  return `${percent(a).replace(" %", "")} / ${percent(b)}`;
}

export function rate(x) {
  if (!Number.isFinite(x)) return "–";
  if (x === 0) return "0";
  if (x < 0.1) return "<0.1";
  return x < 10 ? x.toFixed(1) : Math.round(x).toLocaleString("en-US");
}

export const count = (n) => n.toLocaleString("en-US");

/** A length in seconds: "85 µs", "2.5 ms", "6 s", "12 min". */
export function duration(s) {
  if (!Number.isFinite(s)) return "–";
  const a = Math.abs(s);
  const short = (v, u) => `${v >= 99.5 || Number.isInteger(v) ? Math.round(v) : v.toPrecision(2)} ${u}`;
  if (a === 0) return "0 s";
  if (a < 1e-6) return short(a * 1e9, "ns");
  if (a < 1e-3) return short(a * 1e6, "µs");
  if (a < 1) return short(a * 1e3, "ms");
  if (a < 100) return short(a, "s");
  if (a < 5400) return `${Math.round(a / 60)} min`;
  if (a < 172800) return `${Math.round(a / 3600)} h`;
  return `${Math.round(a / 86400)} d`;
}

/** A length in seconds that is a whole number of minutes mostly: "1 min", "60 min", "90 s". */
export const minutes = (s) => (s >= 60 && s % 60 === 0 ? `${s / 60} min` : duration(s));

/** A number to three digits, without an exponent and without zeros behind: "0.0312", "1.5". */
export function number(x) {
  if (!Number.isFinite(x)) return "–";
  return (Math.abs(x) >= 1000 ? Math.round(x).toLocaleString("en-US") : String(+x.toPrecision(3))).replace("-", "−");
}

const two = (n) => String(n).padStart(2, "0");

/** "14:03:27", or "14:03" when seconds are not wanted. */
export function clock(t, seconds = true) {
  const d = new Date(t);
  if (Number.isNaN(d.getTime())) return "–";
  return `${two(d.getHours())}:${two(d.getMinutes())}${seconds ? `:${two(d.getSeconds())}` : ""}`;
}

export const date = (t) => {
  const d = new Date(t);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
};

/** Milliseconds of a time of the API; NaN for none. Go writes nanoseconds, which Date.parse accepts. */
export const when = (s) => (s ? Date.parse(s) : NaN);

// What would move the cursor, hide text or turn it around: controls, line separators, bidi marks, zero widths.
// eslint-disable-next-line no-control-regex
const sneaky = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** A name from the system, with everything invisible written out: "a\u{a}b". */
export function visible(s) {
  return String(s).replace(sneaky, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

// Container ids and pod uids, in the spellings of both cgroup drivers. Eight characters tell them apart.
const longId = /[0-9a-f]{32,64}/g;
const uid = /[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}/g;

/** A cgroup path in two parts: what may be cut short, and the name. Long ids are abbreviated. */
export function splitPath(p) {
  const s = visible(p).replace(uid, (m) => `${m.slice(0, 8)}…`).replace(longId, (m) => `${m.slice(0, 12)}…`);
  const i = s.lastIndexOf("/");
  return i <= 0 ? ["", s] : [s.slice(0, i + 1), s.slice(i + 1)];
}
