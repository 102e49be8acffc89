//! A server whose address cannot be reached: its pause ends when the address is reachable again.

use std::time::Duration;

use mainstay_lifecycle::{
    Bucket, Cause, Effect, Generation, Input, Pause, Policy, Recovery, StateKind, WhenSpent,
};

use crate::server::{Server, seconds};

/// A server whose address could not be reached.
fn unreachable(policy: Policy) -> (Server, Generation) {
    let mut server = Server::enabled(policy);
    let generation = server.generation();
    server.fail(Recovery::RetryWhenReachable);
    assert_eq!(server.machine.unreachable(), Some(generation));
    (server, generation)
}

#[test]
fn a_reachable_server_is_dialled_before_its_pause_is_over() {
    let (mut server, unreachable) = unreachable(Policy::default());
    assert!(server.pause().is_some_and(|(pause, _)| !pause.is_zero()));
    let effects = server.give(Input::Reachable(unreachable));
    assert_eq!(effects, [Effect::Open(server.generation())]);
    assert_eq!(server.machine.unreachable(), None);
    assert_eq!(server.machine.failures(), 1, "reachability proves nothing");
}

#[test]
fn a_server_reachable_during_the_close_is_dialled_after_the_close() {
    let mut server = Server::enabled(Policy::default());
    let unreachable = server.generation();
    server.give(Input::OpenFailed(unreachable, Recovery::RetryWhenReachable));
    assert_eq!(server.give(Input::Reachable(unreachable)), []);
    assert_eq!(server.pause(), Some((Duration::ZERO, Pause::None)));
    assert_eq!(server.close(), [Effect::Open(server.generation())]);
}

#[test]
fn reachability_does_not_shorten_a_pause_that_the_server_asked_for() {
    let mut server = Server::enabled(Policy::default());
    let generation = server.generation();
    server.fail(Recovery::RetryAfter(seconds(30)));
    assert_eq!(server.machine.unreachable(), None);
    let effects = server.give(Input::Reachable(generation));
    assert_eq!(effects, [Effect::CountStale(generation)]);
    assert_eq!(server.pause(), Some((seconds(30), Pause::Backoff)));
}

#[test]
fn a_report_about_an_older_generation_changes_nothing() {
    let (mut server, older) = unreachable(Policy::default());
    server.wait_for_dial();
    server.fail(Recovery::RetryWhenReachable);
    let pause = server.pause();
    assert_eq!(server.give(Input::Reachable(older)), [Effect::CountStale(older)]);
    assert_eq!(server.pause(), pause);
}

#[test]
fn a_server_that_comes_and_goes_is_dialled_as_often_as_its_bucket_allows() {
    let bucket = Bucket {
        size: 2.try_into().expect("not zero"),
        refill_every: seconds(6),
    };
    let (mut server, _) = unreachable(Policy {
        bucket,
        ..Policy::default()
    });
    for _ in 0..2 {
        let unreachable = server.machine.unreachable().expect("the address is unreachable");
        server.give(Input::Reachable(unreachable));
        server.fail(Recovery::RetryWhenReachable);
    }
    let unreachable = server.machine.unreachable().expect("the address is unreachable");
    assert_eq!(server.give(Input::Reachable(unreachable)), []);
    assert_eq!(server.pause(), Some((seconds(6), Pause::Token)));
}

#[test]
fn a_reachable_server_is_dialled_even_when_the_budget_is_spent() {
    let policy = Policy {
        budget: 1.try_into().expect("not zero"),
        when_spent: WhenSpent::ProbeEvery(seconds(300)),
        ..Policy::default()
    };
    let (mut server, unreachable) = unreachable(policy);
    assert_eq!(server.kind(), StateKind::Disconnected);
    let effects = server.give(Input::Reachable(unreachable));
    let is_reported = effects.iter().any(|effect| {
        matches!(effect, Effect::Transition(transition)
            if transition.to == StateKind::Reconnecting && transition.cause == Cause::Reachable)
    });
    assert!(is_reported, "{effects:?}");
    assert!(effects.contains(&Effect::Open(server.generation())));
}

#[test]
fn a_disabled_server_does_not_wait_for_its_address() {
    let (mut server, unreachable) = unreachable(Policy::default());
    server.give(Input::Disable);
    assert_eq!(server.machine.unreachable(), None);
    assert_eq!(
        server.give(Input::Reachable(unreachable)),
        [Effect::CountStale(unreachable)]
    );
    assert_eq!(server.kind(), StateKind::Disabled);
}
