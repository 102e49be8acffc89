// What the page knows, and the one stream that keeps it current. Nothing polls: the stream brings events as they happen and
// the changed figures once a second, and it is opened again by itself when the program went away and came back.

const API = "../api/v1";
const MAX_EVENTS = 5000;
const RETRY_FIRST = 500;
const RETRY_LONGEST = 5000;

export class ApiError extends Error {
  constructor(problem, status) {
    super(problem?.remedy ? `${problem.title}: ${problem.remedy}` : (problem?.title ?? `the request failed with status ${status}`));
    this.status = status;
  }
}

/** A request to the control API. */
export async function request(path, { method = "GET", body, signal } = {}) {
  const headers = { "Mainstay-Via": "dashboard" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(`${API}${path}`, {
    method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin",
  });
  const text = await response.text();
  let document = null;
  try { document = text ? JSON.parse(text) : null; } catch { /* An error of something in between. */ }
  if (!response.ok) throw new ApiError(document, response.status);
  return document;
}

export function serverPath(name) {
  return `/servers/${encodeURIComponent(name)}`;
}

/** A stream of the control API. `EventSource` cannot say why it failed, so the store asks. */
export function stream(path) {
  return new EventSource(`${API}${path}`);
}

export class Store extends EventTarget {
  program = null;
  servers = new Map();
  sessions = [];
  events = [];
  /** Calls a second of each server, from the last two figures. */
  rates = new Map();
  loads = new Map();
  /** `live`, `away` or `refused`. */
  link = "connecting";
  #source = null;
  #retry = RETRY_FIRST;
  #timer = null;
  /** How far the clock of the program is ahead of the browser's. */
  #ahead = 0;

  now() { return Date.now() + this.#ahead; }

  open() {
    clearTimeout(this.#timer);
    this.#source?.close();
    const source = stream("/watch");
    this.#source = source;
    source.addEventListener("snapshot", (message) => this.#snapshot(JSON.parse(message.data)));
    source.addEventListener("event", (message) => this.#event(JSON.parse(message.data)));
    source.addEventListener("figures", (message) => this.#figures(JSON.parse(message.data)));
    source.addEventListener("sessions", (message) => {
      this.sessions = JSON.parse(message.data).sessions;
      this.#changed("sessions");
    });
    source.addEventListener("lagged", () => this.open());
    source.addEventListener("error", () => this.#away());
  }

  #snapshot(snapshot) {
    this.#retry = RETRY_FIRST;
    this.#ahead = snapshot.at_ms - Date.now();
    const restarted = this.program && this.program.instance !== snapshot.program.instance;
    this.program = snapshot.program;
    this.servers = new Map(snapshot.servers.map((server) => [server.name, server]));
    this.sessions = snapshot.sessions;
    this.events = snapshot.events;
    if (restarted) this.rates.clear();
    this.#setLink("live");
    this.#changed("snapshot");
  }

  #event(event) {
    this.events.push(event);
    if (this.events.length > MAX_EVENTS) this.events.splice(0, this.events.length - MAX_EVENTS);
    const server = event.server && this.servers.get(event.server);
    if (event.type === "transition" && server) {
      server.state = event.to;
      server.since_ms = event.at_ms;
      server.attempt = event.attempt;
      server.next_retry_ms = event.next_retry_ms;
      if (event.failure) server.last_failure = event.failure;
    }
    if (event.type === "removed") this.servers.delete(event.server);
    this.dispatchEvent(new CustomEvent("happened", { detail: event }));
    this.#changed("servers");
  }

  #figures(figures) {
    this.#ahead = figures.at_ms - Date.now();
    for (const server of figures.servers) {
      const before = this.servers.get(server.name);
      const seconds = before?.seen_ms ? (figures.at_ms - before.seen_ms) / 1000 : 0;
      if (seconds > 0) {
        this.rates.set(server.name, Math.max(0, server.calls.total - before.calls.total) / seconds);
        const used = (server.process?.cpu_ms ?? 0) - (before.process?.cpu_ms ?? 0);
        this.loads.set(server.name, Math.max(0, used) / 10 / seconds);
      }
      server.seen_ms = figures.at_ms;
      this.servers.set(server.name, server);
    }
    // A server without a message has not changed: nothing was called.
    for (const [name, server] of this.servers) {
      if (server.seen_ms !== figures.at_ms) {
        server.seen_ms = figures.at_ms;
        this.rates.set(name, 0);
        this.loads.set(name, 0);
      }
    }
    if (this.program) {
      this.program.sessions = this.sessions.length;
      this.program.servers = this.servers.size;
    }
    this.#changed("servers");
  }

  async #away() {
    this.#source?.close();
    clearTimeout(this.#timer);
    this.#setLink(this.link === "refused" ? "refused" : "away");
    // Only a request tells a program that is away from one that does not let this page in.
    let refused = false;
    try {
      await request("/program");
    } catch (error) {
      refused = error instanceof ApiError && (error.status === 401 || error.status === 403);
    }
    this.#setLink(refused ? "refused" : "away");
    this.#timer = setTimeout(() => this.open(), this.#retry);
    this.#retry = Math.min(this.#retry * 1.6, RETRY_LONGEST);
  }

  #setLink(link) {
    if (this.link === link) return;
    this.link = link;
    this.#changed("link");
  }

  #changed(what) {
    this.dispatchEvent(new CustomEvent("changed", { detail: what }));
  }
}
