// One tool: what it says of itself, and a form to try it.

import { element, setText } from "./dom.js";
import { latency, plain } from "./format.js";
import { schemaForm } from "./form.js";
import { request, serverPath } from "./store.js";

const MAX_SHOWN = 20000;

export class ToolCard {
  #server;
  #tool;
  #isBuilt = false;

  constructor(server, tool) {
    this.#server = server;
    this.#tool = tool;
    const { definition } = tool;
    this.root = element("details", { class: "tool" },
      element("summary", {}, element("code", {}, plain(tool.name, 200)), " ",
        element("span", { class: "muted" }, plain(firstLine(definition?.description), 160))));
    // A form is built when it is opened: a server may have a thousand tools.
    this.root.addEventListener("toggle", () => this.root.open && this.#build());
  }

  #build() {
    if (this.#isBuilt) return;
    this.#isBuilt = true;
    const { definition } = this.#tool;
    const form = schemaForm(definition?.inputSchema);
    const result = element("pre", { class: "result", tabindex: "0", hidden: true });
    const outcome = element("p", { role: "status" });
    const run = element("button", { type: "submit" }, "Call");
    const stop = element("button", { type: "button", hidden: true }, "Cancel");
    const hints = Object.entries(definition?.annotations ?? {}).filter(([, value]) => value === true).map(([name]) => name);
    let running = null;
    stop.addEventListener("click", () => running?.abort());
    const submit = async (event) => {
      event.preventDefault();
      let given;
      try {
        given = form.read();
      } catch (error) {
        setText(outcome, error.message);
        return;
      }
      running = new AbortController();
      run.disabled = true;
      stop.hidden = false;
      setText(outcome, "running…");
      result.hidden = true;
      try {
        const answer = await request(`${serverPath(this.#server)}/call`, { method: "POST", body: { tool: this.#tool.name, arguments: given }, signal: running.signal });
        setText(outcome, said(answer));
        setText(result, plain(JSON.stringify(answer.result ?? answer.error, null, 2), MAX_SHOWN));
        result.hidden = false;
      } catch (error) {
        setText(outcome, error.name === "AbortError" ? "cancelled; it may have run" : error.message);
      }
      run.disabled = false;
      stop.hidden = true;
    };
    this.root.append(
      definition?.description ? element("p", { class: "description" }, plain(definition.description, 4000)) : "",
      hints.length > 0 ? element("p", { class: "muted" }, plain(hints.join(", "), 200)) : "",
      element("form", { onsubmit: submit }, form.root, element("p", {}, run, " ", stop)),
      outcome, result,
      element("details", {}, element("summary", {}, "Definition"), element("pre", {}, plain(JSON.stringify(definition, null, 2), MAX_SHOWN))));
  }
}

function said(answer) {
  const took = `after ${latency(answer.took_us)}`;
  if (answer.result) return answer.result.isError ? `the tool failed ${took}` : `answered ${took}`;
  const message = plain(answer.error?.message ?? "", 400);
  const { outcome, may_have_run } = answer.error ?? {};
  const ran = may_have_run ? " (it may have run)" : outcome === "answered" ? "" : " (it did not run)";
  return `failed ${took}: ${message}${ran}`;
}

function firstLine(text) {
  return String(text ?? "").split("\n", 1)[0];
}
