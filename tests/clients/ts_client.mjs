// The client of the TypeScript SDK, told what to do.
//
//     node ts_client.mjs ERA TARGET STEPS
//
// ERA is `legacy` or `modern`. TARGET is a JSON object: {"url": …}, or {"command": …, "args": […], "env": {…}}. STEPS is a JSON array of
// objects; `do` says what. One line of JSON on stdout says what came of each, the first one what was agreed on. A step that
// fails says so under `error`, and the next one is done.

import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const LISTED_WITHIN = 30_000;
const STEP_WITHIN = { timeout: 30_000 };
const REPEAT_INTERVAL = 5;
const MODES = { legacy: "legacy", modern: { pin: "2026-07-28" } };

const [era, target, steps] = [process.argv[2], JSON.parse(process.argv[3]), JSON.parse(process.argv[4])];
const asked = [];

const client = new Client(
  { name: "mainstay-test-client", version: "1.0.0" },
  { capabilities: { elicitation: {}, sampling: {} }, versionNegotiation: { mode: MODES[era] } },
);
client.setRequestHandler("elicitation/create", async () => {
  asked.push("elicitation/create");
  return { action: "accept", content: { name: "Ada" } };
});
client.setRequestHandler("sampling/createMessage", async () => {
  asked.push("sampling/createMessage");
  return { role: "assistant", content: { type: "text", text: "a sampled answer" }, model: "none" };
});

const known = {
  // Lists until a tool is there: a server that is not up yet has none.
  async list({ until }) {
    const deadline = Date.now() + LISTED_WITHIN;
    for (;;) {
      const listed = await client.listTools(undefined, { ...STEP_WITHIN, cacheMode: "refresh" });
      const tools = listed.tools.map((tool) => tool.name);
      if (tools.includes(until) || Date.now() > deadline) return { tools };
      await sleep(50);
    }
  },
  async call(step) {
    return text(await call(step));
  },
  // Calls a tool with one key after the other until a file is there, and once more then.
  async repeat({ tool, key: prefix, until }) {
    const ended = {};
    for (let n = 0; ; n++) {
      const isLast = existsSync(until);
      const key = `${prefix}n${n}`;
      ended[key] = outcome(await call({ tool, arguments: { key } }));
      if (isLast) return { ended };
      await sleep(REPEAT_INTERVAL);
    }
  },
  async progress(step) {
    const heard = [];
    const result = await call(step, { onprogress: ({ progress }) => heard.push(progress) });
    return { ...text(result), heard };
  },
  async ask(step) {
    asked.length = 0;
    const result = await call(step);
    return { ...text(result), asked };
  },
  async prompt({ name, arguments: given }) {
    const listed = (await client.listPrompts(undefined, STEP_WITHIN)).prompts.map((prompt) => prompt.name);
    const result = await client.getPrompt({ name, arguments: given }, STEP_WITHIN);
    return { listed, text: result.messages[0].content.text };
  },
  async resource({ uri }) {
    const listed = (await client.listResources(undefined, STEP_WITHIN)).resources.map((resource) => resource.uri);
    const result = await client.readResource({ uri }, STEP_WITHIN);
    return { listed, text: result.contents[0].text };
  },
};

function call({ tool, arguments: given }, options = {}) {
  return client.callTool({ name: tool, arguments: given }, { ...STEP_WITHIN, ...options });
}

function text({ content, isError }) {
  const texts = content.filter(({ type }) => type === "text").map((block) => block.text);
  return { text: texts.join("\n"), is_error: isError === true };
}

// What Mainstay says of a call that failed; `answered` for an answer of the server.
function outcome({ _meta, isError }) {
  return _meta?.mainstay?.outcome ?? (isError ? "failed" : "answered");
}

function say(step, what) {
  console.log(JSON.stringify({ do: step, ...what }));
}

const transport = target.url
  ? new StreamableHTTPClientTransport(new URL(target.url))
  : new StdioClientTransport(target);
await client.connect(transport, STEP_WITHIN);
say("connect", { protocol: client.getNegotiatedProtocolVersion() });
for (const step of steps) {
  try {
    say(step.do, await known[step.do](step));
  } catch (error) {
    say(step.do, { error: String(error) });
  }
}
await client.close();
