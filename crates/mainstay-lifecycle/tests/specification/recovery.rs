//! Recovery from losses: what is retried, when, how often, and when no more.

use std::num::NonZeroU32;
use std::time::Duration;

use mainstay_lifecycle::{
    Backoff, Bucket, CloseMode, DisconnectReason, Effect, Input, OtherCalls, Pause, Policy, Recovery, State,
    StateKind, Vitals, WhenLost, WhenSpent,
};

use crate::server::{Activity, Server, seconds};

/// A bucket that never runs empty, for tests of the budget.
fn without_bucket() -> Policy {
    Policy {
        bucket: Bucket {
            size: NonZeroU32::MAX,
            refill_every: Duration::ZERO,
        },
        ..Policy::default()
    }
}

const OLDER: OtherCalls = OtherCalls {
    are_older: true,
    can_finish: false,
};

fn giving_up() -> Policy {
    Policy {
        when_spent: WhenSpent::GiveUp,
        ..without_bucket()
    }
}

#[test]
fn the_first_attempt_after_a_proven_connection_is_immediate() {
    let mut server = Server::proven(Policy::default());
    let lost = server.generation();
    let effects = server.give(Input::Lost(lost));
    assert_eq!(effects[0], Effect::Close(lost, CloseMode::Cut));
    assert_eq!(server.kind(), StateKind::Reconnecting);
    assert_eq!(server.pause(), Some((Duration::ZERO, Pause::None)));
    let effects = server.give(Input::Closed(lost));
    assert_eq!(effects, [Effect::Open(server.generation())]);
    assert_eq!(server.machine.failures(), 0);
}

#[test]
fn a_connection_that_takes_nothing_new_finishes_its_calls_beside_the_next() {
    let mut server = Server::proven(Policy::default());
    let retired = server.generation();
    let effects = server.give(Input::Retired(retired, Recovery::Retry));
    assert_eq!(effects.first(), Some(&Effect::Close(retired, CloseMode::Drain)));
    assert_eq!(
        effects.last(),
        Some(&Effect::Open(server.generation())),
        "at once"
    );
    assert_eq!(server.draining(), [retired]);
    assert_eq!(
        (server.kind(), server.machine.failures()),
        (StateKind::Reconnecting, 0)
    );

    let mut unproven = Server::connected(Policy::default());
    unproven.give(Input::Retired(unproven.generation(), Recovery::Retry));
    assert_eq!(unproven.machine.failures(), 1, "it counts like every loss");
    assert!(unproven.pause().is_some_and(|(pause, _)| !pause.is_zero()));
}

#[test]
fn a_second_loss_soon_after_the_first_cuts_no_calls() {
    let mut server = Server::proven(Policy::default());
    let first = server.generation();
    server.give(Input::Retired(first, Recovery::Retry));
    let second = server.connect();
    server.give(Input::CallAnswered(second));
    let effects = server.give(Input::Retired(second, Recovery::Retry));
    assert_eq!(effects.first(), Some(&Effect::Close(second, CloseMode::Drain)));
    assert_eq!(server.draining(), [first, second]);
    server.give(Input::Closed(first));
    assert_eq!(server.draining(), [second]);
}

#[test]
fn a_connection_whose_port_is_closed_is_followed_by_one_as_soon_as_the_port_is_open() {
    let mut server = Server::connected(Policy::default());
    let retired = server.generation();
    server.give(Input::Retired(retired, Recovery::RetryWhenReachable));
    assert_eq!(server.machine.unreachable(), Some(retired));
    let effects = server.give(Input::Reachable(retired));
    assert_eq!(effects.last(), Some(&Effect::Open(server.generation())));
}

