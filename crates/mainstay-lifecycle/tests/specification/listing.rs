//! Listings: one after each connect, and only as many more as the catalog needs.

use std::time::Duration;

use mainstay_lifecycle::{
    Attempt, Backoff, Cause, CloseMode, Effect, Input, Listing, Policy, Recovery, State, StateKind, Vitals,
};

use crate::server::{Activity, Server, seconds};

#[test]
fn a_server_is_connected_once_it_is_listed() {
    let mut server = Server::enabled(Policy::default());
    let generation = server.generation();
    assert_eq!(server.give(Input::Opened(generation)), [Effect::List(generation)]);
    assert_eq!(server.kind(), StateKind::Connecting);
    server.give(Input::Listed(generation, Listing::Good { ttl: None }));
    assert_eq!(server.kind(), StateKind::Connected);
}

#[test]
fn a_burst_of_a_hundred_changes_costs_two_listings() {
    let mut server = Server::connected(Policy::default());
    server.pass(seconds(10));
    let (generation, before) = (server.generation(), server.listings());
    for _ in 0..100 {
        server.give(Input::ListChanged(generation));
        server.give(Input::Listed(generation, Listing::Good { ttl: None }));
        server.pass(Duration::from_millis(9));
    }
    server.pass(seconds(1));
    server.give(Input::Listed(generation, Listing::Good { ttl: None }));
    server.pass(seconds(60));
    assert_eq!(server.listings(), before + 2);
}

#[test]
fn a_change_during_a_listing_leads_to_another_listing() {
    let mut server = Server::connected(Policy::default());
    server.pass(seconds(10));
    let generation = server.generation();
    server.give(Input::ListChanged(generation));
    assert_eq!(
        server.give(Input::ListChanged(generation)),
        [],
        "one listing at a time"
    );
    assert_eq!(
        server.give(Input::Listed(generation, Listing::Good { ttl: None })),
        []
    );
    assert_eq!(server.pass(seconds(1)), [Effect::List(generation)]);
}

#[test]
fn a_change_during_the_first_listing_leads_to_another_listing() {
    let mut server = Server::enabled(Policy::default());
    let generation = server.generation();
    server.give(Input::Opened(generation));
    server.give(Input::ListChanged(generation));
    server.give(Input::Listed(generation, Listing::Good { ttl: None }));
    assert_eq!(server.kind(), StateKind::Connected);
    assert_eq!(server.pass(seconds(1)), [Effect::List(generation)]);
}

#[test]
fn an_unconfirmed_listing_leads_to_another_listing() {
    let mut server = Server::connected(Policy::default());
    server.pass(seconds(10));
    let generation = server.generation();
    server.give(Input::ListChanged(generation));
    server.give(Input::Listed(generation, Listing::Unconfirmed));
    assert_eq!(server.pass(seconds(1)), [Effect::List(generation)]);
    server.give(Input::Listed(generation, Listing::Good { ttl: None }));
    assert_eq!(server.pass(seconds(60)), []);
}

#[test]
fn an_unconfirmed_first_listing_connects_and_leads_to_another_listing() {
    let mut server = Server::enabled(Policy::default());
    let generation = server.generation();
    server.give(Input::Opened(generation));
    server.give(Input::Listed(generation, Listing::Unconfirmed));
    assert_eq!(server.kind(), StateKind::Connected);
    assert_eq!(server.pass(seconds(1)), [Effect::List(generation)]);
}

#[test]
fn listings_without_an_answer_in_a_row_end_a_connection() {
    let mut server = Server::proven(Policy::default());
    server.pass(seconds(10));
    let generation = server.generation();
    server.give(Input::ListChanged(generation));
    for _ in 0..2 {
        assert_eq!(
            server.give(Input::ListFailed(generation, Recovery::Retry, Vitals::default())),
            []
        );
        assert_eq!(server.pass(seconds(1)), [Effect::List(generation)]);
    }
    let effects = server.give(Input::ListFailed(generation, Recovery::Retry, Vitals::default()));
    assert_eq!(effects[0], Effect::Close(generation, CloseMode::Cut));
    let cause = effects.iter().find_map(|effect| match effect {
        Effect::Transition(transition) => Some(transition.cause),
        _ => None,
    });
    assert_eq!(cause, Some(Cause::ListingFailed));
}

