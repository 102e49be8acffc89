//! Calls through the gateway, over the same calls to the same echo directly.

use std::cell::RefCell;

use serde_json::json;
use tempfile::TempDir;

use crate::client::Client;
use crate::compare::Pair;
use crate::program::{Echo, Gateway, stdio_entry, until};
use crate::report::Row;
use crate::{Effort, Fallible, runtime};

const CALLERS: usize = 32;
const RESULT: usize = 100;

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<Row>> {
    runtime()?.block_on(async {
        let (home, echo) = (TempDir::new()?, Echo::start(RESULT)?);
        let servers = json!({ "pipe": stdio_entry(0, RESULT)?, "web": echo.entry() });
        let gateway = Gateway::start(&home, &servers)?;
        let mut rows = Vec::new();
        for (server, one, many) in [
            (
                "pipe",
                "call, stdio server, one caller",
                "call, stdio server, 32 callers",
            ),
            (
                "web",
                "call, HTTP server, one caller",
                "call, HTTP server, 32 callers",
            ),
        ] {
            let path = format!("/mcp/{server}");
            let mut ours = Client::connect(gateway.port, &path).await?;
            until(async || Ok(ours.call("echo").await.ok())).await?;
            let mut direct = Client::connect(echo.port, "/mcp").await?;
            let pair = Pair::measure(
                effort.rounds(100),
                100,
                async || direct.call("echo").await.expect("answered"),
                async || ours.call("echo").await.expect("answered"),
            )
            .await;
            let aim = if server == "pipe" { 1.5 } else { 2.0 };
            rows.push(pair.row(one, "direct", "gateway", Some(aim)));

            let direct = crowd(echo.port, "/mcp").await?;
            let ours = crowd(gateway.port, &path).await?;
            let pair = Pair::measure(
                effort.rounds(60),
                10,
                async || all(&direct).await,
                async || all(&ours).await,
            )
            .await;
            let pair = pair.each_of(u32::try_from(CALLERS)?);
            // 0.7 and 0.6 of the throughput.
            let aim = if server == "pipe" { 1.43 } else { 1.67 };
            rows.push(pair.row(many, "direct", "gateway", Some(aim)));
        }
        Ok(rows)
    })
}

async fn crowd(port: u16, path: &str) -> Fallible<Vec<RefCell<Client>>> {
    let mut crowd = Vec::new();
    for _ in 0..CALLERS {
        crowd.push(RefCell::new(Client::connect(port, path).await?));
    }
    Ok(crowd)
}

/// One call of each, at the same time.
#[expect(
    clippy::await_holding_refcell_ref,
    reason = "each client is borrowed by its own call alone"
)]
async fn all(crowd: &[RefCell<Client>]) {
    let mut calls: Vec<_> = crowd
        .iter()
        .map(|client| Box::pin(async { client.borrow_mut().call("echo").await.expect("answered") }))
        .collect();
    std::future::poll_fn(|context| {
        calls.retain_mut(|call| call.as_mut().poll(context).is_pending());
        if calls.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}
