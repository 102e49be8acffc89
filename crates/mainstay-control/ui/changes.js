// What a server's catalog changed, revision by revision, the latest first.

import { element, setChildren } from "./dom.js";
import { clock, plain } from "./format.js";

const SHOWN = 30;

export class CatalogHistory {
  root = element("div");
  #items = new Map();

  draw(events) {
    const changes = events.filter((event) => event.type === "catalog_changed").slice(-SHOWN).reverse();
    const shown = changes.map((event) => {
      let item = this.#items.get(event.sequence);
      if (!item) this.#items.set(event.sequence, item = revision(event));
      return item;
    });
    for (const sequence of [...this.#items.keys()]) if (!changes.some((event) => event.sequence === sequence)) this.#items.delete(sequence);
    setChildren(this.root, shown.length ? shown : [this.#none]);
  }

  #none = element("p", { class: "empty" }, "It has offered the same since the program started.");
}

/** In one line: `+tool a, −tool b`. */
export function summary(change) {
  const names = [
    ...change.added.map((entry) => `+${entry.kind} ${entry.name}`),
    ...change.removed.map((entry) => `−${entry.kind} ${entry.name}`),
    ...change.changed.map((entry) => `~${entry.kind} ${entry.name}`),
  ];
  const more = names.length - 5 + change.left_out;
  return `${names.slice(0, 5).map((name) => plain(name, 80)).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

function revision(change) {
  const line = (sign, css, entry) => element("li", { class: css }, `${sign} ${entry.kind} `, element("code", {}, plain(entry.name, 200)));
  const changed = change.changed.map((entry) => element("li", { class: "changed" }, `~ ${entry.kind} `, element("code", {}, plain(entry.name, 200)),
    element("dl", { class: "members" }, entry.members.flatMap((member) => [
      element("dt", {}, plain(member.member, 100)),
      element("dd", {},
        member.before !== null && element("del", {}, plain(member.before, 500)),
        member.after !== null && element("ins", {}, plain(member.after, 500))),
    ]))));
  return element("details", { class: "revision" },
    element("summary", {}, element("time", { datetime: new Date(change.at_ms).toISOString() }, clock(change.at_ms)), ` revision ${change.revision}: `, summary(change)),
    element("ul", { class: "bare" },
      change.added.map((entry) => line("+", "added", entry)),
      change.removed.map((entry) => line("−", "removed", entry)),
      changed,
      change.left_out > 0 && element("li", { class: "muted" }, `and ${change.left_out} more`)));
}
