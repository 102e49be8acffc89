//! A server that lives and says nothing: asked for a sign of life, and replaced when there is none.

use std::num::NonZeroU32;
use std::time::Duration;

use mainstay::config::Replay;
use mainstay::lifecycle::Cause;
use mainstay::{CallErrorKind, CallOptions, Policy, StateKind};
use mainstay_lifecycle::Probe;
use mainstay_testkit::procfs::is_alive;
use mainstay_testkit::{Fault, FaultyServer, Ledger, Rule, Script, Speaks, Step};
use rustix::process::Signal;
use serde_json::json;
use tokio::time::sleep;

use crate::lifecycle::support::{InMemory, connected, connected_pid, echo, keep, next_event, signal, stdio};

fn probing(after_silence: Duration, timeout: Duration, misses: u32) -> Policy {
    Policy {
        probe: Some(Probe {
            after_silence,
            timeout,
            misses: NonZeroU32::new(misses).unwrap(),
        }),
        ..Policy::default()
    }
}

#[tokio::test]
async fn a_stopped_process_is_replaced_after_the_set_number_of_missed_probes() {
    let ledger = Ledger::temporary();
    let policy = probing(Duration::from_millis(300), Duration::from_secs(1), 2);
    let (fleet, server) = keep(stdio("frozen", &FaultyServer::new().ledger(&ledger)).policy(policy));
    let frozen = connected_pid(&server).await;
    let mut events = fleet.events();

    signal(frozen, Signal::STOP);
    let lost = next_event(&mut events, |event| event.from == StateKind::Connected).await;
    assert_eq!(
        (lost.to, lost.cause),
        (StateKind::Reconnecting, Cause::ProbesMissed)
    );
    assert_eq!(
        lost.error.expect("it says why").message,
        "2 probes in a row were not answered"
    );
    next_event(&mut events, |event| event.to == StateKind::Connected).await;
    assert!(!is_alive(frozen));
    assert_ne!(connected_pid(&server).await, frozen);
    assert_eq!(ledger.pids().len(), 2);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_is_stopped_during_a_call_is_replaced_and_the_call_fails() {
    let ledger = Ledger::temporary();
    let stops = Rule::new(Step::Call, Fault::Signal(mainstay_testkit::Signal::Stop)).first_starts(1);
    let policy = probing(Duration::from_millis(300), Duration::from_millis(500), 2);
    let (fleet, server) =
        keep(stdio("frozen", &FaultyServer::new().rule(stops).ledger(&ledger)).policy(policy));
    let frozen = connected_pid(&server).await;
    let mut events = fleet.events();

    let error = echo(&server, CallOptions::default().replay(Replay::Never)).await;
    let error = error.expect_err("nothing answers it");
    assert!(matches!(error.kind, CallErrorKind::Lost { .. }), "{error:?}");
    let lost = next_event(&mut events, |event| event.from == StateKind::Connected).await;
    assert_eq!(
        (lost.to, lost.cause),
        (StateKind::Reconnecting, Cause::ProbesMissed)
    );
    next_event(&mut events, |event| event.to == StateKind::Connected).await;
    assert!(!is_alive(frozen));
    assert_eq!(ledger.pids().len(), 2);
    echo(&server, CallOptions::default())
        .await
        .expect("answered by the next one");
}

#[tokio::test]
async fn a_process_that_is_stopped_during_a_listing_is_replaced() {
    let ledger = Ledger::temporary();
    let policy = probing(Duration::from_millis(300), Duration::from_millis(500), 2);
    let stops = Rule::new(Step::List, Fault::Signal(mainstay_testkit::Signal::Stop)).first_starts(1);
    let stops = FaultyServer::new().rule(stops).ledger(&ledger);
    let (fleet, server) = keep(stdio("frozen", &stops).policy(policy));
    let mut events = fleet.events();
    let lost = next_event(&mut events, |event| event.to == StateKind::Reconnecting).await;
    assert_eq!(lost.cause, Cause::ProbesMissed);
    connected(&server).await;
    assert_eq!(ledger.pids().len(), 2);
}

#[tokio::test]
async fn a_process_of_one_thread_that_works_on_a_call_is_left_alone() {
    let ledger = Ledger::temporary();
    let blocks = FaultyServer::new()
        .on(Step::Call, Fault::Block { ms: 3_000 })
        .ledger(&ledger);
    // Between two looks it gets some time of the processor, on however busy a machine.
    let policy = probing(Duration::from_millis(500), Duration::from_millis(500), 1);
    let (_fleet, server) = keep(stdio("single", &blocks).policy(policy));
    let generation = connected(&server).await;
    let reply = echo(&server, CallOptions::default())
        .await
        .expect("answered in the end");
    assert_eq!(reply.generation.0, generation);
    assert_eq!(
        ledger.pids().len(),
        1,
        "it answered no probe meanwhile, and was not replaced for it"
    );
}

#[tokio::test]
async fn a_process_that_does_not_read_its_calls_is_replaced_and_they_run_on_the_next() {
    let ledger = Ledger::temporary();
    let stops_reading = Rule::new(Step::Call, Fault::StopReading).first_starts(1);
    let deaf = FaultyServer::new().ledger(&ledger).rule(stops_reading);
    let policy = probing(Duration::from_millis(500), Duration::from_millis(500), 2);
    let (_fleet, server) = keep(stdio("deaf", &deaf).policy(policy));
    let first = connected(&server).await;
    let hurried = || CallOptions::default().timeout(Duration::from_millis(300));
    echo(&server, hurried()).await.expect_err("it no longer answers");
    let more_than_a_pipe_takes = json!({ "text": "x".repeat(1 << 20) });
    let large = server.call("echo", &more_than_a_pipe_takes).options(hurried());
    large.await.expect_err("a part of it was written");
    let reply = echo(&server, CallOptions::default()).await;
    assert!(reply.expect("it was not read").generation.0 > first);
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_asked_as_often_as_the_policy_says_and_no_more() {
    let memory = InMemory::choosing(|attempt| {
        let script = Script::new();
        Some(if attempt == 1 {
            script.on(Step::Ping, Fault::NoAnswer)
        } else {
            script
        })
    });
    let policy = probing(Duration::from_secs(15), Duration::from_secs(5), 3);
    let (fleet, server) = keep(memory.config("mute").policy(policy));
    let first = connected(&server).await;
    let mut events = fleet.events();
    let began = tokio::time::Instant::now();
    let lost = next_event(&mut events, |event| event.cause == Cause::ProbesMissed).await;
    assert_eq!(lost.generation.unwrap().0, first);
    assert_eq!(memory.memory_servers()[0].count("ping"), 3);
    assert!(
        (29..32).contains(&began.elapsed().as_secs()),
        "{:?}",
        began.elapsed()
    );
    assert!(connected(&server).await > first);

    sleep(Duration::from_secs(3600)).await;
    assert_eq!(memory.attempts(), 2, "one that answers is left alone");
    assert!(memory.last().count("ping") > 100);
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_that_does_not_answer_a_probe_is_shown_as_silent_and_stays() {
    let memory = InMemory::playing(Script::new().on(Step::Ping, Fault::NoAnswer));
    let policy = probing(Duration::from_secs(15), Duration::from_secs(5), 1);
    let (_fleet, server) = keep(memory.config("busy").policy(policy));
    let generation = connected(&server).await;
    assert_eq!(server.status().silent_since, None);
    let running = tokio::spawn({
        let server = server.clone();
        let options = CallOptions::default().idle_timeout(Duration::from_secs(3600));
        async move {
            let ten_minutes = json!({ "ms": 600_000 });
            server.call("sleep_ms", &ten_minutes).options(options).await
        }
    });
    let silent = server.wait_until(Duration::from_secs(60), |status| status.silent_since.is_some());
    assert_eq!(silent.await.expect("watchers see it").state, StateKind::Connected);
    assert!(server.status().silent_since.is_some(), "and so does who looks");
    let reply = running.await.expect("no panic").expect("answered");
    assert_eq!(reply.generation.0, generation);
    assert_eq!(memory.last().count("ping"), 1, "one is enough");
    assert_eq!(memory.attempts(), 1);
    assert_eq!(server.status().silent_since, None, "it was heard again");
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_that_answers_its_probes_is_not_silent() {
    let memory = InMemory::playing(Script::new());
    let policy = probing(Duration::from_secs(15), Duration::from_secs(5), 1);
    let (_fleet, server) = keep(memory.config("busy").policy(policy));
    connected(&server).await;
    let mut status = server.watch();
    let options = CallOptions::default().idle_timeout(Duration::from_secs(3600));
    let call = server
        .call("sleep_ms", &json!({ "ms": 600_000 }))
        .options(options);
    tokio::select! {
        reply = call => drop(reply.expect("answered")),
        silent = status.wait_for(|status| status.silent_since.is_some()) => panic!("{:?}", silent.is_ok()),
    }
    let pings = memory.last().count("ping");
    assert!((30..=40).contains(&pings), "{pings} in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_heard_is_not_probed() {
    let memory = InMemory::playing(Script::new().on(Step::Ping, Fault::NoAnswer));
    let policy = probing(Duration::from_secs(15), Duration::from_secs(5), 1);
    let (_fleet, server) = keep(memory.config("talker").policy(policy));
    let generation = connected(&server).await;
    let word = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "x" } });
    for _ in 0..60 {
        memory.last().inject_message(&word).await;
        sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(memory.last().count("ping"), 0);
    assert_eq!(connected(&server).await, generation);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_know_the_probe_is_alive() {
    let memory = InMemory::playing(Script::new().on(Step::Ping, Fault::method_not_found()));
    let (_fleet, server) = keep(memory.config("ignorant"));
    let generation = connected(&server).await;
    sleep(Duration::from_secs(600)).await;
    assert!(memory.last().count("ping") > 10);
    assert_eq!((connected(&server).await, memory.attempts()), (generation, 1));
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_is_asked_in_its_own_way() {
    let memory = InMemory::playing(Script::new().speaks(Speaks::Modern));
    let (_fleet, server) = keep(memory.config("modern"));
    connected(&server).await;
    sleep(Duration::from_secs(600)).await;
    assert!(memory.last().count("server/discover") > 10);
    assert_eq!(memory.last().count("ping"), 0);
    assert_eq!(memory.attempts(), 1);
}
