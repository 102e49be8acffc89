//! A handle outlives its server: call, kill the server's process, call again.
//!
//!     cargo run -p mainstay --example outlive

use std::time::Duration;

use mainstay::{Fleet, ServerConfig};
use mainstay_testkit::FaultyServer;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = FaultyServer::new();
    let mut config = ServerConfig::stdio("demo", program.command()).args(program.args());
    for (name, value) in program.env() {
        config = config.env(name, value);
    }
    let fleet = Fleet::builder().start([config.build()?]);
    let server = fleet.server("demo").ok_or("just configured")?;

    let first = server.call("echo", &json!({ "text": "one" })).await?;
    println!("generation {} answered {}", first.generation, first.result);

    let pid = server.status().pid.ok_or("a live server has a process")?;
    std::process::Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status()?;
    println!("killed process {pid}");

    // The same handle: the call waits for the new connection, inside its own deadline.
    let second = server.call("echo", &json!({ "text": "two" })).await?;
    println!("generation {} answered {}", second.generation, second.result);

    fleet.close(Duration::from_secs(10)).await;
    Ok(())
}
