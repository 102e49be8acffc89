"""A client and a server on the Python SDK of MCP, which trace with OpenTelemetry as their users would have them do.

    traced.py server                  on stdio, with a tool `echo`
    traced.py client ERA URL TOOL     calls a tool once; ERA is `legacy` or `modern`

OTEL_EXPORTER_OTLP_ENDPOINT says where the spans go, OTEL_SERVICE_NAME whose they are.
"""

import sys

import anyio
from mcp import Client
from mcp.server.mcpserver import MCPServer
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

server = MCPServer("traced", log_level="WARNING")


@server.tool()
def echo(text: str) -> str:
    """Answers with its text."""
    return text


async def call(era, url, tool):
    mode = {"legacy": "legacy", "modern": "2026-07-28"}[era]
    async with Client(url, mode=mode) as client:
        with trace.get_tracer("agent").start_as_current_span("agent"):
            result = await client.call_tool(tool, {"text": "hello"})
        assert result.content[0].text == "hello", result


match sys.argv[1:]:
    case ["server"]:
        server.run()
    case ["client", era, url, tool]:
        anyio.run(call, era, url, tool)
        provider.shutdown()
    case _:
        sys.exit(__doc__)