#[test]
fn a_listing_that_never_ends_fails_at_its_deadline() {
    let mut server = Server::enabled(Policy::default());
    let generation = server.generation();
    server.give(Input::Opened(generation));
    assert_eq!(server.pass(seconds(60)), []);
    assert_eq!(server.pass(seconds(1)), [Effect::List(generation)]);
    server.give(Input::Listed(generation, Listing::Good { ttl: None }));
    assert_eq!(server.kind(), StateKind::Connected);
}

#[test]
fn calls_that_were_answered_before_a_listing_began_do_not_excuse_its_silence() {
    let mut server = Server::proven(Policy::default());
    server.pass(seconds(10));
    let generation = server.generation();
    server.give(Input::ListChanged(generation));
    for _ in 0..3 {
        assert_eq!(server.kind(), StateKind::Connected);
        server.give(Input::CallAnswered(generation));
        server.give(Input::ListFailed(generation, Recovery::Retry, Vitals::default()));
        server.pass(seconds(1));
    }
    assert_eq!(server.kind(), StateKind::Reconnecting);
}

#[test]
fn a_listing_without_an_answer_does_not_count_while_calls_are_served() {
    let answered = Vitals {
        answered: true,
        ..Vitals::default()
    };
    let working = Vitals {
        busy: true,
        ..Vitals::default()
    };
    for served in [answered, working] {
        let mut server = Server::proven(Policy::default());
        server.pass(seconds(10));
        let generation = server.generation();
        server.give(Input::ListChanged(generation));
        for _ in 0..10 {
            assert_eq!(
                server.give(Input::ListFailed(generation, Recovery::Retry, served)),
                [],
                "{served:?}"
            );
            assert_eq!(server.pass(seconds(1)), [Effect::List(generation)], "{served:?}");
        }
        for _ in 0..3 {
            server.give(Input::ListFailed(generation, Recovery::Retry, Vitals::default()));
            server.pass(seconds(1));
        }
        assert_eq!(server.kind(), StateKind::Reconnecting, "{served:?}");
    }
}

#[test]
fn a_call_on_a_stopped_process_does_not_excuse_a_listing_without_an_answer() {
    let stopped = Vitals {
        busy: true,
        stopped: true,
        ..Vitals::default()
    };
    let mut server = Server::proven(Policy::default());
    server.pass(seconds(10));
    let generation = server.generation();
    server.give(Input::ListChanged(generation));
    for _ in 0..3 {
        server.give(Input::ListFailed(generation, Recovery::Retry, stopped));
        server.pass(seconds(1));
    }
    assert_eq!(server.kind(), StateKind::Reconnecting);
}

#[test]
fn a_listing_that_times_out_does_not_count_while_a_call_is_at_work() {
    let policy = Policy {
        probe: None,
        ..Policy::default()
    };
    let mut server = Server::proven(policy);
    server.pass(seconds(10));
    server.activity = Activity::Busy;
    server.give(Input::ListChanged(server.generation()));
    server.pass(seconds(600));
    assert_eq!(server.kind(), StateKind::Connected);
    server.activity = Activity::Silent;
    server.pass(seconds(200));
    assert_eq!(server.kind(), StateKind::Reconnecting);
}

#[test]
fn a_listing_that_the_server_refuses_costs_nothing_however_often() {
    let mut server = Server::connected(Policy::default());
    server.pass(seconds(10));
    let (generation, tokens) = (server.generation(), server.machine.start_tokens());
    server.give(Input::ListChanged(generation));
    for _ in 0..100 {
        let effects = server.give(Input::Listed(generation, Listing::Refused));
        assert_eq!(effects, [], "the connection stays, and what is published too");
        assert_eq!(server.pass(seconds(30)), [Effect::List(generation)]);
    }
    assert_eq!(server.kind(), StateKind::Connected);
    assert_eq!(server.machine.failures(), 0);
    assert_eq!(server.machine.start_tokens(), tokens);
}

