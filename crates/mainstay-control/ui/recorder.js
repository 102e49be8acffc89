// The flight recorder of a server: its last messages, and those of connections that were lost.

import { element, setChildren, setText } from "./dom.js";
import { clock, latency, plain, plural } from "./format.js";
import { request, serverPath } from "./store.js";

const SHOWN = 256;

/** The view of the recorder. It is read when a person opens it, and again when that is asked for. */
export class RecorderView {
  #name;
  #list = element("div");
  #note = element("p", { class: "muted", role: "status" });

  constructor(name) {
    this.#name = name;
    const again = element("button", { type: "button", onclick: () => this.#load() }, "Read again");
    this.root = element("details", { class: "recorder" },
      element("summary", {}, "The last messages on its connection"),
      element("div", { class: "tools" }, again, this.#note), this.#list);
    this.root.addEventListener("toggle", () => this.root.open && this.#load());
  }

  async #load() {
    try {
      const recording = await request(`${serverPath(this.#name)}/record?payloads=true`);
      const { messages, dropped, has_payloads, losses } = recording;
      const said = [plural(messages.length, "message")];
      if (dropped) said.push(`${dropped} older ones are no longer kept`);
      said.push(has_payloads ? "whole messages" : "heads only");
      if (losses.length) said.push(`the timeline has the last messages of ${plural(losses.length, "lost connection")}`);
      setText(this.#note, `${said.join(" · ")}. \`mainstay record ${plain(this.#name, 80)}\` writes them to a file.`);
      setChildren(this.#list, [messageTable(messages.slice(-SHOWN).reverse(), messages)]);
    } catch (error) {
      setText(this.#note, plain(error.message, 300));
    }
  }
}

/** What a lost connection said last, for an entry of the timeline. It is read when the entry is opened. */
export function lossDetails(server, generation) {
  const inside = element("div");
  const details = element("details", {}, element("summary", {}, "messages before that"), inside);
  let isLoaded = false;
  details.addEventListener("toggle", async () => {
    if (!details.open || isLoaded) return;
    isLoaded = true;
    try {
      const { losses } = await request(`${serverPath(server)}/record?payloads=true`);
      const loss = losses.find((one) => one.generation === generation);
      setChildren(inside, [loss?.messages.length
        ? messageTable([...loss.messages].reverse(), loss.messages)
        : element("p", { class: "muted" }, loss ? "There were none." : "They are no longer kept.")]);
    } catch (error) {
      isLoaded = false;
      setChildren(inside, [element("p", { class: "muted" }, plain(error.message, 300))]);
    }
  });
  return details;
}

function messageTable(shown, all) {
  if (shown.length === 0) return element("p", { class: "empty" }, "No message was recorded.");
  const asked = new Map();
  for (const message of all) if (message.kind === "request") asked.set(key(message, message.direction), message);
  const heads = [["Time"], ["Way"], ["Message"], ["Id"], ["Bytes", "number"], ["After", "number"]];
  return element("div", { class: "scroll messages", tabindex: "0", role: "region", "aria-label": "Messages" },
    element("table", {},
      element("thead", {}, element("tr", {}, heads.map(([head, css]) => element("th", { scope: "col", class: css }, head)))),
      element("tbody", {}, shown.map((message) => row(message, asked)))));
}

function key(message, direction) {
  return `${message.generation} ${direction} ${message.id}`;
}

function row(message, asked) {
  const sent = message.direction === "to_server";
  const isAnswer = ["result", "error", "failed"].includes(message.kind);
  const question = isAnswer ? asked.get(key(message, sent ? "from_server" : "to_server")) : null;
  const what = message.method ?? (question ? `${message.kind} of ${question.method ?? ""}` : message.kind);
  const name = message.name ?? question?.name;
  const text = [what, name, message.error_code !== null && `code ${message.error_code}`, message.count > 1 && `${message.count} times`].filter(Boolean).join(" ");
  const whole = message.payload ? JSON.stringify(message.payload, null, 2) : message.text;
  const wrong = ["error", "failed", "unreadable"].includes(message.kind);
  return element("tr", { class: wrong ? "wrong" : null },
    element("td", { class: "time" }, `${clock(message.at_us / 1000)}.${String(Math.floor(message.at_us / 1000) % 1000).padStart(3, "0")}`),
    element("td", {}, element("span", { class: "way", title: sent ? "to the server" : "from the server" }, sent ? "→" : "←"), element("span", { class: "hidden" }, sent ? "to the server" : "from the server")),
    element("td", {}, whole
      ? element("details", {}, element("summary", {}, plain(text, 160)), element("pre", {}, plain(whole, 20000)))
      : plain(text, 160)),
    element("td", {}, message.id ? plain(message.id, 40) : ""),
    element("td", { class: "number" }, String(message.bytes)),
    element("td", { class: "number" }, question ? latency(Math.max(0, message.at_us - question.at_us)) : ""));
}
