//! The end of a fleet: nothing is left, and it takes the time of the slowest server.

use std::time::Duration;

use mainstay::{Fleet, StateKind, Status};
use mainstay_testkit::procfs::{ProcTree, is_alive};
use mainstay_testkit::{Child, Fault, FaultyServer, Ledger, Step, clock, poll};
use tokio::runtime::Handle;

use crate::lifecycle::support::{SOON, all_gone, built, connected, fleet, keep, stdio};

fn stubborn(ledger: &Ledger) -> FaultyServer {
    FaultyServer::new()
        .ledger(ledger)
        .ignores_term()
        .on(Step::Eof, Fault::Hang)
}

#[tokio::test]
async fn a_close_during_a_reconnect_leaves_no_process() {
    /// A moment of the reconnect.
    #[derive(Clone, Copy, Debug)]
    enum Moment {
        Waits,
        IsStarted,
        Runs,
        IsAsked,
        IsConnected,
    }
    use Moment::{IsAsked, IsConnected, IsStarted, Runs, Waits};
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let of_no_server = {
        let _fleet = Fleet::builder().start([]);
        tasks()
    };
    for (round, moment) in [Waits, IsStarted, Runs, IsAsked, IsConnected]
        .into_iter()
        .enumerate()
    {
        let mark = format!("{}.{round}", std::process::id());
        let ledger = Ledger::temporary();
        let dying = FaultyServer::new()
            .ledger(&ledger)
            .env_var("MAINSTAY_TEST_ROUND", &mark)
            .on(Step::Initialized, Fault::Exit(1).after_ms(20));
        let (fleet, server) = keep(stdio("dying", &dying));
        let becomes = async |holds: fn(&Status) -> bool| server.wait_until(SOON, holds).await.is_some();
        assert!(
            becomes(|status| status.state == StateKind::Reconnecting).await,
            "lost"
        );
        let twice = |words| ledger.wait_for_async(move |ledger| ledger.count(words) >= 2, SOON);
        let came = match moment {
            Waits => true,
            IsStarted => becomes(|status| status.starts >= 2).await,
            Runs => twice("start").await,
            IsAsked => twice("initialize").await,
            IsConnected => becomes(|status| status.starts >= 2 && status.state == StateKind::Connected).await,
        };
        assert!(came, "{moment:?}: {:?}", server.status());
        fleet.close(SOON).await;
        let known = ledger.pids();
        assert!(!known.iter().any(|pid| is_alive(*pid)), "{moment:?}");
        // No task is left that could start another.
        let settled = poll::comes_true_async(SOON, || tasks() <= of_no_server).await;
        assert!(settled, "{moment:?}: {} tasks, not {of_no_server}", tasks());
        let tree = ProcTree::marked("MAINSTAY_TEST_ROUND", &mark);
        assert!(tree.pids().is_empty() && ledger.pids() == known, "{moment:?}");
        assert!(fleet.servers().is_empty());
    }
}

#[tokio::test]
async fn a_close_takes_the_time_of_the_slowest_server_and_says_who_had_to_be_killed() {
    let ledger = Ledger::temporary();
    let escapes = FaultyServer::new().ledger(&ledger).on(
        Step::Initialized,
        Fault::Spawn(Child {
            daemon: true,
            ..Child::default()
        }),
    );
    let fleet = fleet([
        stdio("one", &watched(&ledger)),
        stdio("two", &watched(&ledger)),
        stdio("three", &watched(&ledger)),
        stdio("escapes", &escapes),
        stdio("good", &FaultyServer::new().ledger(&ledger)),
    ]);
    for server in fleet.servers() {
        connected(&server).await;
    }
    assert!(
        ledger
            .wait_for_async(|ledger| ledger.children().len() == 1, SOON)
            .await
    );

    // The stubborn ones are given 4 s, and all of them the same.
    let report = clock::within(Duration::from_secs(8), fleet.close(SOON)).await;
    let lines = ledger.lines();
    let first_term = lines.iter().position(|line| line == "term").expect("shown");
    let ends_of_input = lines[..first_term].iter().filter(|line| *line == "eof").count();
    assert_eq!(ends_of_input, 5, "everyone's before the first SIGTERM: {lines:?}");
    assert_eq!(ledger.count("term"), 3, "{lines:?}");
    let names: Vec<_> = report
        .servers
        .iter()
        .map(|server| server.server.as_str())
        .collect();
    assert_eq!(names, ["escapes", "good", "one", "three", "two"]);
    let killed: Vec<_> = report.killed().map(|server| server.server.as_str()).collect();
    assert_eq!(killed, ["one", "three", "two"]);
    assert!(report.servers.iter().all(|server| !server.overdue));
    assert_eq!(report.servers[0].swept, 1, "the one that escaped was found");
    assert!(!ledger.pids().into_iter().chain(ledger.children()).any(is_alive));
}

