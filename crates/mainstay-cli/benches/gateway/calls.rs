//! Calls through the gateway, over the same calls to the same server directly; and through rivals.

use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::client::BenchClient;
use crate::compare::RatioPair;
use crate::echo::{Echo, EchoKind, EchoTransport};
use crate::figure::Figure;
use crate::program::{GatewayProcess, Web, modern, until};
use crate::rivals::{Behind, Product};
use crate::{Effort, Fallible, runtime};

const CALLERS: usize = 32;
const RESULT: usize = 100;

/// A server, and what is aimed at for calls to it: times as long for one caller, times as many for many.
type Aims = Option<(f64, f64)>;

/// Where calls go.
pub(crate) struct CallTarget<'a> {
    pub(crate) port: u16,
    pub(crate) path: &'a str,
    pub(crate) tool: &'a str,
}

/// Calls to a real server.
pub(crate) fn measure(effort: Effort) -> Fallible<Vec<Figure>> {
    runtime()?.block_on(async {
        let servers = [("stdio", Some((1.5, 0.7))), ("HTTP", Some((2.0, 0.6)))];
        let mut figures = through_gateway(effort, EchoKind::Rmcp, servers).await?;
        figures.extend(in_modern_era(effort).await?);
        figures.extend(through_rivals(effort).await?);
        Ok(figures)
    })
}

/// Calls to a server that takes next to no time: what the gateway adds. Over HTTP in both forms of an answer.
pub(crate) fn measure_bare(effort: Effort) -> Fallible<Vec<Figure>> {
    let servers = [("bare stdio", None), ("bare HTTP, JSON answers,", None)];
    runtime()?.block_on(async {
        let mut figures = through_gateway(effort, EchoKind::Bare, servers).await?;
        figures.extend(of_event_streams(effort).await?);
        Ok(figures)
    })
}

/// Calls to a server that answers each POST with an event stream, as most SDKs do.
async fn of_event_streams(effort: Effort) -> Fallible<Vec<Figure>> {
    let home = TempDir::new()?;
    let server = Echo::new(EchoKind::Bare, EchoTransport::HttpEvents, RESULT);
    let web = Web::serving(server)?;
    let gateway = GatewayProcess::start(&home, &json!({ "web": web.entry() }))?;
    let ours = CallTarget {
        port: gateway.port,
        path: "/mcp/web",
        tool: "echo",
    };
    let mut client = BenchClient::connect(ours.port, ours.path).await?;
    until(async || Ok(client.call("echo").await.ok())).await?;
    compare(effort, &web, &ours, "bare HTTP, event streams,", None).await
}

async fn through_gateway(
    effort: Effort,
    kind: EchoKind,
    [stdio, http]: [(&str, Aims); 2],
) -> Fallible<Vec<Figure>> {
    let (home, web) = (TempDir::new()?, Web::start(kind, RESULT)?);
    let pipe = Echo::new(kind, EchoTransport::Stdio, RESULT);
    let gateway = GatewayProcess::start(&home, &json!({ "pipe": pipe.entry()?, "web": web.entry() }))?;
    let mut figures = Vec::new();
    for (path, (server, aims)) in [("/mcp/pipe", stdio), ("/mcp/web", http)] {
        let mut client = BenchClient::connect(gateway.port, path).await?;
        until(async || Ok(client.call("echo").await.ok())).await?;
        let ours = CallTarget {
            port: gateway.port,
            path,
            tool: "echo",
        };
        figures.extend(compare(effort, &web, &ours, server, aims).await?);
    }
    figures.extend(through_loop(effort, &web, pipe, stdio.0).await?);
    Ok(figures)
}

/// Calls to the rmcp server with `"era": "modern"` in its configuration: the gateway opens no session.
async fn in_modern_era(effort: Effort) -> Fallible<Vec<Figure>> {
    let (home, web) = (TempDir::new()?, Web::start(EchoKind::Rmcp, RESULT)?);
    let pipe = Echo::new(EchoKind::Rmcp, EchoTransport::Stdio, RESULT);
    let servers = json!({ "pipe": modern(pipe.entry()?), "web": modern(web.entry()) });
    let gateway = GatewayProcess::start(&home, &servers)?;
    let mut figures = Vec::new();
    for (path, server) in [("/mcp/pipe", "modern stdio"), ("/mcp/web", "modern HTTP")] {
        let mut client = BenchClient::connect(gateway.port, path).await?;
        until(async || Ok(client.call("echo").await.ok())).await?;
        let ours = CallTarget {
            port: gateway.port,
            path,
            tool: "echo",
        };
        figures.extend(compare(effort, &web, &ours, server, None).await?);
    }
    Ok(figures)
}

