// The calls of a server that wait for an answer, each with its age and a button to cancel it.

import { element, setAttribute, setChildren, setText } from "./dom.js";
import { duration, plain, plural } from "./format.js";
import { serverPath } from "./store.js";

export class CallsTable {
  #frame;
  #name;
  #rows = new Map();
  #body = element("tbody");
  #table;
  #note = element("p", { class: "muted" });

  constructor(frame, name) {
    this.#frame = frame;
    this.#name = name;
    this.#table = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Running calls" },
      element("table", {},
        element("thead", {}, element("tr", {}, ["Call", "By", "For", ""].map((head) => element("th", { scope: "col", class: head === "For" ? "number" : null }, head || element("span", { class: "hidden" }, "Commands"))))),
        this.#body));
    this.root = element("div", {}, this.#note, this.#table);
  }

  draw(server, now) {
    const pending = server.pending ?? [];
    for (const id of [...this.#rows.keys()]) if (!pending.some((call) => call.id === id)) this.#rows.delete(id);
    for (const call of pending) {
      let row = this.#rows.get(call.id);
      if (!row) this.#rows.set(call.id, row = this.#row(call));
      setText(row.by, this.#by(call));
      setText(row.age, duration(now - call.since_ms));
    }
    setChildren(this.#body, pending.map((call) => this.#rows.get(call.id).root));
    this.#table.hidden = pending.length === 0;
    const { in_flight, waiting } = server.calls;
    const said = [];
    if (in_flight > pending.length) said.push(`${plural(in_flight - pending.length, "more call")} running`);
    if (waiting) said.push(`${plural(waiting, "call")} waiting for a connection`);
    setText(this.#note, said.join(", ") || (pending.length ? "" : "No call is running."));
    this.#note.hidden = this.#note.textContent === "";
  }

  #row(call) {
    const what = plain([call.method, call.name].filter(Boolean).join(" "), 120);
    const cancel = element("button", { type: "button" }, "Cancel");
    setAttribute(cancel, "aria-label", `Cancel ${what}`);
    cancel.addEventListener("click", async () => {
      cancel.disabled = true;
      await this.#frame.command(`${serverPath(this.#name)}/calls/${encodeURIComponent(call.id)}/cancel`, `${what} was cancelled; it may have run`);
      cancel.disabled = false;
    });
    const by = element("td");
    const age = element("td", { class: "number" });
    return { by, age, root: element("tr", {}, element("th", { scope: "row" }, element("code", {}, what)), by, age, element("td", { class: "commands" }, cancel)) };
  }

  #by(call) {
    if (call.session === null || call.session === undefined) return "this program";
    const session = this.#frame.store.sessions.find((one) => one.id === call.session);
    return session ? plain(session.client ?? `session ${session.id}`, 80) : "a client without a session";
  }
}
