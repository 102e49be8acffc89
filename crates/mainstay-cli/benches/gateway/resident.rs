//! The memory that the gateway holds: with its servers, and for each idle session.

use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::client::Client;
use crate::program::{Gateway, stdio_entry, until};
use crate::report::{Amount, Row, Side};
use crate::{Effort, Fallible, runtime};

const MEGABYTE: f64 = 1e6;

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<Row>> {
    runtime()?.block_on(async {
        let mut rows = Vec::new();
        for (count, name, aim) in [
            (1, "resident memory with 1 stdio server, in megabytes", 15.0),
            (20, "resident memory with 20 stdio servers, in megabytes", 17.0),
            (50, "resident memory with 50 stdio servers, in megabytes", 19.0),
        ] {
            let (_home, gateway) = with_servers(count).await?;
            let resident = gateway.resident()?;
            rows.push(figure(name, MEGABYTE, resident, Some(aim)));
        }
        let sessions = if effort.full { 1000 } else { 10 };
        let (_home, gateway) = with_servers(1).await?;
        let before = gateway.resident()?;
        let mut clients = Vec::new();
        for _ in 0..sessions {
            clients.push(Client::connect(gateway.port, "/mcp").await?);
        }
        let each = (gateway.resident()? - before) / f64::from(sessions);
        rows.push(figure(
            "memory of an idle session with its connection, in kilobytes",
            1e3,
            each,
            Some(20.0),
        ));
        Ok(rows)
    })
}

async fn with_servers(count: usize) -> Fallible<(TempDir, Gateway)> {
    let home = TempDir::new()?;
    let mut servers = Map::new();
    for n in 0..count {
        servers.insert(format!("s{n}"), stdio_entry(0, 10)?);
    }
    let gateway = Gateway::start(&home, &Value::Object(servers))?;
    let mut client = Client::connect(gateway.port, "/mcp").await?;
    let all = |tools: String| {
        (0..count)
            .all(|n| tools.contains(&format!("s{n}__echo")))
            .then_some(())
    };
    until(async || Ok(all(client.tools().await?))).await?;
    Ok((home, gateway))
}

/// An amount as a multiple of a unit.
fn figure(name: &'static str, unit: f64, bytes: f64, aim: Option<f64>) -> Row {
    Row {
        name,
        base: Side {
            what: "unit",
            amount: Amount::Bytes(unit),
        },
        ours: Side {
            what: "gateway",
            amount: Amount::Bytes(bytes),
        },
        ratio: bytes / unit,
        aim,
    }
}
