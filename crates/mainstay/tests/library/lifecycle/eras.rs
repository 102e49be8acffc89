//! Which way a server is spoken to: found out once, and remembered.

use std::time::Duration;

use mainstay::{CallOptions, Era, ServerConfig, StateKind};
use mainstay_testkit::http::{FaultyHttpServer, HttpFault, HttpRule, HttpScript};
use mainstay_testkit::{
    Fault, FaultyServer, LEGACY_VERSIONS, Ledger, MODERN_VERSION, Occurrence, Script, Speaks, Step,
};
use rustix::process::Signal;
use serde_json::json;

use crate::lifecycle::support::{
    InMemory, LONG, SOON, connected, connected_pid, echo, keep, reaches, signal, stdio,
};

fn era(server: &mainstay::Server) -> Option<(Era, String)> {
    let protocol = server.status().protocol;
    protocol.map(|(era, version)| (era, version.to_string()))
}

#[tokio::test]
async fn servers_of_every_version_are_spoken_to_over_stdio_before_and_after_a_kill() {
    let legacy = LEGACY_VERSIONS.map(|version| (Script::new().version(version), (Era::Legacy, version)));
    // In a session a server of both eras can ask its client; without one it cannot.
    let others = [
        (Speaks::Both, (Era::Legacy, "2025-11-25")),
        (Speaks::Modern, (Era::Modern, MODERN_VERSION)),
    ]
    .map(|(speaks, spoken)| (Script::new().speaks(speaks), spoken));
    for (script, (spoken, version)) in legacy.into_iter().chain(others) {
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
        let asked = match spoken {
            Era::Legacy => (2, 0),
            // What the first connection learnt, the second one knows.
            Era::Modern => (1, 2),
        };
        let seen = (ledger.count("initialize 2025-11-25"), ledger.count("discover"));
        assert_eq!((seen, ledger.pids().len()), (asked, 2), "{version}");
    }
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
    drop(remote);

    let (remote, _fleet, server) = dial(Occurrence::Always).await;
    reaches(&server, StateKind::PermanentlyFailed).await;
    assert_eq!(
        remote.traffic(|traffic| traffic.requests("POST")),
        3,
        "initialize, and asked twice and no more"
    );
}

#[tokio::test]
async fn a_server_that_objects_as_only_a_modern_one_can_is_shown_with_its_objection() {
    for code in [-32020, -32021] {
        let refusal = json!({ "jsonrpc": "2.0", "error": { "code": code, "message": "not like this" } });
        let fault = HttpFault::Status {
            code: 400,
            headers: Vec::new(),
            body: refusal.to_string(),
        };
        let script =
            HttpScript::new().rule(HttpRule::on("server/discover", fault).occurrence(Occurrence::Nth(1)));
        let remote = FaultyHttpServer::start(Script::new().speaks(Speaks::Modern), script)
            .await
            .unwrap();
        let (_fleet, server) = keep(ServerConfig::http("web", remote.url("/mcp")));
        let failed = server
            .wait_until(SOON, |status| status.last_error.is_some())
            .await;
        let error = failed.expect("it fails once").last_error.clone().unwrap();
        assert!(error.message.contains("not like this"), "{error}");
        connected(&server).await;
        assert_eq!(era(&server), Some((Era::Modern, "2026-07-28".to_owned())));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_of_the_modern_era_alone_is_found_out_on_its_first_connection() {
    let memory = InMemory::playing(Script::new().speaks(Speaks::Modern));
    let (fleet, server) = keep(memory.config("modern"));
    connected(&server).await;
    assert_eq!(era(&server), Some((Era::Modern, "2026-07-28".to_owned())));
    assert!(fleet.catalog().tool("modern__echo").is_some());
    echo(&server, CallOptions::default()).await.expect("answered");
    assert_eq!(memory.last().count("notifications/initialized"), 0);

    server.restart().await.expect("taken");
    connected(&server).await;
    assert_eq!(memory.attempts(), 2);
    assert_eq!(
        memory.last().count("initialize"),
        0,
        "what was learnt is remembered"
    );
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
        let script = Script::new().speaks(Speaks::Modern);
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

/// What a legacy server may do when it is asked in the modern way, after which it is of no more use.
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
async fn a_server_that_the_modern_question_would_break_is_started_once() {
    for (how, script) in breaks_when_probed() {
        let memory = InMemory::playing(script);
        let (_fleet, server) = keep(memory.config("fragile"));
        connected(&server).await;
        echo(&server, CallOptions::default()).await.expect("answered");
        assert_eq!(memory.attempts(), 1, "{how}");
        assert_eq!(memory.last().count("server/discover"), 0, "{how}");
        assert_eq!(era(&server).map(|(era, _)| era), Some(Era::Legacy), "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_of_both_eras_gets_a_session() {
    let slow = Script::new()
        .speaks(Speaks::Both)
        .on(Step::Start, Fault::Delay { ms: 6_000 });
    let memory = InMemory::playing(slow);
    let (_fleet, server) = keep(memory.config("slow"));
    connected(&server).await;
    assert_eq!(era(&server).map(|(era, _)| era), Some(Era::Legacy));
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
    for (script, pinned, words) in [
        (
            mute(),
            None,
            [
                "did not answer initialize",
                "begins with server/discover",
                "\"era\": \"modern\"",
            ],
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
async fn a_server_of_unknown_era_that_leaves_initialize_unanswered_is_asked_in_the_modern_way_next() {
    let script = Script::new()
        .speaks(Speaks::Modern)
        .on(Step::Initialize, Fault::NoAnswer);
    let memory = InMemory::playing(script);
    let (_fleet, server) = keep(memory.config("mute").startup_timeout(Duration::from_secs(4)));
    connected(&server).await;
    assert_eq!(memory.attempts(), 2);
    assert_eq!(era(&server).map(|(era, _)| era), Some(Era::Modern));
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_that_the_modern_question_breaks_comes_up_after_the_guess_has_failed() {
    let memory = InMemory::choosing(|attempt| {
        let script = Script::new().on(Step::Discover, Fault::Exit(3));
        Some(match attempt {
            1 => script.on(Step::Start, Fault::Delay { ms: 60_000 }),
            _ => script,
        })
    });
    let (_fleet, server) = keep(memory.config("slow").startup_timeout(Duration::from_secs(4)));
    connected(&server).await;
    assert_eq!(memory.attempts(), 3);
    assert_eq!(era(&server).map(|(era, _)| era), Some(Era::Legacy));
}
