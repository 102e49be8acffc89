//! Many subscriptions, and servers that are slow to accept them: a new connection is told all of them, in the background where it
//! takes long, and the status shows what is missing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mainstay::{Fleet, Server, StateKind, Status};
use mainstay_testkit::fleet::{LONG, Memory, connected, fleet_of};
use mainstay_testkit::memory::MemoryServer;
use mainstay_testkit::{Fault, Occurrence, Rule, Script, Step};
use tokio::time::Instant;

use crate::catalog::disk::Warnings;
use crate::catalog::rewrite;

const SUBSCRIBE: &str = "resources/subscribe";
const UNSUBSCRIBE: &str = "resources/unsubscribe";

fn on_subscribe(fault: Fault) -> Rule {
    Rule::new(Step::Other, fault).method(SUBSCRIBE)
}

fn refusal() -> Fault {
    Fault::Error {
        code: -32603,
        message: "not ready yet".to_owned(),
    }
}

/// A server with so many subscriptions, whose next connection fails in this way.
async fn subscribed(
    count: usize,
    faults: impl IntoIterator<Item = Rule>,
) -> (Fleet, Server, Arc<Memory>, Status) {
    let memory = Memory::new(Script::new());
    let (fleet, server) = fleet_of(memory.config("s"));
    let first = connected(&server).await;
    for n in 0..count {
        server.subscribe(&uri(n)).await.expect("accepted");
    }
    rewrite(&memory, |script| faults.into_iter().fold(script, Script::rule));
    memory.side(1).await.cut();
    (fleet, server, memory, first)
}

fn uri(n: usize) -> String {
    format!("mem://{n}")
}

async fn reconnected(server: &Server, first: &Status, reached: impl Fn(&Status) -> bool) -> Status {
    let back = server.wait_until(LONG, |status| {
        status.state == StateKind::Connected && status.generation > first.generation && reached(status)
    });
    back.await
        .unwrap_or_else(|| panic!("not reached: {:?}", server.status()))
}

/// The resources that this connection was asked for by this method, in order.
fn asked(side: &MemoryServer, method: &str) -> Vec<String> {
    let received = side.received();
    let asked = received.iter().filter(|message| message.method() == method);
    asked
        .map(|message| message.params()["uri"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_thousand_subscriptions_are_all_restored_by_a_server_that_takes_20_ms_for_each() {
    const COUNT: usize = 1000;
    let slow = on_subscribe(Fault::Delay { ms: 20 });
    let (_fleet, server, memory, first) = subscribed(COUNT, [slow]).await;
    let began = Instant::now();
    reconnected(&server, &first, |_| true).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    reconnected(&server, &first, |status| status.unrestored == 0).await;
    let restored: BTreeSet<_> = asked(&memory.side(2).await, SUBSCRIBE).into_iter().collect();
    assert_eq!(restored.len(), COUNT);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_a_new_connection_refuses_at_first_is_shown_and_tried_again() {
    let refused = [1, 2].map(|n| on_subscribe(refusal()).occurrence(Occurrence::Nth(n)));
    let (_fleet, server, memory, first) = subscribed(1, refused).await;
    let began = Instant::now();
    reconnected(&server, &first, |status| status.unrestored == 1).await;
    reconnected(&server, &first, |status| status.unrestored == 0).await;
    // Not only with the next probe, after 15 s.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(asked(&memory.side(2).await, SUBSCRIBE), [uri(0), uri(0), uri(0)]);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_always_refused_stays_in_the_status_and_is_not_asked_for_without_end() {
    let (_fleet, server, memory, first) = subscribed(1, [on_subscribe(refusal())]).await;
    reconnected(&server, &first, |status| status.unrestored == 1).await;
    let warnings = Warnings::default();
    let _listening = tracing::subscriber::set_default(warnings.clone());
    tokio::time::sleep(Duration::from_secs(60 * 60)).await;
    assert_eq!(warnings.count(), 1, "of the last round");
    let status = server.status();
    assert_eq!((status.state, status.unrestored), (StateKind::Connected, 1));
    let asked = asked(&memory.side(2).await, SUBSCRIBE).len();
    assert!((2..=10).contains(&asked), "{asked} times");
}

#[tokio::test(start_paused = true)]
async fn a_method_that_a_new_connection_does_not_know_is_not_asked_for_again() {
    let unknown = on_subscribe(Fault::method_not_found());
    let (_fleet, server, memory, first) = subscribed(1, [unknown]).await;
    reconnected(&server, &first, |status| status.unrestored == 0).await;
    tokio::time::sleep(Duration::from_secs(60 * 60)).await;
    assert_eq!(asked(&memory.side(2).await, SUBSCRIBE).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_subscription_that_is_never_answered_keeps_no_other_from_being_restored() {
    let unanswered = on_subscribe(Fault::NoAnswer).occurrence(Occurrence::Nth(1));
    let (_fleet, server, memory, first) = subscribed(40, [unanswered]).await;
    let began = Instant::now();
    reconnected(&server, &first, |_| true).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let side = memory.side(2).await;
    let restored: BTreeSet<_> = asked(&side, SUBSCRIBE).into_iter().collect();
    assert_eq!(restored.len(), 40);
    reconnected(&server, &first, |status| status.unrestored == 0).await;
    assert_eq!(
        asked(&side, SUBSCRIBE).len(),
        41,
        "the one that was not answered, again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_ends_while_it_is_restored_is_not_left_at_the_server() {
    let slow = on_subscribe(Fault::Delay { ms: 5000 });
    let (_fleet, server, memory, first) = subscribed(1, [slow]).await;
    reconnected(&server, &first, |status| status.unrestored == 1).await;
    let side = memory.side(2).await;
    assert_eq!(asked(&side, SUBSCRIBE), [uri(0)]);
    server.unsubscribe(&uri(0)).await.expect("ended");
    reconnected(&server, &first, |status| status.unrestored == 0).await;
    // The server accepted the subscription after the caller had ended it, so it is told once more.
    assert_eq!(asked(&side, UNSUBSCRIBE), [uri(0), uri(0)]);
}
