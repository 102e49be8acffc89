//! Commands: enable, disable, restart, replace, adjust, demand, login. The latest one wins.

use std::num::NonZeroU32;
use std::time::Duration;

use mainstay_lifecycle::{
    Backoff, Bucket, Cause, CloseMode, Desired, DisconnectReason, Effect, Input, OtherCalls, Pause, Policy,
    Recovery, State, StateKind, Timer, Transition, Vitals, WhenSpent,
};

use crate::server::{Activity, Server, seconds};

const ENABLE: Input = Input::Enable { dormant: false };
const ENABLE_DORMANT: Input = Input::Enable { dormant: true };

fn stopping_idle() -> Policy {
    Policy {
        idle_stop: Some(seconds(600)),
        ..Policy::default()
    }
}

#[test]
fn enable_dials_and_reports_the_transition() {
    let mut server = Server::new(Policy::default());
    let effects = server.give(ENABLE);
    let enabled = Transition {
        from: StateKind::Disabled,
        to: StateKind::Connecting,
        generation: None,
        cause: Cause::Enabled,
    };
    assert_eq!(
        effects,
        [
            Effect::MarkStale,
            Effect::Transition(enabled),
            Effect::Open(server.generation())
        ]
    );
    assert_eq!(server.give(ENABLE), [], "a second enable does nothing");
}

#[test]
fn a_dormant_server_is_started_by_its_first_call() {
    let mut server = Server::new(Policy::default());
    server.give(ENABLE_DORMANT);
    assert_eq!(
        *server.machine.state(),
        State::Disconnected(DisconnectReason::Idle)
    );
    assert_eq!(server.deadline(), None);
    assert_eq!(server.starts(), 0);
    server.give(Input::Demand);
    server.connect();
}

#[test]
fn a_dormant_server_stays_dormant_while_its_old_connection_closes() {
    let mut server = Server::connected(Policy::default());
    server.give(Input::Disable);
    server.give(ENABLE_DORMANT);
    assert_eq!(
        *server.machine.state(),
        State::Disconnected(DisconnectReason::Idle)
    );
    server.close();
    assert_eq!(server.starts(), 1);
    server.give(Input::Demand);
    server.connect();
}

#[test]
fn the_last_of_many_commands_wins() {
    let mut server = Server::connected(Policy::default());
    for command in [Input::Disable, ENABLE, Input::Disable, ENABLE, Input::Disable] {
        server.give(command);
    }
    assert_eq!(server.kind(), StateKind::Disabling);
    server.close();
    assert_eq!(server.kind(), StateKind::Disabled);
    assert_eq!((server.starts(), server.deadline()), (1, None));
}

#[test]
fn after_a_disable_during_backoff_nothing_is_started() {
    let mut server = Server::connected(Policy::default());
    server.lose();
    assert!(server.pause().is_some());
    let effects = server.give(Input::Disable);
    assert!(effects.contains(&Effect::Withdraw));
    assert_eq!(server.kind(), StateKind::Disabled);
    assert_eq!(server.pass(seconds(3_600)), []);
}

#[test]
fn an_enable_during_disabling_ends_connected() {
    let mut server = Server::connected(Policy::default());
    server.give(Input::Disable);
    server.give(ENABLE);
    assert_eq!(server.kind(), StateKind::Connecting);
    assert_eq!(server.starts(), 1, "the old connection is not closed yet");
    server.connect();
    assert_eq!(server.starts(), 2);
}

#[test]
fn a_disable_is_done_at_its_deadline_even_if_the_close_hangs() {
    let mut server = Server::connected(Policy::default());
    let old = server.generation();
    server.give(Input::Disable);
    let effects = server.pass(seconds(15));
    assert_eq!(effects[0], Effect::Abandon(old));
    assert_eq!(server.kind(), StateKind::Disabled);
}

#[test]
fn a_disabled_server_ignores_a_restart() {
    let mut server = Server::new(Policy::default());
    assert_eq!(server.give(Input::Restart), []);
    assert_eq!(server.machine.desired(), Desired::Disabled);
}

#[test]
fn a_restart_skips_the_backoff_and_renews_the_budget() {
    let mut server = Server::new(Policy::default());
    server.give(ENABLE);
    for _ in 0..9 {
        server.fail(Recovery::Retry);
        server.wait_for_dial();
    }
    server.fail(Recovery::RetryAfter(seconds(600)));
    let effects = server.give(Input::Restart);
    assert!(effects.contains(&Effect::Open(server.generation())));
    assert_eq!(server.machine.failures(), 0);
}

