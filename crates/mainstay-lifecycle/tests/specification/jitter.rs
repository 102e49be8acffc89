//! Servers that fail in the same moment do not come back in the same moment.

use std::time::Duration;

use mainstay_lifecycle::{Bucket, Input, Listing, Policy, Recovery, Timer};

use crate::server::{Server, seconds};

/// Enough servers that each quarter of a pause gets its share.
const SERVERS: u64 = 400;

fn policy() -> Policy {
    Policy {
        bucket: Bucket {
            refill_every: Duration::ZERO,
            ..Bucket::default()
        },
        ..Policy::default()
    }
}

/// Asserts that the times are between `from` and `to`, with about a quarter of them in each quarter of that span.
fn assert_spread(times: &[Duration], from: Duration, to: Duration) {
    let mut quarters = [0; 4];
    for time in times {
        assert!(
            (from..=to).contains(time),
            "{time:?} is not in {from:?} to {to:?}"
        );
        let share = (*time - from).as_secs_f64() / (to - from).as_secs_f64();
        quarters[((share * 4.0) as usize).min(3)] += 1;
    }
    let due = times.len() / 4;
    assert!(
        quarters
            .iter()
            .all(|count| (due * 2 / 3..=due * 4 / 3).contains(count)),
        "the quarters of {from:?} to {to:?} hold {quarters:?}"
    );
}

fn pauses(servers: &[Server]) -> Vec<Duration> {
    let pauses = servers
        .iter()
        .map(|server| server.pause().expect("another attempt").0);
    pauses.collect()
}

#[test]
fn servers_that_fail_together_back_off_over_the_whole_pause() {
    let mut servers = Server::many(SERVERS, &policy());
    for failures in 1..=3 {
        for server in &mut servers {
            server.fail(Recovery::Retry);
        }
        let longest = policy().backoff.longest_pause(failures);
        assert_spread(&pauses(&servers), Duration::ZERO, longest);
        let now = servers[0].now + longest;
        for server in &mut servers {
            server.pass(longest);
            assert_eq!(server.now, now, "all fail in the same moment again");
        }
    }
}

#[test]
fn slow_probes_come_at_three_to_five_quarters_of_their_period() {
    let mut servers = Server::many(SERVERS, &policy());
    let rest = policy().backoff.ceiling();
    for _ in 1..policy().budget.get() {
        for server in &mut servers {
            server.fail(Recovery::Retry);
            server.pass(rest);
        }
    }
    for server in &mut servers {
        server.fail(Recovery::Retry);
    }
    assert_spread(&pauses(&servers), seconds(225), seconds(375));
}

#[test]
fn servers_retry_within_the_second_half_of_the_pause_after_a_shortage() {
    let mut servers = Server::many(SERVERS, &policy());
    for server in &mut servers {
        server.fail(Recovery::RetryLack);
    }
    assert_spread(&pauses(&servers), seconds(1), seconds(2));
}

#[test]
fn servers_listed_together_are_listed_again_within_a_tenth_of_the_time_to_live() {
    let ttl = seconds(1_000);
    let watch_nothing = Policy {
        probe: None,
        ..policy()
    };
    let expire = |mut server: Server| {
        let generation = server.generation();
        server.give(Input::Opened(generation));
        server.give(Input::Listed(generation, Listing::Good { ttl: Some(ttl) }));
        server.give(Input::CallAnswered(generation));
        let deadline = server.deadline().expect("the listing expires");
        assert_eq!(deadline.timer, Timer::Expiry);
        deadline.at.since(server.now)
    };
    let expiries: Vec<_> = Server::many(SERVERS, &watch_nothing)
        .into_iter()
        .map(expire)
        .collect();
    assert_spread(&expiries, ttl, ttl + ttl / 10);
}