#[test]
fn a_call_that_needs_a_login_lets_the_others_finish() {
    let mut server = Server::connected(Policy::default());
    let refused = server.generation();
    let effects = server.give(Input::CallFailed(refused, Recovery::Login, OtherCalls::default()));
    assert_eq!(effects.first(), Some(&Effect::Close(refused, CloseMode::Drain)));
    assert_eq!(
        *server.machine.state(),
        State::Disconnected(DisconnectReason::AuthRequired)
    );
    let effects = server.give(Input::Login);
    assert_eq!(
        effects.last(),
        Some(&Effect::Open(server.generation())),
        "the login waits for no call"
    );
    assert_eq!(server.draining(), [refused]);
}

#[test]
fn a_refused_credential_of_the_configuration_is_tried_again_slowly_and_costs_no_budget() {
    let policy = Policy::default();
    let WhenSpent::ProbeEvery(period) = policy.when_spent else {
        panic!("the default probes slowly");
    };
    let mut server = Server::proven(policy.clone());
    for _ in 0..20 {
        let refused = server.generation();
        server.give(Input::CallFailed(
            refused,
            Recovery::RetryCredential,
            OtherCalls::default(),
        ));
        server.give(Input::OpenFailed(refused, Recovery::RetryCredential));
        let State::Disconnected(DisconnectReason::CredentialRefused(at)) = *server.machine.state() else {
            panic!("{:?}", server.machine.state());
        };
        let pause = at.since(server.now);
        assert!(period * 3 / 4 <= pause && pause <= period * 5 / 4, "{pause:?}");
        assert_eq!(server.machine.failures(), 0);
        server.give(Input::Demand);
        assert_eq!(server.kind(), StateKind::Disconnected, "a call does not hurry it");
        server.now = at;
        server.give(Input::Timer(Vitals::default()));
        assert_eq!(server.kind(), StateKind::Reconnecting);
        server.give(Input::Closed(refused));
    }
    // Where nothing is retried slowly, a person must act.
    for policy in [
        Policy {
            when_spent: WhenSpent::GiveUp,
            ..policy.clone()
        },
        Policy {
            when_lost: WhenLost::StayDisconnected,
            ..policy
        },
    ] {
        let mut server = Server::proven(policy);
        let refused = server.generation();
        server.give(Input::CallFailed(
            refused,
            Recovery::RetryCredential,
            OtherCalls::default(),
        ));
        assert_eq!(
            *server.machine.state(),
            State::Disconnected(DisconnectReason::AuthRequired)
        );
    }
}

#[test]
fn a_connection_that_nobody_uses_yet_is_cut_when_it_takes_nothing_new() {
    let mut server = Server::enabled(Policy::default());
    let generation = server.generation();
    server.give(Input::Opened(generation));
    let effects = server.give(Input::Retired(generation, Recovery::Retry));
    assert_eq!(effects.first(), Some(&Effect::Close(generation, CloseMode::Cut)));
    assert_eq!(server.draining(), []);
}

#[test]
fn pauses_grow_with_failures_in_a_row_up_to_the_ceiling() {
    let mut server = Server::enabled(without_bucket());
    let backoff = Backoff::default();
    let mut longest = Duration::ZERO;
    for failures in 1..10 {
        server.fail(Recovery::Retry);
        assert_eq!(server.machine.failures(), failures);
        let (pause, why) = server.pause().expect("the budget is not spent");
        assert!(
            pause <= backoff.longest_pause(failures),
            "{pause:?} after {failures}"
        );
        assert_eq!(why, Pause::Backoff);
        longest = longest.max(pause);
        server.wait_for_dial();
    }
    assert!(
        longest > seconds(2),
        "the jitter takes more than the lowest of {longest:?}"
    );
    assert_eq!(backoff.longest_pause(0), Duration::ZERO);
    assert_eq!(backoff.longest_pause(1), Duration::from_millis(200));
    assert_eq!(backoff.longest_pause(2), Duration::from_millis(400));
    assert_eq!(backoff.longest_pause(5), Duration::from_millis(3_200));
    assert_eq!(backoff.longest_pause(20), seconds(30));
    assert_eq!(backoff.longest_pause(u32::MAX), seconds(30));
}

