//! Every change of state is an event, in one sequence for the fleet, with what went wrong and nothing else.

use std::time::Duration;

use mainstay::event::EventOrLag;
use mainstay::lifecycle::Cause;
use mainstay::{CallOptions, Fleet, Policy, StateKind};
use mainstay_testkit::{Fault, Script, Step};

use crate::lifecycle::support::{InMemory, LONG, built, connected, echo, fleet, keep, next_event, reaches};

#[tokio::test(start_paused = true)]
async fn events_are_numbered_without_a_gap_across_servers_and_each_leads_on_from_the_one_before() {
    let memory = InMemory::playing(Script::new());
    let fleet = fleet([
        memory.config("one").enabled(false),
        memory.config("two").enabled(false),
    ]);
    let mut events = fleet.events();
    for server in fleet.servers() {
        server.enable().await.expect("taken");
        connected(&server).await;
        server.restart().await.expect("taken");
        connected(&server).await;
        server.disable().await.expect("taken");
        reaches(&server, StateKind::Disabled).await;
    }
    fleet.close(LONG).await;
    drop(memory);

    let mut heard = Vec::new();
    for _ in 0..12 {
        let Some(EventOrLag::Event(event)) = events.next().await else {
            panic!("six events of each server")
        };
        heard.push(*event);
    }
    let first = heard[0].sequence;
    for (n, event) in heard.iter().enumerate() {
        assert_eq!(event.sequence, first + n as u64);
    }
    for name in ["one", "two"] {
        let of_one: Vec<_> = heard.iter().filter(|event| &*event.server == name).collect();
        let states: Vec<_> = of_one.iter().map(|event| event.to.as_str()).collect();
        assert_eq!(
            states,
            [
                "connecting",
                "connected",
                "reconnecting",
                "connected",
                "disabling",
                "disabled"
            ]
        );
        assert!(
            of_one
                .windows(2)
                .all(|pair| pair[0].to == pair[1].from && pair[0].at <= pair[1].at)
        );
        let causes: Vec<_> = of_one.iter().map(|event| event.cause.as_str()).collect();
        assert_eq!(
            causes,
            ["enabled", "listed", "restarted", "listed", "disabled", "closed"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_lagged_learns_how_much_it_missed_and_goes_on_after_it() {
    let memory = InMemory::playing(Script::new());
    let (fleet, server) = keep(memory.config("busy").enabled(false));
    let mut events = fleet.events();
    for _ in 0..400 {
        server.enable().await.expect("taken");
        connected(&server).await;
        server.disable().await.expect("taken");
        reaches(&server, StateKind::Disabled).await;
    }
    let Some(EventOrLag::Lagged(lost)) = events.next().await else {
        panic!("it lagged")
    };
    assert!(lost > 500, "{lost}");
    let Some(EventOrLag::Event(next)) = events.next().await else {
        panic!("the rest is there")
    };
    assert_eq!(
        next.sequence,
        lost + 1,
        "only what it was said to miss is missing"
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_that_nothing_went_wrong_for_blames_no_earlier_failure() {
    let memory = InMemory::choosing(|attempt| {
        let script = Script::new();
        Some(if attempt == 1 {
            script.on(Step::Initialized, Fault::Exit(1).after_ms(100))
        } else {
            script
        })
    });
    let policy = Policy {
        idle_stop: Some(Duration::from_secs(60)),
        ..Policy::default()
    };
    let (fleet, server) = keep(memory.config("recovered").policy(policy));
    let mut events = fleet.events();
    let lost = next_event(&mut events, |event| event.cause == Cause::Lost).await;
    assert!(lost.error.is_some());
    connected(&server).await;
    server.restart().await.expect("taken");
    let restarted = next_event(&mut events, |event| event.cause == Cause::Restarted).await;
    assert!(restarted.error.is_none(), "{restarted:?}");
    let idle = next_event(&mut events, |event| event.cause == Cause::WentIdle).await;
    assert!(idle.error.is_none(), "{idle:?}");
    assert!(
        server.status().last_error.is_some(),
        "a later status still shows it"
    );
}

#[tokio::test(start_paused = true)]
async fn calls_that_condemn_a_connection_are_named_as_the_reason() {
    let memory = InMemory::playing(Script::new().on(Step::Call, Fault::NoAnswer));
    let policy = Policy {
        probe: None,
        ..Policy::default()
    };
    let (fleet, server) = keep(memory.config("mute").policy(policy));
    let generation = connected(&server).await;
    let mut events = fleet.events();
    for _ in 0..3 {
        let call = echo(&server, CallOptions::default().timeout(Duration::from_secs(1)));
        call.await.expect_err("never answered");
    }
    let lost = next_event(&mut events, |event| event.to == StateKind::Reconnecting).await;
    assert_eq!(lost.cause, Cause::CallsFailed);
    let error = lost.error.expect("it says why");
    assert_eq!(
        error.message,
        "3 calls in a row failed; the last one: no answer in time (total)"
    );
    assert_eq!(error.generation.map(|of| of.0), Some(generation));
}

#[tokio::test(start_paused = true)]
async fn who_subscribes_before_the_start_misses_no_event() {
    let memory = InMemory::playing(Script::new());
    let mut builder = Fleet::builder();
    let mut events = builder.events();
    let another = builder.clone().start(built([memory.config("of another fleet")]));
    let fleet = builder.start(built([memory.config("one"), memory.config("two")]));
    for server in fleet.servers().iter().chain(&another.servers()) {
        connected(server).await;
    }
    let mut heard = Vec::new();
    for sequence in 1..=4 {
        let Some(EventOrLag::Event(event)) = events.next().await else {
            panic!("two events of each server")
        };
        assert_eq!(event.sequence, sequence);
        heard.push((event.server.to_string(), event.to));
    }
    heard.sort();
    let of = |name: &str| [StateKind::Connecting, StateKind::Connected].map(|state| (name.to_owned(), state));
    assert_eq!(heard, [of("one"), of("two")].concat());
}

#[tokio::test(start_paused = true)]
async fn a_fleet_with_two_servers_of_one_name_is_refused_and_nothing_is_started() {
    let memory = InMemory::playing(Script::new());
    let twice = built([memory.config("one"), memory.config("two"), memory.config("one")]);
    let refused = Fleet::builder().try_start(twice).expect_err("one is there twice");
    assert_eq!(refused.name, "one");
    assert_eq!(memory.attempts(), 0);
    let once = built([memory.config("one"), memory.config("two")]);
    assert!(Fleet::builder().try_start(once).is_ok());
}
