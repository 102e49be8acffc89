//! Over HTTP: each server is connected, listed and called, killed in the middle of a call, and called again on the same
//! port with nobody's help. What was asked of it for longer than one connection outlives its death too.
//!
//! The test starts the servers itself: an HTTP server is not Mainstay's to start. Nothing tells Mainstay which dialect
//! a server speaks, unless it is to speak the older of two.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use mainstay::config::{HttpTarget, Replay, ServerBuilder};
use mainstay::{CallError, CallOptions, Era, Fleet, Outcome, Policy, Server, ServerConfig, StateKind};
use mainstay_lifecycle::Backoff;
use mainstay_partner::{HttpPartner, HttpPartners, free_port, partners};
use mainstay_testkit::clock;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::partners::LONG;
use crate::partners::subscriptions::{NotificationReader, Subscriptions};

/// A lost call waits for no timer that is due later, and its own deadline is.
const SOON: Duration = Duration::from_secs(10);

/// One visit to a server: what to call there, and what it must be found to speak.
#[derive(Clone)]
struct Visit {
    partner: HttpPartner,
    /// The era that the configuration pins, if any.
    pinned: Option<Era>,
    speaks: (Era, &'static str),
    echo: (&'static str, Value),
    /// Reports progress, and takes longer than anybody waits.
    endless: (&'static str, Value),
    subscriptions: Subscriptions,
}

#[tokio::test]
async fn the_everything_server_is_back_after_its_death_over_http() {
    let Some(HttpPartners { everything, .. }) = over_http() else {
        return;
    };
    outlives_its_death(of_everything(everything)).await;
}

#[tokio::test]
async fn the_everything_server_is_back_after_its_death_over_sse() {
    let Some(HttpPartners { everything_sse, .. }) = over_http() else {
        return;
    };
    outlives_its_death(of_everything(everything_sse)).await;
}

#[tokio::test]
async fn the_rmcp_server_is_back_after_its_death_over_http_in_either_era() {
    let Some(HttpPartners { rmcp, .. }) = over_http() else {
        return;
    };
    let visit = Visit {
        subscriptions: Subscriptions::Notified {
            resource: "note://rmcp-server/hello",
        },
        ..of_ours(rmcp)
    };
    outlives_its_death(visit.clone()).await;
    outlives_its_death(modern(visit)).await;
}

#[tokio::test]
async fn the_python_server_is_back_after_its_death_over_http_in_either_era() {
    let Some(HttpPartners { python, .. }) = over_http() else {
        return;
    };
    let notified = Visit {
        subscriptions: Subscriptions::Notified {
            resource: "note://python-server/hello",
        },
        ..of_ours(python.clone())
    };
    outlives_its_death(modern(notified)).await;
    outlives_its_death(of_ours(python)).await;
}

#[tokio::test]
async fn the_python_server_is_back_after_its_death_over_sse() {
    let Some(HttpPartners { python_sse, .. }) = over_http() else {
        return;
    };
    outlives_its_death(of_ours(python_sse)).await;
}

#[tokio::test]
async fn a_real_server_that_appears_late_is_connected_and_delays_no_other() {
    let Some(HttpPartners { rmcp, python, .. }) = over_http() else {
        return;
    };
    let (late, punctual) = (free_port(), free_port());
    let _punctual = rmcp.start(punctual);
    let fleet = Fleet::builder().start([
        configured("late", &python.url(late), None).build().unwrap(),
        configured("punctual", &rmcp.url(punctual), None).build().unwrap(),
    ]);
    let server = |name| fleet.server(name).unwrap();
    let waits = server("late")
        .wait_until(LONG, |now| now.last_error.is_some())
        .await;
    assert!(waits.is_some(), "{:?}", server("late").status());
    let generation = server("punctual").wait_connected(LONG).await.unwrap().generation;
    let options = CallOptions::default().timeout(LONG);
    let arguments = json!({ "text": "meanwhile" });
    server("punctual")
        .call("echo", &arguments)
        .options(options.clone())
        .await
        .unwrap();
    assert_ne!(server("late").status().state, StateKind::Connected);

    let _late = python.start(late);
    server("late").wait_connected(LONG).await.unwrap();
    server("late")
        .call("echo", &arguments)
        .options(options)
        .await
        .unwrap();
    assert_eq!(server("punctual").status().generation, generation);
    fleet.close(LONG).await;
}

async fn outlives_its_death(visit: Visit) {
    let port = free_port();
    let mut running = visit.partner.start(port);
    let (reader, mut heard) = NotificationReader::new();
    let config = configured("partner", &visit.partner.url(port), visit.pinned);
    let fleet = Fleet::builder()
        .handler(Arc::new(reader))
        .start([config.build().unwrap()]);
    let server = fleet.server("partner").unwrap();
    let first = server
        .wait_connected(LONG)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    let (era, version) = first.protocol.clone().unwrap();
    assert_eq!((era, &*version), visit.speaks);
    let tool = format!("partner__{}", visit.echo.0);
    assert!(
        fleet.catalog().tool(&tool).is_some(),
        "{:?}",
        fleet.catalog().tools()
    );
    echoes(&server, &visit).await;
    visit.subscriptions.make(&server, &mut heard).await;

    let error = killed_in_a_call(&server, &visit, || running.kill()).await;
    assert_eq!(error.outcome(), Outcome::Unknown, "{error:?}");
    let noticed = server
        .wait_until(LONG, |now| now.state == StateKind::Reconnecting)
        .await;
    assert!(noticed.is_some(), "{:?}", server.status());

    let _again = visit.partner.start(port);
    let second = server
        .wait_until(LONG, |now| {
            now.state == StateKind::Connected && now.generation > first.generation
        })
        .await
        .unwrap_or_else(|| panic!("{:?}", server.status()));
    assert_eq!(second.protocol, first.protocol);
    echoes(&server, &visit).await;
    visit.subscriptions.are_kept(&server, &mut heard).await;
    let report = fleet.close(LONG).await;
    assert!(report.servers.iter().all(|server| !server.overdue), "{report:?}");
}

async fn echoes(server: &Server, visit: &Visit) {
    let (tool, arguments) = &visit.echo;
    let options = CallOptions::default().timeout(LONG);
    let reply = server.call(tool, arguments).options(options).await.unwrap();
    assert!(reply.result.as_str().contains("still here"), "{}", reply.result);
}

/// Kills the server while it works on a call. Returns what the caller was told.
async fn killed_in_a_call(server: &Server, visit: &Visit, kill: impl FnOnce()) -> CallError {
    let (to, mut progress) = mpsc::channel(16);
    let options = CallOptions::default()
        .timeout(LONG)
        .replay(Replay::Never)
        .progress(to);
    let (tool, arguments) = visit.endless.clone();
    let server = server.clone();
    let call = tokio::spawn(async move { server.call(tool, &arguments).options(options).await });
    progress.recv().await.expect("the server works on the call");
    kill();
    let told = clock::within(SOON, call).await.unwrap();
    told.expect_err("nobody is left to answer")
}

fn of_everything(partner: HttpPartner) -> Visit {
    Visit {
        partner,
        pinned: None,
        speaks: (Era::Legacy, "2025-11-25"),
        echo: ("echo", json!({ "message": "still here" })),
        endless: (
            "trigger-long-running-operation",
            json!({ "duration": 100, "steps": 2000 }),
        ),
        subscriptions: Subscriptions::Simulated,
    }
}

/// A visit to one of the project's own two servers, which offer the same.
fn of_ours(partner: HttpPartner) -> Visit {
    Visit {
        partner,
        pinned: None,
        speaks: (Era::Legacy, "2025-11-25"),
        echo: ("echo", json!({ "text": "still here" })),
        endless: ("sleep", json!({ "millis": 100_000, "steps": 2000 })),
        subscriptions: Subscriptions::None,
    }
}

fn modern(visit: Visit) -> Visit {
    Visit {
        pinned: Some(Era::Modern),
        speaks: (Era::Modern, "2026-07-28"),
        ..visit
    }
}

fn over_http() -> Option<HttpPartners> {
    partners().map(|partners| partners.over_http())
}

/// Tried again often, for as long as a server takes to start.
fn configured(name: &str, url: &str, era: Option<Era>) -> ServerBuilder<HttpTarget> {
    let mut policy = Policy {
        backoff: Backoff::new(Duration::from_millis(20), Duration::from_millis(200)),
        budget: NonZeroU32::MAX,
        ..Policy::default()
    };
    policy.bucket.size = NonZeroU32::MAX;
    let config = ServerConfig::http(name, url).policy(policy);
    match era {
        Some(era) => config.era(era),
        None => config,
    }
}
