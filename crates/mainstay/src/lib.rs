//! Keeps MCP servers connected.

mod catalog;
mod config;
mod process;
mod transport;
mod wire;
