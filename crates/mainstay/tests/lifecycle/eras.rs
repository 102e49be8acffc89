//! Which way a server is spoken to: found out once, and remembered.

use std::time::Duration;

use mainstay::{CallOptions, Era, Fleet, Policy, ServerConfig, StateKind};
use mainstay_lifecycle::Backoff;
use mainstay_testkit::http::{FaultyHttpServer, HttpFault, HttpRule, HttpScript};
use mainstay_testkit::store::catalogs_are_stored;
use mainstay_testkit::{
    AnswerFault, Fault, FaultyServer, Garbage, LEGACY_VERSIONS, Ledger, MODERN_VERSION, Occurrence, Script,
    Speaks, Step,
};
use rustix::process::Signal;
use serde_json::json;
use tokio::time::Instant;

use crate::support::{
    InMemory, LONG, SOON, built, connected, connected_pid, echo, keep, reaches, signal, stdio,
};

fn era(server: &mainstay::Server) -> Option<(Era, String)> {
    let protocol = server.status().protocol;
    protocol.map(|(era, version)| (era, version.to_string()))
}

#[tokio::test]
async fn servers_of_every_version_are_spoken_to_over_stdio_before_and_after_a_kill() {
    let legacy = LEGACY_VERSIONS.map(|version| (Script::new().version(version), (Era::Legacy, version)));
    let modern = [Speaks::Modern, Speaks::Both]
        .map(|speaks| (Script::new().speaks(speaks), (Era::Modern, MODERN_VERSION)));
    for (script, (spoken, version)) in legacy.into_iter().chain(modern) {
        let ledger = Ledger::temporary();
        let program = FaultyServer::from(script).ledger(&ledger);
        let (fleet, server) = keep(stdio("process", &program));
        for generation in ["first", "second"] {
            let pid = connected_pid(&server).await;
            assert_eq!(
                era(&server),
                Some((spoken, version.to_owned())),
                "{version}, {generation} connection"
            );
            let reply = echo(&server, CallOptions::default()).await;
            assert!(reply.is_ok(), "{version}, {generation} connection: {reply:?}");
            assert!(
                fleet
                    .catalog()
                    .tools()
                    .iter()
                    .any(|tool| tool.name() == "process__echo")
            );
            if generation == "first" {
                signal(pid, Signal::KILL);
                let again = server.wait_until(SOON, |status| status.starts == 2).await;
                again.expect("started again");
            }
        }
        let initialized = match spoken {
            Era::Legacy => ledger.count("initialize 2025-11-25"),
            Era::Modern => ledger.count("initialize"),
        };
        assert_eq!(initialized > 0, spoken == Era::Legacy, "{version}");
    }
}

#[tokio::test]
async fn a_server_that_dies_when_probed_is_started_again_and_spoken_to_in_the_old_way_from_then_on() {
    let ledger = Ledger::temporary();
    let store = tempfile::tempdir().expect("a directory");
    let fragile = FaultyServer::new()
        .ledger(&ledger)
        .on(Step::Discover, Fault::Exit(3));
    let start = || {
        Fleet::builder()
            .store(store.path())
            .start(built([stdio("fragile", &fragile)]))
    };

    let fleet = start();
    let server = fleet.server("fragile").unwrap();
    connected(&server).await;
    catalogs_are_stored(store.path(), 1).await;
    let asked: Vec<_> = ledger
        .lines()
        .into_iter()
        .filter(|line| !line.starts_with("list"))
        .collect();
    let pids = ledger.pids();
    let expected = [
        format!("start {}", pids[0]),
        "discover".to_owned(),
        format!("start {}", pids[1]),
        "initialize 2025-11-25".to_owned(),
        "initialized".to_owned(),
    ];
    assert_eq!(asked, expected);
    assert_eq!(era(&server), Some((Era::Legacy, "2025-11-25".to_owned())));
    let error = server.status().last_error.expect("it says what happened");
    assert!(error.message.contains("begins with initialize"), "{error}");
    assert_eq!(
        (server.status().attempt, server.status().starts),
        (1, 2),
        "each start is an attempt, and counts until the server has proved itself"
    );
    echo(&server, CallOptions::default()).await.expect("answered");

    signal(connected_pid(&server).await, Signal::KILL);
    server
        .wait_until(LONG, |status| {
            status.starts == 3 && status.state == StateKind::Connected
        })
        .await
        .expect("back");
    assert_eq!(
        (ledger.count("discover"), ledger.pids().len()),
        (1, 3),
        "it is not asked again"
    );

    fleet.close(SOON).await;
    let fleet = start();
    connected(&fleet.server("fragile").unwrap()).await;
    assert_eq!(
        (ledger.count("discover"), ledger.pids().len()),
        (1, 4),
        "nor by the next fleet"
    );
}

