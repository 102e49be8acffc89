// The overview: one row for each server.

import { element, setAttribute, setChildren, setText } from "./dom.js";
import { age, bytes, duration, latency, plain, plural, rate, words } from "./format.js";
import { footing, health } from "./states.js";
import { serverPath } from "./store.js";
import { Strip } from "./strip.js";

/** Rows that are drawn at once when they are made, about a screen. The others are drawn when they come onto the screen. */
const FIRST = 30;
const NAMES = new Intl.Collator();

export class ServersView {
  #rows = new Map();
  #frame;
  #body = element("tbody");
  #filter = element("input", { type: "search", placeholder: "Filter servers", "aria-label": "Filter servers" });
  #count = element("span", { class: "muted" });
  /** Rows that are not on the screen are drawn when they come there: with 200 of them, a second costs no more than with 20. */
  #observer = new IntersectionObserver((seen) => this.#seen(seen), { rootMargin: "300px" });
  /** What the order and the number of rows depend on, when they were last drawn. */
  #order = "";

  constructor(frame) {
    this.#frame = frame;
    this.#filter.addEventListener("input", () => this.draw());
    const heads = [["Server"], ["State"], ["Last hour"], ["Calls/s", "number"], ["p50 / p95", "number"], ["Failed", "number"], ["Running", "number"], ["Memory", "number"], ["CPU", "number"], ["Offers"], ["Used by"], [""]];
    this.root = element("section", { "aria-label": "Servers" },
      element("h1", { class: "hidden" }, "Servers"),
      element("div", { class: "tools" }, this.#filter, this.#count),
      element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of servers" },
        element("table", { class: "servers" },
          element("caption", { class: "hidden" }, "Servers, with what is wrong first"),
          element("thead", {}, element("tr", {}, heads.map(([head, css]) => element("th", { scope: "col", class: css }, head || element("span", { class: "hidden" }, "Commands"))))),
          this.#body)));
  }

  close() { this.#observer.disconnect(); }

  /** Times count on, in the rows that are seen: countdowns each time, ages when they are due. The order is the same. */
  tick(areAgesDue) {
    const { store } = this.#frame;
    const now = store.now();
    for (const [name, row] of this.#rows) {
      const server = row.isSeen && store.servers.get(name);
      if (!server) continue;
      if (areAgesDue) row.drawAges(server, store.transitions(name), now);
      if (areAgesDue || counts(server)) row.drawWhy(server, now);
    }
  }

  #seen(entries) {
    const { store } = this.#frame;
    for (const entry of entries) {
      const row = this.#rows.get(entry.target.dataset.server);
      const server = row && store.servers.get(entry.target.dataset.server);
      if (!server) continue;
      row.isSeen = entry.isIntersecting;
      if (row.isSeen) row.draw(server, store.transitions(server.name), store.now());
    }
  }

  /** Draws the rows that changed. */
  changed() {
    const touched = this.#frame.store.takeTouched();
    if (touched.size > 0 || this.#frame.store.servers.size === 0) this.#drawRows(touched);
  }

  /** Draws all rows. */
  draw() {
    this.#frame.store.takeTouched();
    this.#drawRows(null);
  }

  #drawRows(touched) {
    const { store } = this.#frame;
    const now = store.now();
    const wanted = this.#filter.value.trim().toLowerCase();
    const servers = [...store.servers.values()]
      .filter((server) => !wanted || server.name.toLowerCase().includes(wanted) || server.state.includes(wanted))
      .sort((one, other) => footing(one) - footing(other) || NAMES.compare(one.name, other.name));
    for (const [name, row] of this.#rows) {
      if (store.servers.has(name)) continue;
      this.#observer.unobserve(row.root);
      this.#rows.delete(name);
    }
    const rows = servers.map((server, place) => {
      let row = this.#rows.get(server.name);
      if (!row) {
        this.#rows.set(server.name, row = new Row(server.name, this.#frame));
        row.isSeen = place < FIRST;
        row.drawHealth(server);
        this.#observer.observe(row.root);
        if (row.isSeen) row.draw(server, store.transitions(server.name), now);
      } else if (!touched || touched.has(server.name)) {
        if (row.isSeen) row.draw(server, store.transitions(server.name), now);
        else row.drawHealth(server);
      }
      return row.root;
    });
    const order = servers.map((server) => server.name).join("\n");
    if (order !== this.#order || rows.length === 0) {
      this.#order = order;
      setChildren(this.#body, rows);
    }
    setText(this.#count, servers.length === store.servers.size ? "" : `${servers.length} of ${plural(store.servers.size, "server")}`);
    if (store.servers.size === 0 && store.program) {
      setChildren(this.#body, [element("tr", {}, element("td", { colspan: "12", class: "empty" },
        "There is no server yet. `mainstay add NAME -- COMMAND` adds one."))]);
    }
  }
}

class Row {
  isSeen = false;
  #cells = {};
  #strip = new Strip();
  #frame;
  #name;

  constructor(name, frame) {
    this.#name = name;
    this.#frame = frame;
    const cell = (key, attributes = {}) => (this.#cells[key] = element("td", attributes));
    const part = (key, attributes = {}) => (this.#cells[key] = element("span", attributes));
    this.root = element("tr", { "data-server": name },
      element("th", { scope: "row" }, element("a", { href: `#/servers/${encodeURIComponent(name)}` }, plain(name, 80)), part("target", { class: "target" })),
      element("td", { class: "state" }, part("badge", { class: "badge" }), " ", part("since", { class: "muted" }), part("why", { class: "why" })),
      element("td", {}, this.#strip.root),
      cell("rate", { class: "number", "data-label": "calls/s" }), cell("latency", { class: "number", "data-label": "p50 / p95" }),
      element("td", { class: "number", "data-label": "failed" }, part("failed"), part("outcomes", { class: "outcomes" })), cell("running", { class: "number", "data-label": "running" }),
      cell("memory", { class: "number", "data-label": "memory" }), cell("cpu", { class: "number", "data-label": "CPU" }),
      cell("offers", { class: "wide" }), cell("users", { class: "short",  "data-label": "used by" }),
      element("td", { class: "commands" }, this.#button("Restart", "restart"), this.#cells.toggle = this.#button("Disable", "disable")));
  }

  #button(label, command) {
    const button = element("button", { type: "button", "data-command": command }, label);
    button.addEventListener("click", async () => {
      // Not `disabled`, which takes the focus away from a person at the keyboard.
      if (button.hasAttribute("aria-disabled")) return;
      setAttribute(button, "aria-disabled", "true");
      const what = button.dataset.command;
      await this.#frame.command(`${serverPath(this.#name)}/${what}`, `${this.#name}: ${what} was accepted`);
      setAttribute(button, "aria-disabled", null);
    });
    setAttribute(button, "aria-label", `${label} ${plain(this.#name, 80)}`);
    return button;
  }

  /** The state alone, which a row has before it is seen: a person may search the page for it. */
  drawHealth(server) {
    const { badge } = this.#cells;
    const condition = health(server);
    setAttribute(this.root, "data-health", condition);
    setAttribute(this.root, "data-state", server.state);
    setAttribute(badge, "class", `badge ${condition}`);
    setText(badge, server.reason === "auth_required" ? "login needed" : words(server.state));
  }

  /** What gets older with the time alone. */
  drawAges(server, transitions, now) {
    const cells = this.#cells;
    setText(cells.since, `for ${age(now - server.since_ms)}${server.generation ? ` · generation\u00a0${server.generation}` : ""}`);
    setText(cells.offers, offers(server, now));
    this.#strip.draw(server, transitions, now);
  }

  drawWhy(server, now) {
    setText(this.#cells.why, why(server, now));
  }

  draw(server, transitions, now) {
    const cells = this.#cells;
    this.drawHealth(server);
    this.drawAges(server, transitions, now);
    this.drawWhy(server, now);
    setText(cells.target, plain(server.target ?? "", 60));
    setText(cells.rate, rate(this.#frame.store.rates.get(server.name)));
    setText(cells.latency, `${latency(server.calls.p50_us)} / ${latency(server.calls.p95_us)}`);
    const { errors, not_sent, refused, unknown } = server.calls;
    const failed = errors + not_sent + refused + unknown;
    setText(cells.failed, String(failed));
    setText(cells.outcomes, [[errors, "error"], [not_sent, "not sent"], [refused, "refused"], [unknown, "unknown"]].filter(([count]) => count).map(([count, word]) => `${count} ${word}`).join(", "));
    setText(cells.running, server.calls.waiting ? `${server.calls.in_flight} + ${server.calls.waiting} waiting` : String(server.calls.in_flight));
    setText(cells.memory, bytes(server.process?.resident_bytes));
    const load = this.#frame.store.loads.get(server.name);
    setText(cells.cpu, server.process ? `${rate(load)}\u00a0%` : "–");
    setText(cells.users, server.sessions.length ? plural(server.sessions.length, "session") : "–");
    const enabled = server.desired === "enabled";
    if (cells.toggle.dataset.command !== (enabled ? "disable" : "enable")) {
      cells.toggle.dataset.command = enabled ? "disable" : "enable";
      setText(cells.toggle, enabled ? "Disable" : "Enable");
      setAttribute(cells.toggle, "aria-label", `${enabled ? "Disable" : "Enable"} ${plain(server.name, 80)}`);
    }
  }
}

/** Whether the reason of a server's state has a time that counts by the second. */
function counts(server) {
  return Boolean(server.start?.program || server.next_retry_ms || server.silent_since_ms);
}

/** Why a server is as it is, and what happens next. */
export function why(server, now) {
  if (server.state === "connected" && server.silent_since_ms) {
    return `silent for ${duration(now - server.silent_since_ms)}, and a ping was not answered`;
  }
  if (server.state === "connected" || server.state === "disabled") return "";
  const parts = [];
  if (server.start) parts.push(server.start.program ? `${server.start.stage}: ${plain(server.start.program, 40)}, ${duration(now - server.start.since_ms)}` : server.start.stage);
  if (server.attempt > 0) parts.push(server.attempt > server.budget ? `attempt ${server.attempt}` : `attempt ${server.attempt} of ${server.budget}`);
  if (server.next_retry_ms) parts.push(server.next_retry_ms > now ? `next in ${duration(server.next_retry_ms - now)}` : "next now");
  if (server.last_failure) parts.push(cause(server.last_failure));
  return parts.join(" · ");
}

/** What went wrong, with the line of stderr that says best why. */
function cause({ message, stderr_reason }) {
  const reason = stderr_reason?.trim();
  const isNew = reason && !message.includes(reason);
  return isNew ? `${plain(message, 160)} (${plain(reason, 160)})` : plain(message, 160);
}

function offers(server, now) {
  const { catalog } = server;
  if (!catalog) return server.listing_failure ? "listing refused" : "never listed";
  const what = [plural(catalog.tools, "tool")];
  if (catalog.prompts) what.push(plural(catalog.prompts, "prompt"));
  if (catalog.resources + catalog.templates) what.push(plural(catalog.resources + catalog.templates, "resource"));
  if (catalog.listed_ms && !catalog.stale_since_ms) what.push(`listed ${age(now - catalog.listed_ms)} ago`);
  if (catalog.stale_since_ms) what.push(`stale for ${age(now - catalog.stale_since_ms)}`);
  return what.join(", ");
}
