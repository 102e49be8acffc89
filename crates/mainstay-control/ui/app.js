// The frame of the dashboard: which view is shown, whether the program is there, and what a command answered.

import { setAttribute, setText, soon } from "./dom.js";
import { plain, plural } from "./format.js";
import { counted } from "./states.js";
import { logIn } from "./session.js";
import { request, Store } from "./store.js";
import { ServersView } from "./servers.js";
import { ServerView } from "./server.js";
import { SessionsView } from "./sessions.js";
import { EventsView } from "./events.js";

// Under many changes a person reads no faster than this.
const APART = 250;

const store = new Store();
const main = document.getElementById("view");
let view = null;

/** What every view needs of the frame. */
const frame = { store, command, say };

function route() {
  const [, name, argument] = location.hash.replace(/^#/, "").split("/");
  view?.close();
  const shown = name || "servers";
  view = make(shown, argument ? decodeURIComponent(argument) : null);
  main.replaceChildren(view.root);
  for (const link of document.querySelectorAll("[data-view]")) {
    setAttribute(link, "aria-current", link.dataset.view === shown ? "page" : null);
  }
  view.draw();
}

function make(name, argument) {
  if (name === "sessions") return new SessionsView(frame);
  if (name === "events") return new EventsView(frame);
  if (name === "servers" && argument) return new ServerView(frame, argument);
  return new ServersView(frame);
}

/** Gives a command, and says how it went. */
async function command(path, done, options = { method: "POST" }) {
  try {
    const answer = await request(path, options);
    say(typeof done === "function" ? done(answer) : done);
    return answer;
  } catch (error) {
    say(error.message, true);
    return null;
  }
}

let hiding = null;
function say(text, wrong = false) {
  const toast = document.getElementById("toast");
  toast.hidden = false;
  toast.className = wrong ? "toast wrong" : "toast";
  setText(toast, plain(text, 400));
  clearTimeout(hiding);
  hiding = setTimeout(() => { toast.hidden = true; }, wrong ? 12000 : 4000);
}

function drawFrame() {
  const link = document.getElementById("link");
  link.className = `link ${store.link}`;
  const banner = document.getElementById("banner");
  setText(link, { live: "live", away: "away", refused: "not logged in", connecting: "connecting…" }[store.link]);
  const problem = store.link === "live" ? store.program?.configuration_problem : null;
  banner.hidden = !problem && (store.link === "live" || store.link === "connecting");
  if (problem) {
    setText(banner, `The configuration file is not applied; what was in force before stays in force. ${plain(problem, 600)}`);
  } else if (!banner.hidden) {
    setText(banner, store.link === "refused"
      ? "This page is not logged in, or what answers here is not the Mainstay that let it in. Run `mainstay ui` to open it with a fresh login."
      : "Mainstay does not answer. What is shown here is the last that was known; the page comes back by itself.");
  }
  document.body.classList.toggle("away", store.link !== "live");
  const { program } = store;
  if (program) {
    const { up, wanted } = counted(store.servers.values());
    const down = wanted - up;
    setText(document.getElementById("program"),
      `${program.role} ${program.version} · ${up} of ${plural(wanted, "server")} up · ${plural(store.sessions.length, "session")}`);
    const title = down === 0 ? "Mainstay" : `(${down} down) Mainstay`;
    if (document.title !== title) document.title = title;
  }
}

/** Draws what changed: all of it in one frame, a few times a second, however much happens. */
const drawChanges = soon(() => {
  drawFrame();
  // A hidden page has its title only.
  if (!document.hidden) view?.changed();
}, APART);
store.addEventListener("changed", ({ detail }) => {
  if (detail === "link") drawFrame();
  drawChanges();
});

document.getElementById("reload").addEventListener("click", () =>
  command("/reload", (report) => {
    const changed = ["added", "removed", "replaced", "adjusted", "enabled", "disabled"]
      .filter((what) => report?.[what]?.length)
      .map((what) => `${what}: ${report[what].join(", ")}`);
    return changed.length ? changed.join(" · ") : "The configuration was read again. Nothing changed.";
  }));

const THEME = "mainstay-theme";
function applyTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}
function storedTheme() {
  try { return localStorage.getItem(THEME); } catch { return null; }
}
document.getElementById("theme").addEventListener("click", () => {
  const dark = getComputedStyle(document.documentElement).colorScheme.includes("dark")
    && (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const next = dark ? "light" : "dark";
  applyTheme(next);
  try { localStorage.setItem(THEME, next); } catch { /* A private window keeps nothing. */ }
});
applyTheme(storedTheme());

// Countdowns are drawn once a second and ages every five, by one timer, which runs only while the page is seen. All ages are drawn in
// one frame: a frame costs more than the texts in it.
const AGES_EVERY = 5;
let ticking = null;
function tickWhileSeen() {
  clearInterval(ticking);
  if (document.hidden) return;
  view?.changed();
  view?.tick?.(true);
  let seconds = 0;
  ticking = setInterval(() => {
    seconds += 1;
    view?.tick?.(seconds % AGES_EVERY === 0);
  }, 1000);
}
document.addEventListener("visibilitychange", tickWhileSeen);
tickWhileSeen();

/** A login link ends in `#/login/CODE`. The code is taken out of the address at once, and works once. */
async function logInByLink() {
  const code = location.hash.match(/^#\/login\/([\w-]+)$/)?.[1];
  if (!code) return;
  history.replaceState(null, "", "#/");
  try {
    await logIn(code);
    store.hurry();
  } catch (error) {
    say(error.message, true);
  }
}

await logInByLink();
addEventListener("hashchange", async () => {
  // A link that is opened in this very tab.
  await logInByLink();
  route();
  main.focus({ preventScroll: true });
});
route();
store.run();
