//! Scripted faulty MCP servers.
