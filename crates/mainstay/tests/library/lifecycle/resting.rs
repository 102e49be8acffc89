//! Servers with `restart: "never"`: a call or a person brings them back, and nothing else does.

use mainstay::lifecycle::Cause;
use mainstay::server::Reason;
use mainstay::{CallErrorKind, CallOptions, Policy, StateKind};
use mainstay_lifecycle::WhenLost;
use mainstay_testkit::{Fault, Script, Step};
use tokio::time::sleep;

use crate::lifecycle::support::{InMemory, LONG, connected, echo, keep, next_event, reaches};

fn never() -> Policy {
    Policy {
        when_lost: WhenLost::StayDisconnected,
        ..Policy::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_never_restarted_stays_away_until_a_call_or_a_person_wants_it() {
    let memory = InMemory::playing(Script::new());
    let (fleet, server) = keep(memory.config("once").policy(never()));
    connected(&server).await;
    let mut events = fleet.events();
    for by_call in [true, false] {
        let before = memory.attempts();
        memory.last().cut();
        let lost = reaches(&server, StateKind::Disconnected).await;
        assert_eq!((lost.reason, lost.next_retry), (Some(Reason::Lost), None));
        assert!(lost.last_error.is_some(), "it says why");
        assert!(fleet.catalog().tool("once__echo").is_some(), "its tools stay");
        sleep(LONG).await;
        assert_eq!(memory.attempts(), before, "nothing else brings it back");
        if by_call {
            echo(&server, CallOptions::default()).await.expect("answered");
            let back = next_event(&mut events, |event| event.to == StateKind::Reconnecting).await;
            assert_eq!(back.cause, Cause::Demanded);
        } else {
            server.restart().await.expect("taken");
            connected(&server).await;
        }
        assert_eq!(memory.attempts(), before + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn one_call_to_a_server_that_is_never_restarted_and_cannot_start_costs_one_start() {
    let memory = InMemory::playing(Script::new().on(Step::Initialize, Fault::Exit(3)));
    let (_fleet, server) = keep(memory.config("broken").era(mainstay::Era::Legacy).policy(never()));
    reaches(&server, StateKind::Disconnected).await;
    for attempts in 2..5 {
        let error = echo(&server, CallOptions::default()).await.expect_err("broken");
        let CallErrorKind::NotConnected(now) = &error.kind else {
            panic!("{error}")
        };
        assert_eq!(now.reason, Some(Reason::Lost));
        assert!(now.last_error.is_some());
        assert_eq!(memory.attempts(), attempts);
    }
}
