//! Probes of a silent server.

use std::time::Duration;

use mainstay_lifecycle::{CloseMode, Effect, Input, Listing, Policy, StateKind, Timer, Vitals};

use crate::server::{Activity, Server, seconds};

#[test]
fn a_silent_server_is_probed_and_replaced_after_two_misses() {
    let mut server = Server::proven(Policy::default());
    let generation = server.generation();
    server.activity = Activity::Silent;
    assert_eq!(server.pass(seconds(15)), [Effect::Probe(generation)]);
    assert_eq!(server.pass(seconds(5)), [Effect::Probe(generation)]);
    assert_eq!(server.pass(seconds(4)), []);
    assert_eq!(
        server.pass(seconds(1))[0],
        Effect::Close(generation, CloseMode::Cut)
    );
    assert_eq!(server.kind(), StateKind::Reconnecting);
}

#[test]
fn a_server_that_answers_its_probes_stays() {
    let mut server = Server::proven(Policy::default());
    let generation = server.generation();
    server.activity = Activity::Silent;
    for _ in 0..10 {
        assert_eq!(server.pass(seconds(15)), [Effect::Probe(generation)]);
        assert_eq!(
            server.pass(seconds(5)),
            [Effect::Probe(generation)],
            "one miss does not end the connection"
        );
        assert_eq!(server.give(Input::ProbeAnswered(generation)), []);
    }
    assert_eq!(server.kind(), StateKind::Connected);
}

#[test]
fn a_server_that_sends_something_is_not_probed() {
    let mut server = Server::proven(Policy::default());
    server.pass(seconds(3_600));
    assert_eq!(server.probes(), 0);
}

#[test]
fn the_next_check_comes_when_the_silence_would_be_too_long() {
    let mut server = Server::proven(Policy::default());
    server.pass(seconds(14));
    let last_received = server.now;
    server.now = server.now + seconds(1);
    server.give(Input::Timer(Vitals {
        last_received,
        ..Vitals::default()
    }));
    let next = server.deadline().expect("the next check");
    assert_eq!(
        (next.timer, next.at),
        (Timer::Silence, last_received + seconds(15))
    );
    server.now = next.at;
    let effects = server.give(Input::Timer(Vitals {
        last_received,
        ..Vitals::default()
    }));
    assert_eq!(
        effects,
        [Effect::Probe(server.generation())],
        "silent for exactly that long"
    );
}

#[test]
fn a_busy_server_is_probed_once_and_stays_whether_it_answers_or_not() {
    let mut server = Server::proven(Policy::default());
    let generation = server.generation();
    server.activity = Activity::Busy;
    assert_eq!(server.pass(seconds(15)), [Effect::Probe(generation)]);
    server.pass(seconds(3_600));
    assert_eq!(
        (server.kind(), server.probes()),
        (StateKind::Connected, 1),
        "one that is not answered yet is enough"
    );
    server.give(Input::ProbeAnswered(generation));
    assert_eq!(server.pass(seconds(15)), [Effect::Probe(generation)]);
}

#[test]
fn a_server_that_is_still_silent_after_its_call_has_missed_the_probe_of_that_time() {
    let mut server = Server::proven(Policy::default());
    let generation = server.generation();
    server.activity = Activity::Busy;
    server.pass(seconds(600));
    server.activity = Activity::Silent;
    assert_eq!(server.pass(seconds(5)), [Effect::Probe(generation)]);
    assert_eq!(
        server.pass(seconds(5))[0],
        Effect::Close(generation, CloseMode::Cut)
    );
}

#[test]
fn a_message_after_the_call_answers_the_probe_of_that_time() {
    let mut server = Server::proven(Policy::default());
    server.activity = Activity::Busy;
    server.pass(seconds(600));
    server.activity = Activity::Lively;
    server.pass(seconds(600));
    assert_eq!((server.kind(), server.probes()), (StateKind::Connected, 1));
}

#[test]
fn a_server_that_is_stopped_while_it_works_is_probed_and_replaced() {
    let mut server = Server::proven(Policy::default());
    let generation = server.generation();
    server.activity = Activity::Stopped;
    assert_eq!(server.pass(seconds(15)), [Effect::Probe(generation)]);
    assert_eq!(server.pass(seconds(5)), [Effect::Probe(generation)]);
    assert_eq!(
        server.pass(seconds(5))[0],
        Effect::Close(generation, CloseMode::Cut)
    );
}

