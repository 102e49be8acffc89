// A server on the TypeScript SDK 2, as its default handler serves it over HTTP: in the modern era, and in the legacy era without a session.
// A question can reach a client in the modern era alone.
//
//     node ts_server.mjs
//
// The first line on stdout is the port that it listens on.

import { createServer } from "node:http";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { McpServer, acceptedContent, createMcpHandler, inputRequired } from "@modelcontextprotocol/server";
import { z } from "zod";

const QUESTION = {
  message: "Who?",
  requestedSchema: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
};

const handler = createMcpHandler(() => {
  const server = new McpServer({ name: "ts-server", version: "1.0.0" });
  server.registerTool("ask", { description: "Asks for a name.", inputSchema: z.object({}) }, (_arguments, context) => {
    const answer = acceptedContent(context.mcpReq.inputResponses, "who");
    if (answer === undefined) return inputRequired({ inputRequests: { who: inputRequired.elicit(QUESTION) } });
    return { content: [{ type: "text", text: `accept:${answer.name}` }] };
  });
  return server;
});
const listener = toNodeHandler(handler);
const server = createServer((request, response) => listener(request, response));
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
