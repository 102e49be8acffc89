//! A server that the policy does not restart: only a call or a person brings it back.

use mainstay_lifecycle::{
    DisconnectReason, Effect, Generation, Input, Machine, Moment, Pause, Policy, Recovery, State, StateKind,
    WhenLost,
};

use crate::server::{Server, seconds};

const A_WEEK: u64 = 7 * 24 * 60 * 60;

fn never() -> Policy {
    Policy {
        when_lost: WhenLost::StayDisconnected,
        ..Policy::default()
    }
}

#[test]
fn only_a_call_or_a_person_brings_it_back() {
    for command in [Input::Demand, Input::Restart, Input::Enable { dormant: false }] {
        let mut server = Server::proven(never());
        server.lose();
        assert_eq!(server.kind(), StateKind::Disconnected);
        assert_eq!(server.deadline(), None, "no timer is set");
        server.pass(seconds(A_WEEK));
        server.give(Input::Login);
        server.give(Input::Reachable(Generation(1)));
        server.give(Input::Enable { dormant: true });
        assert_eq!((server.kind(), server.starts()), (StateKind::Disconnected, 1));
        server.give(command);
        server.connect();
        assert_eq!(server.starts(), 2);
    }
}

#[test]
fn a_failed_start_is_not_retried() {
    let mut server = Server::enabled(never());
    server.fail(Recovery::RetryWhenReachable);
    assert_eq!(
        server.machine.unreachable(),
        None,
        "the keeper does not watch the address"
    );
    server.pass(seconds(A_WEEK));
    assert_eq!((server.kind(), server.starts()), (StateKind::Disconnected, 1));
}

#[test]
fn a_call_does_not_shorten_the_pause_that_the_server_asked_for() {
    let mut server = Server::enabled(never());
    server.fail(Recovery::RetryAfter(seconds(60)));
    server.pass(seconds(20));
    server.give(Input::Demand);
    assert_eq!(server.pause(), Some((seconds(40), Pause::Backoff)));
    server.wait_for_dial();
    server.connect();
}

#[test]
fn calls_to_a_failing_server_start_it_no_more_often_than_its_bucket_allows() {
    let mut server = Server::enabled(never());
    for _ in 0..1_000 {
        if matches!(
            server.machine.state(),
            State::Disconnected(DisconnectReason::Lost(_))
        ) {
            server.give(Input::Demand);
        }
        if server.machine.state().generation().is_some() {
            server.fail(Recovery::Retry);
        }
    }
    assert_eq!(server.starts(), 1 + 10);
}

#[test]
fn a_required_login_and_a_permanent_failure_are_as_for_any_server() {
    let mut server = Server::enabled(never());
    server.fail(Recovery::Login);
    assert_eq!(
        server.machine.state(),
        &State::Disconnected(DisconnectReason::AuthRequired)
    );
    server.give(Input::Login);
    server.fail(Recovery::GiveUp);
    assert_eq!(server.kind(), StateKind::PermanentlyFailed);
}

#[test]
fn after_a_keeper_failure_the_server_waits_for_a_call() {
    let at = Moment::new(seconds(5));
    let mut machine = Machine::resumed(never(), at);
    assert_eq!(machine.deadline(), None);
    let effects = machine.handle(Input::Demand, at, Generation(7));
    assert!(
        effects
            .into_iter()
            .any(|effect| effect == Effect::Open(Generation(7)))
    );
}