/// As stubborn, and its ledger tells what it was shown.
fn watched(ledger: &Ledger) -> FaultyServer {
    FaultyServer::new()
        .ledger(ledger)
        .notes_term()
        .on(Step::Eof, Fault::Hang)
}

#[tokio::test]
async fn what_has_no_time_at_all_is_killed_before_the_close_returns() {
    let ledger = Ledger::temporary();
    let fleet = fleet([
        stdio("one", &stubborn(&ledger)),
        stdio("removed", &stubborn(&ledger)),
        stdio("good", &FaultyServer::new().ledger(&ledger)),
    ]);
    for server in fleet.servers() {
        connected(&server).await;
    }
    let kept = [
        stdio("good", &FaultyServer::new().ledger(&ledger)),
        stdio("one", &stubborn(&ledger)),
    ];
    fleet.apply(built(kept)).await;

    let report = clock::within(Duration::from_secs(3), fleet.close(Duration::ZERO)).await;
    assert!(
        !ledger.pids().into_iter().any(is_alive),
        "nothing is left when it returns"
    );
    let names: Vec<_> = report.servers.iter().map(|server| &server.server).collect();
    assert_eq!(
        names,
        ["good", "one", "removed"],
        "the close waits for a server that was removed before, too"
    );
    // Whether a server is dead just before or just after the deadline is up to the system; `good` may even end by itself.
    let killed: Vec<_> = report
        .killed()
        .map(|server| &server.server)
        .filter(|name| *name != "good")
        .collect();
    assert_eq!(killed, ["one", "removed"], "{report:?}");
}

#[tokio::test]
async fn an_earlier_kill_is_not_reported_by_a_later_close() {
    let ledger = Ledger::temporary();
    let stubborn_once = FaultyServer::new()
        .ledger(&ledger)
        .ignores_term()
        .rule(mainstay_testkit::Rule::new(Step::Eof, Fault::Hang).first_starts(1));
    let (fleet, server) = keep(stdio("recovered", &stubborn_once));
    connected(&server).await;
    server.disable().await.expect("taken");
    server
        .wait_until(SOON, |status| status.state == StateKind::Disabled)
        .await
        .expect("killed");
    let report = fleet.close(SOON).await;
    assert_eq!(report.killed().count(), 0);
}

#[tokio::test]
async fn a_fleet_that_is_dropped_without_a_close_leaves_nothing() {
    let ledger = Ledger::temporary();
    let (fleet, server) = keep(stdio("orphan", &FaultyServer::new().ledger(&ledger)));
    connected(&server).await;
    drop(fleet);
    server
        .wait_until(SOON, |status| status.state == StateKind::Disabled)
        .await
        .expect("stopped, though its handle is held");
    assert!(all_gone(&ledger).await);
    assert!(server.enable().await.is_err());
}

#[test]
fn a_runtime_that_ends_takes_its_fleets_with_it() {
    let ledger = Ledger::temporary();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let fleet = runtime.block_on(async {
        let (fleet, server) = keep(stdio("orphan", &stubborn(&ledger)));
        connected(&server).await;
        fleet
    });
    runtime.shutdown_timeout(SOON);
    assert!(ledger.wait_for(|ledger| !ledger.pids().into_iter().any(is_alive), SOON));
    drop(fleet);
}

/// Closes that have a second for each rung of the ladder, in which the server must note what it is shown.
mod timing {
    use mainstay::Server;

    use super::{
        Duration, FaultyServer, Fleet, Ledger, SOON, built, clock, connected, is_alive, keep, stdio, watched,
    };

