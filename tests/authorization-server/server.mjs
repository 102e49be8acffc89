// A real authorization server and an MCP server that it protects, on two ports of 127.0.0.1.
//
//     node server.mjs PACKAGES TOKEN_SECONDS [FAULT]
//
// Prints one line of JSON with both addresses when it listens. Refresh tokens rotate; one that is used twice revokes the whole
// grant. The MCP server also serves what tests ask for:
//
//     /stats                       what happened so far
//     /secrets                     every secret that was issued
//     /expiries                    when each access token expires, in milliseconds since 1970
//     /latest                      the refresh token that was issued last
//     /person?name=ann&agrees=yes  who opens the login page next, and whether that person agrees
//     /fault?kind=KIND             how the token endpoint behaves from now on: `none`; a status such as `503`; `slow` answers after
//                                  2 s; `down` closes the connection; `stall` does its work and never answers

import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [packages, seconds] = [process.argv[2], Number(process.argv[3])];
const { default: Provider } = await import(
  pathToFileURL(createRequire(packages + "/").resolve("oidc-provider"))
);

const listen = (server) => new Promise((done) => server.listen(0, "127.0.0.1", () => done(server.address().port)));
const stats = {
  requests: 0,
  refreshes: 0,
  early_refreshes: 0,
  invalid_grants: 0,
  token_errors: 0,
  accepted: 0,
  refused: 0,
  stalled: 0,
  shortest_life_ms: null,
  longest_life_ms: null,
};
const secrets = new Set();
/** When each access token expires, in milliseconds since 1970. */
const expiries = new Map();
let fault = "none";
let person = { name: "ann", agrees: true };
let latest = { refresh_token: null, issued_at: 0 };
const SECRET_NAMES = [
  "access_token",
  "refresh_token",
  "id_token",
  "device_code",
  "client_secret",
  "registration_access_token",
];

const authorization = createServer();
const issuer = `http://127.0.0.1:${await listen(authorization)}`;
const mcp = createServer();
const resource = `http://127.0.0.1:${await listen(mcp)}/mcp`;

const provider = new Provider(issuer, {
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    revocation: { enabled: true },
    deviceFlow: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope: "mcp", audience: resource, accessTokenTTL: seconds, accessTokenFormat: "opaque" }),
    },
  },
  scopes: ["offline_access"],
  rotateRefreshToken: true,
  issueRefreshToken: async () => true,
  pkce: { required: () => true },
  interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
  findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  cookies: { keys: ["test"] },
  ttl: { AccessToken: seconds, Interaction: 600, Session: 600, Grant: 3600, RefreshToken: 3600 },
});
provider.on("grant.success", (context) => {
  const now = Date.now();
  if (context.oidc.params.grant_type === "refresh_token") {
    stats.refreshes += 1;
    const life = now - latest.issued_at;
    // A token is renewed after two thirds of its life. One that was renewed just before had a second refresher.
    if (life < seconds * 250) stats.early_refreshes += 1;
    stats.shortest_life_ms = Math.min(stats.shortest_life_ms ?? life, life);
    stats.longest_life_ms = Math.max(stats.longest_life_ms ?? life, life);
  }
  if (context.body?.access_token) {
    // The server counts in whole seconds.
    expiries.set(context.body.access_token, (Math.floor(now / 1000) + seconds) * 1000);
    if (expiries.size > 1000) expiries.delete(expiries.keys().next().value);
  }
  if (context.body?.refresh_token) latest = { refresh_token: context.body.refresh_token, issued_at: now };
  for (const name of ["code", "code_verifier"]) {
    if (context.oidc.params[name]) secrets.add(context.oidc.params[name]);
  }
});
provider.on("grant.error", (_context, error) => {
  stats.token_errors += 1;
  if (error.error === "invalid_grant") stats.invalid_grants += 1;
});

/** The person logs in and agrees to everything at once, or refuses. */
async function agree(request, response) {
  const details = await provider.interactionDetails(request, response);
  const { prompt, params, session } = details;
  if (!person.agrees) {
    const refused = { error: "access_denied", error_description: "the person said no" };
    return provider.interactionFinished(request, response, refused, { mergeWithLastSubmission: false });
  }
  if (prompt.name === "login") {
    return provider.interactionFinished(request, response, { login: { accountId: person.name } }, { mergeWithLastSubmission: false });
  }
  const known = details.grantId && (await provider.Grant.find(details.grantId));
  const grant = known || new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  const missing = prompt.details;
  if (missing.missingOIDCScope) grant.addOIDCScope(missing.missingOIDCScope.join(" "));
  for (const [indicator, scopes] of Object.entries(missing.missingResourceScopes ?? {})) {
    grant.addResourceScope(indicator, scopes.join(" "));
  }
  const consent = { grantId: await grant.save() };
  return provider.interactionFinished(request, response, { consent }, { mergeWithLastSubmission: true });
}

