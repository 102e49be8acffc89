//! A herd that fails in the same moment does not come back in the same moment.

use std::time::Duration;

use mainstay_lifecycle::{Bucket, Input, Listing, Policy, Recovery, Timer};

use crate::server::{Server, seconds};

/// Enough that each quarter of a pause gets its share.
const HERD: u64 = 400;

fn policy() -> Policy {
    Policy {
        bucket: Bucket {
            refill_every: Duration::ZERO,
            ..Bucket::default()
        },
        ..Policy::default()
    }
}

/// Holds that the times lie between `from` and `to`, and that each quarter of that span has about a quarter of them.
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

fn pauses(herd: &[Server]) -> Vec<Duration> {
    let pauses = herd
        .iter()
        .map(|server| server.pause().expect("another attempt").0);
    pauses.collect()
}

#[test]
fn a_herd_that_fails_together_backs_off_over_the_whole_pause() {
    let mut herd = Server::herd(HERD, &policy());
    for failures in 1..=3 {
        for server in &mut herd {
            server.fail(Recovery::Retry);
        }
        let longest = policy().backoff.longest_pause(failures);
        assert_spread(&pauses(&herd), Duration::ZERO, longest);
        let now = herd[0].now + longest;
        for server in &mut herd {
            server.pass(longest);
            assert_eq!(server.now, now, "the herd fails in the same moment again");
        }
    }
}

#[test]
fn a_herd_whose_budget_is_spent_probes_at_three_to_five_quarters_of_its_period() {
    let mut herd = Server::herd(HERD, &policy());
    let rest = policy().backoff.ceiling();
    for _ in 1..policy().budget.get() {
        for server in &mut herd {
            server.fail(Recovery::Retry);
            server.pass(rest);
        }
    }
    for server in &mut herd {
        server.fail(Recovery::Retry);
    }
    assert_spread(&pauses(&herd), seconds(225), seconds(375));
}

#[test]
fn a_herd_that_lacks_the_same_thing_tries_again_within_the_second_half_of_the_pause() {
    let mut herd = Server::herd(HERD, &policy());
    for server in &mut herd {
        server.fail(Recovery::RetryLack);
    }
    assert_spread(&pauses(&herd), seconds(1), seconds(2));
}

#[test]
fn a_herd_that_was_listed_together_is_listed_again_within_a_tenth_of_the_time_to_live() {
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
    let expiries: Vec<_> = Server::herd(HERD, &watch_nothing)
        .into_iter()
        .map(expire)
        .collect();
    assert_spread(&expiries, ttl, ttl + ttl / 10);
}
