//! An MCP server built on rmcp as its users build one: a peer that Mainstay did not write.
//!
//! It speaks on stdio, or with `--http PORT` over Streamable HTTP at `http://127.0.0.1:PORT/mcp`; 0 is any free port, and
//! the port is the first line on stdout. Either way it speaks both eras of the protocol, as rmcp does.

mod server;
mod tools;

use anyhow::{Context, bail};
use rmcp::ServiceExt;
use server::RmcpServer;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            let server = RmcpServer::default();
            server.serve(rmcp::transport::stdio()).await?.waiting().await?;
            Ok(())
        }
        ["--http", port] => {
            let port = port.parse().context("a port is a number")?;
            let shared = RmcpServer::default();
            mainstay_partner::serve_http(port, move || shared.for_another_client()).await
        }
        _ => bail!("usage: rmcp-server [--http PORT]"),
    }
}
