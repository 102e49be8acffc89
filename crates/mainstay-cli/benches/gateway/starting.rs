//! How soon a client has its tools: from the start of the program, and after the death of a server.

use std::time::Instant;

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::client::Client;
use crate::compare::{Pair, nanoseconds};
use crate::program::{Gateway, stdio_entry, until};
use crate::report::Row;
use crate::{Effort, Fallible, runtime};

const SERVERS: usize = 20;

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<Row>> {
    runtime()?.block_on(async {
        let home = TempDir::new()?;
        let mut servers = Map::new();
        for n in 0..SERVERS {
            servers.insert(format!("slow{n}"), stdio_entry(2000, 10)?);
        }
        let servers = Value::Object(servers);
        let list = async || -> Fallible<f64> {
            let began = Instant::now();
            let gateway = Gateway::start(&home, &servers)?;
            let mut client = Client::connect(gateway.port, "/mcp").await?;
            let tools = client.tools().await?;
            let took = nanoseconds(began.elapsed());
            for n in 0..SERVERS {
                let known = tools.contains(&format!("slow{n}__echo"));
                if !known {
                    return Err(format!("slow{n} is not there: {tools}").into());
                }
            }
            Ok(took)
        };
        // Once with nothing on disk, so that there is.
        let gateway = Gateway::start(&home, &servers)?;
        let mut client = Client::connect(gateway.port, "/mcp").await?;
        let all = |tools: String| {
            (0..SERVERS)
                .all(|n| tools.contains(&format!("slow{n}__echo")))
                .then_some(())
        };
        until(async || Ok(all(client.tools().await?))).await?;
        drop(gateway);
        let one = TempDir::new()?;
        let bare = async || -> Fallible<f64> {
            let began = Instant::now();
            let gateway = Gateway::start(&one, &json!({}))?;
            let mut client = Client::connect(gateway.port, "/mcp").await?;
            client.tools().await?;
            Ok(nanoseconds(began.elapsed()))
        };
        let mut pair = Pair::new();
        for _ in 0..effort.rounds(10) {
            pair.push(bare().await?, list().await?);
        }
        Ok(vec![pair.row(
            "exec to the first tools/list, 20 servers that take 2 s each, catalog on disk",
            "no servers",
            "20 servers",
            None,
        )])
    })
}
