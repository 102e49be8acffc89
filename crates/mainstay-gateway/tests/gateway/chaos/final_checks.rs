//! When the adversary has stopped, everything works again, in the same sessions.

use std::time::{Duration, Instant};

use mainstay::{Fleet, StateKind};
use mainstay_testkit::chaos::{DEADLINE, PlannedCall};
use mainstay_testkit::fleet::LONG;
use serde_json::json;

use crate::chaos::clients::{ClientKind, URI};
use crate::chaos::person::{Person, SeenOutcome};

use crate::chaos::SERVERS;

/// How long the notification of a change may take before the change is made once more: a subscription is restored a moment after its
/// server is back.
const HEARD_SOON: Duration = Duration::from_millis(500);

/// All servers are back, on connections on which no client has asked for anything yet.
pub(crate) async fn servers_are_back(fleet: &Fleet) {
    for server in fleet.servers() {
        let connected = |status: &mainstay::Status| status.state == StateKind::Connected;
        let back = server.wait_until(LONG, connected).await;
        assert!(back.is_some(), "not back by itself: {:?}", server.status());
    }
}

/// So that no call of before is taken for one that could still ask: one at a time, every client gets an answer.
pub(crate) async fn renewed(fleet: &Fleet) {
    for server in fleet.servers() {
        let before = server.status().generation;
        server.restart().await.expect("it is not disabled");
        let renewed = server
            .wait_until(LONG, |now| {
                now.state == StateKind::Connected && now.generation > before
            })
            .await;
        assert!(renewed.is_some(), "not restarted: {:?}", server.status());
    }
}

impl Person {
    /// Lists, calls and is asked, at all servers that are seen.
    pub(crate) async fn finds_all_well(&mut self) {
        self.list(SERVERS).await;
        for server in self.servers(SERVERS) {
            let append = |person: &mut Self| PlannedCall::new(person.key(), "append", false, json!({}));
            self.is_answered(server, append).await;
        }
        let server = self.server.unwrap_or(0);
        self.is_answered(server, Self::question).await;
        self.receives_an_update(server).await;
    }

    /// Calls until a call is answered before its deadline, which a busy machine may miss.
    async fn is_answered(&mut self, server: usize, plan: impl Fn(&mut Self) -> PlannedCall) {
        let deadline = Instant::now() + LONG;
        loop {
            let planned = plan(self);
            let (tool, began) = (planned.tool, Instant::now());
            let outcome = self.call_at(server, planned, ClientKind::Waits).await;
            if *outcome == SeenOutcome::Answer {
                return;
            }
            assert!(
                began.elapsed() >= DEADLINE && Instant::now() < deadline,
                "{tool} at server {server}: {outcome:?}"
            );
        }
    }

    async fn receives_an_update(&mut self, server: usize) {
        if self.client.subscribes() {
            let subscription = json!({ "uri": URI });
            self.look("resources/subscribe", subscription, LONG).await;
        }
        let before = self.client.received().updates();
        let deadline = Instant::now() + LONG;
        while self.client.received().updates() == before {
            assert!(
                Instant::now() < deadline,
                "{}: no update of server {server} arrives",
                self.mark
            );
            let key = self.key();
            let touch = PlannedCall::new(key, "touch", false, json!({ "uri": URI }));
            self.call_at(server, touch, ClientKind::Waits).await;
            let soon = Instant::now() + HEARD_SOON;
            while self.client.received().updates() == before && Instant::now() < soon {
                // A client with one stream receives only while it asks.
                self.list(SERVERS).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}
