// Asks the daemon again and again and says what state that is in. It knows nothing of the page.

const timeout = 10_000; // of one question, milliseconds
const slowest = 30; // seconds between two tries while the daemon is gone
const keep = 3600; // points of history held here

/** What the daemon answered instead of data. */
export class Refused extends Error {
  constructor(status, body) {
    super(body?.error || `the daemon answered ${status}`);
    this.hint = body?.hint || "";
    this.kind = body?.kind || "";
    this.status = status;
  }
}

async function ask(path, seen) {
  const res = await fetch(path, { signal: AbortSignal.timeout(timeout), cache: "no-cache", credentials: "omit" });
  const at = Date.parse(res.headers.get("Date") || "");
  if (!res.ok) {
    let body = null;
    try {
      body = await res.json();
    } catch {
      // not our JSON: the status says it
    }
    throw new Refused(res.status, body);
  }
  const tag = res.headers.get("ETag");
  if (seen && tag && tag === seen) {
    await res.body?.cancel();
    return { same: true, tag, at };
  }
  return { data: await res.json(), tag, at };
}

/** One explanation; null when the daemon does not know the cgroup any more. */
export async function explain(cgroup) {
  try {
    return (await ask(`/v1/explain?cgroup=${encodeURIComponent(cgroup)}`)).data;
  } catch (e) {
    if (e instanceof Refused && e.status === 404) return null;
    throw e;
  }
}

/**
 * What one more part of the API says of a cgroup: {data}, or when it answers that it has nothing {why, hint, kind}.
 * Throws when nobody answers.
 */
export async function detail(part, cgroup) {
  try {
    return { data: (await ask(`/v1/${part}?cgroup=${encodeURIComponent(cgroup)}`)).data };
  } catch (e) {
    if (!(e instanceof Refused)) throw e;
    return { why: e.message, hint: e.hint, kind: e.kind || String(e.status) };
  }
}

/**
 * Polls while the page is visible. onData(data) gets everything known after each good round; onState(state)
 * gets {name: "loading"|"live"|"stale"|"disconnected"|"error", text, hint, retryAt}.
 */
export class Poller {
  #tags = {};
  #timer = 0;
  #fails = 0;
  #busy = false;
  #frozen = false;
  data = { status: null, cgroups: [], history: [], decisions: [] };

  constructor(onData, onState) {
    this.onData = onData;
    this.onState = onState;
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.now();
    });
  }

  /** Asks at once. */
  now() {
    clearTimeout(this.#timer);
    if (!this.#busy) this.#round();
  }

  freeze(on) {
    this.#frozen = on;
    if (!on) this.now();
  }

  /** Age of the newest sample in seconds by the daemon's clock; Infinity before there is one. */
  age() {
    if (!this.newest) return Infinity;
    return Math.max(0, (this.serverNow - this.newest + (performance.now() - this.gotAt)) / 1000);
  }

  /** A figure is stale after three periods, and never before five seconds. */
  staleAfter() {
    return Math.max(5, 3 * (this.data.status?.period || 0));
  }

  async #round() {
    this.#busy = true;
    let wait = 1;
    try {
      const last = this.data.history.at(-1)?.time;
      const since = last ? `?since=${encodeURIComponent(last)}` : "";
      const [s, c, d, h] = await Promise.all([
        ask("/v1/status"),
        ask("/v1/cgroups", this.#tags.cgroups),
        ask("/v1/decisions?limit=20", this.#tags.decisions),
        ask(`/v1/history${since}`),
      ]);
      if (this.#frozen) return;
      const restarted = this.data.status && this.data.status.started !== s.data.started;
      this.data.status = s.data;
      if (!c.same) this.data.cgroups = c.data;
      if (!d.same) this.data.decisions = d.data;
      this.#tags = { cgroups: c.tag, decisions: d.tag };
      // A daemon that started anew has its own history; what is here was another's.
      this.data.history = restarted ? [] : this.data.history.concat(h.data).slice(-keep);
      this.#fails = 0;
      this.gotAt = performance.now();
      this.serverNow = Number.isFinite(s.at) ? s.at : Date.now();
      this.newest = Date.parse(this.data.history.at(-1)?.time || s.data.started);
      wait = Math.min(Math.max(s.data.period || 1, 1), 5);
      this.onData(this.data, { cgroupsSame: !!c.same, decisionsSame: !!d.same });
      this.check();
    } catch (e) {
      wait = Math.min(2 ** this.#fails++, slowest);
      const retryAt = performance.now() + wait * 1000;
      if (e instanceof Refused) this.onState({ name: "error", text: e.message, hint: e.hint, retryAt });
      else this.onState({ name: "disconnected", text: e.message, hint: "", retryAt });
    } finally {
      this.#busy = false;
      clearTimeout(this.#timer);
      if (!this.#frozen && !document.hidden) this.#timer = setTimeout(() => this.#round(), wait * 1000);
    }
  }

  /** Tells live from stale; call it as time goes by. */
  check() {
    if (!this.data.status || this.#fails > 0) return;
    this.onState({ name: this.age() > this.staleAfter() ? "stale" : "live" });
  }
}