#[test]
fn a_connect_alone_keeps_the_failures_in_a_row() {
    let mut server = Server::connected(without_bucket());
    for failures in 1..10 {
        server.lose();
        assert_eq!(server.machine.failures(), failures);
        server.wait_for_dial();
        server.connect();
    }
    server.lose();
    assert!(matches!(
        server.machine.state(),
        State::Disconnected(DisconnectReason::BudgetSpent(..))
    ));
}

#[test]
fn an_answered_call_clears_the_failures_in_a_row() {
    let mut server = Server::connected(without_bucket());
    server.lose();
    server.wait_for_dial();
    let generation = server.connect();
    assert_eq!(server.machine.failures(), 1);
    server.give(Input::CallAnswered(generation));
    assert_eq!(server.machine.failures(), 0);
}

#[test]
fn living_through_the_stable_period_proves_a_connection() {
    let mut server = Server::connected(without_bucket());
    server.lose();
    server.wait_for_dial();
    server.connect();
    server.pass(seconds(60) - Duration::from_nanos(1));
    assert_eq!(server.machine.failures(), 1);
    server.pass(Duration::from_nanos(1));
    assert_eq!(server.machine.failures(), 0);
    server.give(Input::Lost(server.generation()));
    assert_eq!(server.pause(), Some((Duration::ZERO, Pause::None)));
}

#[test]
fn a_spent_budget_leads_to_slow_probes_at_a_visible_time() {
    let mut server = Server::enabled(without_bucket());
    for _ in 0..10 {
        server.wait_for_dial();
        server.fail(Recovery::Retry);
    }
    assert_eq!(server.kind(), StateKind::Disconnected);
    let starts = server.starts();
    for _ in 0..12 {
        let (pause, _) = server.pause().expect("the next probe has a time");
        assert!((seconds(225)..=seconds(375)).contains(&pause), "{pause:?}");
        server.pass(pause - Duration::from_nanos(1));
        assert_eq!(server.kind(), StateKind::Disconnected);
        server.pass(Duration::from_nanos(1));
        assert_eq!(server.kind(), StateKind::Reconnecting);
        server.fail(Recovery::Retry);
    }
    assert_eq!(server.starts(), starts + 12, "one start for each probe");
}

#[test]
fn a_spent_budget_ends_in_permanent_failure_where_the_policy_says_so() {
    let mut server = Server::enabled(giving_up());
    for _ in 0..9 {
        server.fail(Recovery::Retry);
        server.wait_for_dial();
    }
    let effects = server.give(Input::OpenFailed(server.generation(), Recovery::Retry));
    assert_eq!(server.kind(), StateKind::PermanentlyFailed);
    assert!(effects.contains(&Effect::Withdraw), "its catalog is withdrawn");
    server.close();
    assert_eq!(server.deadline(), None);
    assert_eq!(server.pass(seconds(86_400)), []);
}

#[test]
fn a_failure_that_no_retry_can_mend_is_permanent_at_once() {
    let mut server = Server::enabled(Policy::default());
    server.fail(Recovery::GiveUp);
    assert_eq!(server.kind(), StateKind::PermanentlyFailed);
    assert_eq!(server.machine.failures(), 0);
}

#[test]
fn a_server_that_is_back_after_an_hour_is_connected_without_help() {
    let mut server = Server::proven(Policy::default());
    let outage = server.now;
    server.lose();
    for _ in 0..40 {
        if server.now.since(outage) >= seconds(3_600) {
            break;
        }
        server.wait_for_dial();
        server.fail(Recovery::Retry);
    }
    assert!(server.now.since(outage) >= seconds(3_600), "too many starts");
    server.wait_for_dial();
    server.connect();
    let late = server.now.since(outage) - seconds(3_600);
    assert!(late <= seconds(375), "{late:?} after the hour");
}

