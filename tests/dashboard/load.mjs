// How fast and how light the dashboard is: 200 servers under 50 transitions a second, in a real browser.
//
// Arguments: the program, a directory for files, the browser, the packages, and how many seconds of change (60). Prints a figure a
// line, each with its limit; the exit status is 1 if one is over it.

import { execFileSync, spawn } from "node:child_process";
import { createRequire } from "node:module";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join, resolve } from "node:path";

const [programPath, directory, browserPath, modules, seconds = "60"] = process.argv.slice(2);
const program = resolve(programPath);
const { chromium } = createRequire(join(modules, "package.json"))("playwright-core");
const SERVERS = 200;
const RATE = 50;
const IDLE_SECONDS = 20;
const ROUNDS = 5;
const pause = (ms) => new Promise((wake) => setTimeout(wake, ms));

/** One process that is all servers: each path is one. */
const far = createServer((request, response) => {
  let body = "";
  request.on("data", (piece) => { body += piece; });
  request.on("end", () => {
    if (request.method !== "POST") return response.writeHead(405).end();
    const message = JSON.parse(body);
    if (message.id === undefined) return response.writeHead(202).end();
    const result = {
      initialize: { protocolVersion: message.params?.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "far", version: "1" } },
      "tools/list": { tools: [{ name: "echo", inputSchema: { type: "object" } }] },
      ping: {},
    }[message.method];
    const answer = result ? { result } : { error: { code: -32601, message: "no such method" } };
    response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify({ jsonrpc: "2.0", id: message.id, ...answer }));
    return undefined;
  });
});
const listen = (server) => new Promise((ready) => server.listen(0, "127.0.0.1", () => ready(server.address().port)));
const farPort = await listen(far);
const probe = createServer();
const port = await listen(probe);
await new Promise((closed) => probe.close(closed));

mkdirSync(directory, { recursive: true });
const names = Array.from({ length: SERVERS }, (_, index) => `server-${String(index).padStart(3, "0")}`);
const config = join(directory, "load.json");
writeFileSync(config, JSON.stringify({
  mcpServers: Object.fromEntries(names.map((name) => [name, { url: `http://127.0.0.1:${farPort}/${name}`, era: "legacy" }])),
}));
const tokenFile = join(directory, "load-token");
const env = { ...process.env, MAINSTAY_CACHE: join(directory, "load-cache"), XDG_STATE_HOME: join(directory, "load-state") };
const serving = spawn(program, ["--config", config, "serve", "--admin", "--admin-token-file", tokenFile, "--listen", `127.0.0.1:${port}`], { env, stdio: ["ignore", "ignore", "pipe"] });
let said = "";
await new Promise((ready, failed) => {
  serving.stderr.on("data", (piece) => { if (said.length < 10_000) said += piece; if (said.includes("/mcp")) ready(); });
  serving.on("exit", (code) => failed(new Error(`the program ended with ${code}: ${said}`)));
});
const token = readFileSync(tokenFile, "utf8").trim();
const api = async (path, method = "GET") => (await fetch(`http://127.0.0.1:${port}/api/v1${path}`, { method, headers: { Authorization: `Bearer ${token}` } })).json();
while ((await api("")).connected < SERVERS) await pause(200);

/** The processor time of this browser's processes, in seconds. */
function browserTime() {
  let ticks = 0;
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      if (!readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(profile)) continue;
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /, "").split(" ");
      ticks += Number(fields[11]) + Number(fields[12]);
    } catch { /* It has ended. */ }
  }
  return ticks / 100;
}

const profile = join(directory, "load-profile");
const context = await chromium.launchPersistentContext(profile, { executablePath: browserPath, args: ["--no-sandbox", `--crash-dumps-dir=${profile}`], viewport: { width: 1440, height: 900 } });
const page = await context.newPage();
const devtools = await context.newCDPSession(page);
// Durations are processor time of the page's main thread: other programs on the machine do not count.
await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
const metrics = async () => Object.fromEntries((await devtools.send("Performance.getMetrics")).metrics.map(({ name, value }) => [name, value]));

let failed = 0;
function figure(name, value, limit, unit) {
  const isOver = value > limit;
  if (isOver) failed += 1;
  console.log(`${isOver ? "not ok" : "ok"} ${name}: ${value.toFixed(2)} ${unit} (limit ${limit} ${unit})`);
}