    /// Less than the 4 s after which the whole ladder comes to SIGKILL: a server that is not hastened is overdue. There is more than a second
    /// for each rung.
    const SHORT: Duration = Duration::from_secs(3);

    /// Less than those 4 s.
    const HASTENED: Duration = Duration::from_millis(3800);

    fn assert_signalled_and_gone(ledger: &Ledger) {
        let signals: Vec<_> = ledger
            .lines()
            .into_iter()
            .filter(|line| line == "eof" || line == "term")
            .collect();
        assert_eq!(signals, ["eof", "term"]);
        assert!(!ledger.pids().into_iter().any(is_alive), "nothing is left");
    }

    #[tokio::test]
    async fn a_close_shorter_than_the_ladder_shows_every_rung_before_it_kills() {
        let ledger = Ledger::temporary();
        let (fleet, server) = keep(stdio("watched", &watched(&ledger)));
        connected(&server).await;
        let report = fleet.close(SHORT).await;
        assert_signalled_and_gone(&ledger);
        let [closed] = &report.servers[..] else {
            panic!("{report:?}")
        };
        assert!(closed.killed && !closed.overdue, "{closed:?}");
    }

    #[tokio::test]
    async fn a_stop_that_is_under_way_when_the_fleet_is_closed_is_hastened() {
        let removed: fn(&Fleet, &Server) -> _ = |fleet, _| {
            let fleet = fleet.clone();
            tokio::spawn(async move { drop(fleet.apply([]).await) })
        };
        let disabled: fn(&Fleet, &Server) -> _ = |_, server| {
            let server = server.clone();
            tokio::spawn(async move { server.disable().await.expect("taken") })
        };
        for stop in [removed, disabled] {
            let ledger = Ledger::temporary();
            let (fleet, server) = keep(stdio("watched", &watched(&ledger)));
            connected(&server).await;
            stop(&fleet, &server).await.expect("taken");
            assert!(
                ledger
                    .wait_for_async(|ledger| ledger.count("eof") == 1, SOON)
                    .await
            );
            let report = fleet.close(SHORT).await;
            assert_signalled_and_gone(&ledger);
            let [closed] = &report.servers[..] else {
                panic!("{report:?}")
            };
            assert!(!closed.overdue, "{closed:?}");
        }
    }

    #[tokio::test]
    async fn a_close_waits_for_no_apply_that_waits_for_an_old_server_and_nothing_is_added() {
        let (ledger, newer) = (Ledger::temporary(), Ledger::temporary());
        let (fleet, server) = keep(stdio("again", &watched(&ledger)));
        connected(&server).await;
        fleet.apply([]).await;
        let applying = {
            let (fleet, again) = (fleet.clone(), stdio("again", &FaultyServer::new().ledger(&newer)));
            tokio::spawn(async move { fleet.apply(built([again])).await })
        };
        assert!(
            ledger
                .wait_for_async(|ledger| ledger.count("eof") == 1, SOON)
                .await
        );
        let report = fleet.close(SHORT).await;
        assert_signalled_and_gone(&ledger);
        let [closed] = &report.servers[..] else {
            panic!("{report:?}")
        };
        assert!(closed.killed && !closed.overdue, "{closed:?}");
        assert_eq!(applying.await.expect("no panic").added, [""; 0]);
        let never = fleet
            .apply(built([stdio("new", &FaultyServer::new().ledger(&newer))]))
            .await;
        assert_eq!(never.added, [""; 0], "a fleet that was closed stays so");
        assert!(fleet.servers().is_empty() && newer.pids().is_empty());
    }

    #[tokio::test]
    async fn a_close_with_less_time_hastens_the_one_that_is_under_way() {
        let ledger = Ledger::temporary();
        let (fleet, server) = keep(stdio("watched", &watched(&ledger)));
        connected(&server).await;
        let closing = async {
            tokio::join!(fleet.close(SOON), async {
                let has_eof = ledger.wait_for_async(|ledger| ledger.count("eof") == 1, SOON);
                assert!(has_eof.await);
                fleet.close(SHORT).await;
            })
        };
        let (first, ()) = clock::within(HASTENED, closing).await;
        assert_signalled_and_gone(&ledger);
        assert_eq!(first.killed().count(), 1, "it is the first that says how it went");
    }
}