#[test]
fn a_restart_renews_the_bucket() {
    let mut server = Server::proven(Policy {
        budget: NonZeroU32::MAX,
        backoff: Backoff::new(Duration::ZERO, Duration::ZERO),
        ..Policy::default()
    });
    for _ in 0..10 {
        server.lose();
        server.connect();
    }
    server.lose();
    assert_eq!(server.pause(), Some((seconds(6), Pause::Token)));
    server.give(Input::Restart);
    server.connect();
}

#[test]
fn a_restart_brings_back_a_permanently_failed_server() {
    let mut server = Server::new(Policy::default());
    server.give(ENABLE);
    server.fail(Recovery::GiveUp);
    server.give(Input::Restart);
    server.connect();
}

#[test]
fn an_enable_brings_back_a_permanently_failed_server() {
    let policy = Policy {
        budget: NonZeroU32::MIN,
        when_spent: WhenSpent::GiveUp,
        ..Policy::default()
    };
    let mut server = Server::new(policy);
    server.give(ENABLE);
    server.fail(Recovery::Retry);
    assert_eq!(server.kind(), StateKind::PermanentlyFailed);
    server.give(ENABLE);
    assert_eq!(server.machine.failures(), 0);
    server.connect();
}

#[test]
fn a_restart_cuts_and_a_replacement_drains() {
    let mut server = Server::connected(Policy::default());
    let old = server.generation();
    assert_eq!(server.give(Input::Restart)[0], Effect::Close(old, CloseMode::Cut));
    assert_eq!(
        server.deadline().map(|deadline| deadline.at),
        Some(server.now + seconds(15))
    );
    let old = server.connect();
    assert_eq!(
        server.give(Input::Replace { beside: false })[0],
        Effect::Close(old, CloseMode::Drain)
    );
    assert_eq!(
        server.deadline().map(|deadline| deadline.at),
        Some(server.now + seconds(45))
    );
    assert_eq!(
        server.deadline().map(|deadline| deadline.timer),
        Some(Timer::Close)
    );
}

#[test]
fn a_server_without_a_process_is_dialled_beside_the_one_that_it_replaces() {
    let mut server = Server::connected(Policy::default());
    let old = server.generation();
    let effects = server.give(Input::Replace { beside: true });
    let new = server.generation();
    assert_eq!(effects.first(), Some(&Effect::Close(old, CloseMode::Drain)));
    assert_eq!(effects.last(), Some(&Effect::Open(new)), "at once");
    assert_eq!(server.draining(), [old]);
    server.connect();
    assert_eq!(server.draining(), [old], "its calls go on beside the new one");
    server.lose();
    server.wait_for_dial();
    server.connect();
    assert_eq!(server.draining(), [old], "a loss of the new one is not its own");
    assert_eq!(server.give(Input::Closed(old)), []);
    assert_eq!(
        (server.draining(), server.kind()),
        (Vec::new(), StateKind::Connected)
    );
}

#[test]
fn two_replaced_connections_drain_beside_the_next_and_a_third_ends_the_oldest() {
    let mut server = Server::connected(Policy::default());
    let first = server.generation();
    server.give(Input::Replace { beside: true });
    server.give(Input::Replace { beside: true });
    assert_eq!(
        server.draining(),
        [first],
        "an unconnected server has no calls to finish"
    );
    let second = server.connect();
    let effects = server.give(Input::Replace { beside: true });
    assert_eq!(effects[0], Effect::Close(second, CloseMode::Drain));
    assert_eq!(server.draining(), [first, second]);
    let third = server.connect();
    let effects = server.give(Input::Replace { beside: true });
    assert_eq!(
        effects[..2],
        [Effect::Abandon(first), Effect::Close(third, CloseMode::Drain)]
    );
    assert_eq!(server.draining(), [second, third]);
}

#[test]
fn a_connection_that_drains_beside_the_next_is_abandoned_at_its_deadline() {
    let mut server = Server::connected(Policy::default());
    let old = server.generation();
    server.give(Input::Replace { beside: true });
    server.connect();
    assert!(!server.pass(seconds(44)).contains(&Effect::Abandon(old)));
    assert!(server.pass(seconds(1)).contains(&Effect::Abandon(old)));
    assert_eq!(server.kind(), StateKind::Connected);
}

#[test]
fn a_server_is_disabled_only_when_nothing_drains_beside_it_either() {
    let mut server = Server::connected(Policy::default());
    let old = server.generation();
    server.give(Input::Replace { beside: true });
    let new = server.connect();
    let effects = server.give(Input::Disable);
    assert_eq!(
        effects[..2],
        [Effect::CutDrain(old), Effect::Close(new, CloseMode::Cut)]
    );
    server.give(Input::Closed(new));
    assert_eq!(server.kind(), StateKind::Disabling);
    server.give(Input::Closed(old));
    assert_eq!(server.kind(), StateKind::Disabled);
}

