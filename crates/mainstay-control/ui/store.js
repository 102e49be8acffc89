// What the page knows, and the one stream that keeps it current. Nothing polls: the stream brings events as they happen and
// the changed figures once a second, and it is opened again by itself when the program went away and came back.

import { ApiError } from "./errors.js";
import { forgetToken, pageToken } from "./session.js";

const API = "../api/v1";
const MAX_EVENTS = 5000;
// Of one server: the last hour of one that fails every few seconds.
const MAX_TRANSITIONS = 500;
const RETRY_FIRST = 500;
const RETRY_LONGEST = 5000;

/** A request to the control API. */
export async function request(path, { method = "GET", body, signal } = {}) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const response = await send(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  const text = await response.text();
  let document = null;
  try { document = text ? JSON.parse(text) : null; } catch { /* An error of something in between. */ }
  if (!response.ok) throw new ApiError(document, response.status);
  return document;
}

/** Sends a request with a token of this page, and once more if that has expired meanwhile. */
async function send(path, { headers, ...options }) {
  const once = async () => fetch(`${API}${path}`, {
    ...options, headers: { ...headers, "Mainstay-Via": "dashboard", Authorization: `Bearer ${await pageToken()}` }, credentials: "omit", cache: "no-store",
  });
  const response = await once();
  if (response.status !== 401) return response;
  forgetToken();
  return once();
}

export function serverPath(name) {
  return `/servers/${encodeURIComponent(name)}`;
}

/**
 * Reads a stream of the control API until it ends: `message(name, data)` for each event. `EventSource` is of no use here: it can
 * neither send the token nor say why it failed.
 */
export async function follow(path, message, signal) {
  const response = await send(path, { signal });
  if (!response.ok) throw new ApiError(await response.json().catch(() => null), response.status);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      let name = "message";
      const data = [];
      for (const line of block.split("\n")) {
        if (line.startsWith("event:")) name = line.slice(6).trim();
        else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
      }
      if (data.length) message(name, JSON.parse(data.join("\n")));
    }
  }
}

export class Store extends EventTarget {
  program = null;
  servers = new Map();
  sessions = [];
  events = [];
  /** The servers that changed since a view last took them. */
  #touched = new Set();
  #transitions = new Map();
  /** Calls a second of each server, from the last two figures. */
  rates = new Map();
  loads = new Map();
  /** `live`, `away` or `refused`. */
  link = "connecting";
  #stop = null;
  #wake = null;
  #retry = RETRY_FIRST;
  /** How far the clock of the program is ahead of the browser's. */
  #ahead = 0;

  now() { return Date.now() + this.#ahead; }

  /** The transitions of a server that are known, the oldest first. */
  transitions(server) { return this.#transitions.get(server) ?? []; }

  /** The names of the servers that changed since this was last asked. */
  takeTouched() {
    const touched = this.#touched;
    this.#touched = new Set();
    return touched;
  }

  #noteTransition(event) {
    let known = this.#transitions.get(event.server);
    if (!known) this.#transitions.set(event.server, known = []);
    known.push(event);
    if (known.length > MAX_TRANSITIONS) known.splice(0, known.length - MAX_TRANSITIONS / 2);
  }

  /** Reads the stream, for as long as the page is open. */
  async run() {
    for (;;) {
      this.#stop = new AbortController();
      let refused = false;
      try {
        await follow("/watch", (name, data) => this.#message(name, data), this.#stop.signal);
      } catch (error) {
        refused = error instanceof ApiError && (error.status === 401 || error.status === 403);
      }
      forgetToken();
      this.#setLink(refused ? "refused" : "away");
      await new Promise((wake) => {
        this.#wake = wake;
        setTimeout(wake, this.#retry);
      });
      this.#retry = Math.min(this.#retry * 1.6, RETRY_LONGEST);
    }
  }

  /** Tries again at once: there is a reason to hope. */
  hurry() {
    this.#retry = RETRY_FIRST;
    this.#wake?.();
  }

  #message(name, data) {
    switch (name) {
      case "snapshot": return this.#snapshot(data);
      case "record": return this.#event(data);
      case "figures": return this.#figures(data);
      case "sessions":
        this.sessions = data.sessions;
        return this.#changed("sessions");
      // Something is missing: the next stream begins with everything.
      case "lagged": return this.#stop.abort();
      default: return undefined;
    }
  }

  #snapshot(snapshot) {
    this.#retry = RETRY_FIRST;
    this.#ahead = snapshot.at_ms - Date.now();
    const restarted = this.program && this.program.instance !== snapshot.program.instance;
    this.program = snapshot.program;
    this.servers = new Map(snapshot.servers.map((server) => [server.name, server]));
    this.sessions = snapshot.sessions.sessions;
    this.events = snapshot.events;
    this.#transitions.clear();
    for (const event of this.events) if (event.type === "transition") this.#noteTransition(event);
    for (const name of this.servers.keys()) this.#touched.add(name);
    if (restarted) this.rates.clear();
    this.#setLink("live");
    this.#changed("snapshot");
  }

  #event(event) {
    this.events.push(event);
    // Some at a time: to move all of them for each new one costs more.
    if (this.events.length > MAX_EVENTS + 500) this.events.splice(0, this.events.length - MAX_EVENTS);
    if (event.type === "transition") this.#noteTransition(event);
    if (event.server) this.#touched.add(event.server);
    const server = event.server && this.servers.get(event.server);
    if (event.type === "transition" && server) {
      server.state = event.to;
      server.since_ms = event.at_ms;
      server.attempt = event.attempt;
      server.next_retry_ms = event.next_retry_ms;
      if (event.failure) server.last_failure = event.failure;
    }
    if (this.program && event.type === "reloaded") this.program.configuration_problem = null;
    if (this.program && event.type === "reload_refused") this.program.configuration_problem = event.title;
    if (event.type === "removed") {
      this.servers.delete(event.server);
      this.#transitions.delete(event.server);
      this.rates.delete(event.server);
      this.loads.delete(event.server);
    }
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
      this.#touched.add(server.name);
    }
    // A server without a message has not changed: nothing was called.
    for (const [name, server] of this.servers) {
      if (server.seen_ms !== figures.at_ms) {
        server.seen_ms = figures.at_ms;
        if (this.rates.get(name) || this.loads.get(name)) this.#touched.add(name);
        this.rates.set(name, 0);
        this.loads.set(name, 0);
      }
    }
    this.#changed("figures");
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