/// The pause until the next listing, which is shown, and after which the listing takes place.
fn pause_until_next_listing(server: &mut Server) -> Duration {
    let State::Connected(live) = server.machine.state() else {
        panic!("{:?}", server.machine.state())
    };
    let pause = live.next_listing().expect("it is planned").since(server.now);
    assert_eq!(server.pass(pause - Duration::from_millis(1)), [], "too soon");
    let generation = server.generation();
    assert_eq!(server.pass(Duration::from_millis(1)), [Effect::List(generation)]);
    pause
}

#[test]
fn refused_listings_are_repeated_after_pauses_that_double_until_one_is_answered_with_lists() {
    let policy = Policy {
        backoff: Backoff::new(Duration::from_millis(200), seconds(5)),
        probe: None,
        ..Policy::default()
    };
    let mut server = Server::proven(policy);
    server.pass(seconds(10));
    let generation = server.generation();
    for _ in 0..2 {
        server.give(Input::ListChanged(generation));
        for expected in [1, 2, 4, 5, 5] {
            server.give(Input::Listed(generation, Listing::Refused));
            assert_eq!(pause_until_next_listing(&mut server), seconds(expected));
        }
        server.give(Input::Listed(generation, Listing::Good { ttl: None }));
        server.pass(seconds(10));
    }
}

#[test]
fn a_refused_listing_is_an_answer_between_listings_without_one() {
    let mut server = Server::proven(Policy::default());
    server.pass(seconds(10));
    let generation = server.generation();
    server.give(Input::ListChanged(generation));
    for _ in 0..5 {
        for _ in 0..2 {
            server.give(Input::ListFailed(generation, Recovery::Retry, Vitals::default()));
            server.pass(seconds(1));
        }
        server.give(Input::Listed(generation, Listing::Refused));
        server.pass(seconds(30));
    }
    assert_eq!(server.kind(), StateKind::Connected);
}

#[test]
fn a_server_that_refuses_its_first_listing_is_connected_and_listed_again() {
    let mut server = Server::enabled(Policy::default());
    let generation = server.generation();
    server.give(Input::Opened(generation));
    let effects = server.give(Input::Listed(generation, Listing::Refused));
    let transition = effects.iter().find_map(|effect| match effect {
        Effect::Transition(transition) => Some((transition.to, transition.cause)),
        _ => None,
    });
    assert_eq!(transition, Some((StateKind::Connected, Cause::ListingRefused)));
    assert_eq!(pause_until_next_listing(&mut server), seconds(1));
    server.give(Input::Listed(generation, Listing::Good { ttl: None }));
    assert_eq!(server.kind(), StateKind::Connected);
}

#[test]
fn a_change_ends_the_pause_after_a_refused_listing() {
    let mut server = Server::proven(Policy::default());
    server.pass(seconds(10));
    let generation = server.generation();
    server.give(Input::ListChanged(generation));
    for _ in 0..5 {
        server.give(Input::Listed(generation, Listing::Refused));
        server.pass(seconds(30));
    }
    server.give(Input::Listed(generation, Listing::Refused));
    server.pass(seconds(2));
    assert_eq!(
        server.give(Input::ListChanged(generation)),
        [Effect::List(generation)]
    );
    // A change while it is listed counts as well, and no two listings begin within a second.
    server.give(Input::ListChanged(generation));
    assert_eq!(server.give(Input::Listed(generation, Listing::Refused)), []);
    assert_eq!(server.pass(seconds(1)), [Effect::List(generation)]);
    server.give(Input::Listed(generation, Listing::Refused));
    assert_eq!(server.give(Input::ListChanged(generation)), [], "too soon");
    assert_eq!(server.pass(seconds(1)), [Effect::List(generation)]);
}

#[test]
fn a_postponed_listing_is_retried_when_the_server_said_and_not_before() {
    let mut server = Server::connected(Policy::default());
    let generation = server.generation();
    server.pass(seconds(5));
    server.give(Input::ListChanged(generation));
    server.give(Input::ListFailed(
        generation,
        Recovery::RetryAfter(seconds(9)),
        Vitals::default(),
    ));
    assert_eq!(server.pass(seconds(8)), [], "too soon");
    assert_eq!(server.pass(seconds(1)), [Effect::List(generation)]);
}