/** Notes the secrets of an answer on its way out. */
function watchSecrets(response) {
  const end = response.end.bind(response);
  response.end = (chunk, ...rest) => {
    const type = String(response.getHeader("content-type") ?? "");
    if (chunk && type.includes("json")) {
      const body = JSON.parse(String(chunk));
      for (const name of SECRET_NAMES) if (body[name]) secrets.add(body[name]);
    }
    const location = response.getHeader("location");
    const code = location && new URL(location, issuer).searchParams.get("code");
    if (code) secrets.add(code);
    return end(chunk, ...rest);
  };
}

const callback = provider.callback();
authorization.on("request", (request, response) => {
  watchSecrets(response);
  const isBrowser = /^\/(auth|interaction|device$|device\?)/.test(request.url);
  if (!isBrowser) stats.requests += 1;
  if (request.url.startsWith("/interaction/")) {
    agree(request, response).catch((error) => response.writeHead(500).end(String(error)));
    return;
  }
  if (!request.url.startsWith("/token") || fault === "none") return callback(request, response);
  switch (fault) {
    case "slow":
      setTimeout(() => callback(request, response), 2000);
      break;
    case "down":
      request.socket.destroy();
      break;
    case "stall": {
      response.end = () => (stats.stalled += 1);
      callback(request, response);
      break;
    }
    default: {
      const headers = { "content-type": "application/json", ...(fault === "429" && { "retry-after": "1" }) };
      response.writeHead(Number(fault), headers).end('{"error":"temporarily_unavailable"}');
    }
  }
});

const json = (response, status, value, headers = {}) =>
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(value));

function result(message, account) {
  switch (message.method) {
    case "initialize":
      return { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "protected", version: "1" } };
    case "tools/list":
      return {
        tools: ["echo", `of-${account}`].map((name) => ({
          name,
          inputSchema: { type: "object" },
          annotations: { readOnlyHint: true },
        })),
      };
    case "tools/call":
      return { content: [{ type: "text", text: "ok" }] };
    case "ping":
      return {};
  }
}

mcp.on("request", async (request, response) => {
  const url = new URL(request.url, resource);
  if (url.pathname === "/stats") return json(response, 200, stats);
  if (url.pathname === "/secrets") return json(response, 200, [...secrets]);
  if (url.pathname === "/expiries") return json(response, 200, Object.fromEntries(expiries));
  if (url.pathname === "/latest") return json(response, 200, latest);
  if (url.pathname === "/person") {
    const answer = url.searchParams;
    person = { name: answer.get("name") ?? "ann", agrees: answer.get("agrees") !== "no" };
    return json(response, 200, person);
  }
  if (url.pathname === "/fault") {
    fault = url.searchParams.get("kind");
    return json(response, 200, { fault });
  }
  stats.requests += 1;
  if (url.pathname === "/.well-known/oauth-protected-resource/mcp") {
    return json(response, 200, { resource, authorization_servers: [issuer], scopes_supported: ["mcp"] });
  }
  let body = "";
  for await (const piece of request) body += piece;
  const token = request.headers.authorization?.replace(/^Bearer /, "");
  const found = token ? await provider.AccessToken.find(token) : undefined;
  if (!found?.isValid) {
    stats.refused += token ? 1 : 0;
    const metadata = `${new URL(resource).origin}/.well-known/oauth-protected-resource/mcp`;
    return json(response, 401, { error: "unauthorized" }, { "www-authenticate": `Bearer resource_metadata="${metadata}"` });
  }
  if (request.method !== "POST") return response.writeHead(405).end();
  stats.accepted += 1;
  const message = JSON.parse(body);
  if (message.id === undefined) return response.writeHead(202).end();
  const value = result(message, found.accountId);
  const error = { code: -32601, message: "method not found" };
  json(response, 200, { jsonrpc: "2.0", id: message.id, ...(value ? { result: value } : { error }) });
});

console.log(JSON.stringify({ issuer, resource }));
// The test ends this program by closing its input.
process.stdin.resume().on("end", () => process.exit(0));
