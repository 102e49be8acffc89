//! A peer in paused time, over memory, against a remote peer that each test plays by hand.

mod bad_input;
mod endings;
mod remote_peer;
mod timeouts;

use std::future::ready;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::*;
use crate::large::INLINE_LIMIT;
use crate::transport::Limits;
use crate::wire::failure::TimeoutKind;
use remote_peer::{Log, RemotePeer, collect, connect, connect_with, raw, within};

#[tokio::test(start_paused = true)]
async fn a_request_is_answered() {
    let (peer, mut remote, _log) = connect();
    let (answer, ()) = tokio::join!(
        peer.request("tools/list", Some(raw(r#"{"cursor":"a"}"#)), within(10)),
        async {
            let asked = remote.read().await;
            assert_eq!(
                asked,
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"a"}}"#
            );
            remote
                .write(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#)
                .await;
        }
    );
    assert_eq!(answer.unwrap().as_str(), r#"{"tools":[]}"#);
    assert_eq!(peer.stats().in_flight, 0);
}

#[test]
fn only_a_large_request_is_composed_on_a_thread_that_may_block() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    // The only such thread is busy until the end.
    let (end, busy) = mpsc::channel::<()>();
    runtime.spawn_blocking(move || busy.recv());
    runtime.block_on(async {
        for (length, in_flight) in [(INLINE_LIMIT / 2, 1), (INLINE_LIMIT, 0)] {
            let (peer, _remote, _log) = connect();
            let params = raw(&format!(r#"{{"x":"{}"}}"#, "x".repeat(length)));
            let request = pin!(peer.request("a", Some(params), within(10)));
            // Polls it once.
            tokio::select! {
                biased;
                answer = request => panic!("{answer:?}"),
                () = ready(()) => {}
            }
            assert_eq!(peer.stats().in_flight, in_flight, "{length} bytes");
        }
    });
    drop(end);
}

#[tokio::test(start_paused = true)]
async fn answers_may_come_in_any_order() {
    let (peer, mut remote, _log) = connect();
    let (first, second, third, ()) = tokio::join!(
        peer.request("a", None, within(10)),
        peer.request("b", None, within(10)),
        peer.request("c", None, within(10)),
        async {
            for _ in 0..3 {
                remote.read().await;
            }
            assert_eq!(peer.stats().in_flight, 3);
            for id in [3, 1, 2] {
                remote.answer(id, &format!("\"to {id}\"")).await;
            }
        }
    );
    let texts = [first, second, third].map(|answer| answer.unwrap().to_string());
    assert_eq!(texts, ["\"to 1\"", "\"to 2\"", "\"to 3\""]);
}

#[tokio::test(start_paused = true)]
async fn an_error_answer_is_handed_on_whole() {
    let (peer, mut remote, _log) = connect();
    let error = r#"{"code":-32602,"message":"no","data":{"x": 1.0},"x-new":true}"#;
    let (answer, ()) = tokio::join!(peer.request("a", None, within(10)), async {
        remote.read().await;
        remote.write(&format!(r#"{{"id":1,"error":{error}}}"#)).await;
    });
    let failure = answer.unwrap_err();
    assert_eq!(failure.outcome(), Outcome::Answered);
    let RequestError::Rpc(answered) = failure else {
        panic!("{failure:?}");
    };
    assert_eq!(answered.raw().as_str(), error);
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_pass_untouched_both_ways() {
    let (peer, mut remote, _log) = connect();
    let odd = r#"{ "new-field" : [1.50, "\u00e9"],"_meta":{"a/b":null} }"#;
    let (answer, ()) = tokio::join!(peer.request("a", Some(raw(odd)), within(10)), async {
        assert!(remote.read().await.ends_with(&format!(r#","params":{odd}}}"#)));
        remote.answer(1, odd).await;
    });
    assert_eq!(answer.unwrap().as_str(), odd);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_came_back_as_a_string_is_recognised() {
    let (peer, mut remote, _log) = connect();
    let (answer, ()) = tokio::join!(
        peer.request("a", None, within(10)),
        remote.write(r#"{"id":"1","result":7}"#)
    );
    assert_eq!(answer.unwrap().as_str(), "7");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_taken_message_by_message() {
    for spaces in [0, INLINE_LIMIT] {
        let spaces = " ".repeat(spaces);
        let batch = format!(r#"[{{"id":2,"result":2}}, {spaces}{{"method":"n"}}, {{"id":1,"result":1}}]"#);
        let (peer, mut remote, log) = connect();
        let (first, second, ()) = tokio::join!(
            peer.request("a", None, within(10)),
            peer.request("b", None, within(10)),
            remote.write(&batch)
        );
        assert_eq!((first.unwrap().as_str(), second.unwrap().as_str()), ("1", "2"));
        assert_eq!(log.take(), ["n"]);
    }
}

#[tokio::test(start_paused = true)]
async fn parameters_with_raw_line_breaks_go_out_as_one_line() {
    let (peer, mut remote, _log) = connect();
    let params = raw("{\n  \"a\": \"x\\ny\"\r\n}");
    let (answer, ()) = tokio::join!(peer.request("a", Some(params), within(10)), async {
        assert!(remote.read().await.ends_with(r#""params":{   "a": "x\ny"  }}"#));
        remote.answer(1, "{}").await;
    });
    answer.unwrap();
}

#[tokio::test(start_paused = true)]
async fn requests_of_the_remote_peer_are_answered_with_their_own_id() {
    let (peer, mut remote, log) = connect();
    remote.write(r#"{"id":"x 1","method":"ping"}"#).await;
    assert_eq!(remote.read().await, r#"{"jsonrpc":"2.0","id":"x 1","result":{}}"#);
    remote.write(r#"{"id":5,"method":"what"}"#).await;
    assert!(
        remote
            .read()
            .await
            .starts_with(r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"#)
    );
    remote
        .write(r#"{"method":"notifications/cancelled","params":{"requestId":5}}"#)
        .await;
    remote.settle().await;
    assert_eq!(log.take(), ["ping", "what", "notifications/cancelled"]);
    assert_eq!(peer.stats().last_received, Some(Instant::now()));
}

#[tokio::test(start_paused = true)]
async fn notifications_go_out_in_order_with_requests() {
    let (peer, mut remote, _log) = connect();
    peer.notify("first", None, Instant::now() + Duration::from_secs(1))
        .await
        .unwrap();
    assert!(peer.try_notify("second", Some(&raw("{}"))));
    let (answer, ()) = tokio::join!(peer.request("third", None, within(10)), async {
        for method in ["first", "second", "third"] {
            assert!(remote.read().await.contains(method));
        }
        remote.answer(1, "{}").await;
    });
    answer.unwrap();
}

#[tokio::test(start_paused = true)]
async fn progress_carries_the_callers_own_token_again() {
    let (peer, mut remote, _log) = connect();
    let (sink, received) = collect();
    let params = raw(r#"{"_meta":{"progressToken":"mine","k": 1}}"#);
    let (answer, ()) = tokio::join!(
        peer.request("a", Some(params), within(10).progress(sink)),
        async {
            assert!(
                remote
                    .read()
                    .await
                    .ends_with(r#""params":{"_meta":{"progressToken":1,"k": 1}}}"#)
            );
            remote.progress("1", r#","progress":0.50,"x":[ ]"#).await;
            remote.progress("\"1\"", r#","progress":1"#).await;
            remote.answer(1, "{}").await;
        }
    );
    answer.unwrap();
    assert_eq!(
        received.take(),
        [
            r#"{"progressToken":"mine","progress":0.50,"x":[ ]}"#,
            r#"{"progressToken":"mine","progress":1}"#
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn progress_after_the_answer_is_heard_of_the_latest_requests_that_asked_for_it() {
    const ANSWERED_LIMIT: u64 = 64;
    let (peer, mut remote, _log) = connect();
    let (sink, received) = collect();
    let long = format!(r#""{}""#, "t".repeat(300));
    for id in 1..=ANSWERED_LIMIT + 2 {
        // One token is longer than any that is kept.
        let token = if id == 3 {
            long.clone()
        } else {
            format!(r#""t\u002d{id}""#)
        };
        let params = raw(&format!(r#"{{"_meta":{{"progressToken":{token}}}}}"#));
        let asking = peer.request("a", Some(params), within(10).progress(sink.clone()));
        let (answer, ()) = tokio::join!(asking, async {
            remote.read().await;
            remote.answer(id, "{}").await;
        });
        answer.unwrap();
    }
    for id in [1, 2, 3, ANSWERED_LIMIT + 2] {
        remote.progress(&id.to_string(), r#","progress":1"#).await;
    }
    remote.settle().await;
    assert_eq!(
        received.take(),
        [
            r#"{"progressToken":"t\u002d2","progress":1}"#,
            r#"{"progressToken":"t\u002d66","progress":1}"#
        ],
        "the oldest is forgotten; what is not kept takes no place"
    );
    assert_eq!(peer.stats().unknown_progress, 2);
    peer.close();
}

#[tokio::test(start_paused = true)]
async fn what_is_told_to_a_remote_peer_that_reads_late_waits_for_it_in_order() {
    let (peer, mut remote, _log) = connect_with(Limits::default(), 64);
    let notification_quota = async {
        for n in 0..200 {
            let params = raw(&n.to_string());
            let until = Instant::now() + Duration::from_secs(1);
            peer.notify("n", Some(&params), until).await.unwrap();
        }
    };
    let reading = async {
        tokio::time::sleep(Duration::from_millis(900)).await;
        for n in 0..200 {
            assert!(remote.read().await.ends_with(&format!(r#""params":{n}}}"#)));
        }
    };
    tokio::join!(notification_quota, reading);
    assert_eq!(peer.stats().dropped, 0);
}

#[tokio::test(start_paused = true)]
async fn progress_with_what_the_remote_peer_asked_goes_out_before_the_answer() {
    let (peer, mut remote, _log) = connect();
    let until = Instant::now() + Duration::from_secs(1);
    peer.notify(PROGRESS, Some(&raw(r#"{"progressToken":1,"progress":1}"#)), until)
        .await
        .unwrap();
    assert!(peer.respond(&raw("5"), Ok(raw("{}"))));
    assert!(remote.read().await.contains("progress"));
    assert!(remote.read().await.contains("result"));
}

#[tokio::test(start_paused = true)]
async fn a_token_nobody_listens_to_is_not_sent_and_its_progress_is_counted() {
    let (peer, mut remote, log) = connect();
    let params = raw(r#"{"a": 1,"_meta":{"progressToken":1,"k": 1}}"#);
    let (answer, ()) = tokio::join!(peer.request("a", Some(params), within(10)), async {
        assert!(
            remote
                .read()
                .await
                .ends_with(r#""params":{"a": 1,"_meta":{"k": 1}}}"#)
        );
        remote.progress("1", r#","progress":1"#).await;
        remote.progress("\"other\"", r#","progress":1"#).await;
        remote.answer(1, "{}").await;
    });
    answer.unwrap();
    assert_eq!(peer.stats().unknown_progress, 2);
    assert!(log.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_notifications_is_taken_as_it_comes() {
    let (peer, mut remote, log) = connect();
    let (answer, ()) = tokio::join!(peer.request("a", None, within(10)), async {
        for _ in 0..100_000 {
            remote.write(r#"{"method":"n"}"#).await;
        }
        remote.answer(1, "{}").await;
    });
    answer.unwrap();
    assert_eq!(log.take().len(), 100_000);
}

#[tokio::test(start_paused = true)]
async fn a_remote_peer_that_asks_and_does_not_read_fills_a_bounded_queue() {
    let (peer, mut remote, log) = connect_with(Limits::default(), 1024);
    const ASKED: usize = 100_000;
    for _ in 0..ASKED {
        remote.write(r#"{"id":1,"method":"ping"}"#).await;
    }
    remote.settle().await;
    assert_eq!(log.take().len(), ASKED);
    let dropped = usize::try_from(peer.stats().dropped).unwrap();
    assert!(ASKED - dropped < 2000, "{dropped} dropped");
    peer.close();
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_queued_though_requests_fill_theirs() {
    let (peer, mut remote, _log) = connect_with(Limits::default(), 16);
    while peer.try_notify("n", None) {
        tokio::task::yield_now().await;
    }
    assert!(peer.respond(&raw("9"), Ok(RawJson::NULL)));
    let mut replies = 0;
    while replies == 0 {
        replies += usize::from(remote.read().await.contains("\"id\":9"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_of_many_tasks_each_get_their_own_answer() {
    let (peer, mut remote, _log) = connect();
    let echo = tokio::spawn(async move {
        for _ in 0..2000 {
            let asked: serde_json::Value = serde_json::from_str(&remote.read().await).unwrap();
            remote
                .answer(asked["id"].as_u64().unwrap(), &asked["params"].to_string())
                .await;
        }
    });
    let callers: Vec<_> = (0..200u64)
        .map(|caller| {
            let peer = peer.clone();
            tokio::spawn(async move {
                for n in 0..10 {
                    let params = RawJson::from_value(&[caller, n]).unwrap();
                    let answer = peer.request("echo", Some(params.clone()), within(60)).await;
                    assert_eq!(answer.unwrap(), params);
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    echo.await.unwrap();
    let stats = peer.stats();
    assert_eq!(
        (stats.in_flight, stats.late_answers, stats.unknown_answers),
        (0, 0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn one_request_may_fail_by_itself() {
    let (transport, inbound) = remote_peer::Unconnected::new();
    let peer = Peer::start(
        Box::new(transport),
        Arc::new(Log::default()),
        ConnectionRecorder::default(),
    );
    let (answer, ()) = tokio::join!(peer.request("a", None, within(10)), async {
        let error = std::io::Error::other("refused");
        let failure = crate::transport::SendFailure::new(Outcome::Refused, error);
        inbound.get().unwrap().failed(1, failure);
    });
    let failure = answer.unwrap_err();
    assert_eq!(
        (failure.outcome(), failure.to_string().as_str()),
        (Outcome::Refused, "refused")
    );
}