#[test]
fn a_server_that_answers_a_call_and_dies_is_started_at_once_every_time() {
    let mut server = Server::proven(Policy::default());
    for _ in 0..100 {
        server.lose();
        assert_eq!(server.pause(), None, "the dial is under way");
        let generation = server.connect();
        server.give(Input::CallAnswered(generation));
    }
    assert_eq!(server.starts(), 1 + 100);
}

#[test]
fn starts_without_a_completed_call_use_the_bucket_up() {
    // The stable period proves each connection at once, so only the bucket limits the starts.
    let policy = Policy {
        stable_after: Duration::from_millis(100),
        backoff: Backoff::new(Duration::ZERO, Duration::ZERO),
        probe: None,
        ..Policy::default()
    };
    let mut server = Server::proven(policy);
    let start = server.now;
    let mut waited_for_tokens = 0;
    for _ in 0..40 {
        if server.now.since(start) >= seconds(60) {
            break;
        }
        server.lose();
        if let Some((pause, why)) = server.pause() {
            assert_eq!(why, Pause::Token, "the status shows the reason");
            assert!(pause <= seconds(6));
            waited_for_tokens += 1;
            server.wait_for_dial();
        }
        server.connect();
        server.pass(Duration::from_millis(100));
    }
    assert!(waited_for_tokens > 0);
    // The first start is free; then ten tokens, and one more in each six seconds.
    assert_eq!(server.starts(), 1 + 10 + 10);
}

#[test]
fn only_the_first_call_of_a_connection_gives_a_token_back() {
    let policy = Policy {
        bucket: Bucket {
            size: NonZeroU32::new(2).expect("two"),
            refill_every: seconds(1_000),
        },
        backoff: Backoff::new(Duration::ZERO, Duration::ZERO),
        ..Policy::default()
    };
    let mut server = Server::proven(policy);
    server.lose();
    server.connect();
    server.lose();
    let generation = server.connect();
    for _ in 0..10 {
        server.give(Input::CallAnswered(generation));
    }
    // Of two starts one completed calls: one token is left, however many calls there were.
    server.lose();
    server.connect();
    server.lose();
    let (_, why) = server.pause().expect("the bucket is empty");
    assert_eq!(why, Pause::Token);
}

#[test]
fn a_pause_that_the_server_asked_for_is_kept_and_counts_as_one_failure() {
    let mut server = Server::enabled(Policy::default());
    server.fail(Recovery::RetryAfter(seconds(90)));
    assert_eq!(server.pause(), Some((seconds(90), Pause::Backoff)));
    assert_eq!(server.machine.failures(), 1);
}

#[test]
fn a_pause_that_the_server_asked_for_outlasts_the_slow_probe() {
    let policy = Policy {
        budget: NonZeroU32::MIN,
        when_spent: WhenSpent::ProbeEvery(seconds(60)),
        ..Policy::default()
    };
    let mut server = Server::enabled(policy);
    server.fail(Recovery::RetryAfter(seconds(290)));
    assert_eq!(server.pause(), Some((seconds(290), Pause::Backoff)));
}

#[test]
fn calls_that_fail_in_a_row_end_a_connection() {
    let mut server = Server::proven(Policy::default());
    let generation = server.generation();
    for _ in 0..2 {
        server.give(Input::CallFailed(
            generation,
            Recovery::Retry,
            OtherCalls::default(),
        ));
    }
    server.give(Input::CallAnswered(generation));
    for failures in 1..=2 {
        server.give(Input::CallFailed(
            generation,
            Recovery::Retry,
            OtherCalls::default(),
        ));
        let State::Connected(live) = server.machine.state() else {
            panic!("{failures} failures ended the connection");
        };
        assert_eq!(live.call_failures(), failures, "the status shows them");
    }
    server.give(Input::CallFailed(
        generation,
        Recovery::Retry,
        OtherCalls::default(),
    ));
    assert_eq!(server.kind(), StateKind::Reconnecting);
    let again = server.give(Input::CallFailed(
        generation,
        Recovery::Retry,
        OtherCalls::default(),
    ));
    assert_eq!(
        again,
        [Effect::CountStale(generation)],
        "ten failures cause one reconnect"
    );
}