/** Changes states until it is told to stop: a server that is disabled and enabled again makes about five transitions. */
let changing = false;
async function change() {
  for (let at = 0; changing; at = (at + 1) % SERVERS) {
    const name = names[at];
    api(`/servers/${name}/disable`, "POST").then(() => api(`/servers/${name}/enable`, "POST")).catch(() => {});
    await pause(1000 * 4 / RATE);
  }
}

async function measure() {
  const link = execFileSync(program, ["ui", "--print", "--url", `http://127.0.0.1:${port}`, "--admin-token-file", tokenFile], { env, encoding: "utf8" }).trim();
  await page.goto(link);
  const allRows = () => document.querySelectorAll("tbody tr th").length;
  await page.waitForFunction((count) => document.querySelectorAll("tbody tr th").length === count, SERVERS);

  changing = true;
  const changes = change();
  await pause(3000);
  const painted = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    await page.reload();
    await page.waitForFunction((count) => document.querySelectorAll("tbody tr th").length === count, SERVERS);
    const times = await page.evaluate(() => ({ first: performance.getEntriesByName("first-contentful-paint")[0].startTime, rows: performance.now() }));
    painted.push({ ...times, used: (await metrics()).TaskDuration });
    console.log(`  painted after ${times.first.toFixed(0)} ms, all rows after ${times.rows.toFixed(0)} ms, ${(painted.at(-1).used * 1000).toFixed(0)} ms of the processor`);
  }
  const median = (values) => values.sort((one, other) => one - other)[Math.floor(values.length / 2)];
  figure("first paint under change", median(painted.map(({ first }) => first)) / 1000, 1, "s");
  figure("all rows drawn under change", median(painted.map(({ rows }) => rows)) / 1000, 1.5, "s");
  figure("processor time of the page for that", median(painted.map(({ used }) => used)), 0.5, "s");

  // The page keeps a bounded number of events; its memory is flat from when it has as many.
  const before = (await api("")).last_event;
  const beganAt = Date.now();
  const samples = [];
  const every = Math.max(5, Number(seconds) / 12);
  const busy = (await metrics()).TaskDuration;
  while (Date.now() - beganAt < Number(seconds) * 1000) {
    await pause(every * 1000);
    await devtools.send("HeapProfiler.collectGarbage");
    const now = await metrics();
    samples.push({ heap: now.JSHeapUsedSize / 1e6, nodes: now.Nodes, at: (Date.now() - beganAt) / 1000 });
    console.log(`  after ${samples.at(-1).at.toFixed(0)} s: ${samples.at(-1).heap.toFixed(1)} MB, ${now.Nodes} nodes, ${await page.evaluate(allRows)} rows`);
  }
  const elapsed = (Date.now() - beganAt) / 1000;
  const rate = ((await api("")).last_event - before) / elapsed;
  console.log(`  ${rate.toFixed(0)} events a second, page busy ${(100 * ((await metrics()).TaskDuration - busy) / elapsed).toFixed(0)} % of a core`);
  if (rate < RATE) { failed += 1; console.log(`not ok the load: ${rate.toFixed(0)} events a second are fewer than ${RATE}`); }
  // From when the list of events is full.
  const full = samples.filter(({ at }) => at * rate > 5000);
  const [first, last] = [full[0] ?? samples[Math.floor(samples.length / 2)], samples.at(-1)];
  figure("growth of the page's memory", last.heap - first.heap, 2, "MB");
  figure("growth of the page's nodes", last.nodes - first.nodes, 2000, "nodes");

  changing = false;
  await changes;
  // Nothing happens when every server is back and no event has come for three seconds.
  for (let last = -1, now = 0; last !== now || (await api("")).connected < SERVERS;) {
    last = now;
    await pause(3000);
    now = (await api("")).last_event;
  }
  const idleFrom = { at: Date.now(), used: browserTime(), busy: (await metrics()).TaskDuration };
  await pause(IDLE_SECONDS * 1000);
  const idle = (Date.now() - idleFrom.at) / 1000;
  figure("browser when nothing happens", 100 * (browserTime() - idleFrom.used) / idle, 5, "% of a core");
  figure("the page itself when nothing happens", 100 * ((await metrics()).TaskDuration - idleFrom.busy) / idle, 3, "% of a core");
}

try {
  await measure();
} finally {
  await context.close();
  serving.removeAllListeners("exit");
  serving.kill("SIGTERM");
  far.closeAllConnections();
  far.close();
}
process.exitCode = failed ? 1 : 0;
