use super::*;

const LADDER: Ladder = Ladder {
    eof_grace: Duration::from_secs(2),
    term_grace: Duration::from_secs(2),
    straggler_grace: Duration::from_millis(200),
    kill_grace: Duration::from_millis(500),
};

/// What a timer may be late, in paused time.
const TICK: Duration = Duration::from_millis(2);

/// Follows the schedule to its end, and returns when, since `began`, SIGTERM and SIGKILL were due.
async fn rungs_of(mut schedule: StopSchedule, began: Instant) -> (Duration, Duration) {
    schedule.time_to_term().await;
    let term = began.elapsed();
    schedule.time_to_kill().await;
    (term, began.elapsed())
}

#[track_caller]
fn assert_near(due: (Duration, Duration), millis: (u64, u64)) {
    for (due, millis) in [(due.0, millis.0), (due.1, millis.1)] {
        let expected = Duration::from_millis(millis);
        assert!(due.abs_diff(expected) <= TICK, "{due:?}, and not {expected:?}");
    }
}

#[test]
fn the_default_policy_lets_a_whole_stop_finish() {
    let policy = mainstay_lifecycle::Policy::default();
    assert!(Ladder::default().longest() < policy.limits.close);
}

#[tokio::test(start_paused = true)]
async fn a_stop_with_time_enough_takes_the_rungs_as_they_are() {
    for within in [None, Some(LADDER.longest()), Some(Duration::from_secs(60))] {
        let (began, shutdown_deadline) = (Instant::now(), ShutdownDeadline::default());
        if let Some(within) = within {
            shutdown_deadline.call(began + within);
        }
        let schedule = StopSchedule::begin(&LADDER, &shutdown_deadline);
        assert_near(rungs_of(schedule, began).await, (2000, 4000));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_with_less_time_takes_every_rung_in_proportion_sooner_and_ends_in_time() {
    let (began, shutdown_deadline) = (Instant::now(), ShutdownDeadline::default());
    shutdown_deadline.call(began + Duration::from_millis(800));
    let mut schedule = StopSchedule::begin(&LADDER, &shutdown_deadline);
    assert!(
        schedule.sweep_at() < schedule.end,
        "what was killed has time to be gone"
    );
    assert!(schedule.end <= began + Duration::from_millis(800));
    assert_near(rungs_of(schedule, began).await, (302, 604));
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_stop_under_way_is_hastened() {
    let (began, shutdown_deadline) = (Instant::now(), ShutdownDeadline::default());
    let schedule = StopSchedule::begin(&LADDER, &shutdown_deadline);
    let calls = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        shutdown_deadline.call(Instant::now() + Duration::from_millis(430));
    };
    let (due, ()) = tokio::join!(rungs_of(schedule, began), calls);
    // Of the 4.3 s that are left, each takes a tenth.
    assert_near(due, (1100, 1300));
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_has_shown_sigterm_already_does_not_begin_again() {
    let (began, shutdown_deadline) = (Instant::now(), ShutdownDeadline::default());
    let schedule = StopSchedule::begin(&LADDER, &shutdown_deadline);
    let calls = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        shutdown_deadline.call(Instant::now() + Duration::from_millis(230));
    };
    let (due, ()) = tokio::join!(rungs_of(schedule, began), calls);
    assert_near(due, (2000, 3100));
}

#[tokio::test(start_paused = true)]
async fn the_earliest_curfew_counts() {
    let (began, shutdown_deadline) = (Instant::now(), ShutdownDeadline::default());
    shutdown_deadline.call(began + Duration::from_millis(800));
    shutdown_deadline.call(began + Duration::from_secs(60));
    let schedule = StopSchedule::begin(&LADDER, &shutdown_deadline);
    shutdown_deadline.call(began + Duration::from_millis(400));
    shutdown_deadline.call(began + Duration::from_secs(2));
    assert_near(rungs_of(schedule, began).await, (151, 302));
    shutdown_deadline.over().await;
    assert!(began.elapsed() <= Duration::from_millis(400) + TICK);
}

#[tokio::test(start_paused = true)]
async fn a_stop_without_any_time_waits_for_nothing() {
    let (began, shutdown_deadline) = (Instant::now(), ShutdownDeadline::default());
    shutdown_deadline.call(began);
    let schedule = StopSchedule::begin(&LADDER, &shutdown_deadline);
    assert_near(rungs_of(schedule, began).await, (0, 0));
}
