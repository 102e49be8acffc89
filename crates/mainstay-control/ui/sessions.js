// Who is connected, what each client may see, and what it waits for.

import { element, setChildren } from "./dom.js";
import { age, duration, plain, plural, words } from "./format.js";

export class SessionsView {
  #frame;
  #body = element("tbody");

  constructor(frame) {
    this.#frame = frame;
    const heads = ["Client", "Since", "Connected by", "Protocol", "Sees", "Uses", "Waits for"];
    this.root = element("section", { "aria-label": "Sessions" },
      element("h1", { class: "hidden" }, "Sessions"),
      element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of sessions" },
        element("table", {},
          element("thead", {}, element("tr", {}, heads.map((head) => element("th", { scope: "col" }, head)))),
          this.#body)));
  }

  changed() { this.draw(); }
  tick(areAgesDue) { if (areAgesDue) this.draw(); }
  close() {}

  draw() {
    const { store } = this.#frame;
    const now = store.now();
    if (store.sessions.length === 0) {
      setChildren(this.#body, [element("tr", {}, element("td", { colspan: "7", class: "empty" }, "No client is connected."))]);
      return;
    }
    setChildren(this.#body, store.sessions.map((session) => row(session, now)));
  }
}

function row(session, now) {
  const client = [session.client ?? "a client without a name", session.client_version].filter(Boolean).join(" ");
  const waits = session.running.map((call) => {
    const what = [call.method, call.name].filter(Boolean).join(" ");
    const where = call.server ? ` at ${call.server}` : "";
    return element("li", {}, `${plain(what, 120)}${plain(where, 80)}, ${duration(now - call.since_ms)}`);
  });
  if (session.questions) waits.push(element("li", {}, `${plural(session.questions, "question")} of servers unanswered`));
  if (session.missed) waits.push(element("li", {}, `${plural(session.missed, "notification")} missed`));
  return element("tr", {},
    element("th", { scope: "row" }, plain(client, 120), element("span", { class: "target" }, `session ${session.id}`)),
    element("td", {}, age(now - session.since_ms)),
    element("td", {}, words(session.door)),
    element("td", {}, [session.era, session.protocol_version].filter(Boolean).join(" ")),
    element("td", {}, session.scope ? plain(session.scope, 80) : "all servers"),
    element("td", {}, session.servers.map((name) => plain(name, 80)).join(", ") || "–"),
    element("td", {}, waits.length ? element("ul", { class: "bare" }, waits) : "–"));
}
