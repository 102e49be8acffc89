// One server: its state on the lifecycle diagram, its running calls, its timeline, its stderr, and what it offers.

import { element, inNextFrame, setAttribute, setChildren, setText } from "./dom.js";
import { age, bytes, clock, latency, plain, plural, words } from "./format.js";
import { CallsTable } from "./calls.js";
import { CatalogHistory } from "./changes.js";
import { entry } from "./events.js";
import { LifecycleDiagram } from "./lifecycle.js";
import { LoginPanel } from "./login.js";
import { RecorderView } from "./recorder.js";
import { health } from "./states.js";
import { follow, request, serverPath } from "./store.js";
import { ToolCard } from "./tool.js";
import { why } from "./servers.js";

const TIMELINE = 100;
const STDERR = 1000;
const FOLLOW_AGAIN = 2000;

export class ServerView {
  #frame;
  #name;
  #diagram = new LifecycleDiagram();
  #parts = {};
  #timeline = element("ol", { class: "timeline" });
  #items = new Map();
  #stderr = [];
  #log = element("pre", { class: "log", tabindex: "0", role: "region", "aria-label": "stderr" });
  #search = element("input", { type: "search", placeholder: "Search stderr", "aria-label": "Search stderr" });
  #stop = new AbortController();
  #catalog = null;
  #catalogHash = null;
  #offers = element("div", { class: "offers" });
  #calls;
  #login;
  #history = new CatalogHistory();
  #drawLogSoon = inNextFrame(() => this.#drawLog());

