// What happened, the latest first.

import { element, setChildren } from "./dom.js";
import { clock, duration, plain, words } from "./format.js";
import { summary } from "./changes.js";
import { lossDetails } from "./recorder.js";
import { healthOf } from "./states.js";

const SHOWN = 500;

export class EventsView {
  #frame;
  #list = element("ol", { class: "timeline" });
  #filter = element("input", { type: "search", placeholder: "Filter events", "aria-label": "Filter events" });
  #items = new Map();
  /** The last event and the filter that the list shows. */
  #drawn = null;

  constructor(frame) {
    this.#frame = frame;
    this.#filter.addEventListener("input", () => this.draw());
    this.root = element("section", { "aria-label": "Events" }, element("h1", { class: "hidden" }, "Events"), element("div", { class: "tools" }, this.#filter), this.#list);
  }

  changed() { this.draw(); }
  close() {}

  draw() {
    const wanted = this.#filter.value.trim().toLowerCase();
    const { events } = this.#frame.store;
    const drawn = this.#drawn;
    if (drawn && drawn.last === events.at(-1) && drawn.wanted === wanted) return;
    this.#drawn = { last: events.at(-1), wanted };
    const shown = [];
    for (let at = events.length - 1; at >= 0 && shown.length < SHOWN; at -= 1) {
      const event = events[at];
      if (wanted && !`${event.server ?? ""} ${line(event)}`.toLowerCase().includes(wanted)) continue;
      let item = this.#items.get(event);
      if (!item) this.#items.set(event, item = entry(event, true));
      shown.push(item);
    }
    if (this.#items.size > 4 * SHOWN) this.#items.clear();
    setChildren(this.#list, shown.length ? shown : [element("li", { class: "empty" }, "Nothing happened yet.")]);
  }
}

/** One event as an entry of a timeline, with what the server wrote around that moment. */
export function entry(event, withServer) {
  const condition = event.type === "transition" ? healthOf(event.to) : "note";
  const said = event.failure?.stderr ?? [];
  return element("li", { class: condition },
    element("time", { datetime: new Date(event.at_ms).toISOString() }, clock(event.at_ms)), " ",
    withServer && event.server && element("a", { href: `#/servers/${encodeURIComponent(event.server)}` }, plain(event.server, 80)),
    withServer && event.server && " ",
    line(event),
    said.length > 0 && element("details", {},
      element("summary", {}, "stderr at that moment"),
      element("pre", {}, said.map((text) => plain(text, 1000)).join("\n"))),
    event.server && event.failure?.generation && lossDetails(event.server, event.failure.generation));
}

/** One event in one line. */
export function line(event) {
  switch (event.type) {
    case "transition": {
      const parts = [`${words(event.from)} → ${words(event.to)}`, words(event.cause)];
      if (event.failure) parts.push(failure(event.failure));
      if (event.next_retry_ms && event.next_retry_ms > event.at_ms) parts.push(`next attempt after ${duration(event.next_retry_ms - event.at_ms)}`);
      return parts.filter(Boolean).join(" · ");
    }
    case "command": return `${event.command} by ${by(event.by)}${event.outcome ? `: ${words(plain(event.outcome, 20))}` : event.refused ? ", refused" : ""}${event.refused ? `: ${plain(event.refused, 200)}` : ""}`;
    case "reloaded": return `configuration applied, by ${by(event.by)}: ${report(event.report)}`;
    case "reload_refused": return `configuration refused, by ${by(event.by)}: ${plain(event.title, 300)}`;
    case "catalog_changed": return `offers changed: ${summary(event)}`;
    case "page_link_used": return event.again
      ? "a link to the dashboard was used twice: the page that it opened is logged out"
      : `a link opened the dashboard${event.agent ? `, in ${plain(event.agent, 60)}` : ""}`;
    case "added": return "added";
    case "removed": return "removed";
    case "lost": return `${event.count} events were lost here`;
    default: return words(event.type);
  }
}

function failure(what) {
  const parts = [plain(what.message, 300)];
  if (what.exit_code !== null && what.exit_code !== undefined) parts.push(`exit status ${what.exit_code}`);
  if (what.signal) parts.push(`signal ${what.signal}`);
  return parts.join(", ");
}

function by(actor) {
  // A browser names itself at length, and says nothing of the person.
  return actor.agent && actor.via !== "dashboard" ? `${words(actor.via)} (${plain(actor.agent, 60)})` : words(actor.via);
}

function report(changes) {
  const parts = ["added", "removed", "replaced", "adjusted", "enabled", "disabled"]
    .filter((what) => changes[what]?.length)
    .map((what) => `${what} ${changes[what].map((name) => plain(name, 60)).join(", ")}`);
  return parts.join("; ") || "nothing changed";
}
