"""MCP servers that are their own authorization servers, built as their users build them.

    python_server.py sdk|fastmcp PORT

`sdk` uses the routes of the Python SDK, `fastmcp` the in-memory provider of FastMCP. Everyone who opens the login page is logged in.
All is kept in memory: a server that is started again on its port has forgotten every client and every token. Prints one line of
JSON with both addresses when it listens, and ends when its input is closed.
"""

import json
import os
import secrets
import socket
import sys
import threading
import time

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthToken

TOKEN_SECONDS = 600


class InMemoryProvider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Clients, codes and tokens of the Python SDK's routes."""

    def __init__(self):
        self.clients, self.codes, self.accesses, self.refreshes = {}, {}, {}, {}

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        code = AuthorizationCode(
            code=secrets.token_hex(16),
            scopes=params.scopes or [],
            expires_at=time.time() + TOKEN_SECONDS,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        del self.codes[authorization_code.code]
        return self.issue(client, authorization_code.scopes)

    async def load_refresh_token(self, client, refresh_token):
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        del self.refreshes[refresh_token.token]
        return self.issue(client, scopes)

    async def load_access_token(self, token):
        return self.accesses.get(token)

    async def revoke_token(self, token):
        self.accesses.pop(token.token, None)
        self.refreshes.pop(token.token, None)

    def issue(self, client, scopes):
        access, refresh = secrets.token_hex(16), secrets.token_hex(16)
        common = {"client_id": client.client_id, "scopes": scopes}
        self.accesses[access] = AccessToken(token=access, expires_at=int(time.time()) + TOKEN_SECONDS, **common)
        self.refreshes[refresh] = RefreshToken(token=refresh, **common)
        return OAuthToken(
            access_token=access,
            token_type="Bearer",
            expires_in=TOKEN_SECONDS,
            refresh_token=refresh,
            scope=" ".join(scopes),
        )


def sdk(origin):
    from mcp.server.mcpserver import MCPServer

    settings = AuthSettings(
        issuer_url=origin,
        resource_server_url=f"{origin}/mcp",
        client_registration_options=ClientRegistrationOptions(enabled=True),
        revocation_options=RevocationOptions(enabled=True),
        validate_token_resource=False,
    )
    server = MCPServer("sdk", auth=settings, auth_server_provider=InMemoryProvider(), log_level="ERROR")
    server.tool()(echo)
    return server.streamable_http_app()


def fastmcp(origin):
    from fastmcp import FastMCP
    from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider

    provider = InMemoryOAuthProvider(
        base_url=origin,
        client_registration_options=ClientRegistrationOptions(enabled=True),
        revocation_options=RevocationOptions(enabled=True),
    )
    server = FastMCP("fastmcp", auth=provider)
    server.tool(echo)
    return server.http_app()


def echo() -> str:
    """Answers."""
    return "ok"


def main():
    framework, port = sys.argv[1], int(sys.argv[2])
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    app = {"sdk": sdk, "fastmcp": fastmcp}[framework](origin)
    listener.listen()
    print(json.dumps({"issuer": origin, "resource": f"{origin}/mcp"}), flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listener])


main()
