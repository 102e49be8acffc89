// A server on stdio with one tool, for any release of the TypeScript SDK before 2.0: `node typescript_server.mjs SDK`, where
// SDK is the directory of the installed release.

import { existsSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const sdk = process.argv[2];
// Releases before 1.10 have one build, later ones two.
const build = existsSync(`${sdk}/dist/esm`) ? `${sdk}/dist/esm` : `${sdk}/dist`;
const load = (module) => import(pathToFileURL(`${build}/${module}`).href);

const { Server } = await load('server/index.js');
const { StdioServerTransport } = await load('server/stdio.js');
const { CallToolRequestSchema, ListToolsRequestSchema } = await load('types.js');

const server = new Server({ name: 'old', version: '1.0.0' }, { capabilities: { tools: {} } });
const inputSchema = { type: 'object', properties: { text: { type: 'string' } } };
server.setRequestHandler(ListToolsRequestSchema, async () => ({
  tools: [{ name: 'echo', description: 'Answers with its text.', inputSchema }],
}));
server.setRequestHandler(CallToolRequestSchema, async ({ params }) => ({
  content: [{ type: 'text', text: String(params.arguments.text) }],
}));
await server.connect(new StdioServerTransport());
