//! An rmcp client whose session outlives its server: call, kill the server's process, call again.
//!
//!     cargo run -p mainstay-rmcp --example one_line

use std::process::Command;

use mainstay::ServerConfig;
use mainstay_testkit::FaultyServer;
use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, CallToolResult};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = FaultyServer::new();
    let config = ServerConfig::stdio("demo", program.command())
        .args(program.args())
        .build()?;

    // Without Mainstay: `().serve(TokioChildProcess::new(command)?)`.
    let client = ().serve(mainstay_rmcp::supervised(config)).await?;
    println!(
        "connected to {:?}",
        client.peer_info().and_then(|server| server.server_info.clone())
    );

    let pid = text(&client.call_tool(CallToolRequestParams::new("pid")).await?);
    println!("process {pid} answered");
    Command::new("kill").args(["-9", &pid]).status()?;
    println!("killed process {pid}");

    // The same client: the call waits for the new process.
    let pid = text(&client.call_tool(CallToolRequestParams::new("pid")).await?);
    println!("process {pid} answered");

    client.cancel().await?;
    Ok(())
}

fn text(result: &CallToolResult) -> String {
    let texts = result.content.iter().filter_map(|block| block.as_text());
    texts.map(|block| block.text.as_str()).collect()
}
