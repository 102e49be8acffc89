"""A server on stdio with one tool, for any release of the Python SDK before 2.0."""

try:
    from mcp.server.fastmcp import FastMCP
except ImportError:
    FastMCP = None


def run_fastmcp():
    server = FastMCP("old")

    @server.tool()
    def echo(text: str) -> str:
        """Answers with its text."""
        return text

    server.run()


async def run_lowlevel():
    from mcp.server import Server
    from mcp.server.stdio import stdio_server
    from mcp.types import TextContent, Tool

    server = Server("old")

    @server.list_tools()
    async def list_tools():
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        return [Tool(name="echo", description="Answers with its text.", inputSchema=schema)]

    @server.call_tool()
    async def call_tool(name, arguments):
        return [TextContent(type="text", text=arguments["text"])]

    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


if FastMCP is not None:
    run_fastmcp()
else:
    # The first releases have no FastMCP.
    import anyio

    anyio.run(run_lowlevel)
