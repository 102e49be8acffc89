//! How long many servers take to start and to stop, and what of that is this program's own work.
//!
//!     cargo run --release -p mainstay --example many_servers            # 50, 100, 200 and 500 servers
//!     cargo run --release -p mainstay --example many_servers -- 25 300  # so many
//!
//! Each server is a process of its own: this program again, which then answers as a small MCP server.

use std::error::Error;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use mainstay::{Fleet, ServerConfig};
use serde_json::{Value, json};

/// Makes this program a server.
const SERVE: &str = "--serve";

/// What is measured when nothing else is asked for.
const SIZES: [usize; 4] = [50, 100, 200, 500];

/// Longer than any of it should take.
const LONG: Duration = Duration::from_secs(600);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == SERVE) {
        return serve();
    }
    let mut sizes = arguments
        .iter()
        .map(|size| size.parse())
        .collect::<Result<Vec<usize>, _>>()?;
    if sizes.is_empty() {
        sizes = SIZES.to_vec();
    }
    mainstay::process::raise_descriptor_limit()?;
    println!("servers  start (s)  own processor time (s)  stop (s)  own processor time (s)  killed");
    let runtime = tokio::runtime::Runtime::new()?;
    for size in sizes {
        runtime.block_on(measure(size))?;
    }
    Ok(())
}

async fn measure(size: usize) -> Result<(), Box<dyn Error>> {
    let program = std::env::current_exe()?.display().to_string();
    let mut servers = Vec::new();
    for n in 0..size {
        servers.push(
            ServerConfig::stdio(format!("server-{n}"), program.as_str())
                .arg(SERVE)
                .build()?,
        );
    }
    let (began, used) = (Instant::now(), processor_time());
    let fleet = Fleet::builder().start(servers);
    for server in fleet.servers() {
        server.wait_connected(LONG).await?;
    }
    let (start, start_used) = (began.elapsed(), processor_time() - used);
    let (began, used) = (Instant::now(), processor_time());
    let report = fleet.close(LONG).await;
    let (stop, stop_used) = (began.elapsed(), processor_time() - used);
    println!(
        "{size:>7}  {:>9.2}  {:>22.2}  {:>8.2}  {:>22.2}  {:>6}",
        start.as_secs_f64(),
        start_used.as_secs_f64(),
        stop.as_secs_f64(),
        stop_used.as_secs_f64(),
        report.killed().count(),
    );
    Ok(())
}

/// The processor time of this process so far, in steps of 10 ms; zero where the system does not tell.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<u64>().ok())
        .sum();
    Duration::from_millis(10 * ticks)
}

/// A server with one tool, until its input ends.
fn serve() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let Some(id) = message.get("id") else { continue };
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-06-18",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "many", "version": "1" },
            }),
            Some("tools/list") => json!({
                "tools": [{ "name": "nothing", "inputSchema": { "type": "object" } }],
            }),
            Some("ping") => json!({}),
            _ => {
                let error = json!({ "code": -32601, "message": "method not found" });
                writeln!(out, "{}", json!({ "jsonrpc": "2.0", "id": id, "error": error }))?;
                out.flush()?;
                continue;
            }
        };
        writeln!(out, "{}", json!({ "jsonrpc": "2.0", "id": id, "result": result }))?;
        out.flush()?;
    }
    Ok(())
}