#[test]
fn calls_that_fail_in_a_row_beside_an_older_one_end_a_connection_only_if_the_server_does_not_answer() {
    let failed_beside = |server: &mut Server| {
        let generation = server.generation();
        let failed = Input::CallFailed(generation, Recovery::Retry, OLDER);
        assert_eq!(server.give(failed.clone()), []);
        assert_eq!(server.give(failed.clone()), []);
        assert_eq!(server.give(failed), [Effect::Probe(generation)]);
        generation
    };
    let mut alive = Server::proven(Policy::default());
    let generation = failed_beside(&mut alive);
    alive.give(Input::ProbeAnswered(generation));
    assert_eq!(alive.kind(), StateKind::Connected);
    failed_beside(&mut alive);

    let mut hung = Server::proven(Policy::default());
    let generation = failed_beside(&mut hung);
    hung.activity = Activity::Busy;
    assert_eq!(hung.pass(seconds(5)), [Effect::Probe(generation)]);
    assert_eq!(
        hung.pass(seconds(5))[0],
        Effect::Close(generation, CloseMode::Cut),
        "although it may be at work on the older call"
    );

    let unprobed = Policy {
        probe: None,
        ..Policy::default()
    };
    let mut unprobed = Server::proven(unprobed);
    let generation = unprobed.generation();
    for _ in 0..3 {
        unprobed.give(Input::CallFailed(generation, Recovery::Retry, OLDER));
    }
    assert_eq!(unprobed.kind(), StateKind::Reconnecting);
}

#[test]
fn calls_that_fail_in_a_row_leave_the_others_to_finish_where_they_can() {
    let mut server = Server::proven(Policy::default());
    let generation = server.generation();
    let others = OtherCalls {
        are_older: false,
        can_finish: true,
    };
    let failed = Input::CallFailed(generation, Recovery::Retry, others);
    for _ in 0..2 {
        assert_eq!(server.give(failed.clone()), []);
    }
    let effects = server.give(failed);
    assert_eq!(
        effects.first(),
        Some(&Effect::Close(generation, CloseMode::Drain))
    );
    assert_eq!(effects.last(), Some(&Effect::Open(server.generation())));
}

#[test]
fn a_dial_that_never_ends_is_closed_at_its_deadline() {
    let mut server = Server::enabled(Policy::default());
    let generation = server.generation();
    server.give(Input::Begun(generation));
    assert_eq!(server.pass(seconds(300) - Duration::from_nanos(1)), []);
    let effects = server.pass(Duration::from_nanos(1));
    assert_eq!(effects[0], Effect::Close(generation, CloseMode::Cut));
    assert_eq!(server.machine.failures(), 1);
}

#[test]
fn a_close_that_never_ends_is_abandoned_and_costs_no_attempt() {
    let mut server = Server::proven(Policy::default());
    let old = server.generation();
    server.give(Input::Lost(old));
    assert_eq!(
        server.pass(seconds(15) - Duration::from_nanos(1)),
        [],
        "nothing opens beside the old connection"
    );
    let effects = server.pass(Duration::from_nanos(1));
    assert_eq!(effects, [Effect::Abandon(old), Effect::Open(server.generation())]);
    assert_eq!(server.machine.failures(), 0);
    assert_eq!(server.give(Input::Closed(old)), [Effect::CountStale(old)]);
}

#[test]
fn a_policy_of_zeros_opens_no_generation_twice() {
    let mut policy = without_bucket();
    policy.backoff = Backoff::new(Duration::ZERO, Duration::ZERO);
    policy.limits.open = Duration::ZERO;
    policy.limits.close = Duration::ZERO;
    let mut server = Server::enabled(policy);
    for _ in 0..3 {
        let effects = server.give(Input::Timer(Vitals::default()));
        let opens = effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Open(_)))
            .count();
        assert!(opens <= 1, "{effects:?}");
    }
}

