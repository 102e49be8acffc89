//! What only a keeper's own inbox can do to it: panics, and reports of a generation that is gone.

use std::sync::Arc;
use std::time::Duration;

use mainstay_lifecycle::{Cause, Desired, Policy, Recovery, StateKind};
use mainstay_testkit::procfs::is_alive;
use mainstay_testkit::{Fault, FaultyServer, Ledger, Step, poll};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::dial::DialError;
use super::listing::ListError;
use super::tasks::TaskKind;
use super::{KeeperMessage, Report, ServerCommand};
use crate::catalog::{About, ItemList, Kind, PreparedOffers, ServerCatalog};
use crate::config::{Replay, ServerConfig};
use crate::connection::Connection;
use crate::event::{EventOrLag, Events, Failure};
use crate::fleet::Fleet;
use crate::server::{
    CallError, CallErrorKind, CallOptions, Reply, Server, StartProgress, StartStage, Status,
};
use crate::transport::Transport;
use crate::wire::{Outcome, RawJson, RequestError};

const SOON: Duration = poll::LIMIT;

fn keep(process: &FaultyServer) -> (Fleet, Server) {
    let config = ServerConfig::stdio("kept", process.command()).args(process.args());
    let fleet = Fleet::builder().start([config.build().expect("a valid server")]);
    let server = fleet.server("kept").expect("just configured");
    (fleet, server)
}

async fn connected(server: &Server) -> Arc<Connection> {
    server.wait_connected(SOON).await.expect("connected");
    server.0.current.load_full().expect("connected")
}

async fn until(server: &Server, reached: impl FnMut(&Status) -> bool) -> Status {
    server.wait_until(SOON, reached).await.expect("in time")
}