  constructor(frame, name) {
    this.#frame = frame;
    this.#name = name;
    this.#calls = new CallsTable(frame, name);
    this.#login = new LoginPanel(frame, name);
    const part = (key, tag = "span", attributes = {}) => (this.#parts[key] = element(tag, attributes));
    this.#search.addEventListener("input", () => this.#drawLog());
    this.root = element("article", { class: "server" },
      element("p", {}, element("a", { href: "#/" }, "All servers")),
      element("div", { class: "title" },
        element("h1", {}, plain(name, 120)), part("badge", "span", { class: "badge" }), part("since", "span", { class: "muted" }),
        element("span", { class: "commands" }, this.#button("Restart", "restart"), this.#button("Refresh", "refresh"), this.#parts.enable = this.#button("Enable", "enable"), this.#parts.disable = this.#button("Disable", "disable"))),
      part("why", "p", { class: "why" }),
      this.#login.root,
      this.#diagram.root,
      part("facts", "dl", { class: "facts" }),
      section("Running calls", this.#calls.root),
      section("Timeline", this.#timeline),
      section("stderr", element("div", { class: "tools" }, this.#search), this.#log),
      section("Messages", new RecorderView(name).root),
      section("Offers", this.#offers),
      section("What its offers changed", this.#history.root));
    this.#follow();
  }

  #button(label, what) {
    return element("button", { type: "button", onclick: () => this.#frame.command(`${serverPath(this.#name)}/${what}`, `${this.#name}: ${what} was accepted`) }, label);
  }

  changed() { this.draw(); }
  tick(areAgesDue) {
    if (areAgesDue) return this.draw();
    const server = this.#frame.store.servers.get(this.#name);
    return server && this.#drawTimes(server, this.#frame.store.now());
  }
  close() { this.#stop.abort(); }

  /** Follows stderr, again and again: the program may go away and come back. */
  async #follow() {
    while (!this.#stop.signal.aborted) {
      this.#stderr = [];
      try {
        await follow(`${serverPath(this.#name)}/stderr?follow=true`, (name, line) => {
          if (name === "line") this.#add(line);
        }, this.#stop.signal);
      } catch { /* The frame of the page says that the program is away. */ }
      await new Promise((wake) => setTimeout(wake, FOLLOW_AGAIN));
    }
  }

  #add(line) {
    this.#stderr.push(line);
    if (this.#stderr.length > STDERR) this.#stderr.splice(0, this.#stderr.length - STDERR);
    this.#drawLogSoon();
  }

  #drawLog() {
    const wanted = this.#search.value.toLowerCase();
    const lines = this.#stderr.filter((line) => !wanted || line.text.toLowerCase().includes(wanted));
    const atEnd = this.#log.scrollTop + this.#log.clientHeight >= this.#log.scrollHeight - 20;
    setText(this.#log, lines.length ? lines.map((line) => `${clock(line.at_ms)}  ${plain(line.text, 2000)}`).join("\n") : "It wrote nothing.");
    if (atEnd) this.#log.scrollTop = this.#log.scrollHeight;
  }

  /** What counts by the second. */
  #drawTimes(server, now) {
    setText(this.#parts.why, why(server, now));
    this.#calls.draw(server, now);
  }

  draw() {
    const { store } = this.#frame;
    const server = store.servers.get(this.#name);
    this.root.classList.toggle("none", !server);
    if (!server) {
      if (store.program) setText(this.#parts.why, "There is no server of this name.");
      return;
    }
    const now = store.now();
    const parts = this.#parts;
    setAttribute(parts.badge, "class", `badge ${health(server)}`);
    setText(parts.badge, server.reason === "auth_required" ? "login needed" : words(server.state));
    setText(parts.since, `for ${age(now - server.since_ms)}`);
    parts.enable.hidden = server.desired === "enabled";
    parts.disable.hidden = server.desired !== "enabled";
    this.#login.draw(server);
    this.#drawTimes(server, now);
    const events = store.events.filter((event) => event.server === this.#name);
    this.#diagram.draw(server, store.transitions(this.#name));
    this.#drawFacts(server, now);
    this.#history.draw(events);
    const shown = events.slice(-TIMELINE).reverse().map((event) => {
      let item = this.#items.get(event);
      if (!item) this.#items.set(event, item = entry(event, false));
      return item;
    });
    if (this.#items.size > 4 * TIMELINE) this.#items = new Map(events.slice(-TIMELINE).map((event) => [event, this.#items.get(event)]));
    setChildren(this.#timeline, shown.length ? shown : [element("li", { class: "empty" }, "Nothing happened yet.")]);
    const listed = `${server.catalog?.listed_ms} ${server.catalog?.tools} ${server.catalog?.stale_since_ms}`;
    if (listed !== this.#catalogHash) {
      this.#catalogHash = listed;
      if (server.catalog) this.#loadCatalog();
      else setChildren(this.#offers, [element("p", { class: "empty" }, "It was never listed.")]);
    }
  }

  #drawFacts(server, now) {
    const { calls, process, catalog } = server;
    const facts = {
      "Target": plain(server.target ?? "–", 200),
      "Connection": server.generation ? `generation ${server.generation}, ${[server.transport, server.era, server.protocol_version].filter(Boolean).join(" ") || "being opened"}` : "none",
      "Calls": `${calls.total} in all, ${calls.in_flight} running, ${calls.waiting} waiting; p50 ${latency(calls.p50_us)}, p95 ${latency(calls.p95_us)}`,
      "Failed calls": `${calls.errors} answered with an error, ${calls.not_sent} not sent, ${calls.refused} refused, ${calls.unknown} may have run, ${calls.cancelled} given up`,
      "Process": process ? `${process.pid}, ${plural(process.processes ?? 1, "process")}, ${bytes(process.resident_bytes)}, started ${plural(server.starts, "time")}` : "none",
      "Offers": catalog ? `listed ${catalog.listed_ms ? `${age(now - catalog.listed_ms)} ago` : "in an earlier run"}${catalog.stale_since_ms ? ", may be out of date" : ""}` : "never listed",
      "Late reports": `${server.stale_reports} of earlier connections, ignored`,
    };
    const list = this.#parts.facts;
    if (!list.firstChild) for (const name of Object.keys(facts)) list.append(element("dt", {}, name), element("dd"));
    Object.values(facts).forEach((text, index) => setText(list.children[2 * index + 1], text));
  }

  async #loadCatalog() {
    try {
      const catalog = await request(`${serverPath(this.#name)}/catalog`);
      if (catalog.hash === this.#catalog?.hash) return;
      this.#catalog = catalog;
      this.#drawCatalog(catalog);
    } catch {
      // The next figures ask for it again.
      this.#catalogHash = null;
    }
  }

  #drawCatalog(catalog) {
    const parts = [];
    if (catalog.instructions) parts.push(element("details", {}, element("summary", {}, "Instructions"), element("pre", {}, plain(catalog.instructions, 5000))));
    parts.push(element("h3", {}, plural(catalog.tools.length, "tool")), ...catalog.tools.slice(0, 500).map((tool) => new ToolCard(this.#name, tool).root));
    for (const [what, items] of [["prompt", catalog.prompts], ["resource", catalog.resources], ["template", catalog.templates]]) {
      if (items.length === 0) continue;
      parts.push(element("h3", {}, plural(items.length, what)), element("ul", {}, items.slice(0, 500).map((item) =>
        element("li", {}, element("code", {}, plain(item.name, 200)), " ", plain(item.definition?.description ?? "", 300)))));
    }
    for (const left of catalog.set_aside) parts.push(element("p", { class: "muted" }, plain(left.message, 300)));
    setChildren(this.#offers, parts.filter(Boolean));
  }
}

function section(title, ...children) {
  return element("section", {}, element("h2", {}, title), ...children);
}
