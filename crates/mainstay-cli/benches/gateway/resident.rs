//! The memory that the gateway holds: with its servers, and for each idle session; and whether it rests when they do.

use std::time::Duration;

use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::client::BenchClient;
use crate::echo::{Echo, EchoKind, EchoTransport};
use crate::figure::{Amount, Figure};
use crate::program::{GatewayProcess, until};
use crate::{Effort, Fallible, runtime};

/// For how long the idle gateway is watched.
const WATCHED: Duration = Duration::from_secs(5);

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<Figure>> {
    runtime()?.block_on(async {
        let mut figures = Vec::new();
        for (count, aim) in [(1, 15e6), (20, 17e6), (50, 19e6)] {
            let (_home, gateway) = with_servers(count).await?;
            figures.push(Figure::amount(
                format!("resident memory with {count} stdio servers"),
                Amount::Bytes(gateway.resident()?),
                Some(aim),
            ));
        }
        let sessions = if effort.full { 1000 } else { 10 };
        let (_home, gateway) = with_servers(1).await?;
        let before = gateway.resident()?;
        let mut clients = Vec::new();
        for _ in 0..sessions {
            clients.push(BenchClient::connect(gateway.port, "/mcp").await?);
        }
        let each = (gateway.resident()? - before) / f64::from(sessions);
        figures.push(Figure::amount(
            "memory of an idle session with its open connection",
            Amount::Bytes(each),
            Some(20e3),
        ));
        let before = gateway.wake_ups()?;
        tokio::time::sleep(WATCHED).await;
        let often = (gateway.wake_ups()? - before) / WATCHED.as_secs_f64();
        figures.push(Figure::amount(
            format!("wake-ups of the gateway in a second, {sessions} idle sessions"),
            Amount::Times(often),
            None,
        ));
        Ok(figures)
    })
}

async fn with_servers(count: usize) -> Fallible<(TempDir, GatewayProcess)> {
    let home = TempDir::new()?;
    let mut servers = Map::new();
    for n in 0..count {
        servers.insert(
            format!("s{n}"),
            Echo::new(EchoKind::Bare, EchoTransport::Stdio, 10).entry()?,
        );
    }
    let gateway = GatewayProcess::start(&home, &Value::Object(servers))?;
    let mut client = BenchClient::connect(gateway.port, "/mcp").await?;
    let all = |tools: String| {
        (0..count)
            .all(|n| tools.contains(&format!("s{n}__echo")))
            .then_some(())
    };
    until(async || Ok(all(client.tools().await?))).await?;
    Ok((home, gateway))
}
