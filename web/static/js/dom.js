// Small helpers around the document. Text from the daemon enters only through textContent.

export const $ = (id) => document.getElementById(id);

/** Makes an element; children are nodes or strings, strings become text. */
export function el(tag, attrs = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) {
    if (v === undefined || v === null || v === false) continue;
    if (k === "class") e.className = v;
    else e.setAttribute(k, v === true ? "" : v);
  }
  for (const c of children) if (c !== null && c !== undefined) e.append(c);
  return e;
}

/** Makes an element of a drawing. */
export function svg(tag, attrs = {}, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attrs)) if (v !== undefined && v !== null) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

/** A list of terms and what they are; a pair whose value is null is left out. */
export function facts(rows, kind = "grid") {
  return el("dl", { class: kind }, ...rows.filter(([, v]) => v !== null && v !== undefined).map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, v))));
}

/** A bar that is full to a share, for the eye only: the number stands beside it. */
export function bar(share, tone) {
  const i = el("i", { "data-tone": tone });
  width(i, share);
  return el("span", { class: "bar-of", "aria-hidden": "true" }, i);
}

/** Sets text only when it differs, so that an unchanged page costs no layout. */
export function text(e, s) {
  if (e.textContent !== s) e.textContent = s;
}

/** Sets or, with null, removes an attribute when it differs. */
export function attr(e, name, v) {
  if (v === null || v === false) {
    if (e.hasAttribute(name)) e.removeAttribute(name);
  } else if (e.getAttribute(name) !== String(v)) e.setAttribute(name, v);
}

/** Width in percent through the object model: the content policy forbids style attributes. */
export function width(e, share) {
  const w = `${(100 * Math.min(Math.max(share || 0, 0), 1)).toFixed(1)}%`;
  if (e.style.width !== w) e.style.width = w;
}

let announced = "";
/** Says something to a screen reader, once. */
export function announce(s) {
  if (s === announced) return;
  announced = s;
  $("announce").textContent = s;
}

/** True while keys belong to an input or to an open dialog. */
export function typing(target) {
  return !!target.closest?.("input, select, textarea") || !!document.querySelector("dialog[open]");
}
