//! Whatever a server may send instead of a message.

use std::pin::pin;

use bytes::Bytes;

use super::remote_peer::poll_once;
use super::*;
use crate::wire::{BadAnswer, MAX_MEMBERS};

const LIMIT: usize = 10_000;

fn limited() -> (Peer, RemotePeer, Arc<Log>) {
    connect_with(Limits::message(LIMIT), 64 * 1024)
}

#[track_caller]
fn check_bad(answer: Result<RawJson, RequestError>, expected: BadAnswer) {
    match answer {
        Err(RequestError::BadAnswer(what)) => assert_eq!(what, expected),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn garbage_between_messages_is_counted_and_disturbs_nothing() {
    let (peer, mut remote, _log) = connect();
    let (answer, ()) = tokio::join!(peer.request("a", None, within(10)), async {
        for garbage in [
            "Server running on stdio",
            r#"sending {"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"level":30,"id":1,"msg":"log"}"#,
            "[1,2]",
            "null",
            "{\"jsonrpc\":",
        ] {
            remote.write(garbage).await;
        }
        remote.write_bytes(b"\xff\xfe\n\n\r\n").await;
        remote.answer(1, "\"real\"").await;
    });
    assert_eq!(answer.unwrap().as_str(), "\"real\"");
    assert_eq!(peer.stats().garbage, 7);
}

#[tokio::test(start_paused = true)]
async fn what_has_too_many_members_to_be_read_is_refused_or_dropped() {
    let (peer, mut remote, log) = connect_with(Limits::default(), 1024 * 1024);
    let many = vec![r#""":0"#; MAX_MEMBERS].join(",");
    let (sink, received) = collect();
    let options = within(10).progress(sink);
    let (answer, ()) = tokio::join!(peer.request("a", None, options), async {
        for params in [
            format!(r#"{{{many},"progressToken":1}}"#),
            format!(r#"{{"progressToken":1,"_meta":{{{many},"k":1}}}}"#),
        ] {
            for method in ["notifications/message", "notifications/progress"] {
                remote
                    .write(&format!(r#"{{"method":"{method}","params":{params}}}"#))
                    .await;
            }
            remote
                .write(&format!(r#"{{"id":5,"method":"roots/list","params":{params}}}"#))
                .await;
        }
        let mut refused = 0;
        for _ in 0..3 {
            let line = remote.read().await;
            refused += usize::from(line.starts_with(r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32602,"#));
        }
        assert_eq!(refused, 2);
        remote.answer(1, "{}").await;
    });
    answer.unwrap();
    assert_eq!(log.take(), [] as [&str; 0], "nothing of it is handed on");
    assert_eq!(received.take(), [] as [&str; 0]);
    assert_eq!(peer.stats().garbage, 4);
}

#[tokio::test(start_paused = true)]
async fn long_parameters_with_few_members_are_handed_on() {
    let (peer, mut remote, log) = connect_with(Limits::default(), 1024 * 1024);
    let long = "x".repeat(10 * MAX_MEMBERS);
    remote
        .write(&format!(
            r#"{{"method":"notifications/message","params":{{"data":"{long}"}}}}"#
        ))
        .await;
    remote
        .write(&format!(
            r#"{{"id":5,"method":"ping","params":{{"_meta":{{"k":"{long}"}}}}}}"#
        ))
        .await;
    assert_eq!(remote.read().await, r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    assert_eq!(log.take(), ["notifications/message", "ping"]);
    assert_eq!(peer.stats().garbage, 0);
}

#[tokio::test(start_paused = true)]
async fn a_message_behind_text_without_a_line_break_is_taken() {
    let (peer, mut remote, log) = connect();
    let (answer, error, ()) = tokio::join!(
        peer.request("a", None, within(10)),
        peer.request("b", None, within(10)),
        async {
            remote
                .write(r#"loading... {"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#)
                .await;
            remote
                .write(r#"oops{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"m"}}"#)
                .await;
            remote
                .write(r#"50%{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#)
                .await;
            remote
                .write(r#"asking{"jsonrpc":"2.0","id":5,"method":"roots/list"}"#)
                .await;
        }
    );
    assert_eq!(answer.unwrap().as_str(), r#"{"content":[]}"#);
    assert!(matches!(error, Err(RequestError::Rpc(error)) if error.code() == -1));
    assert_eq!(
        log.take(),
        [
            "noise: loading... ",
            "noise: oops",
            "notifications/message",
            "noise: 50%",
            "roots/list",
            "noise: asking"
        ]
    );
    assert_eq!(peer.stats().garbage, 4);
    let mut answers = 0;
    for _line in ["a", "b", "the answer"] {
        let line = remote.read().await;
        answers += usize::from(line.starts_with(r#"{"jsonrpc":"2.0","id":5,"error""#));
    }
    assert_eq!(answers, 1);
}

#[tokio::test(start_paused = true)]
async fn a_log_line_that_quotes_other_messages_is_noise_and_nothing_more() {
    let (peer, mut remote, log) = connect();
    let lines = [
        r#"got {"jsonrpc":"2.0","id":1,"method":"a","params":{}}"#,
        r#"got {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        r#"language server: {"jsonrpc":"2.0","id":1,"result":{"capabilities":{}}}"#,
        r#"somebody else: {"jsonrpc":"2.0","id":9,"result":{"content":[]}}"#,
    ];
    let (answer, ()) = tokio::join!(peer.request("a", None, within(10)), async {
        for line in lines {
            remote.write(line).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        remote.answer(1, "\"real\"").await;
    });
    assert_eq!(answer.unwrap().as_str(), "\"real\"");
    assert_eq!(log.take(), lines.map(|line| format!("noise: {line}")));
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_id_is_written_as_a_decimal_is_matched() {
    let (peer, mut remote, _log) = connect();
    let (answer, ()) = tokio::join!(
        peer.request("a", None, within(10)),
        remote.write(r#"{"jsonrpc":"2.0","id":1.0,"result":{}}"#)
    );
    assert_eq!(answer.unwrap().as_str(), "{}");
}

#[tokio::test(start_paused = true)]
async fn an_error_without_an_id_fails_the_only_request_that_waits() {
    let errors = [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}"#,
    ];
    for error in errors {
        let (peer, mut remote, _log) = connect();
        let (failed, ()) = tokio::join!(peer.request("a", None, within(10)), remote.write(error));
        assert!(matches!(failed, Err(RequestError::Rpc(error)) if error.code() == -32700));

        let (first, second, ()) = tokio::join!(
            peer.request("b", None, within(10)),
            peer.request("c", None, within(10)),
            async {
                remote.write(error).await;
                remote.answer(2, "{}").await;
                remote.answer(3, "{}").await;
            }
        );
        assert!(first.is_ok() && second.is_ok(), "it may be for either");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_without_an_id_after_a_notification_is_taken_for_its_answer() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"m"}}"#;
    let until = Instant::now() + Duration::from_secs(10);
    let (peer, mut remote, _log) = connect();
    peer.notify("notifications/initialized", None, until)
        .await
        .unwrap();
    let (answer, ()) = tokio::join!(peer.request("tools/list", None, within(10)), async {
        remote.write(error).await;
        remote.answer(1, "{}").await;
    });
    assert!(answer.is_ok(), "{answer:?}");

    let (answer, ()) = tokio::join!(peer.request("slow", None, within(10)), async {
        peer.notify("notifications/roots/list_changed", None, until)
            .await
            .unwrap();
        remote.write(error).await;
        remote.answer(2, "{}").await;
    });
    assert!(answer.is_ok(), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn an_error_without_an_id_after_notifications_that_were_read_fails_the_only_request_that_waits() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#;
    let until = Instant::now() + Duration::from_secs(10);
    let (peer, mut remote, _log) = connect();
    let (answered, ()) = tokio::join!(peer.request("a", None, within(10)), async {
        peer.notify("notifications/x", None, until).await.unwrap();
        let (later, ()) = tokio::join!(peer.request("b", None, within(10)), remote.answer(2, "{}"));
        later.expect("its answer shows that the notification was read");
        remote.write(error).await;
    });
    assert!(matches!(answered, Err(RequestError::Rpc(error)) if error.code() == -32700));
}

#[tokio::test(start_paused = true)]
async fn of_more_errors_without_an_id_than_notifications_one_fails_the_only_request_that_waits() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"m"}}"#;
    let until = Instant::now() + Duration::from_secs(10);
    let (peer, mut remote, _log) = connect();
    peer.notify("notifications/x", None, until).await.unwrap();
    let mut asked = tokio::spawn({
        let peer = peer.clone();
        async move { peer.request("a", None, within(10)).await }
    });
    remote.write(error).await;
    let soon = Duration::from_secs(1);
    assert!(
        tokio::time::timeout(soon, &mut asked).await.is_err(),
        "the notification's"
    );
    remote.write(error).await;
    let failed = asked.await.unwrap();
    assert!(matches!(failed, Err(RequestError::Rpc(error)) if error.code() == -32601));
}

#[tokio::test(start_paused = true)]
async fn an_error_without_an_id_after_an_answer_to_the_server_is_taken_for_its_own() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#;
    let (peer, mut remote, _log) = connect();
    let (answer, ()) = tokio::join!(peer.request("slow", None, within(10)), async {
        assert!(peer.respond(&raw(r#""question""#), Ok(raw("{}"))));
        remote.write(error).await;
        remote.answer(1, "{}").await;
    });
    assert!(answer.is_ok(), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_shows_nothing_new_as_read_excuses_no_further_error_without_an_id() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"m"}}"#;
    let until = Instant::now() + Duration::from_secs(10);
    let (peer, mut remote, _log) = connect();
    let mut before = pin!(peer.request("before", None, within(10)));
    let failed = async {
        peer.notify("notifications/x", None, until).await.unwrap();
        // The notification's: each has one at most.
        remote.write(error).await;
        remote.answer(1, "{}").await;
    };
    let (answered, ()) = tokio::join!(&mut before, failed);
    answered.expect("it is answered");
    let (failed, ()) = tokio::join!(peer.request("after", None, within(10)), remote.write(error));
    assert!(
        matches!(&failed, Err(RequestError::Rpc(error)) if error.code() == -32601),
        "{failed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_error_without_an_id_is_not_for_a_standing_request_that_was_read() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#;
    let (peer, mut remote, _log) = connect();
    let mut standing = pin!(peer.request("listen", None, within(100).standing()));
    let called = async {
        let (first, ()) = tokio::join!(peer.request("list", None, within(10)), remote.answer(2, "{}"));
        first.expect("its answer shows that the standing request was read");
        let (failed, ()) = tokio::join!(peer.request("call", None, within(10)), remote.write(error));
        failed
    };
    let failed = tokio::select! {
        biased;
        ended = &mut standing => panic!("the standing request ended: {ended:?}"),
        failed = called => failed,
    };
    assert!(matches!(failed, Err(RequestError::Rpc(error)) if error.code() == -32700));
}

#[tokio::test(start_paused = true)]
async fn an_error_without_an_id_may_be_for_a_standing_request_that_was_not_read_yet() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#;
    let (peer, mut remote, _log) = connect();
    let mut standing = pin!(peer.request("listen", None, within(100).standing()));
    let called = async {
        let (answer, ()) = tokio::join!(peer.request("call", None, within(10)), async {
            remote.write(error).await;
            remote.answer(2, "{}").await;
        });
        answer
    };
    let answer = tokio::select! {
        biased;
        ended = &mut standing => panic!("the standing request ended: {ended:?}"),
        answer = called => answer,
    };
    assert!(answer.is_ok(), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn a_byte_order_mark_and_a_missing_last_line_break_lose_no_answer() {
    let (peer, mut remote, _log) = connect();
    let (first, second, ()) = tokio::join!(
        peer.request("a", None, within(10)),
        peer.request("b", None, within(10)),
        async {
            remote
                .write("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}")
                .await;
            remote
                .write_bytes(br#"{"jsonrpc":"2.0","id":2,"result":{}}"#)
                .await;
            drop(remote);
        }
    );
    assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");

    let (peer, mut remote, _log) = connect();
    let (answer, ()) = tokio::join!(peer.request("a", None, within(10)), async {
        remote.write_bytes(br#"{"jsonrpc":"2.0","id":1,"result":{"#).await;
        drop(remote);
    });
    assert!(
        matches!(answer, Err(RequestError::Lost { .. })),
        "half an answer is none: {answer:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_read_fails_its_request_alone() {
    let (peer, mut remote, _log) = connect();
    let (malformed, shapeless, no_text, fine, ()) = tokio::join!(
        peer.request("a", None, within(10)),
        peer.request("b", None, within(10)),
        peer.request("c", None, within(10)),
        peer.request("d", None, within(10)),
        async {
            remote
                .write(r#"{"jsonrpc":"2.0","id":1,"result":{"a":nonsense}}"#)
                .await;
            remote.write(r#"{"jsonrpc":"2.0","id":2}"#).await;
            remote
                .write_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":\"\xff\"}\n")
                .await;
            remote.answer(4, "{}").await;
        }
    );
    check_bad(malformed, BadAnswer::Malformed);
    check_bad(shapeless, BadAnswer::Malformed);
    check_bad(no_text, BadAnswer::InvalidUtf8);
    fine.unwrap();
    assert_eq!(peer.stats().garbage, 3);
}

#[tokio::test(start_paused = true)]
async fn an_overlong_answer_fails_its_request_wherever_its_id_stands() {
    let (peer, mut remote, _log) = limited();
    let long = "x".repeat(3 * LIMIT);
    let (first, second, third, ()) = tokio::join!(
        peer.request("a", None, within(10)),
        peer.request("b", None, within(10)),
        peer.request("c", None, within(10)),
        async {
            remote
                .write(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{long}"}}"#))
                .await;
            remote
                .write(&format!(r#"{{"result":"{long}","id":2,"jsonrpc":"2.0"}}"#))
                .await;
            remote.answer(3, "{}").await;
        }
    );
    let length = long.len() as u64 + 36;
    check_bad(first, BadAnswer::TooLarge { limit: LIMIT, length });
    check_bad(second, BadAnswer::TooLarge { limit: LIMIT, length });
    third.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_overlong_line_with_no_id_is_taken_for_the_only_answer_awaited() {
    let (peer, mut remote, _log) = limited();
    let long = "x".repeat(2 * LIMIT);
    remote.write(&long).await;
    remote.settle().await;
    let (answer, ()) = tokio::join!(peer.request("a", None, within(10)), remote.write(&long));
    let length = long.len() as u64;
    check_bad(answer, BadAnswer::TooLarge { limit: LIMIT, length });
    let (answer, ()) = tokio::join!(peer.request("b", None, within(10)), remote.answer(2, "{}"));
    answer.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_overlong_line_that_may_answer_any_of_several_ends_the_connection() {
    let (peer, mut remote, _log) = limited();
    let long = "x".repeat(2 * LIMIT);
    let (first, second, ()) = tokio::join!(
        peer.request("a", None, within(10)),
        peer.request("b", None, within(10)),
        remote.write(&long)
    );
    for answer in [first, second] {
        assert!(
            matches!(
                answer,
                Err(RequestError::Lost {
                    end: End::Oversized,
                    ..
                })
            ),
            "{answer:?}"
        );
    }
    assert_eq!(peer.closed().await, End::Oversized);
}

#[tokio::test(start_paused = true)]
async fn an_overlong_notification_fails_nobody() {
    let (peer, mut remote, _log) = limited();
    let long = "x".repeat(2 * LIMIT);
    let (answer, ()) = tokio::join!(peer.request("a", None, within(10)), async {
        remote
            .write(&format!(
                r#"{{"jsonrpc":"2.0","method":"n","params":{{"x":"{long}"}}}}"#
            ))
            .await;
        remote.answer(1, "{}").await;
    });
    answer.unwrap();
    assert_eq!(peer.stats().garbage, 1);
}

#[tokio::test(start_paused = true)]
async fn an_endless_line_ends_the_connection() {
    let (peer, mut remote, _log) = limited();
    let (answer, ()) = tokio::join!(peer.request("a", None, within(10)), async {
        remote.write_until_closed(b"never a line end ").await;
    });
    assert!(
        matches!(
            answer,
            Err(RequestError::Lost {
                end: End::Oversized,
                ..
            })
        ),
        "{answer:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn answers_to_nothing_are_counted_and_no_more() {
    let (peer, mut remote, _log) = connect();
    for id in ["99", "0", "\"x\"", "null", "-1"] {
        remote.write(&format!(r#"{{"id":{id},"result":{{}}}}"#)).await;
    }
    remote
        .write(r#"{"error":{"code":-32600,"message":"no id"}}"#)
        .await;
    remote.settle().await;
    let (answer, ()) = tokio::join!(peer.request("a", None, within(10)), async {
        remote.answer(1, "1").await;
        remote.answer(1, "2").await;
    });
    assert_eq!(answer.unwrap().as_str(), "1");
    remote.settle().await;
    assert_eq!((peer.stats().unknown_answers, peer.stats().late_answers), (6, 1));
}

#[tokio::test(start_paused = true)]
async fn a_program_that_is_no_server_is_not_listened_to_for_ever() {
    let (transport, inbound) = remote_peer::Unconnected::new();
    let peer = Peer::start(
        Box::new(transport),
        Arc::new(Log::default()),
        ConnectionRecorder::default(),
    );
    let inbound = inbound.get().unwrap();
    let mut lines = 0;
    while peer.0.0.service.borrow().is_none() {
        inbound.message(Bytes::from_static(b"y"));
        lines += 1;
        assert!(lines <= 1_000_000);
    }
    assert_eq!(peer.closed().await, End::TooMuchGarbage);
}

#[tokio::test(start_paused = true)]
async fn a_large_answer_arrives_whole() {
    let (peer, mut remote, _log) = connect();
    let large = format!("\"{}\"", "x".repeat(5_000_000));
    let (answer, ()) = tokio::join!(peer.request("a", None, within(10)), remote.answer(1, &large));
    assert!(answer.unwrap().as_str() == large);
}

#[tokio::test(start_paused = true)]
async fn an_answer_counts_only_on_the_stream_of_its_request() {
    let (transport, inbound) = remote_peer::Unconnected::new();
    let peer = Peer::start(
        Box::new(transport),
        Arc::new(Log::default()),
        ConnectionRecorder::default(),
    );
    let inbound = inbound.get().unwrap();
    let (first, second) = (
        peer.request("a", None, within(10)),
        peer.request("b", None, within(10)),
    );
    let mut first = pin!(first);
    let mut second = pin!(second);
    poll_once(first.as_mut()).await;
    poll_once(second.as_mut()).await;
    let forged = [
        r#"{"jsonrpc":"2.0","id":1,"result":"forged"}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"forged"}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"result":"forged"}]"#,
        // Behind text, and cut off.
        r#"log: {"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":"forg"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"forged"}}"#,
    ];
    for forged in forged {
        inbound.message_of(2, Bytes::from_static(forged.as_bytes()));
        inbound.message_unasked(Bytes::from_static(forged.as_bytes()));
    }
    // Longer than an answer behind text waits for a proper one.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(peer.stats().in_flight, 2, "neither request has ended");
    assert_eq!(peer.stats().misplaced_answers, 6);
    for id in [2, 1] {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"own"}}"#);
        inbound.message_of(id, answer.into());
    }
    assert_eq!(first.await.unwrap().as_str(), r#""own""#);
    assert_eq!(second.await.unwrap().as_str(), r#""own""#);
}
