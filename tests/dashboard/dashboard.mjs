// The dashboard in a real browser. Arguments: the program, a directory for screenshots and files, the browser, the packages that drive it, and
// the packages of the authorization server.
//
// Each step is a line `ok NAME` or `not ok NAME: WHY`; the exit status is 1 if one of them failed.

import { spawn, execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const [programPath, directory, browserPath, modules, authorizationModules] = process.argv.slice(2);
// The daemon has another working directory.
const program = resolve(programPath);
const here = dirname(fileURLToPath(import.meta.url));
const require = createRequire(join(modules, "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const WAIT = 30_000;
/** Longer than any step takes. One of them waits until a login link is too old. */
const STEP_TIMEOUT = 120_000;
/** Longer than a login link works. */
const LINK_LIFETIME = 61_000;

/** A real authorization server, and an MCP server that it protects. */
const authorization = spawn(process.execPath, [join(here, "../authorization-server/server.mjs"), resolve(authorizationModules), "600"], { stdio: ["pipe", "pipe", "inherit"] });
const { resource } = await new Promise((ready, failed) => {
  let said = "";
  authorization.stdout.on("data", (piece) => { said += piece; if (said.includes("\n")) ready(JSON.parse(said)); });
  authorization.on("exit", (code) => failed(new Error(`the authorization server ended with ${code}`)));
});

mkdirSync(directory, { recursive: true });
// What an earlier run left is another user's: logins, catalogs, who was disabled.
for (const left of ["cache", "state", "data"]) rmSync(join(directory, left), { recursive: true, force: true });
const config = join(directory, "mcp.json");
const hostile = { command: process.execPath, args: [join(here, "hostile_server.mjs")] };
writeFileSync(config, JSON.stringify({
  mcpServers: {
    demo: { command: program, args: ["demo-server"] },
    hostile,
    search: { url: resource },
    broken: { command: process.execPath, args: ["-e", "console.error('no database'); process.exit(3)"] },
  },
}));

// The path of a socket must be short.
const runtime = mkdtempSync(join(tmpdir(), "mainstay-"));
const env = { ...process.env, MAINSTAY_CACHE: join(directory, "cache"), XDG_STATE_HOME: join(directory, "state"), XDG_DATA_HOME: join(directory, "data"), MAINSTAY_RUNTIME: runtime };
const mainstay = (...words) => execFileSync(program, ["--config", config, ...words], { env, encoding: "utf8" });

async function freePort() {
  const server = createServer();
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const { port } = server.address();
  await new Promise((closed) => server.close(closed));
  return port;
}

const port = await freePort();
let serving = null;

/** Starts the program, and waits until it serves. */
async function start() {
  serving = spawn(program, ["--config", config, "serve", "--admin", "--listen", `127.0.0.1:${port}`], { env, stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  await new Promise((ready, failed) => {
    serving.stderr.on("data", (piece) => { said += piece; if (said.includes("/mcp")) ready(); });
    serving.on("exit", (code) => failed(new Error(`the program ended with ${code}: ${said}`)));
  });
  serving.removeAllListeners("exit");
}

async function stop(signal = "SIGTERM") {
  const ended = new Promise((done) => serving.on("exit", done));
  serving.kill(signal);
  await ended;
}

function loginLink() {
  return execFileSync(program, ["ui", "--print", "--url", `http://127.0.0.1:${port}`], { env, encoding: "utf8" }).trim();
}

/** `mainstay ui` with a browser that only says what it is to open: that address, what the command says first, and how it ends. */
async function openUi(...options) {
  const pipe = join(runtime, "opened");
  execFileSync("mkfifo", [pipe]);
  const command = join(runtime, "browser");
  writeFileSync(command, `#!/bin/sh\necho "$1" > ${pipe}\n`, { mode: 0o755 });
  const opening = spawn(program, ["ui", "--url", `http://127.0.0.1:${port}`, ...options], { env: { ...env, BROWSER: command }, stdio: ["ignore", "ignore", "pipe"] });
  const said = new Promise((heard) => { opening.stderr.once("data", (piece) => heard(String(piece))); });
  const ended = new Promise((done) => { opening.on("exit", done); });
  const address = (await readFile(pipe, "utf8")).trim();
  rmSync(pipe);
  return { address, said, ended };
}

let failed = 0;
async function step(name, run) {
  let timer = null;
  const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new Error(`it takes longer than ${STEP_TIMEOUT / 1000} s`)), STEP_TIMEOUT); });
  try {
    await Promise.race([run(), late]);
    console.log(`ok ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`not ok ${name}: ${error.stack ?? error}`);
  } finally {
    clearTimeout(timer);
  }
}

function check(holds, what) {
  if (!holds) throw new Error(what);
}

await start();
const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
const page = await context.newPage();
const problems = [];
page.on("pageerror", (error) => problems.push(`error: ${error}`));
page.on("console", (message) => { if (message.type() === "error" && !/Failed to load resource|ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|network error/i.test(message.text())) problems.push(message.text()); });
page.on("dialog", (dialog) => { problems.push(`dialog ${dialog.message()}`); dialog.dismiss(); });
page.setDefaultTimeout(WAIT);
const row = (name) => page.locator("tbody tr", { has: page.locator(`th a[href="#/servers/${name}"]`) });
/** A request to the control API of the program, as its owner. */
async function control(path, body) {
  const token = readFileSync(join(directory, "state/mainstay/control-token"), "utf8").trim();
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const response = await fetch(`http://127.0.0.1:${port}/api/v1${path}`, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body) });
  return response.json();
}
const pidOf = async (name) => (await control("/servers")).servers.find((server) => server.name === name).process.pid;

/** Another program at the port of the dashboard: it notes what it gets, and answers each request so. */
async function impostor(answer) {
  const got = [];
  let noticed = () => {};
  const server = createHttpServer((request, response) => {
    let body = "";
    request.on("data", (piece) => { body += piece; });
    request.on("end", () => {
      got.push(`${request.method} ${request.url} ${JSON.stringify(request.headers)} ${body}`);
      response.setHeader("Connection", "close");
      answer(request, response);
      noticed();
    });
  });
  await new Promise((ready) => server.listen(port, "127.0.0.1", ready));
  return {
    got,
    gets: async (many) => { while (got.length < many) await new Promise((wake) => { noticed = wake; }); },
    close: () => new Promise((closed) => { server.close(closed); server.closeAllConnections(); }),
  };
}

/** A client of the gateway with a session: a function that makes one request. */
async function connectClient(name) {
  const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  let id = 0;
  const send = async (message) => {
    const response = await fetch(`http://127.0.0.1:${port}/mcp`, { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", ...message }) });
    const session = response.headers.get("mcp-session-id");
    if (session) headers["Mcp-Session-Id"] = session;
    const text = await response.text();
    return text ? JSON.parse(text.replace(/^(?:[^]*\n)?data: /, "")) : null;
  };
  const ask = (method, params) => send({ id: id += 1, method, params });
  await ask("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name, version: "1" } });
  await send({ method: "notifications/initialized" });
  return ask;
}
const mark = () => page.evaluate(() => { window.mark = (window.mark ?? 0) + 1; });

try {
  await step("without a login the page shows nothing and says how to log in", async () => {
    await page.goto(`http://127.0.0.1:${port}/ui/`);
    await page.locator("#banner", { hasText: "mainstay ui" }).waitFor();
    check(await page.locator("tbody tr th").count() === 0, "a server is shown");
  });
  const unused = { link: loginLink(), at: Date.now() };
  const link = loginLink();
  await step("a login link opens the page, and the code leaves the address", async () => {
    await page.goto(link);
    await row("demo").locator(".badge", { hasText: "connected" }).waitFor();
    check(!page.url().includes("login"), `the address is ${page.url()}`);
    await mark();
  });
  await step("a login link works once, and its second use logs out the page that it opened", async () => {
    const twice = loginLink();
    const [first, second] = await Promise.all([browser.newContext(), browser.newContext()]);
    const [opened, late] = [await first.newPage(), await second.newPage()];
    await opened.goto(twice);
    await opened.locator("tbody tr th").first().waitFor();
    await late.goto(twice);
    await late.locator("#toast", { hasText: "logged out too" }).waitFor({ timeout: WAIT });
    check(await late.locator("tbody tr th").count() === 0, "a server is shown");
    await opened.locator("#banner", { hasText: "not logged in" }).waitFor({ timeout: WAIT });
    await first.close();
    await second.close();
  });
  await step("the file that `mainstay ui` gives to a browser opens the page, and is gone then", async () => {
    const opening = await openUi();
    check(/^file:\/\/\/.*\/open-\w+\.html$/.test(opening.address), `the command line has ${opening.address}`);
    const other = await browser.newContext();
    const opened = await other.newPage();
    // The file sends the browser on at once, which may end this navigation early.
    await opened.goto(opening.address, { waitUntil: "commit" }).catch(() => {});
    await opened.locator("tbody tr th").first().waitFor({ timeout: WAIT });
    check(await opening.ended === 0, "the command failed");
    check(!existsSync(fileURLToPath(opening.address)), "the file is still there");
    await other.close();
  });
  await step("a browser that cannot read the file opens a page that asks for the code in the terminal", async () => {
    const opening = await openUi("--code");
    const code = (await opening.said).trim().split(" ").at(-1);
    check(/^http:\/\/127\.0\.0\.1:\d+\/$/.test(opening.address), `the command line has ${opening.address}`);
    const other = await browser.newContext();
    const opened = await other.newPage();
    await opened.goto(opening.address);
    await opened.getByLabel("The code that the terminal shows").fill("00000-00000");
    await opened.getByRole("button", { name: "Open" }).click();
    await opened.getByText("That is not the code").waitFor({ timeout: WAIT });
    await opened.screenshot({ path: join(directory, "code.png") });
    await opened.getByLabel("The code that the terminal shows").fill(code.toLowerCase());
    await opened.getByRole("button", { name: "Open" }).click();
    await opened.locator("tbody tr th").first().waitFor({ timeout: WAIT });
    check(await opening.ended === 0, "the command failed");
    await other.close();
  });
  await step("a server that is wrong comes first, with its reason", async () => {
    await row("broken").locator(".why", { hasText: /exit status 3 \(no database\)$/ }).waitFor();
    await row("search").locator(".badge", { hasText: "login needed" }).waitFor();
    const first = (await page.locator("tbody tr th a").allTextContents()).slice(0, 2);
    check(first.sort().join() === "broken,search", `the first rows are ${first}`);
    await page.locator("#program", { hasText: "2 of 4 servers up" }).waitFor();
  });
  await step("an attempt beyond the budget is not said to be one of it", async () => {
    const said = (attempt) => page.evaluate(async (attempt) => {
      const { why } = await import("./servers.js");
      return why({ state: "disconnected", attempt, budget: 10 }, 0);
    }, attempt);
    const [last, beyond] = [await said(10), await said(11)];
    check(last === "attempt 10 of 10" && beyond === "attempt 11", `they are "${last}" and "${beyond}"`);
  });
  await step("a killed server's row changes without a reload", async () => {
    const generation = async () => Number((await row("demo").locator(".state").innerText()).match(/generation\s(\d+)/)?.[1] ?? 0);
    const before = await generation();
    process.kill(await pidOf("demo"), "SIGKILL");
    // It is back within milliseconds: what surely stays is the next generation.
    await page.waitForFunction((last) => {
      const shown = [...document.querySelectorAll("tbody tr")].find((one) => one.dataset.server === "demo");
      return shown.dataset.state === "connected" && Number(shown.textContent.match(/generation\s(\d+)/)?.[1]) > last;
    }, before);
    check(await page.evaluate(() => window.mark) === 1, "the page was loaded again");
  });
  await step("restart works, and is on record", async () => {
    await row("demo").getByRole("button", { name: "Restart demo" }).click();
    await page.locator("#toast", { hasText: "accepted" }).waitFor();
    await page.goto(`http://127.0.0.1:${port}/ui/#/events`);
    await page.locator(".timeline li", { hasText: "restart by dashboard" }).first().waitFor();
  });
  await step("a tool is tried through its form", async () => {
    await page.goto(`http://127.0.0.1:${port}/ui/#/servers/hostile`);
    const tool = page.locator("details.tool").first();
    await tool.locator("summary").first().click();
    await tool.locator("label", { hasText: "text" }).first().locator("input").fill("abc");
    await tool.locator("label", { hasText: "times" }).locator("input").fill("3");
    await tool.locator("label", { hasText: "loud" }).locator("select").selectOption({ label: "true" });
    await tool.getByRole("button", { name: "Call" }).click();
    await tool.locator(".result", { hasText: "ABCABCABC" }).waitFor();
  });
  await step("a call that its server did not survive may have run, which is said once", async () => {
    const tool = page.locator("details.tool", { has: page.locator("summary", { hasText: "die" }) });
    await tool.locator("summary").first().click();
    await tool.getByRole("button", { name: "Call" }).click();
    const said = tool.locator("[role=status]", { hasText: /^failed after/ });
    await said.waitFor();
    const text = await said.textContent();
    check(text.endsWith(" (it may have run)") && text.match(/may have run/g).length === 1, `it says "${text}"`);
    await page.locator(".title .badge", { hasText: "connected" }).waitFor();
  });
  await step("hostile names and descriptions are text", async () => {
    const script = page.locator("details.tool", { hasText: "<script>" }).first();
    await script.locator("summary").first().click();
    await script.locator(".fields .name", { hasText: "<b>bold</b>" }).waitFor();
    await page.locator(".log", { hasText: "<script>window.harmed=5</script>" }).waitFor();
    const harmed = await page.evaluate(() => window.harmed);
    check(harmed === undefined, `harmed is ${harmed}`);
    check(await page.locator("main script, main img").count() === 0, "there is markup of the server in the page");
    const text = await page.locator("main").innerText();
    check(!/[\u001b\u202e]/.test(text), "a control character is in the text");
    check(text.length < 60_000, `the page has ${text.length} characters`);
  });
  await step("a call of another client is shown with its age, and cancelled", async () => {
    const client = await connectClient("a <b>client</b>");
    const waiting = client("tools/call", { name: "hostile__wait", arguments: {} });
    const call = page.locator("tr", { has: page.locator("code", { hasText: "tools/call wait" }) });
    await call.getByText("a <b>client</b>").waitFor();
    await page.screenshot({ path: join(directory, "running.png") });
    await call.getByRole("button", { name: "Cancel tools/call wait" }).click();
    const answer = JSON.stringify(await waiting);
    check(answer.includes("operator cancelled"), `the client was answered ${answer}`);
    await call.waitFor({ state: "detached" });
    await page.locator(".timeline li", { hasText: /cancel .*tools\/call wait.* by dashboard/ }).waitFor();
  });
  await step("what a catalog changed is shown, as text", async () => {
    await control("/servers/hostile/call", { tool: "grow" });
    const revision = page.locator("details.revision", { hasText: "<img src=x" }).first();
    await revision.locator("summary").click();
    await revision.locator("ins", { hasText: "<script>window.harmed=8</script>" }).waitFor();
    await revision.locator("del", { hasText: "Says it again" }).waitFor();
    check(await page.evaluate(() => window.harmed) === undefined, "harm was done");
  });
  await step("the recorder shows the last messages, and those before a loss", async () => {
    await page.locator("details.recorder > summary").click();
    await page.locator(".messages tr", { hasText: "tools/call grow" }).first().waitFor();
    await page.locator(".messages tr", { hasText: "result of tools/call" }).first().waitFor();
    const pid = await pidOf("hostile");
    process.kill(pid, "SIGKILL");
    const lost = page.locator(".timeline li", { hasText: "SIGKILL" }).first();
    await lost.locator("summary", { hasText: "messages before that" }).click();
    await lost.locator(".messages tr", { hasText: "tools/call grow" }).first().waitFor();
    await page.screenshot({ path: join(directory, "recorder.png"), fullPage: true });
  });
  await step("a login as a client that was registered before offers to register it again", async () => {
    await page.goto(`http://127.0.0.1:${port}/ui/#/servers/search`);
    const bodies = [];
    const answered = async (route) => {
      bodies.push(route.request().postData());
      await route.fulfill({ json: { state: "waiting", address: `http://127.0.0.1:9/${bodies.length}`, error: null, reuses_registration: bodies.length === 1 } });
    };
    await page.route("**/servers/search/login", answered);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("button", { name: "Register again" }).click();
    await page.locator('a[href="http://127.0.0.1:9/2"]').waitFor();
    check(await page.getByRole("button", { name: "Register again" }).count() === 0, "a new client is offered to register again");
    check(bodies[0] === null && bodies[1] === '{"register_again":true}', `the requests were ${bodies.join(" and ")}`);
    await page.unroute("**/servers/search/login", answered);
  });
  await step("a server that needs a login has a button, and is connected when the person has logged in", async () => {
    await page.goto(`http://127.0.0.1:${port}/ui/#/`);
    await mark();
    await row("search").locator(".badge", { hasText: "login needed" }).waitFor();
    await row("search").locator("th a").click();
    await page.getByRole("button", { name: "Log in" }).click();
    const opener = page.getByRole("link", { name: "Open the login page" });
    await opener.waitFor();
    await page.screenshot({ path: join(directory, "login.png") });
    const [opened] = await Promise.all([page.context().waitForEvent("page"), opener.click()]);
    await page.locator(".title .badge", { hasText: "connected" }).waitFor();
    check(await page.locator(".login").isHidden(), "the login is still offered");
    check(await opened.evaluate(() => window.opener) === null, "the login page can reach the dashboard");
    await opened.close();
    await page.locator("details.tool", { hasText: "of-ann" }).waitFor();
    await page.locator("a", { hasText: "All servers" }).click();
    await row("search").locator(".badge", { hasText: "connected" }).waitFor();
    check(await page.evaluate(() => window.mark) >= 1, "the page was loaded again");
  });
  await step("stderr, timeline and diagram of a failed server", async () => {
    await page.goto(`http://127.0.0.1:${port}/ui/#/servers/broken`);
    await page.locator(".log", { hasText: "no database" }).waitFor();
    await page.locator(".timeline li").first().waitFor();
    check(await page.locator(".node.lit").count() === 1, "no state is lit");
    await page.locator(".offers", { hasText: "never listed" }).waitFor();
    await page.evaluate(() => scrollTo(0, 0));
    await page.screenshot({ path: join(directory, "server.png"), fullPage: true });
  });
  await step("no accessibility problem in any view, light and dark", async () => {
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      for (const view of ["#/", "#/sessions", "#/events", "#/servers/hostile"]) {
        await page.goto(`http://127.0.0.1:${port}/ui/${view}`);
        await page.waitForTimeout(300);
        const { violations } = await page.evaluate(`${axe}; axe.run()`);
        check(violations.length === 0, `${scheme} ${view}: ${violations.map((one) => `${one.id} at ${one.nodes.map((node) => node.target).slice(0, 3).join("; ")}`).join(", ")}`);
      }
    }
  });
  await step("screenshots in light, dark and narrow; nothing wider than a phone", async () => {
    await page.goto(`http://127.0.0.1:${port}/ui/#/`);
    await row("demo").waitFor();
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.screenshot({ path: join(directory, `${scheme}.png`) });
    }
    await page.setViewportSize({ width: 390, height: 844 });
    await page.waitForTimeout(200);
    for (const [view, name] of [["#/servers/hostile", "narrow-server"], ["#/sessions", "narrow-sessions"], ["#/events", "narrow-events"], ["#/", "narrow"]]) {
      await page.goto(`http://127.0.0.1:${port}/ui/${view}`);
      await page.waitForTimeout(300);
      await page.screenshot({ path: join(directory, `${name}.png`) });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      check(wide <= 390, `${view} is ${wide} wide`);
    }
    const hidden = await page.locator(".scroll").evaluate((table) => table.scrollWidth - table.clientWidth);
    check(hidden <= 1, `${hidden} pixels of the servers are beside the screen`);
    await page.setViewportSize({ width: 1440, height: 900 });
  });
  await step("an age is drawn every five seconds, and a countdown each second", async () => {
    await page.goto(`http://127.0.0.1:${port}/ui/#/`);
    // One is new again, and the other begins its attempts again.
    for (const name of ["demo", "broken"]) await row(name).locator("button", { hasText: "Restart" }).click();
    await row("demo").locator(".state", { hasText: /for \d s/ }).waitFor();
    const seen = await page.evaluate((lasts) => new Promise((done) => {
      const part = (name, css) => document.querySelector(`tr[data-server="${name}"] ${css}`).textContent;
      const [ages, countdowns] = [new Set(), []];
      const looking = setInterval(() => {
        ages.add(part("demo", ".muted").match(/for \d+ \w+/)?.[0]);
        const left = part("broken", ".why").match(/next in (\d+) s/)?.[1];
        if (left && countdowns.at(-1) !== left) countdowns.push(left);
      }, 100);
      setTimeout(() => { clearInterval(looking); done({ ages: [...ages], countdowns: countdowns.map(Number) }); }, lasts);
    }), 20_000);
    check(seen.ages.length >= 2 && seen.ages.length <= 8, `the ages were ${seen.ages}`);
    const steps = seen.countdowns.slice(1).filter((left, at) => left === seen.countdowns[at] - 1);
    check(steps.length >= 3, `the countdown was ${seen.countdowns}`);
  });
  await step("the keyboard reaches every command", async () => {
    await page.goto(`http://127.0.0.1:${port}/ui/#/`);
    await row("demo").waitFor();
    const button = row("demo").getByRole("button", { name: "Disable demo" });
    await button.focus();
    await page.keyboard.press("Enter");
    await row("demo").locator(".badge", { hasText: "disabled" }).waitFor();
    // The row has moved, and the person is still at its button.
    await row("demo").getByRole("button", { name: "Enable demo" }).waitFor();
    const focused = await page.evaluate(() => document.activeElement.getAttribute("aria-label"));
    check(focused === "Enable demo", `the focus is at ${focused}`);
    await page.keyboard.press("Space");
    await row("demo").locator(".badge", { hasText: "connected" }).waitFor();
  });
  await step("a configuration file that is not applied is said, with the reason, until it is fixed", async () => {
    const sound = readFileSync(config, "utf8");
    writeFileSync(config, "{ half");
    await page.locator("#banner", { hasText: "not applied" }).waitFor();
    check((await page.locator("#banner").textContent()).includes("mcp.json"), "the banner names no file");
    await page.reload();
    await page.locator("#banner", { hasText: "not applied" }).waitFor();
    writeFileSync(config, sound);
    await page.locator("#banner").waitFor({ state: "hidden" });
  });
  await step("the program goes away, the page says so, and comes back by itself", async () => {
    await mark();
    await stop("SIGKILL");
    await page.locator("#banner", { hasText: "does not answer" }).waitFor();
    await start();
    await page.locator("#link", { hasText: "live" }).waitFor();
    await row("demo").locator(".badge", { hasText: "connected" }).waitFor();
    check(await page.locator("#banner").isHidden(), "the banner is still there");
    check(await page.evaluate(() => window.mark) >= 1, "the page was loaded again");
  });
  await step("a page that was loaded again is still logged in", async () => {
    await page.reload();
    await row("demo").locator(".badge", { hasText: "connected" }).waitFor();
    await mark();
  });
  await step("another program that took the port gets nothing that is of use, from a page that waits and from one that it serves itself", async () => {
    await stop("SIGKILL");
    const taken = await impostor((request, response) => {
      if (request.url === "/ui/") return response.setHeader("Content-Type", "text/html").end("<title>taken</title>");
      return response.setHeader("Content-Type", "application/json").end(JSON.stringify({ sealed: "00".repeat(80), token: "x" }));
    });
    await taken.gets(4);
    check(taken.got.every((request) => !/authorization|page2\./i.test(request)), `it got ${taken.got.join("\n")}`);
    // A page of its own reads whatever the browser stores for this address.
    const visitor = await context.newPage();
    await visitor.goto(`http://127.0.0.1:${port}/ui/`);
    const stolen = JSON.parse(await visitor.evaluate(() => JSON.stringify({ ...localStorage })));
    await visitor.close();
    await taken.close();
    await start();
    await page.locator("#link", { hasText: "live" }).waitFor();
    check(await page.evaluate(() => window.mark) >= 1, "the page was loaded again");
    const { session, key } = JSON.parse(stolen["mainstay-page"]);
    const bytes = (hex) => Uint8Array.from(hex.match(/../g), (byte) => parseInt(byte, 16));
    const imported = await crypto.subtle.importKey("raw", bytes(key), "AES-GCM", false, ["decrypt"]);
    for (const kind of ["run", "lasting"]) {
      const asked = await fetch(`http://127.0.0.1:${port}/ui/token`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ session, key: kind, nonce: "n" }) });
      const sealed = bytes((await asked.json()).sealed);
      const opened = await crypto.subtle.decrypt({ name: "AES-GCM", iv: sealed.slice(0, 12), additionalData: new TextEncoder().encode("n") }, imported, sealed.slice(12)).then(() => true, () => false);
      check(!opened, `what is stored opens a token with the ${kind} key`);
    }
    check(!/page2\./.test(JSON.stringify(stolen)), "a token is stored");
  });
  await step("the daemon has a page, which comes back when the daemon was killed and started again", async () => {
    mainstay("daemon", "start");
    await page.goto(mainstay("ui", "--print").trim());
    await page.locator("#program", { hasText: "daemon" }).waitFor();
    await row("demo").locator(".badge", { hasText: "connected" }).waitFor();
    await mark();
    const { daemon } = JSON.parse(mainstay("daemon", "status", "--json"));
    process.kill(daemon.pid, "SIGKILL");
    await page.locator("#banner", { hasText: "does not answer" }).waitFor();
    mainstay("daemon", "start");
    await page.locator("#link", { hasText: "live" }).waitFor();
    await row("demo").locator(".badge", { hasText: "connected" }).waitFor();
    check(await page.evaluate(() => window.mark) >= 1, "the page was loaded again");
    const closed = await page.evaluate(async () => (await fetch("../mcp", { method: "POST", body: "{}" })).status);
    check(closed === 401, `MCP at the page's address answers ${closed}`);
  });
  await step("a login link that is a minute old is refused, whether or not it was used", async () => {
    await new Promise((wake) => setTimeout(wake, Math.max(0, unused.at + LINK_LIFETIME - Date.now())));
    const other = await browser.newContext();
    const late = await other.newPage();
    await late.goto(unused.link);
    await late.locator("#toast", { hasText: "mainstay ui" }).waitFor({ timeout: WAIT });
    check(await late.locator("tbody tr th").count() === 0, "a server is shown");
    await other.close();
  });
  await step("no error in the page", async () => check(problems.length === 0, problems.join("\n")));
} finally {
  await browser.close();
  await stop().catch(() => {});
  try { mainstay("daemon", "stop"); } catch { /* It never ran. */ }
  rmSync(runtime, { recursive: true, force: true });
  authorization.removeAllListeners("exit");
  authorization.stdin.end();
}
process.exitCode = failed ? 1 : 0;