fn listed_with(ttl: Duration, policy: Policy) -> Server {
    let mut server = Server::enabled(policy);
    let generation = server.generation();
    server.give(Input::Opened(generation));
    server.give(Input::Listed(generation, Listing::Good { ttl: Some(ttl) }));
    server
}

/// Answers each listing at once with the same time to live, and counts the listings.
fn listings_within(server: &mut Server, time: Duration, ttl: Option<Duration>) -> usize {
    let before = server.listings();
    let end = server.now + time;
    while let Some(deadline) = server.deadline().filter(|deadline| deadline.at <= end) {
        let effects = server.pass(deadline.at.since(server.now));
        for effect in effects {
            if let Effect::List(generation) = effect {
                server.give(Input::Listed(generation, Listing::Good { ttl }));
            }
        }
    }
    server.listings() - before
}

#[test]
fn a_server_is_listed_again_when_the_time_to_live_is_over_and_not_before() {
    let ttl = seconds(100);
    let mut server = listed_with(ttl, Policy::default());
    let generation = server.generation();
    assert_eq!(server.listings(), 1);
    server.pass(ttl - seconds(1));
    assert_eq!(server.listings(), 1);
    server.pass(seconds(1) + ttl / 10);
    assert_eq!(server.listings(), 2);
    assert_eq!(server.generation(), generation, "on the same connection");
}

#[test]
fn a_time_to_live_is_bounded_in_both_directions() {
    for (said, least, most) in [
        (Duration::from_millis(1), 80, 100),
        (seconds(1), 80, 100),
        (Duration::MAX, 0, 0),
        (Duration::ZERO, 1, 1),
    ] {
        let mut server = listed_with(said, Policy::default());
        let listings = listings_within(&mut server, seconds(100), Some(said));
        assert!((least..=most).contains(&listings), "{said:?}: {listings}");
    }
    let mut server = listed_with(Duration::MAX, Policy::default());
    let day = seconds(24 * 60 * 60);
    assert_eq!(
        listings_within(&mut server, day + day / 5, Some(Duration::MAX)),
        1
    );
}

#[test]
fn without_a_time_to_live_a_server_is_listed_again_only_as_often_as_the_policy_says() {
    let mut server = Server::connected(Policy::default());
    assert_eq!(listings_within(&mut server, seconds(3_600), None), 0);
    let mut policy = Policy::default();
    policy.expiry.every = Some(seconds(60));
    server.give(Input::Adjust(Box::new(policy)));
    let listings = listings_within(&mut server, seconds(3_600), None);
    assert!((54..=60).contains(&listings), "{listings}");
}

#[test]
fn a_time_to_live_neither_keeps_an_unused_server_running_nor_starts_one() {
    let policy = Policy {
        idle_stop: Some(seconds(600)),
        ..Policy::default()
    };
    let mut server = listed_with(seconds(10), policy);
    server.activity = Activity::Unused;
    let listings = listings_within(&mut server, seconds(700), Some(seconds(10)));
    assert!(listings > 50, "{listings}");
    assert_eq!(server.kind(), StateKind::Disconnected);
    server.close();
    assert_eq!(
        listings_within(&mut server, seconds(10_000), Some(seconds(10))),
        0
    );
    assert_eq!(server.kind(), StateKind::Disconnected);
}

#[test]
fn a_postponed_first_listing_shows_when_it_is_retried() {
    let mut server = Server::enabled(Policy::default());
    let generation = server.generation();
    server.give(Input::Opened(generation));
    let next_listing = |server: &Server| match server.machine.state() {
        State::Connecting {
            attempt: Attempt::Listing(open),
            ..
        } => open.next_listing(),
        state => panic!("{state:?}"),
    };
    assert_eq!(next_listing(&server), None, "it runs");
    server.give(Input::ListFailed(
        generation,
        Recovery::RetryAfter(seconds(30)),
        Vitals::default(),
    ));
    assert_eq!(next_listing(&server), Some(server.now + seconds(30)));
}
