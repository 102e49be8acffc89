//! An MCP server on rmcp with everything that the MCP conformance suite looks for in a server, in both eras.
//!
//! It speaks on stdio, or with `--http PORT` over Streamable HTTP at `http://127.0.0.1:PORT/mcp`; 0 is any free port, and
//! the port is the first line on stdout. The suite runs against it directly and through the gateway, so that what the
//! gateway loses shows as a difference.

mod asking;
mod fixtures;
mod questions;
mod running;
mod server;
mod toggle;

use anyhow::{Context, bail};
use rmcp::ServiceExt;
use server::ConformanceServer;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let server = ConformanceServer::default();
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            server.serve(rmcp::transport::stdio()).await?.waiting().await?;
            Ok(())
        }
        ["--http", port] => {
            let port = port.parse().context("a port is a number")?;
            mainstay_partner::serve_http(port, move || server.for_another_client()).await
        }
        _ => bail!("usage: conformance-server [--http PORT]"),
    }
}
