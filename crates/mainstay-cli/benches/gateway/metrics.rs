//! What metrics cost a call: a gateway with `--metrics` beside one without, in front of the same kind of server.

use serde_json::json;
use tempfile::TempDir;

use crate::calls::{CallTarget, Crowd};
use crate::client::BenchClient;
use crate::compare::RatioPair;
use crate::echo::{Echo, EchoKind, EchoTransport};
use crate::figure::Figure;
use crate::program::{GatewayProcess, until};
use crate::{Effort, Fallible, runtime};

const CALLERS: usize = 32;
const RESULT: usize = 100;
const AIM: f64 = 1.03;

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<Figure>> {
    runtime()?.block_on(async {
        let homes = [TempDir::new()?, TempDir::new()?];
        let entry = Echo::new(EchoKind::Bare, EchoTransport::Stdio, RESULT).entry()?;
        let servers = json!({ "pipe": entry });
        let without = GatewayProcess::start(&homes[0], &servers)?;
        let with = GatewayProcess::start_with(&homes[1], &servers, &["--metrics"])?;
        let target = |gateway: &GatewayProcess| CallTarget {
            port: gateway.port,
            path: "/mcp/pipe",
            tool: "echo",
        };
        let (without, with) = (target(&without), target(&with));
        let mut base = BenchClient::connect(without.port, without.path).await?;
        let mut measured = BenchClient::connect(with.port, with.path).await?;
        until(async || Ok(base.call("echo").await.ok())).await?;
        until(async || Ok(measured.call("echo").await.ok())).await?;
        let one = RatioPair::measure(
            effort.rounds(400),
            50,
            async || base.call("echo").await.expect("answered"),
            async || measured.call("echo").await.expect("answered"),
        )
        .await;
        let mut base = Crowd::gather(&without, CALLERS).await?;
        let mut measured = Crowd::gather(&with, CALLERS).await?;
        let calls = if effort.full { 640 } else { 64 };
        let many = RatioPair::measure(
            effort.rounds(100),
            1,
            async || base.call_in_all(calls).await,
            async || measured.call_in_all(calls).await,
        )
        .await
        .each_of(calls);
        Ok(vec![
            Figure::ratio("call with metrics over without, one caller", &one, Some(AIM)),
            Figure::ratio(
                format!("call with metrics over without, {CALLERS} callers"),
                &many,
                Some(AIM),
            ),
        ])
    })
}
