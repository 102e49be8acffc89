//! A result of ten megabytes through the gateway, over the same from the server directly, and what memory it takes.

use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::client::BenchClient;
use crate::compare::RatioPair;
use crate::echo::{Echo, EchoKind, EchoTransport};
use crate::figure::{Amount, Figure};
use crate::program::{GatewayProcess, Web, until};
use crate::{Effort, Fallible, runtime};

const RESULT: usize = 10_000_000;

/// What may be held at once: three times the payload.
const GROWTH: f64 = 3.0 * 1e7;

/// How long the memory is given to fall.
const AFTERWARDS: Duration = Duration::from_secs(1);

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<Figure>> {
    runtime()?.block_on(async {
        let mut figures = Vec::new();
        for (kind, stdio, http, aim) in [
            (EchoKind::Rmcp, "stdio", "HTTP", Some(1.5)),
            (EchoKind::Bare, "bare stdio", "bare HTTP", None),
        ] {
            let web = Web::start(kind, RESULT)?;
            for (entry, server) in [
                (Echo::new(kind, EchoTransport::Stdio, RESULT).entry()?, stdio),
                (web.entry(), http),
            ] {
                let home = TempDir::new()?;
                let gateway = GatewayProcess::start(&home, &json!({ "large": entry }))?;
                let mut ours = BenchClient::connect(gateway.port, "/mcp/large").await?;
                until(async || Ok(ours.tools().await?.contains("echo").then_some(()))).await?;
                let before = gateway.resident()?;
                gateway.forget_peak()?;
                let mut direct = BenchClient::connect(web.port, "/mcp").await?;
                let pair = RatioPair::measure(
                    effort.rounds(10),
                    2,
                    async || direct.call("echo").await.expect("answered"),
                    async || ours.call("echo").await.expect("answered"),
                )
                .await;
                figures.push(Figure::ratio(
                    format!("result of 10 MB, {server} server"),
                    &pair,
                    aim,
                ));
                let peak = gateway.peak()? - before;
                tokio::time::sleep(AFTERWARDS).await;
                let kept = gateway.resident()? - before;
                figures.push(Figure::amount(
                    format!("the same: memory at most, above what was held before ({server} server)"),
                    Amount::Bytes(peak),
                    aim.map(|_| GROWTH),
                ));
                figures.push(Figure::amount(
                    format!("the same: memory a second later, above what was held before ({server} server)"),
                    Amount::Bytes(kept),
                    None,
                ));
            }
        }
        Ok(figures)
    })
}
