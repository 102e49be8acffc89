//! A result of ten megabytes through the gateway, over the same from the echo directly.

use serde_json::json;
use tempfile::TempDir;

use crate::client::Client;
use crate::compare::Pair;
use crate::program::{Echo, Gateway, stdio_entry, until};
use crate::report::{Amount, Row, Side};
use crate::{Effort, Fallible, runtime};

const RESULT: usize = 10_000_000;

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<Row>> {
    runtime()?.block_on(async {
        let (home, echo) = (TempDir::new()?, Echo::start(RESULT)?);
        let servers = json!({ "pipe": stdio_entry(0, RESULT)?, "web": echo.entry() });
        let gateway = Gateway::start(&home, &servers)?;
        let mut rows = Vec::new();
        for (server, name) in [
            ("pipe", "result of 10 MB, stdio server"),
            ("web", "result of 10 MB, HTTP server"),
        ] {
            let mut ours = Client::connect(gateway.port, &format!("/mcp/{server}")).await?;
            until(async || Ok(ours.tools().await?.contains("echo").then_some(()))).await?;
            let before = gateway.resident()?;
            let mut direct = Client::connect(echo.port, "/mcp").await?;
            let pair = Pair::measure(
                effort.rounds(10),
                2,
                async || direct.call("echo").await.expect("answered"),
                async || ours.call("echo").await.expect("answered"),
            )
            .await;
            rows.push(pair.row(name, "direct", "gateway", Some(1.5)));
            let after = gateway.resident()?;
            if server == "pipe" {
                let bytes = |what, bytes| Side {
                    what,
                    amount: Amount::Bytes(bytes),
                };
                rows.push(Row {
                    name: "memory that is kept after results of 10 MB",
                    base: bytes("before", before),
                    ours: bytes("after", after),
                    ratio: after / before,
                    aim: None,
                });
            }
        }
        Ok(rows)
    })
}
