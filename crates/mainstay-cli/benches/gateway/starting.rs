//! How soon a client has its tools after the start of the program.

use std::time::Instant;

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::client::BenchClient;
use crate::compare::{RatioPair, nanoseconds};
use crate::echo::{Echo, EchoKind, EchoTransport};
use crate::figure::Figure;
use crate::program::{GatewayProcess, until};
use crate::{Effort, Fallible, runtime};

const SERVERS: usize = 20;

/// What the first list may take, in nanoseconds.
const AIM: f64 = 50e6;

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<Figure>> {
    runtime()?.block_on(async {
        let (home, empty) = (TempDir::new()?, TempDir::new()?);
        let slow = Echo::new(EchoKind::Bare, EchoTransport::Stdio, 10).starting_in(2000);
        let mut servers = Map::new();
        for n in 0..SERVERS {
            servers.insert(format!("slow{n}"), slow.entry()?);
        }
        let servers = Value::Object(servers);
        // Once with nothing on disk, so that there is.
        let gateway = GatewayProcess::start(&home, &servers)?;
        let mut client = BenchClient::connect(gateway.port, "/mcp").await?;
        until(async || Ok(has_all(&client.tools().await?).then_some(()))).await?;
        drop(gateway);
        let mut pair = RatioPair::new();
        for _ in 0..effort.rounds(20) {
            let (none, _) = first_list(&empty, &json!({})).await?;
            let (all, tools) = first_list(&home, &servers).await?;
            if !has_all(&tools) {
                return Err(format!("not all are there: {tools}").into());
            }
            pair.push(none, all);
        }
        let name = "exec to the first tools/list, 20 servers that take 2 s each, catalog on disk (direct: no servers)";
        Ok(vec![Figure::time(name, &pair, Some(AIM))])
    })
}

async fn first_list(home: &TempDir, servers: &Value) -> Fallible<(f64, String)> {
    let began = Instant::now();
    let gateway = GatewayProcess::start(home, servers)?;
    let mut client = BenchClient::connect(gateway.port, "/mcp").await?;
    let tools = client.tools().await?;
    Ok((nanoseconds(began.elapsed()), tools))
}

fn has_all(tools: &str) -> bool {
    (0..SERVERS).all(|n| tools.contains(&format!("slow{n}__echo")))
}