#[test]
fn a_slow_probe_with_the_longest_period_does_not_overflow() {
    let policy = Policy {
        budget: NonZeroU32::MIN,
        when_spent: WhenSpent::ProbeEvery(Duration::MAX),
        ..Policy::default()
    };
    let mut server = Server::enabled(policy);
    server.fail(Recovery::Retry);
    assert_eq!(server.kind(), StateKind::Disconnected);
}

#[test]
fn a_call_that_needs_a_login_ends_the_connection_at_once_and_costs_no_budget() {
    let mut server = Server::proven(Policy::default());
    let generation = server.generation();
    server.give(Input::CallFailed(
        generation,
        Recovery::Login,
        OtherCalls::default(),
    ));
    assert_eq!(
        *server.machine.state(),
        State::Disconnected(DisconnectReason::AuthRequired)
    );
    assert_eq!(server.machine.failures(), 0);
}

#[test]
fn a_server_that_throttles_calls_keeps_its_connection_and_its_calls_pause() {
    let mut server = Server::proven(Policy::default());
    let generation = server.generation();
    let throttled = Input::CallFailed(
        generation,
        Recovery::RetryAfter(seconds(40)),
        OtherCalls::default(),
    );
    for _ in 0..10 {
        let effects = server.give(throttled.clone());
        assert_eq!(effects, [Effect::Hold(generation, server.now + seconds(40))]);
        assert_eq!(server.kind(), StateKind::Connected);
    }
}

#[test]
fn no_pause_that_a_server_asks_for_is_longer_than_the_policy_grants() {
    let hour = Recovery::RetryAfter(seconds(3_600));
    let mut server = Server::proven(Policy::default());
    let generation = server.generation();
    let effects = server.give(Input::CallFailed(generation, hour, OtherCalls::default()));
    assert_eq!(effects, [Effect::Hold(generation, server.now + seconds(300))]);

    server.give(Input::ListChanged(generation));
    server.give(Input::ListFailed(generation, hour, Vitals::default()));
    let next = server.deadline().expect("the next listing");
    assert!(next.at <= server.now + seconds(300));

    let mut server = Server::enabled(Policy::default());
    server.fail(hour);
    assert_eq!(server.pause(), Some((seconds(300), Pause::Backoff)));
}

#[test]
fn a_listed_server_may_postpone_its_next_listing_for_ever() {
    let mut server = Server::proven(Policy::default());
    let generation = server.generation();
    for _ in 0..10 {
        server.pass(seconds(100));
        server.give(Input::ListChanged(generation));
        server.give(Input::ListFailed(
            generation,
            Recovery::RetryAfter(seconds(60)),
            Vitals::default(),
        ));
    }
    assert_eq!(server.kind(), StateKind::Connected);
}

#[test]
fn a_request_for_a_probe_sends_one_at_once() {
    let mut server = Server::proven(Policy::default());
    let generation = server.generation();
    let effects = server.give(Input::ProbeNow(generation));
    assert_eq!(effects, [Effect::Probe(generation)]);
    assert_eq!(
        server.give(Input::ProbeNow(generation)),
        [],
        "a probe is under way"
    );
    server.give(Input::ProbeAnswered(generation));
    assert_eq!(
        server.give(Input::ProbeNow(generation)),
        [Effect::Probe(generation)]
    );
}

#[test]
fn after_a_keeper_failure_the_first_start_takes_a_token() {
    let policy = Policy {
        bucket: Bucket {
            size: NonZeroU32::MIN,
            refill_every: seconds(6),
        },
        ..Policy::default()
    };
    let mut server = Server::resumed(policy);
    server.wait_for_dial();
    assert_eq!(server.starts(), 1);
    server.fail(Recovery::Retry);
    server.pass(Duration::from_millis(200));
    let (_, why) = server.pause().expect("the bucket is empty");
    assert_eq!(why, Pause::Token);
}