#[test]
fn a_disable_or_restart_does_not_wait_for_draining_calls() {
    for command in [Input::Disable, Input::Restart] {
        let mut server = Server::connected(Policy::default());
        let old = server.generation();
        server.give(Input::Replace { beside: false });
        let effects = server.give(command.clone());
        assert_eq!(effects[0], Effect::CutDrain(old), "{command:?}");
        assert_eq!(
            server.deadline().map(|deadline| deadline.at),
            Some(server.now + seconds(15))
        );
        assert!(
            !server.give(command).contains(&Effect::CutDrain(old)),
            "only once"
        );
    }
}

#[test]
fn a_required_login_spends_no_budget_and_the_login_brings_the_server_back() {
    let mut server = Server::new(Policy::default());
    server.give(ENABLE);
    server.fail(Recovery::Login);
    assert_eq!(
        *server.machine.state(),
        State::Disconnected(DisconnectReason::AuthRequired)
    );
    assert_eq!(server.machine.failures(), 0);
    assert_eq!(
        server.pass(seconds(86_400)),
        [],
        "no retry helps before the login"
    );
    assert_eq!(server.give(Input::Demand), []);
    server.give(Input::Login);
    server.connect();
}

#[test]
fn a_login_during_an_attempt_is_not_lost_when_the_attempt_is_refused() {
    let mut server = Server::new(Policy::default());
    server.give(ENABLE);
    server.give(Input::Login);
    server.fail(Recovery::Login);
    assert_eq!(server.kind(), StateKind::Connecting, "the new login is tried");
    assert_eq!((server.starts(), server.machine.failures()), (2, 0));
    server.fail(Recovery::Login);
    assert_eq!(
        *server.machine.state(),
        State::Disconnected(DisconnectReason::AuthRequired),
        "and tried once"
    );
}

#[test]
fn a_login_while_connected_does_not_excuse_a_later_refusal() {
    let mut server = Server::connected(Policy::default());
    server.give(Input::Login);
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
}

#[test]
fn an_unused_server_stops_and_the_next_call_starts_it() {
    let mut server = Server::connected(stopping_idle());
    let generation = server.generation();
    server.pass(seconds(3_600));
    assert_eq!(server.kind(), StateKind::Connected, "it is used all the time");
    server.activity = Activity::Unused;
    let effects = server.pass(seconds(600));
    assert!(
        effects.contains(&Effect::Close(generation, CloseMode::Drain)),
        "a call that starts at this moment can finish"
    );
    assert_eq!(
        *server.machine.state(),
        State::Disconnected(DisconnectReason::Idle)
    );
    server.give(Input::Demand);
    assert_eq!(server.starts(), 1, "the old connection is not closed yet");
    server.connect();
}

#[test]
fn the_next_check_comes_when_the_server_would_be_idle() {
    let mut policy = stopping_idle();
    policy.probe = None;
    let mut server = Server::proven(policy);
    server.now = server.now + seconds(500);
    let used = server.now;
    let unused = Input::Timer(Vitals {
        used,
        ..Vitals::default()
    });
    server.now = server.now + seconds(100);
    server.give(unused.clone());
    let next = server.deadline().expect("the next check");
    assert_eq!((next.timer, next.at), (Timer::Idle, used + seconds(600)));
    server.now = next.at;
    server.give(unused);
    assert_eq!(
        *server.machine.state(),
        State::Disconnected(DisconnectReason::Idle),
        "unused for exactly that long"
    );
}

#[test]
fn a_busy_server_is_not_idle() {
    let mut server = Server::connected(stopping_idle());
    server.activity = Activity::Busy;
    server.pass(seconds(86_400));
    assert_eq!(server.kind(), StateKind::Connected);
}

#[test]
fn an_adjustment_reconnects_nothing_and_counts_from_its_moment() {
    let mut server = Server::proven(Policy::default());
    server.activity = Activity::Unused;
    server.pass(seconds(500));
    assert_eq!(server.give(Input::Adjust(Box::new(stopping_idle()))), []);
    assert_eq!(*server.machine.policy(), stopping_idle());
    server.pass(seconds(599));
    assert_eq!(server.kind(), StateKind::Connected);
    server.pass(seconds(1));
    assert_eq!(server.kind(), StateKind::Disconnected);
}

#[test]
fn a_bucket_that_an_adjustment_widens_fills_up() {
    let narrow = Policy {
        bucket: Bucket {
            size: NonZeroU32::MIN,
            refill_every: seconds(60),
        },
        ..Policy::default()
    };
    let mut server = Server::proven(narrow);
    server.give(Input::Adjust(Box::default()));
    server.give(Input::Demand);
    server.pass(seconds(60));
    let starts = server.starts();
    for _ in 0..10 {
        server.lose();
        let generation = server.connect();
        server.give(Input::CallAnswered(generation));
    }
    assert_eq!(server.starts(), starts + 10, "all at once");
}