/// What is possible at all: no supervision.
async fn through_loop(effort: Effort, web: &Web, pipe: Echo, server: &str) -> Fallible<Vec<Figure>> {
    let bare = Web::looping(pipe)?;
    let target = CallTarget {
        port: bare.port,
        path: "/mcp",
        tool: "echo",
    };
    compare(
        effort,
        web,
        &target,
        &format!("through a bare loop: {server}"),
        None,
    )
    .await
}

async fn through_rivals(effort: Effort) -> Fallible<Vec<Figure>> {
    let web = Web::start(EchoKind::Rmcp, RESULT)?;
    let mut figures = Vec::new();
    for product in Product::ALL {
        let pipe = Echo::new(EchoKind::Rmcp, EchoTransport::Stdio, RESULT);
        for (server, behind) in [("stdio", Behind::Stdio(pipe)), ("HTTP", Behind::Http(&web))] {
            let Some(rival) = product.start(behind).await? else {
                continue;
            };
            let theirs = CallTarget {
                port: rival.port,
                path: rival.path,
                tool: rival.tool,
            };
            let name = format!("through {}: {server}", product.name());
            figures.extend(compare(effort, &web, &theirs, &name, None).await?);
        }
    }
    Ok(figures)
}

/// One caller and many, each beside the same directly.
async fn compare(
    effort: Effort,
    web: &Web,
    target: &CallTarget<'_>,
    server: &str,
    aims: Aims,
) -> Fallible<Vec<Figure>> {
    let straight = CallTarget {
        port: web.port,
        path: "/mcp",
        tool: "echo",
    };
    let mut direct = BenchClient::connect(web.port, "/mcp").await?;
    let mut through = BenchClient::connect(target.port, target.path).await?;
    let one = RatioPair::measure(
        effort.rounds(100),
        50,
        async || direct.call(straight.tool).await.expect("answered"),
        async || through.call(target.tool).await.expect("answered"),
    )
    .await;
    let (mut direct, mut through) = (
        Crowd::gather(&straight, CALLERS).await?,
        Crowd::gather(target, CALLERS).await?,
    );
    let each = if effort.full { 20 } else { 2 };
    let many = RatioPair::measure(
        effort.rounds(40),
        1,
        async || direct.call(each).await,
        async || through.call(each).await,
    )
    .await
    .each_of(u32::try_from(CALLERS)? * each);
    Ok(vec![
        Figure::ratio(
            format!("call, {server} server, one caller"),
            &one,
            aims.map(|aims| aims.0),
        ),
        Figure::throughput(
            format!("call, {server} server, {CALLERS} callers"),
            &many,
            aims.map(|aims| aims.1),
        ),
    ])
}

/// Callers, each with a connection and a task of its own.
pub(crate) struct Crowd {
    clients: Vec<BenchClient>,
    tool: String,
}

impl Crowd {
    pub(crate) async fn gather(target: &CallTarget<'_>, callers: usize) -> Fallible<Self> {
        let mut clients = Vec::new();
        for _ in 0..callers {
            clients.push(BenchClient::connect(target.port, target.path).await?);
        }
        Ok(Self {
            clients,
            tool: target.tool.to_owned(),
        })
    }

    /// So many calls in all.
    pub(crate) async fn call_in_all(&mut self, calls: u32) {
        let callers = u32::try_from(self.clients.len()).unwrap_or(u32::MAX);
        self.call(calls.div_ceil(callers)).await;
    }

    /// So many calls of each, one after the other; those of all at the same time.
    async fn call(&mut self, each: u32) {
        let mut calls = JoinSet::new();
        for mut client in self.clients.drain(..) {
            let tool = self.tool.clone();
            calls.spawn(async move {
                for _ in 0..each {
                    client.call(&tool).await.expect("answered");
                }
                client
            });
        }
        self.clients = calls.join_all().await;
    }
}
