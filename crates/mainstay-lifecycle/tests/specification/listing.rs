//! Listings: one after each connect, and as few more as keep what is published true.

use std::time::Duration;

use mainstay_lifecycle::{Cause, Effect, Input, Listing, Manner, Policy, Recovery, StateKind};

use crate::server::{Server, seconds};

#[test]
fn a_connection_is_connected_once_it_is_listed() {
    let mut server = Server::new(Policy::default());
    server.give(Input::Enable { dormant: false });
    let generation = server.generation();
    assert_eq!(server.give(Input::Opened(generation)), [Effect::List(generation)]);
    assert_eq!(server.kind(), StateKind::Connecting);
    server.give(Input::Listed(generation, Listing::Good));
    assert_eq!(server.kind(), StateKind::Connected);
}

#[test]
fn a_burst_of_a_hundred_changes_costs_two_listings() {
    let mut server = Server::connected(Policy::default());
    server.pass(seconds(10));
    let (generation, before) = (server.generation(), server.listings());
    for _ in 0..100 {
        server.give(Input::ListChanged(generation));
        server.give(Input::Listed(generation, Listing::Good));
        server.pass(Duration::from_millis(9));
    }
    server.pass(seconds(1));
    server.give(Input::Listed(generation, Listing::Good));
    server.pass(seconds(60));
    assert_eq!(server.listings(), before + 2);
}

#[test]
fn a_change_that_arrives_during_a_listing_is_listed_after_it() {
    let mut server = Server::connected(Policy::default());
    server.pass(seconds(10));
    let generation = server.generation();
    server.give(Input::ListChanged(generation));
    assert_eq!(
        server.give(Input::ListChanged(generation)),
        [],
        "one listing at a time"
    );
    assert_eq!(server.give(Input::Listed(generation, Listing::Good)), []);
    assert_eq!(server.pass(seconds(1)), [Effect::List(generation)]);
}

#[test]
fn a_change_that_arrives_during_the_first_listing_is_not_lost() {
    let mut server = Server::new(Policy::default());
    server.give(Input::Enable { dormant: false });
    let generation = server.generation();
    server.give(Input::Opened(generation));
    server.give(Input::ListChanged(generation));
    server.give(Input::Listed(generation, Listing::Good));
    assert_eq!(server.kind(), StateKind::Connected);
    assert_eq!(server.pass(seconds(1)), [Effect::List(generation)]);
}

#[test]
fn an_unconfirmed_listing_is_listed_again() {
    let mut server = Server::connected(Policy::default());
    server.pass(seconds(10));
    let generation = server.generation();
    server.give(Input::ListChanged(generation));
    server.give(Input::Listed(generation, Listing::Unconfirmed));
    assert_eq!(server.pass(seconds(1)), [Effect::List(generation)]);
    server.give(Input::Listed(generation, Listing::Good));
    assert_eq!(server.pass(seconds(60)), []);
}

#[test]
fn an_unconfirmed_first_listing_connects_and_is_listed_again() {
    let mut server = Server::new(Policy::default());
    server.give(Input::Enable { dormant: false });
    let generation = server.generation();
    server.give(Input::Opened(generation));
    server.give(Input::Listed(generation, Listing::Unconfirmed));
    assert_eq!(server.kind(), StateKind::Connected);
    assert_eq!(server.pass(seconds(1)), [Effect::List(generation)]);
}

#[test]
fn listings_that_fail_in_a_row_condemn_a_connection() {
    let mut server = Server::proven(Policy::default());
    server.pass(seconds(10));
    let generation = server.generation();
    server.give(Input::ListChanged(generation));
    for _ in 0..2 {
        assert_eq!(server.give(Input::ListFailed(generation, Recovery::Retry)), []);
        assert_eq!(server.pass(seconds(1)), [Effect::List(generation)]);
    }
    let effects = server.give(Input::ListFailed(generation, Recovery::Retry));
    assert_eq!(effects[0], Effect::Close(generation, Manner::Cut));
    let cause = effects.iter().find_map(|effect| match effect {
        Effect::Transition(transition) => Some(transition.cause),
        _ => None,
    });
    assert_eq!(cause, Some(Cause::ListingFailed));
}

#[test]
fn a_listing_that_never_ends_fails_at_its_deadline() {
    let mut server = Server::new(Policy::default());
    server.give(Input::Enable { dormant: false });
    let generation = server.generation();
    server.give(Input::Opened(generation));
    assert_eq!(server.pass(seconds(60)), []);
    assert_eq!(server.pass(seconds(1)), [Effect::List(generation)]);
    server.give(Input::Listed(generation, Listing::Good));
    assert_eq!(server.kind(), StateKind::Connected);
}

#[test]
fn answered_calls_do_not_forgive_failed_listings() {
    let mut server = Server::proven(Policy::default());
    server.pass(seconds(10));
    let generation = server.generation();
    server.give(Input::ListChanged(generation));
    for _ in 0..3 {
        assert_eq!(server.kind(), StateKind::Connected);
        server.give(Input::CallAnswered(generation));
        server.give(Input::ListFailed(generation, Recovery::Retry));
        server.pass(seconds(1));
    }
    assert_eq!(server.kind(), StateKind::Reconnecting);
}

#[test]
fn a_listing_that_was_put_off_is_made_again_when_the_server_said_and_not_before() {
    let mut server = Server::connected(Policy::default());
    let generation = server.generation();
    server.pass(seconds(5));
    server.give(Input::ListChanged(generation));
    server.give(Input::ListFailed(generation, Recovery::RetryAfter(seconds(9))));
    assert_eq!(server.pass(seconds(8)), [], "too soon");
    assert_eq!(server.pass(seconds(1)), [Effect::List(generation)]);
}
