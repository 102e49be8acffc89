//! Failures in a row, the bucket of starts, and a long outage: all in paused time.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use mainstay::config::Replay;
use mainstay::event::EventOrLag;
use mainstay::server::Reason;
use mainstay::{CallError, CallErrorKind, CallOptions, Policy, StateKind};
use mainstay_lifecycle::{Backoff, Bucket, WhenSpent};
use mainstay_testkit::{Fault, Script, Step};
use tokio::time::{Instant, sleep};

use crate::lifecycle::support::{InMemory, LONG, connected, echo, fleet, keep, reaches};

/// Completes its handshake, is listed, and dies before anybody calls it.
fn dies_unproven() -> Script {
    Script::new().on(Step::Initialized, Fault::Exit(1).after_ms(100))
}

fn count(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_unproven_is_retried_with_growing_pauses() {
    const SERVERS: usize = 24;
    const BUDGET: u32 = 7;
    let policy = Policy {
        budget: count(BUDGET),
        backoff: Backoff::new(Duration::from_millis(200), Duration::from_secs(30)),
        ..Policy::default()
    };
    let memories: Vec<_> = (0..SERVERS).map(|_| InMemory::playing(dies_unproven())).collect();
    let configs = memories.iter().enumerate();
    let fleet = fleet(configs.map(|(n, memory)| memory.config(&format!("s{n}")).policy(policy.clone())));
    let mut events = fleet.events();

    let began = Instant::now();
    let mut lost_at = BTreeMap::new();
    let mut pauses: BTreeMap<u32, Vec<Duration>> = BTreeMap::new();
    let mut spent = 0;
    while spent < SERVERS {
        assert!(
            began.elapsed() < Duration::from_secs(600),
            "the budgets are never spent"
        );
        let Some(EventOrLag::Event(event)) = events.next().await else {
            panic!("no event is missed")
        };
        match event.to {
            StateKind::Reconnecting => {
                lost_at.insert(event.server.clone(), (event.attempt, Instant::now()));
            }
            StateKind::Connected => {
                if let Some((attempt, at)) = lost_at.remove(&event.server) {
                    pauses.entry(attempt).or_default().push(at.elapsed());
                }
            }
            StateKind::Disconnected => spent += 1,
            other => panic!("{other}"),
        }
    }

    for memory in &memories {
        assert_eq!(
            memory.attempts(),
            BUDGET as usize,
            "each connected, and no connect was forgiven"
        );
    }
    for (attempt, pauses) in &pauses {
        let longest = policy.backoff.longest_pause(*attempt) + Duration::from_millis(5);
        assert!(
            pauses.iter().all(|pause| *pause <= longest),
            "{attempt}: {pauses:?}"
        );
    }
    let mean = |attempt| pauses[&attempt].iter().sum::<Duration>() / SERVERS as u32;
    assert!(mean(3) > mean(1) && mean(6) > 3 * mean(3), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_budget_is_spent_is_probed_slowly_and_shows_when() {
    let memory = InMemory::playing(dies_unproven());
    let policy = Policy {
        budget: count(3),
        when_spent: WhenSpent::ProbeEvery(Duration::from_secs(300)),
        ..Policy::default()
    };
    let (_fleet, server) = keep(memory.config("dying").policy(policy));
    let spent = reaches(&server, StateKind::Disconnected).await;
    assert_eq!((spent.reason, spent.attempt), (Some(Reason::BudgetSpent), 3));
    let next = spent.next_retry.expect("the next probe is visible");
    let pause = next
        .duration_since(std::time::SystemTime::now())
        .expect("it lies ahead");
    assert!((200..400).contains(&pause.as_secs()), "{pause:?}");

    sleep(Duration::from_secs(3600)).await;
    let probes = memory.attempts() - 3;
    assert!(
        (9..=16).contains(&probes),
        "one in about five minutes, though each connected: {probes}"
    );
    assert!(server.status().attempt > 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_a_call_and_dies_each_time_is_back_at_once_every_time() {
    const DEATHS: usize = 50;
    let memory = InMemory::playing(Script::new().on(Step::Call, Fault::Exit(1).after_ms(1)));
    let policy = Policy {
        bucket: Bucket {
            size: count(5),
            refill_every: Duration::from_secs(3600),
        },
        ..Policy::default()
    };
    let (_fleet, server) = keep(memory.config("one-shot").policy(policy));
    let began = Instant::now();
    for _ in 0..DEATHS {
        let generation = connected_within_a_day(&server).await;
        echo(&server, CallOptions::default())
            .await
            .expect("each connection answers one call");
        let lost = server
            .wait_until(LONG, |status| {
                status.generation.map(|now| now.0) != Some(generation)
            })
            .await;
        let lost = lost.expect("and dies");
        assert_eq!(lost.attempt, 0, "an answered call proves the connection");
    }
    connected_within_a_day(&server).await;
    assert_eq!(memory.attempts(), DEATHS + 1);
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "there is no wait for a token: {:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_connects_and_dies_without_completing_a_call_is_started_no_more_often_than_its_bucket_allows()
 {
    let memory = InMemory::playing(Script::new().on(Step::Call, Fault::Exit(1)));
    let policy = Policy {
        bucket: Bucket {
            size: count(5),
            refill_every: Duration::from_secs(10),
        },
        // Each connection lives long enough to prove itself by time, so that the bucket alone is in the way.
        stable_after: Duration::from_millis(10),
        ..Policy::default()
    };
    let (_fleet, server) = keep(memory.config("fruitless").policy(policy));
    let began = Instant::now();
    let mut waited_visibly = false;
    while began.elapsed() < Duration::from_secs(100) {
        let generation = connected_within_a_day(&server).await;
        sleep(Duration::from_millis(20)).await;
        let call = echo(&server, CallOptions::default().replay(Replay::Never)).await;
        assert!(
            matches!(&call, Err(error) if matches!(error.kind, CallErrorKind::Lost { .. })),
            "{call:?}"
        );
        let lost = server
            .wait_until(LONG, |status| {
                status.generation.map(|now| now.0) != Some(generation)
            })
            .await;
        assert_eq!(
            lost.expect("lost").attempt,
            0,
            "it lived through its stable period"
        );
        sleep(Duration::from_millis(10)).await;
        let now = server.status();
        waited_visibly |= now.state == StateKind::Reconnecting && now.next_retry.is_some();
    }
    // The first start is free, the bucket holds five, and ten come back in a hundred seconds.
    assert!(
        (10..=17).contains(&memory.attempts()),
        "{} starts",
        memory.attempts()
    );
    assert!(waited_visibly);
}

#[tokio::test(start_paused = true)]
async fn a_death_that_is_seen_before_the_caller_wakes_is_the_death_of_a_server_that_worked() {
    let memory = InMemory::playing(Script::new().on(Step::Call, Fault::Exit(1).after_ms(1)));
    let (_fleet, server) = keep(memory.config("one-shot"));
    let generation = connected_within_a_day(&server).await;
    let mut call = std::pin::pin!(echo(&server, CallOptions::default()));
    std::future::poll_fn(|context| {
        assert!(call.as_mut().poll(context).is_pending(), "it is on its way");
        std::task::Poll::Ready(())
    })
    .await;
    // The caller is not polled until the server has died.
    let back = server
        .wait_until(LONG, |status| {
            status.state == StateKind::Connected && status.generation.unwrap().0 > generation
        })
        .await;
    assert_eq!(back.expect("back").attempt, 0, "no failure was counted");
    call.await.expect("and the answer is there");
}

async fn connected_within_a_day(server: &mainstay::Server) -> u64 {
    let status = server.wait_connected(LONG).await.expect("connected");
    status.generation.unwrap().0
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_to_be_given_up_is_and_its_tools_are_withdrawn() {
    let memory = InMemory::playing(dies_unproven());
    let policy = Policy {
        budget: count(3),
        when_spent: WhenSpent::GiveUp,
        ..Policy::default()
    };
    let (fleet, server) = keep(memory.config("hopeless").policy(policy));
    connected(&server).await;
    assert!(fleet.catalog().tool("hopeless__echo").is_some());

    let failed = reaches(&server, StateKind::PermanentlyFailed).await;
    assert_eq!((failed.attempt, failed.next_retry), (3, None));
    assert!(failed.last_error.is_some());
    assert!(fleet.catalog().tools().is_empty());
    let call = echo(&server, CallOptions::default()).await;
    let Err(CallError {
        kind: CallErrorKind::NotConnected(now),
        ..
    }) = call
    else {
        panic!("{call:?}")
    };
    assert_eq!(now.state, StateKind::PermanentlyFailed);
    sleep(LONG).await;
    assert_eq!(memory.attempts(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_back_after_an_hour_recovers_unaided() {
    let origin = Instant::now();
    let memory = InMemory::choosing(move |attempt| {
        let away = Duration::from_secs(10)..Duration::from_secs(3610);
        let first = Script::new().on(Step::Initialized, Fault::Exit(1).after_ms(10_000));
        match attempt {
            1 => Some(first),
            _ => (!away.contains(&origin.elapsed())).then(Script::new),
        }
    });
    let (_fleet, server) = keep(memory.config("away"));
    let first = connected(&server).await;
    reaches(&server, StateKind::Reconnecting).await;
    let back = server
        .wait_until(LONG, |status| {
            status.state == StateKind::Connected && status.generation.unwrap().0 > first
        })
        .await;
    assert!(back.is_some());
    let took = origin.elapsed();
    assert!(
        took > Duration::from_secs(3600) && took < Duration::from_secs(3610 + 400),
        "{took:?}"
    );
    assert!(
        memory.attempts() < 40,
        "an hour of outage is not an hour of storm: {}",
        memory.attempts()
    );
    echo(&server, CallOptions::default()).await.expect("answered");
    assert_eq!(server.status().state, StateKind::Connected);
}

#[tokio::test(start_paused = true)]
async fn the_status_shows_how_many_starts_the_bucket_allows() {
    let policy = Policy {
        bucket: Bucket {
            size: count(5),
            refill_every: Duration::from_secs(3600),
        },
        ..Policy::default()
    };
    let memory = InMemory::playing(dies_unproven());
    let (_fleet, server) = keep(memory.config("s").policy(policy));
    for (starts, left) in [(1, 5), (2, 4), (3, 3)] {
        let status = server.wait_until(LONG, |status| status.starts == starts).await;
        let status = status.expect("it is started");
        assert_eq!((status.start_tokens(), status.start_tokens_limit()), (left, 5));
    }
}
