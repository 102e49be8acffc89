//! A shortage on this machine is not the server's failure. Nor is the wait in the queue of starting servers.

use std::time::Duration;

use mainstay_lifecycle::{
    Attempt, Backoff, Bucket, Cause, CloseMode, Effect, Input, Listing, Pause, Policy, Recovery, State,
    StateKind, Timer, Vitals,
};

use crate::server::{Server, seconds};

fn policy() -> Policy {
    Policy {
        budget: 2.try_into().expect("not zero"),
        bucket: Bucket {
            size: 1.try_into().expect("not zero"),
            refill_every: seconds(100_000),
        },
        ..Policy::default()
    }
}

#[test]
fn a_shortage_costs_neither_budget_nor_token() {
    let mut server = Server::connected(policy());
    server.lose();
    server.wait_for_dial();
    // More often than the budget and the bucket allow.
    for _ in 0..20 {
        server.fail(Recovery::RetryLack);
        let (pause, why) = server.pause().expect("another attempt");
        assert_eq!(why, Pause::Lack);
        assert!(seconds(1) <= pause && pause <= seconds(2), "{pause:?}");
        assert_eq!(server.machine.failures(), 1, "the loss before");
        server.wait_for_dial();
    }
    server.connect();
}

#[test]
fn the_first_start_stays_free_after_a_shortage() {
    let no_pause = Policy {
        backoff: Backoff::new(Duration::ZERO, Duration::ZERO),
        ..policy()
    };
    let mut server = Server::enabled(no_pause);
    for _ in 0..3 {
        server.fail(Recovery::RetryLack);
        server.wait_for_dial();
    }
    server.connect();
    // The bucket still holds its one token.
    server.lose();
    assert_eq!(server.pause(), None);
    server.connect();
}

#[test]
fn listings_that_fail_by_a_shortage_do_not_end_the_connection() {
    let mut server = Server::connected(Policy::default());
    let generation = server.generation();
    server.pass(seconds(2));
    server.give(Input::ListChanged(generation));
    for _ in 0..10 {
        let effects = server.give(Input::ListFailed(
            generation,
            Recovery::RetryLack,
            Vitals::default(),
        ));
        assert_eq!(effects, []);
        assert_eq!(server.pass(seconds(2)), [Effect::List(generation)]);
    }
    server.give(Input::Listed(generation, Listing::Good { ttl: None }));
    assert_eq!(server.kind(), StateKind::Connected);
}

#[test]
fn the_open_timeout_begins_when_the_server_leaves_the_queue() {
    let mut server = Server::enabled(Policy::default());
    let generation = server.generation();
    let deadline = server.deadline().expect("it waits in the queue");
    assert_eq!(deadline.timer, Timer::Turn);
    server.pass(seconds(200));
    server.give(Input::Begun(generation));
    assert_eq!(server.pass(seconds(300) - Duration::from_nanos(1)), []);
    let effects = server.pass(Duration::from_nanos(1));
    assert_eq!(effects[0], Effect::Close(generation, CloseMode::Cut));
    assert_eq!(server.machine.failures(), 1);
}

#[test]
fn a_timeout_in_the_queue_costs_nothing_and_the_server_queues_again() {
    let mut server = Server::enabled(Policy::default());
    let generation = server.generation();
    let effects = server.pass(seconds(360));
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Transition(transition)
            if transition.cause == Cause::OpenTimedOut && transition.to == StateKind::Reconnecting)),
        "{effects:?}"
    );
    assert_eq!(effects[0], Effect::Close(generation, CloseMode::Cut));
    assert_eq!(server.machine.failures(), 0);
    server.close();
    server.wait_for_dial();
    let state = server.machine.state();
    assert!(
        matches!(
            state,
            State::Connecting {
                is_first: false,
                attempt: Attempt::Queued(..),
                ..
            }
        ),
        "{state:?}"
    );
}

#[test]
fn a_server_that_is_disabled_in_the_queue_is_closed_and_never_opens() {
    let mut server = Server::enabled(Policy::default());
    let generation = server.generation();
    let effects = server.give(Input::Disable);
    assert!(effects.contains(&Effect::Close(generation, CloseMode::Cut)));
    server.close();
    assert_eq!(server.kind(), StateKind::Disabled);
    assert_eq!(
        server.give(Input::Begun(generation)),
        [Effect::CountStale(generation)]
    );
}
