//! `Duration::MAX`, the usual way to write "no limit", at every entry that takes a duration.

use std::time::Duration;

use mainstay::gateway::ServerExt;
use mainstay::lifecycle::Expiry;
use mainstay::{CallOptions, Era, Fleet, Policy, ServerConfig, StateKind};
use mainstay_testkit::{Script, Speaks};
use serde_json::json;
use tokio::time::timeout;

use mainstay_testkit::fleet::{LONG, Memory};

/// A policy with no limit wherever a configuration may have none.
fn boundless_policy() -> Policy {
    Policy {
        relist_pause: Duration::MAX,
        expiry: Expiry {
            every: None,
            shortest: Duration::MAX,
            longest: Duration::MAX,
            of_zero: Duration::MAX,
        },
        ..Policy::default()
    }
}

fn boundless(config: mainstay::config::ServerBuilder<impl Into<mainstay::config::Target>>) -> ServerConfig {
    let config = config.policy(boundless_policy()).build().expect("valid");
    config.stopped_when_idle(Duration::MAX)
}

#[tokio::test]
async fn a_server_accepts_the_longest_duration_for_each_wait_in_both_eras() {
    for (era, speaks) in [(Era::Legacy, Speaks::Legacy), (Era::Modern, Speaks::Modern)] {
        let memory = Memory::new(Script::new().speaks(speaks));
        let fleet = Fleet::builder().start([boundless(memory.config("s").era(era))]);
        let server = fleet.server("s").expect("just configured");
        let all = async {
            fleet
                .wait_required(Duration::MAX)
                .await
                .expect("none is required");
            server.wait_introduced(Duration::MAX).await.expect("introduced");
            server.wait_listed(Duration::MAX).await.expect("listed");
            server.wait_connected(Duration::MAX).await.expect("connected");
            let connected = server.wait_until(Duration::MAX, |status| status.state == StateKind::Connected);
            connected.await.expect("it is connected");
            let options = CallOptions::default()
                .timeout(Duration::MAX)
                .idle_timeout(Duration::MAX)
                .wait_timeout(Duration::MAX);
            let reply = server.call("echo", &json!({})).options(options).await;
            reply.expect("answered");
            server.ping(Duration::MAX).await.expect("alive");
            let told = server.notify("notifications/roots/list_changed", None, Duration::MAX);
            told.await.expect("queued");
            fleet.close(Duration::MAX).await
        };
        let report = timeout(LONG, all).await.expect("nothing hangs");
        assert_eq!(report.servers.len(), 1, "{era:?}");
        assert_eq!(server.status().keeper_failures, 0, "{era:?}");
    }
}

#[tokio::test]
async fn a_call_without_any_limit_waits_for_a_server_that_comes_back() {
    let memory = Memory::new(Script::new());
    memory.set_down(true);
    let fleet = Fleet::builder().start([boundless(memory.config("s"))]);
    let server = fleet.server("s").expect("just configured");
    let away = server.wait_until(LONG, |status| status.state == StateKind::Reconnecting);
    away.await.expect("refused");
    memory.set_down(false);
    let options = CallOptions::default()
        .timeout(Duration::MAX)
        .wait_timeout(Duration::MAX);
    let arguments = json!({});
    let call = server.call("echo", &arguments).options(options);
    let reply = timeout(LONG, call).await.expect("it comes back");
    reply.expect("answered");
}