async fn event(events: &mut Events, cause: Cause) -> crate::event::Event {
    loop {
        match events.next().await {
            Some(EventOrLag::Event(event)) if event.cause == cause => return *event,
            Some(EventOrLag::Event(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// A server that goes on when its input ends: it is gone only if it is killed.
fn stubborn(ledger: &Ledger) -> FaultyServer {
    FaultyServer::new()
        .ledger(ledger)
        .on(Step::Eof, Fault::StopReading)
}

/// A call that runs at the server, and is not repeated.
async fn slow_call(server: &Server, ledger: &Ledger) -> JoinHandle<Result<Reply, CallError>> {
    let options = CallOptions::default().replay(Replay::Never);
    let call = server.call("sleep_ms", &json!({ "ms": 60_000 })).options(options);
    let slow = tokio::spawn(call.into_future());
    let began = ledger.wait_for_async(|ledger| ledger.count("call") == 1, SOON);
    assert!(began.await);
    slow
}

#[tokio::test]
async fn a_keeper_that_panics_is_back_with_its_old_process_reaped_and_its_calls_failed() {
    let ledger = Ledger::temporary();
    let (fleet, server) = keep(&stubborn(&ledger));
    let old = connected(&server).await;
    let slow = slow_call(&server, &ledger).await;
    let mut events = fleet.events();

    server.0.inbox.command(ServerCommand::Panic);
    let lost = slow.await.expect("no panic reaches a caller");
    assert!(
        matches!(&lost, Err(error) if matches!(error.kind, CallErrorKind::Lost { .. })),
        "{lost:?}"
    );
    let failed = event(&mut events, Cause::KeeperFailed).await;
    assert_eq!(
        (failed.from, failed.to),
        (StateKind::Connected, StateKind::Reconnecting)
    );
    assert_eq!(failed.generation, Some(old.generation));
    let status = server.status();
    assert_eq!((status.keeper_failures, status.desired), (1, Desired::Enabled));
    assert!(status.next_retry.is_some() && status.stale_since.is_some());
    assert!(
        status
            .last_error
            .is_some_and(|error| error.message.contains("failed"))
    );

    let seen = ledger.wait_for_async(|ledger| ledger.pids().len() == 2, SOON);
    assert!(seen.await);
    assert!(
        !is_alive(old.pid.expect("a process")),
        "reaped before the next one starts"
    );
    let new = connected(&server).await;
    assert!(new.generation > old.generation);
    assert!(server.call("echo", &json!({})).await.is_ok());
}

#[tokio::test]
async fn a_panic_in_the_task_of_a_live_connection_is_a_loss_at_once_and_the_process_is_gone_before_the_next()
{
    let ledger = Ledger::temporary();
    let (fleet, server) = keep(&stubborn(&ledger));
    let old = connected(&server).await;
    let slow = slow_call(&server, &ledger).await;
    let mut events = fleet.events();
    server
        .0
        .inbox
        .command(ServerCommand::PanicIn(TaskKind::Connection));

    let lost = event(&mut events, Cause::Lost).await;
    assert_eq!(
        (lost.to, lost.generation),
        (StateKind::Reconnecting, Some(old.generation))
    );
    let error = lost.error.expect("it says why").message.clone();
    assert!(error.contains("panicked: asked to"), "{error}");
    let failed = slow.await.expect("no panic reaches a caller");
    assert!(
        matches!(&failed, Err(error) if matches!(error.kind, CallErrorKind::Lost { .. })),
        "{failed:?}"
    );
    let is_started_again = |ledger: &Ledger| ledger.pids().len() == 2;
    assert!(ledger.wait_for_async(is_started_again, SOON).await);
    assert!(
        !is_alive(old.pid.expect("a process")),
        "gone before the next one starts"
    );
    connected(&server).await;
    assert_eq!(server.status().keeper_failures, 0, "the keeper goes on");
}

#[tokio::test]
async fn a_panic_in_a_watch_is_reported_at_once_and_changes_no_state() {
    for (kind, words) in [
        (TaskKind::ReachabilityWatch, "the watch for its address ended"),
        (TaskKind::LoginWatch, "the watch for another credential ended"),
    ] {
        let (_fleet, server) = keep(&FaultyServer::new());
        let generation = connected(&server).await.generation;
        server.0.inbox.command(ServerCommand::PanicIn(kind));
        let status = until(&server, |status| status.last_error.is_some()).await;
        let error = status.last_error.expect("just seen").message.clone();
        assert!(
            error.starts_with(words) && error.contains("panicked: asked to"),
            "{error}"
        );
        assert_eq!(
            (status.state, status.generation),
            (StateKind::Connected, Some(generation))
        );
    }
}

#[tokio::test]
async fn callers_that_wait_for_a_keeper_that_panics_fail_at_once() {
    let (_fleet, server) = keep(&FaultyServer::new().on(Step::Initialize, Fault::NoAnswer));
    let (caller, waiter) = (server.clone(), server.clone());
    let call = tokio::spawn(async move { caller.call("echo", &json!({})).await });
    let wait = tokio::spawn(async move { waiter.wait_connected(SOON).await });
    while server.0.waiting.load(std::sync::atomic::Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    server.0.inbox.command(ServerCommand::Panic);
    let (call, wait) = (call.await.expect("no panic"), wait.await.expect("no panic"));
    assert!(
        matches!(&call, Err(error) if matches!(error.kind, CallErrorKind::KeeperFailed)),
        "{call:?}"
    );
    assert!(
        matches!(&wait, Err(error) if matches!(error.kind, CallErrorKind::KeeperFailed)),
        "{wait:?}"
    );
}

#[tokio::test]
async fn a_disable_between_a_panic_and_the_return_of_the_keeper_is_not_forgotten() {
    let ledger = Ledger::temporary();
    let (_fleet, server) = keep(&stubborn(&ledger));
    connected(&server).await;
    server.0.inbox.command(ServerCommand::Panic);
    server.disable().await.expect("taken");
    assert_eq!(server.status().state, StateKind::Disabled);
    assert!(
        !ledger
            .wait_for_async(|ledger| ledger.pids().len() > 1, 2 * super::RESUME_INTERVAL)
            .await
    );
    assert_eq!(server.status().state, StateKind::Disabled);
    server.enable().await.expect("taken");
    connected(&server).await;
}

#[tokio::test(start_paused = true)]
async fn the_pause_after_a_panic_grows_with_each_of_them_up_to_half_a_minute() {
    let never = Arc::new(std::future::pending::<std::io::Result<Box<dyn Transport>>>);
    let config = ServerConfig::custom("kept", "kept", never);
    let fleet = Fleet::builder().start([config.build().expect("a valid server")]);
    let server = fleet.server("kept").expect("just configured");
    for panics in 1..=31 {
        server.0.inbox.command(ServerCommand::Panic);
        let status = until(&server, |status| status.keeper_failures == panics).await;
        let pause = status
            .no_attempt_before
            .map(|at| at.duration_since(tokio::time::Instant::now()));
        assert_eq!(
            pause,
            Some(Duration::from_secs(panics.min(30))),
            "after {panics} panics"
        );
    }
}

#[tokio::test]
async fn a_server_that_a_call_waits_for_enters_the_start_queue_before_the_others_and_one_that_rests_behind_them()
 {
    let hangs = FaultyServer::new().on(Step::Start, Fault::Delay { ms: 600_000 });
    let config = |name: &str| ServerConfig::stdio(name, hangs.command()).args(hangs.args());
    let resting = config("resting").enabled(false).policy(Policy {
        idle_stop: Some(SOON),
        ..Policy::default()
    });
    let fleet = Fleet::builder()
        .starts_at_once(std::num::NonZeroUsize::MIN)
        .start([
            config("first").build().expect("a valid server"),
            config("kept").enabled(false).build().expect("a valid server"),
            resting.build().expect("a valid server"),
        ]);
    let server = fleet.server("kept").expect("just configured");
    let resting = fleet.server("resting").expect("just configured");
    for (server, waiting, rank) in [
        (&server, 0, "Wanted"),
        (&server, 1, "Demanded"),
        (&resting, 0, "Lazy"),
    ] {
        server
            .0
            .waiting
            .store(waiting, std::sync::atomic::Ordering::Relaxed);
        server.enable().await.expect("taken");
        let queue = format!("{:?}", server.0.shared.start_queue);
        assert!(queue.contains(rank), "{queue}");
        server.disable().await.expect("taken");
    }
    server.0.waiting.store(0, std::sync::atomic::Ordering::Relaxed);
    fleet.close(SOON).await;
}

/// The machine's timer may expire before the dial itself reports that it is too slow.
#[tokio::test(start_paused = true)]
async fn a_start_that_is_cut_at_its_limit_says_that_it_was_not_ready_and_not_that_it_waited() {
    let never = Arc::new(std::future::pending::<std::io::Result<Box<dyn Transport>>>);
    let config = ServerConfig::custom("kept", "kept", never);
    let fleet = Fleet::builder().start([config.build().expect("a valid server")]);
    let server = fleet.server("kept").expect("just configured");
    let generation = server.status().generation.expect("it is being dialled");
    let progress = StartProgress::new(StartStage::Starting);
    server.0.inbox.post(KeeperMessage::Progress(generation, progress));
    let hour = Duration::from_secs(3600);
    let failed = server
        .wait_until(hour, |status| status.last_error.is_some())
        .await;
    let message = failed
        .expect("cut")
        .last_error
        .expect("just seen")
        .message
        .clone();
    assert!(message.starts_with("not ready"), "{message}");
}

#[tokio::test]
async fn a_restart_after_a_panic_waits_for_no_pause_but_for_the_old_process() {
    let ledger = Ledger::temporary();
    let (_fleet, server) = keep(&stubborn(&ledger));
    let old = connected(&server).await;
    server.0.inbox.command(ServerCommand::Panic);
    server.restart().await.expect("taken");
    let seen = ledger.wait_for_async(|ledger| ledger.pids().len() == 2, SOON);
    assert!(seen.await);
    assert!(!is_alive(old.pid.expect("a process")));
    connected(&server).await;
}

#[tokio::test]
async fn a_call_that_comes_to_a_connection_that_drains_is_not_sent_there() {
    let process = FaultyServer::new();
    let (fleet, server) = keep(&process);
    let old = connected(&server).await;
    let caller = server.clone();
    let running = tokio::spawn(async move {
        let options = CallOptions::default();
        caller
            .call("slow_then_answer", &json!({ "ms": 3_000 }))
            .options(options)
            .await
    });
    while !old.vitals().busy {
        tokio::task::yield_now().await;
    }
    let replaced = ServerConfig::stdio("kept", process.command())
        .args(process.args())
        .env("FLAVOUR", "new");
    fleet.apply([replaced.build().expect("a valid server")]).await;

    // It leased the connection just before, and comes just after.
    let late = old
        .request(
            "tools/call",
            &crate::wire::Params::new(None),
            &CallOptions::default(),
        )
        .await
        .expect_err("the gate is closed");
    assert_eq!(late.outcome(), Outcome::NotSent);
    assert!(!running.is_finished(), "a call that came before may finish");
    let reply = running.await.expect("no panic").expect("answered");
    assert_eq!(reply.generation, old.generation);
    connected(&server).await;
    let closed = Arc::downgrade(&old);
    drop(old);
    let dropped = async {
        while closed.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, dropped)
        .await
        .expect("the keeper forgets what it has closed");
}

/// A call loads the live connection and then enters it. Between the two, on another thread, the connection may leave service. Here
/// the slot shows the old connection once more, so that the call finds exactly that.
#[tokio::test]
async fn a_call_that_leased_before_a_drain_and_enters_during_or_after_it_is_answered_by_the_next_connection()
{
    let process = FaultyServer::new();
    let (fleet, server) = keep(&process);
    // Hinted neither read-only nor idempotent: it would fail if it may have run.
    let late_call = async |old: &Arc<Connection>| {
        server.0.current.store(Some(old.clone()));
        let reply = server.call("append", &json!({})).await.expect("answered");
        assert!(reply.generation > old.generation);
    };
    let replaced = |flavour: &str| {
        ServerConfig::stdio("kept", process.command())
            .args(process.args())
            .env("FLAVOUR", flavour)
            .build()
            .expect("a valid server")
    };

    let old = connected(&server).await;
    let caller = server.clone();
    let running = tokio::spawn(async move { caller.call("slow_then_answer", &json!({ "ms": 500 })).await });
    while !old.vitals().busy {
        tokio::task::yield_now().await;
    }
    fleet.apply([replaced("new")]).await;
    late_call(&old).await;
    let reply = running.await.expect("no panic").expect("answered");
    assert_eq!(reply.generation, old.generation);

    let old = connected(&server).await;
    fleet.apply([replaced("newer")]).await;
    old.peer.closed().await;
    assert!(
        server.0.current.load().is_none(),
        "its process is still being stopped"
    );
    late_call(&old).await;
}

#[tokio::test]
async fn late_reports_of_an_old_generation_change_nothing_but_the_stale_count() {
    let (fleet, server) = keep(&FaultyServer::new());
    let old = connected(&server).await;
    server.restart().await.expect("taken");
    let new = connected(&server).await;
    let gone = old.generation;
    assert!(gone < new.generation);
    let (before, catalog) = (server.status(), server.catalog().expect("listed"));

    let failure = || Arc::new(Failure::new(&server.0, Some(gone), "late".to_owned()));
    // All that the server offers and one tool more, so that nothing but its age keeps it from being published.
    let tool = RawJson::from_value(&json!({ "name": "late", "inputSchema": { "type": "object" } }));
    let late = tool.expect("a tool");
    let listings = Kind::ALL.map(|kind| {
        let items = catalog.listed(kind).map(|item| item.raw().clone());
        let late = (kind == Kind::Tool).then(|| late.clone());
        ItemList {
            items: items.chain(late).collect(),
            ..ItemList::empty(kind)
        }
    });
    let listed = ServerCatalog::new("kept", About::default(), listings);
    assert!(listed.item(Kind::Tool, "late").is_some());
    let listed = PreparedOffers::new(
        &server.0.name,
        Arc::new(listed),
        server.0.settings.load().view.clone(),
    );
    let failed = ListError::Request {
        method: "tools/list",
        error: RequestError::BadAnswer(crate::wire::BadAnswer::Malformed),
    };
    let late = [
        Report::Opened(old.clone()),
        Report::OpenFailed(gone, Box::new(DialError::Silent(SOON)), failure()),
        Report::Listed(gone, listed),
        Report::ListFailed(gone, failed),
        Report::ListChanged(gone),
        Report::Lost(gone, failure()),
        Report::CallAnswered(gone),
        Report::CallFailed(gone, Recovery::Retry, failure()),
        Report::CallFailed(gone, Recovery::Login, failure()),
        Report::ProbeNow(gone),
        Report::ProbeAnswered(gone),
        Report::Closed(gone, None),
        Report::Reachable(gone),
    ];
    let stale = before.stale_reports + late.len() as u64;
    for report in late {
        server.0.inbox.report(report);
    }

    let after = until(&server, |status| status.stale_reports == stale).await;
    assert_eq!((after.state, after.since), (before.state, before.since));
    assert_eq!((after.generation, after.pid), (before.generation, before.pid));
    assert_eq!((after.attempt, after.starts), (before.attempt, before.starts));
    assert_eq!(
        (after.listed_at, after.stale_since),
        (before.listed_at, before.stale_since)
    );
    assert!(after.last_error.is_none());
    assert!(Arc::ptr_eq(&catalog, &server.catalog().expect("still there")));
    assert!(fleet.catalog().tool("kept__late").is_none());
    let reply = server.call("echo", &json!({})).await.expect("answered");
    assert_eq!(reply.generation, new.generation);
}