#[tokio::test(start_paused = true)]
async fn the_old_way_does_not_wait_for_a_pause_between_attempts() {
    let memory = InMemory::playing(Script::new().on(Step::Discover, Fault::Exit(3)));
    let policy = Policy {
        backoff: Backoff::new(LONG, LONG),
        ..Policy::default()
    };
    let (_fleet, server) = keep(memory.config("fragile").policy(policy));
    let began = Instant::now();
    connected(&server).await;
    assert_eq!(memory.attempts(), 2);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_of_an_unknown_version_is_refused_with_a_clear_error_for_good() {
    let answers = [
        Script::new().version("1999-12-31"),
        Script::new().speaks(Speaks::Modern).on(
            Step::Discover,
            Fault::Result(json!({ "supportedVersions": ["1999-12-31"], "capabilities": {} })),
        ),
    ];
    for script in answers {
        let memory = InMemory::playing(script);
        let (_fleet, server) = keep(memory.config("odd"));
        let refused = reaches(&server, StateKind::PermanentlyFailed).await;
        let message = refused.last_error.expect("it says why").message.clone();
        assert!(
            message.contains("1999-12-31"),
            "what the server speaks: {message}"
        );
        assert!(
            message.contains("2025-11-25") && message.contains("2026-07-28"),
            "what would do: {message}"
        );
        tokio::time::sleep(LONG).await;
        assert_eq!(memory.attempts(), 1);
    }
}

#[tokio::test]
async fn a_server_that_refuses_a_version_and_offers_the_same_is_asked_once_more() {
    let refusal = json!({ "jsonrpc": "2.0", "error": {
        "code": -32022, "message": "not this version",
        "data": { "supported": ["2026-07-28"], "requested": "2026-07-28" },
    } });
    let refusing = |occurrence: Occurrence| {
        let fault = HttpFault::Status {
            code: 400,
            headers: Vec::new(),
            body: refusal.to_string(),
        };
        HttpScript::new().rule(HttpRule::on("server/discover", fault).occurrence(occurrence))
    };
    let dial = async |occurrence: Occurrence| {
        let script = Script::new().speaks(Speaks::Modern);
        let remote = FaultyHttpServer::start(script, refusing(occurrence))
            .await
            .unwrap();
        let (fleet, server) = keep(ServerConfig::http("web", remote.url("/mcp")));
        (remote, fleet, server)
    };

    let (remote, _fleet, server) = dial(Occurrence::Nth(1)).await;
    connected(&server).await;
    assert_eq!(era(&server), Some((Era::Modern, "2026-07-28".to_owned())));
    assert_eq!(remote.traffic(|traffic| traffic.count("initialize")), 0);

    let (remote, _fleet, server) = dial(Occurrence::Always).await;
    reaches(&server, StateKind::PermanentlyFailed).await;
    assert_eq!(
        remote.traffic(|traffic| traffic.requests("POST")),
        2,
        "asked twice, and no more"
    );
}

#[tokio::test]
async fn a_server_that_refuses_as_only_a_modern_one_can_is_not_spoken_to_in_the_old_way() {
    for code in [-32020, -32021] {
        let refusal = json!({ "jsonrpc": "2.0", "error": { "code": code, "message": "not like this" } });
        let fault = HttpFault::Status {
            code: 400,
            headers: Vec::new(),
            body: refusal.to_string(),
        };
        let script =
            HttpScript::new().rule(HttpRule::on("server/discover", fault).occurrence(Occurrence::Nth(1)));
        let remote = FaultyHttpServer::start(Script::new().speaks(Speaks::Both), script)
            .await
            .unwrap();
        let (_fleet, server) = keep(ServerConfig::http("web", remote.url("/mcp")));
        connected(&server).await;
        assert_eq!(era(&server), Some((Era::Modern, "2026-07-28".to_owned())));
        assert_eq!(remote.traffic(|traffic| traffic.count("initialize")), 0, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_the_modern_question_is_initialized() {
    let memory = InMemory::playing(Script::new().on(Step::Discover, Fault::NoAnswer));
    let (_fleet, server) = keep(memory.config("reads-nothing"));
    let began = Instant::now();
    connected(&server).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(era(&server).map(|(era, _)| era), Some(Era::Legacy));
    assert_eq!((memory.attempts(), memory.last().count("initialize")), (1, 1));

    server.restart().await.expect("taken");
    connected(&server).await;
    assert_eq!(
        memory.last().count("server/discover"),
        0,
        "what was learnt is remembered"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_of_the_modern_era_alone_is_never_initialized() {
    let memory = InMemory::playing(Script::new().speaks(Speaks::Modern));
    let (fleet, server) = keep(memory.config("modern"));
    connected(&server).await;
    assert_eq!(era(&server), Some((Era::Modern, "2026-07-28".to_owned())));
    assert!(fleet.catalog().tool("modern__echo").is_some());
    echo(&server, CallOptions::default()).await.expect("answered");
    assert_eq!(memory.last().count("initialize"), 0);
    assert_eq!(memory.last().count("notifications/initialized"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_era_that_no_longer_holds_is_relearnt() {
    let memory = InMemory::choosing(|attempt| {
        let speaks = if attempt == 1 {
            Speaks::Legacy
        } else {
            Speaks::Modern
        };
        Some(Script::new().speaks(speaks))
    });
    let (_fleet, server) = keep(memory.config("upgraded"));
    connected(&server).await;
    server.restart().await.expect("taken");
    connected(&server).await;
    assert_eq!(era(&server).map(|(era, _)| era), Some(Era::Modern));
    assert_eq!(
        memory.attempts(),
        2,
        "it refuses the old way, and is asked in the modern one"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_known_to_be_modern_that_dies_as_it_is_greeted_is_not_taken_for_an_old_one() {
    let memory = InMemory::choosing(|attempt| {
        let script = Script::new().speaks(Speaks::Both);
        Some(match attempt {
            2 => script.on(Step::Discover, Fault::Exit(3)),
            _ => script,
        })
    });
    let (_fleet, server) = keep(memory.config("modern"));
    connected(&server).await;
    server.restart().await.expect("taken");
    connected(&server).await;
    assert_eq!(memory.attempts(), 3);
    assert_eq!(era(&server).map(|(era, _)| era), Some(Era::Modern));
}

#[tokio::test(start_paused = true)]
async fn an_outage_does_not_bring_a_known_era_into_doubt_at_once() {
    let memory = InMemory::choosing(|attempt| {
        let script = Script::new();
        Some(match attempt {
            2..=5 => script.on(Step::Initialize, Fault::Exit(3)),
            _ => script,
        })
    });
    let (_fleet, server) = keep(memory.config("old"));
    connected(&server).await;
    server.restart().await.expect("taken");
    connected(&server).await;
    assert_eq!(memory.attempts(), 6, "none was spent on another era");
    assert_eq!(memory.last().count("server/discover"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_era_in_which_a_server_only_ever_dies_is_relearnt() {
    let memory = InMemory::choosing(|attempt| {
        let script = Script::new();
        Some(match attempt {
            1 => script,
            _ => script.speaks(Speaks::Modern).on(Step::Initialize, Fault::Exit(3)),
        })
    });
    let (_fleet, server) = keep(memory.config("upgraded"));
    connected(&server).await;
    server.restart().await.expect("taken");
    connected(&server).await;
    assert_eq!(era(&server).map(|(era, _)| era), Some(Era::Modern));
    assert_eq!(memory.attempts(), 10, "eight in the old way failed");
}

/// What a legacy server may do when it is first asked in the modern way, after which it is of no more use.
fn breaks_when_probed() -> [(&'static str, Script); 8] {
    let probed = |fault: Fault| Script::new().on(Step::Discover, fault);
    let slow = |script: Script| script.on(Step::Start, Fault::Delay { ms: 5_000 });
    let dies_at_next = |script: Script| script.on(Step::Discover, Fault::ExitAtNext(1));
    let dead_loop = || dies_at_next(Script::new()).on(Step::Discover, Fault::NoAnswer);
    [
        ("exits", probed(Fault::Exit(1))),
        ("starts slowly and exits", slow(probed(Fault::Exit(1)))),
        ("answers nothing more", probed(Fault::Hang)),
        ("reads nothing more", probed(Fault::StopReading)),
        (
            "starts slowly and answers nothing more",
            slow(probed(Fault::Hang)),
        ),
        ("exits at the next message", dead_loop()),
        ("starts slowly and exits at the next message", slow(dead_loop())),
        (
            "refuses, and exits at the next message",
            dies_at_next(Script::new()),
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_server_that_a_probe_breaks_is_initialized_by_the_second_attempt_without_any_setting() {
    for (how, script) in breaks_when_probed() {
        let memory = InMemory::playing(script);
        let policy = Policy {
            backoff: Backoff::new(LONG, LONG),
            ..Policy::default()
        };
        let (_fleet, server) = keep(memory.config("broken").policy(policy));
        let began = Instant::now();
        connected(&server).await;
        echo(&server, CallOptions::default()).await.expect("answered");
        assert_eq!(memory.attempts(), 2, "one for each way: {how}");
        assert_eq!(memory.last().count("server/discover"), 0, "{how}");
        assert_eq!(era(&server).map(|(era, _)| era), Some(Era::Legacy), "{how}");
        assert!(
            began.elapsed() < Duration::from_secs(25),
            "{how}: {:?}",
            began.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_a_probe_with_noise_is_initialized_on_the_same_connection() {
    let without_id = Fault::Answer(AnswerFault::ErrorWithoutId);
    let text = Script::new()
        .on(
            Step::Discover,
            Fault::Garbage(Garbage::Text("unknown command".to_owned())),
        )
        .on(Step::Discover, Fault::NoAnswer);
    for (how, script) in [
        (
            "an error without an id",
            Script::new().on(Step::Discover, without_id),
        ),
        ("text", text),
    ] {
        let memory = InMemory::playing(script);
        let (_fleet, server) = keep(memory.config("noisy"));
        connected(&server).await;
        assert_eq!(memory.attempts(), 1, "{how}");
        assert_eq!(era(&server).map(|(era, _)| era), Some(Era::Legacy), "{how}");
    }
}

#[tokio::test]
async fn what_a_probe_broke_is_remembered_on_disk_so_that_the_next_fleet_begins_with_initialize() {
    let slowly = Fault::Delay { ms: 2_500 };
    let faults = [
        FaultyServer::new()
            .on(Step::Discover, Fault::ExitAtNext(1))
            .on(Step::Discover, Fault::NoAnswer),
        FaultyServer::new()
            .on(Step::Start, slowly)
            .on(Step::Discover, Fault::Exit(1)),
    ];
    for faulty in faults {
        let (ledger, store) = (Ledger::temporary(), tempfile::tempdir().expect("a directory"));
        let faulty = faulty.ledger(&ledger);
        for (starts, asked) in [(2, 1), (3, 1)] {
            let fleet = Fleet::builder()
                .store(store.path())
                .start(built([stdio("broken", &faulty)]));
            connected(&fleet.server("broken").unwrap()).await;
            catalogs_are_stored(store.path(), 1).await;
            fleet.close(SOON).await;
            assert_eq!((ledger.pids().len(), ledger.count("discover")), (starts, asked));
        }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_that_is_still_starting_is_not_sent_a_second_question() {
    let ledger = Ledger::temporary();
    let slow = FaultyServer::new()
        .script(|script| script.speaks(Speaks::Both))
        .ledger(&ledger)
        .on(Step::Start, Fault::Delay { ms: 3_000 });
    let (_fleet, server) = keep(stdio("slow", &slow));
    connected(&server).await;
    assert_eq!(era(&server).map(|(era, _)| era), Some(Era::Modern));
    assert_eq!((ledger.count("initialize"), ledger.pids().len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_of_both_eras_is_spoken_to_in_the_modern_one() {
    let slow = Script::new()
        .speaks(Speaks::Both)
        .on(Step::Start, Fault::Delay { ms: 6_000 });
    let memory = InMemory::playing(slow);
    let (_fleet, server) = keep(memory.config("slow"));
    connected(&server).await;
    assert_eq!(era(&server).map(|(era, _)| era), Some(Era::Modern));
    assert_eq!(memory.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_handshake_without_an_answer_says_what_was_tried_and_names_the_setting() {
    let first_error = async |script: Script, pinned: Option<Era>| {
        let memory = InMemory::playing(script);
        let mut config = memory.config("mute");
        if let Some(era) = pinned {
            config = config.era(era);
        }
        let (_fleet, server) = keep(config);
        let failed = server
            .wait_until(LONG, |status| status.last_error.is_some())
            .await;
        let error = failed.expect("it fails").last_error.expect("it says why");
        assert_eq!(error.searched, None, "no program was searched for");
        error.message.clone()
    };
    let mute = || Script::new().on(Step::Start, Fault::StopReading);
    let dies = Script::new().on(Step::Discover, Fault::Exit(1));
    for (script, pinned, words) in [
        (
            dies,
            None,
            ["server/discover", "begins with initialize", "\"era\": \"legacy\""],
        ),
        (
            mute(),
            None,
            ["server/discover", "begins with initialize", "\"era\": \"legacy\""],
        ),
        (
            mute(),
            Some(Era::Legacy),
            [
                "no sign of life",
                "did not answer initialize",
                "\"era\": \"legacy\"",
            ],
        ),
        (
            mute(),
            Some(Era::Modern),
            [
                "no sign of life",
                "did not answer server/discover",
                "\"era\": \"modern\"",
            ],
        ),
    ] {
        let message = first_error(script, pinned).await;
        for word in words {
            assert!(message.contains(word), "{word}: {message}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_of_unknown_era_that_is_silent_for_its_startup_timeout_is_initialized_next() {
    let memory = InMemory::playing(Script::new().on(Step::Discover, Fault::Hang));
    let (_fleet, server) = keep(memory.config("slow").startup_timeout(Duration::from_secs(4)));
    connected(&server).await;
    assert_eq!(memory.attempts(), 2);
    assert_eq!(memory.last().count("server/discover"), 0);
}
