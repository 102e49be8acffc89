// A real authorization server and an MCP server that it protects, on two ports of 127.0.0.1.
//
//     node server.mjs PACKAGES TOKEN_SECONDS [FAULT]
//
// Prints one line of JSON with both addresses when it listens. Its person always agrees. `GET /stats` of the MCP server counts
// what happened, `POST /fault?status=503` makes the token endpoint answer so until `?status=0`, and `GET /secrets` lists every
// secret that was issued. Refresh tokens rotate; one that is used twice revokes the whole grant.

import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [packages, seconds] = [process.argv[2], Number(process.argv[3])];
const { default: Provider } = await import(
  pathToFileURL(createRequire(packages + "/").resolve("oidc-provider"))
);

const listen = (server) => new Promise((done) => server.listen(0, "127.0.0.1", () => done(server.address().port)));
const stats = { refreshes: 0, invalid_grants: 0, token_errors: 0, accepted: 0, refused: 0, revocations: 0 };
const secrets = new Set();
let fault = 0;

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
  if (context.oidc.params.grant_type === "refresh_token") stats.refreshes += 1;
  for (const name of ["access_token", "refresh_token"]) if (context.body?.[name]) secrets.add(context.body[name]);
  if (context.oidc.params.code) secrets.add(context.oidc.params.code);
  if (context.oidc.params.code_verifier) secrets.add(context.oidc.params.code_verifier);
});
provider.on("grant.error", (_context, error) => {
  stats.token_errors += 1;
  if (error.error === "invalid_grant") stats.invalid_grants += 1;
});
provider.on("revocation.success", () => (stats.revocations += 1));

/** The person logs in and agrees to everything at once. */
async function agree(request, response) {
  const details = await provider.interactionDetails(request, response);
  const { prompt, params, session } = details;
  if (prompt.name === "login") {
    return provider.interactionFinished(request, response, { login: { accountId: "ann" } }, { mergeWithLastSubmission: false });
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

const callback = provider.callback();
authorization.on("request", (request, response) => {
  if (request.url.startsWith("/interaction/")) {
    agree(request, response).catch((error) => response.writeHead(500).end(String(error)));
  } else if (fault && request.url.startsWith("/token")) {
    response.writeHead(fault, { "content-type": "application/json" }).end('{"error":"temporarily_unavailable"}');
  } else {
    callback(request, response);
  }
});

const json = (response, status, value, headers = {}) =>
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(value));

function result(message) {
  switch (message.method) {
    case "initialize":
      return { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "protected", version: "1" } };
    case "tools/list":
      return { tools: [{ name: "echo", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } }] };
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
  if (url.pathname === "/fault") {
    fault = Number(url.searchParams.get("status"));
    return json(response, 200, { fault });
  }
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
  const value = result(message);
  const error = { code: -32601, message: "method not found" };
  json(response, 200, { jsonrpc: "2.0", id: message.id, ...(value ? { result: value } : { error }) });
});

console.log(JSON.stringify({ issuer, resource }));
// The test ends this program by closing its input.
process.stdin.resume().on("end", () => process.exit(0));
