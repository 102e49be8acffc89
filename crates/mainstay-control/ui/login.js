// The login of a server that asks for one: a button, the address to open, and a field for a browser on another machine.

import { element, setChildren, setText } from "./dom.js";
import { plain } from "./format.js";
import { request, serverPath } from "./store.js";

export class LoginPanel {
  #frame;
  #name;
  #said = element("span", { role: "status" });
  #more = element("div");
  #button = element("button", { type: "button" }, "Log in");

  constructor(frame, name) {
    this.#frame = frame;
    this.#name = name;
    this.#button.addEventListener("click", () => this.#begin(this.#button));
    this.root = element("div", { class: "login", hidden: true },
      element("p", {}, "It needs a login. ", this.#button, " ", this.#said), this.#more);
  }

  draw(server) {
    const canLogIn = (server.credential ?? "login") === "login";
    const needed = server.reason === "auth_required" && canLogIn;
    if (this.root.hidden === !needed) return;
    this.root.hidden = !needed;
    setText(this.#said, "");
    setChildren(this.#more, []);
  }

  async #begin(button, body) {
    button.disabled = true;
    setText(this.#said, "asking the server…");
    try {
      this.#show(await request(`${serverPath(this.#name)}/login`, { method: "POST", body }));
    } catch (error) {
      setText(this.#said, `${plain(error.message, 300)} On its machine, \`mainstay login ${plain(this.#name, 80)}\` logs in too.`);
    }
    button.disabled = false;
  }

  #show(progress) {
    if (progress.error) return setText(this.#said, plain(progress.error, 300));
    // Only a page may be opened: the address comes from a server.
    if (!/^https?:\/\//i.test(progress.address ?? "")) return setText(this.#said, "no address to open yet; try again");
    setText(this.#said, "");
    const pasted = element("input", { type: "url", "aria-label": "The address that the browser ended at", placeholder: "http://127.0.0.1:…/callback?…" });
    const hand = async (event) => {
      event.preventDefault();
      await this.#frame.command(`${serverPath(this.#name)}/login/callback`, "The login is completed.", { method: "POST", body: { address: pasted.value.trim() } });
    };
    const again = element("button", { type: "button" }, "Register again");
    again.addEventListener("click", () => this.#begin(again, { register_again: true }));
    const forgotten = element("p", {}, "If that page says that the client is unknown, the authorization server has forgotten Mainstay: ", again);
    setChildren(this.#more, [
      element("p", {}, element("a", { href: progress.address, target: "_blank", rel: "noopener noreferrer" }, "Open the login page"), ` of ${plain(new URL(progress.address).host, 100)}. The server connects by itself afterwards.`),
      ...(progress.reuses_registration ? [forgotten] : []),
      element("details", {}, element("summary", {}, "The browser runs on another machine"),
        element("p", { class: "muted" }, "It ends at an address that it cannot load. Paste that here."),
        element("form", { class: "tools", onsubmit: hand }, pasted, element("button", { type: "submit" }, "Complete"))),
    ]);
    return undefined;
  }
}