#[test]
fn a_server_that_is_continued_before_its_last_probe_is_missed_stays() {
    let mut server = Server::proven(Policy::default());
    let generation = server.generation();
    server.activity = Activity::Stopped;
    assert_eq!(server.pass(seconds(20)), [Effect::Probe(generation); 2]);
    server.activity = Activity::Busy;
    server.pass(seconds(3_600));
    assert_eq!((server.kind(), server.probes()), (StateKind::Connected, 2));
}

#[test]
fn a_server_that_became_busy_since_the_probe_has_missed_nothing() {
    let mut server = Server::proven(Policy::default());
    let generation = server.generation();
    server.activity = Activity::Silent;
    assert_eq!(server.pass(seconds(20)), [Effect::Probe(generation); 2]);
    server.activity = Activity::Busy;
    assert_eq!(server.pass(seconds(5)), []);
    server.activity = Activity::Silent;
    assert_eq!(
        server.pass(seconds(15)),
        [Effect::Probe(generation)],
        "the count of misses starts at zero again"
    );
}

#[test]
fn only_a_message_after_the_probe_answers_it() {
    let mut server = Server::proven(Policy::default());
    server.activity = Activity::Silent;
    server.pass(seconds(15));
    let sent = server.now;
    server.now = server.now + seconds(5);
    let last_received = |last_received| {
        Input::Timer(Vitals {
            last_received,
            ..Vitals::default()
        })
    };
    let generation = server.generation();
    assert_eq!(
        server.give(last_received(sent)),
        [Effect::Probe(generation)],
        "a miss"
    );
    let sent = server.now;
    server.now = server.now + seconds(5);
    assert_eq!(server.give(last_received(sent + Duration::from_nanos(1))), []);
    assert_eq!(server.deadline().map(|next| next.timer), Some(Timer::Silence));
}

#[test]
fn without_a_probe_a_silent_server_stays() {
    let policy = Policy {
        probe: None,
        ..Policy::default()
    };
    let mut server = Server::proven(policy);
    server.activity = Activity::Silent;
    assert_eq!(server.pass(seconds(86_400)), []);
    assert_eq!(server.deadline(), None);
}

#[test]
fn a_change_of_policy_ends_a_probe_under_way() {
    let mut server = Server::proven(Policy::default());
    server.activity = Activity::Silent;
    server.pass(seconds(15));
    server.give(Input::Adjust(Box::new(Policy {
        probe: None,
        ..Policy::default()
    })));
    assert_eq!(server.pass(seconds(86_400)), []);
    assert_eq!(server.kind(), StateKind::Connected);
}

#[test]
fn a_server_that_falls_silent_before_its_first_listing_is_replaced_as_soon_as_a_live_one() {
    let mut server = Server::enabled(Policy::default());
    let generation = server.generation();
    server.give(Input::Opened(generation));
    server.activity = Activity::Silent;
    assert_eq!(server.pass(seconds(15)), [Effect::Probe(generation)]);
    assert_eq!(server.pass(seconds(5)), [Effect::Probe(generation)]);
    assert_eq!(
        server.pass(seconds(5))[0],
        Effect::Close(generation, CloseMode::Cut)
    );
    assert_eq!(server.machine.failures(), 1);
}

#[test]
fn a_server_that_is_slow_to_list_and_answers_its_probes_stays() {
    let mut server = Server::enabled(Policy::default());
    let generation = server.generation();
    server.give(Input::Opened(generation));
    server.activity = Activity::Silent;
    for _ in 0..3 {
        assert_eq!(server.pass(seconds(15)), [Effect::Probe(generation)]);
        server.give(Input::ProbeAnswered(generation));
    }
    server.give(Input::Listed(generation, Listing::Good { ttl: None }));
    assert_eq!(server.kind(), StateKind::Connected);
}

#[test]
fn a_successful_first_listing_ends_a_probe_under_way() {
    let mut server = Server::enabled(Policy::default());
    let generation = server.generation();
    server.give(Input::Opened(generation));
    server.activity = Activity::Silent;
    assert_eq!(server.pass(seconds(15)), [Effect::Probe(generation)]);
    server.give(Input::Listed(generation, Listing::Good { ttl: None }));
    let next = server.deadline().expect("the next check");
    assert_eq!((next.timer, next.at), (Timer::Silence, server.now + seconds(15)));
}
