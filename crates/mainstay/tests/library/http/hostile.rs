//! Whatever a server answers with: the call ends in time with an answer or with an error of a kind, and no other server
//! is disturbed.

use std::time::Duration;

use mainstay::{CallError, CallErrorKind, CallOptions, Fleet, Reply, Server};
use mainstay_testkit::http::{
    BadStream, Compression, FaultyHttpServer, HttpFault, HttpRule, HttpScript, HttpStep, Redirect,
};
use mainstay_testkit::{Script, Speaks, clock};
use serde_json::json;

use crate::http::support::{
    ERAS, SOON, beyond, connected, echo, fleet, seen, sent, serve, web, web_at, well,
};

/// How long a call may take that is never answered.
const DEADLINE: Duration = Duration::from_millis(700);

/// How a call ended, without its particulars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Answered,
    NotCarried,
    TimedOut,
    Lost,
    AuthRequired,
    Throttled,
    BadAnswer,
    Other,
}
use Ending::{Answered, AuthRequired, BadAnswer, Lost, NotCarried, Throttled, TimedOut};

impl Ending {
    /// The options of a call that ends so. All but one end by themselves, long before this deadline.
    fn options(self) -> CallOptions {
        let deadline = if self == TimedOut { DEADLINE } else { SOON };
        CallOptions::default().timeout(deadline)
    }

    fn of(result: &Result<Reply, CallError>) -> Self {
        match result {
            Ok(_) => Answered,
            Err(CallError {
                kind: CallErrorKind::NotCarried { .. },
                ..
            }) => NotCarried,
            Err(CallError {
                kind: CallErrorKind::TimedOut { .. },
                ..
            }) => TimedOut,
            Err(CallError {
                kind: CallErrorKind::Lost { .. },
                ..
            }) => Lost,
            Err(CallError {
                kind: CallErrorKind::AuthRequired { .. },
                ..
            }) => AuthRequired,
            Err(CallError {
                kind: CallErrorKind::Throttled { .. },
                ..
            }) => Throttled,
            Err(CallError {
                kind: CallErrorKind::BadAnswer(_),
                ..
            }) => BadAnswer,
            Err(_) => Self::Other,
        }
    }
}

struct Stage {
    _fleet: Fleet,
    remote: FaultyHttpServer,
    server: Server,
    _well: FaultyHttpServer,
    bystander: Server,
}

/// A server that answers calls with this fault, beside one that is well.
async fn stage(speaks: Speaks, fault: HttpFault) -> Stage {
    let remote = serve(
        Script::new().speaks(speaks),
        HttpScript::new().on("tools/call", fault),
    )
    .await;
    let well = well(speaks).await;
    let fleet = fleet([web_at(&remote), web("bystander", &well.url("/mcp"))]);
    let (server, bystander) = (fleet.server("web").unwrap(), fleet.server("bystander").unwrap());
    Stage {
        _fleet: fleet,
        remote,
        server,
        _well: well,
        bystander,
    }
}

/// Makes one call that meets this fault, and looks after the others.
async fn meets(speaks: Speaks, fault: HttpFault, expected: &[Ending]) {
    let stage = stage(speaks, fault.clone()).await;
    let undisturbed = connected(&stage.bystander).await;
    connected(&stage.server).await;
    let options = expected[0].options();
    let arguments = json!({ "key": "k" });
    // None waits for a timer that is due long after its deadline.
    let (met, beside) = clock::within(SOON / 2, async {
        tokio::join!(
            stage.server.call("append", &arguments).options(options),
            echo(&stage.bystander),
        )
    })
    .await;
    assert!(
        expected.contains(&Ending::of(&met)),
        "{speaks:?}, {fault:?}: {met:?}"
    );
    assert_eq!(beside.expect("answered").generation.0, undisturbed);

    stage.remote.edit_http(|http| http.rules.clear());
    stage.server.logged_in();
    beyond(&stage.server, 0).await;
    let after = echo(&stage.server).await;
    assert!(after.is_ok(), "well again after {fault:?}: {after:?}");
    assert_eq!(connected(&stage.bystander).await, undisturbed);
}

#[tokio::test]
async fn a_call_that_meets_a_bad_head_ends_in_time() {
    let an_hour = 3_600_000;
    for speaks in ERAS {
        meets(speaks, HttpFault::Delay { ms: an_hour }, &[TimedOut]).await;
        meets(speaks, HttpFault::SlowHead { ms: an_hour }, &[TimedOut]).await;
        meets(speaks, HttpFault::NoHead, &[TimedOut]).await;
        meets(speaks, HttpFault::HugeHeader(4 << 20), &[NotCarried]).await;
        meets(
            speaks,
            HttpFault::ContentType("text/html".to_owned()),
            &[NotCarried],
        )
        .await;
        meets(speaks, HttpFault::NotHttp, &[NotCarried]).await;
        meets(speaks, HttpFault::Close, &[Lost]).await;
        meets(speaks, HttpFault::Reset, &[Lost]).await;
    }
}

#[tokio::test]
async fn a_call_that_meets_a_bad_body_ends_in_time() {
    for speaks in ERAS {
        meets(speaks, HttpFault::DropAfter(20), &[Lost]).await;
        meets(speaks, HttpFault::BadFraming, &[Lost]).await;
        meets(speaks, HttpFault::InvalidUtf8, &[Answered, BadAnswer]).await;
        meets(speaks, HttpFault::ByteOrderMark, &[Answered]).await;
    }
}

#[tokio::test]
async fn a_compressed_answer_is_read_and_one_that_cannot_be_is_refused_with_a_remedy() {
    for speaks in ERAS {
        for http in [HttpScript::new(), HttpScript::new().streams()] {
            for compression in [Compression::Gzip, Compression::Deflate, Compression::RawDeflate] {
                // From the first message on, and the stream of the server's own too.
                let compress = HttpFault::Compress(compression);
                let http = http.clone().at(HttpStep::Post, compress.clone());
                let remote = serve(Script::new().speaks(speaks), http.at(HttpStep::Get, compress)).await;
                let (_fleet, server) = crate::http::support::keep(web_at(&remote));
                connected(&server).await;
                assert!(echo(&server).await.is_ok(), "{speaks:?}, {compression:?}");
                let header = remote.traffic(|traffic| {
                    traffic
                        .last_header("tools/call", "accept-encoding")
                        .map(str::to_owned)
                });
                assert_eq!(header.as_deref(), Some("identity"));
                seen(&remote, |traffic| traffic.live_streams() > 0).await;
                let before = sent(&remote, "tools/list");
                remote.notify("notifications/tools/list_changed", &json!({}));
                seen(&remote, |traffic| traffic.sent("tools/list") > before).await;
            }
        }
        meets(speaks, HttpFault::Compress(Compression::Brotli), &[NotCarried]).await;
        meets(speaks, HttpFault::CompressedBomb(200 << 20), &[BadAnswer]).await;
    }
    let brotli = HttpScript::new().at(HttpStep::Post, HttpFault::Compress(Compression::Brotli));
    let remote = serve(Script::new(), brotli).await;
    let (_fleet, server) = crate::http::support::keep(web_at(&remote));
    let failed = server
        .wait_until(SOON, |status| status.last_error.is_some())
        .await;
    let said = failed
        .expect("a failure")
        .last_error
        .expect("an error")
        .to_string();
    assert!(
        said.contains("\"br\"") && said.contains("switch compression off"),
        "{said}"
    );
}

#[tokio::test]
async fn a_compressed_stream_of_the_oldest_transport_is_read() {
    let compress = HttpFault::Compress(Compression::Gzip);
    let remote = serve(Script::new(), HttpScript::new().at(HttpStep::Sse, compress)).await;
    let (_fleet, server) = crate::http::support::keep(web("web", &remote.url("/sse")));
    connected(&server).await;
    assert!(echo(&server).await.is_ok());
}

#[tokio::test]
async fn a_call_that_meets_a_bad_stream_ends_in_time() {
    use BadStream::{InvalidUtf8, NoAnswer, NoBlankLine, NoData, NotJson};
    for speaks in ERAS {
        for (bad, expected) in [
            (NoData, Answered),
            (InvalidUtf8, Answered),
            (NotJson, Answered),
            (NoBlankLine, NotCarried),
            (NoAnswer, NotCarried),
        ] {
            meets(speaks, HttpFault::Stream(bad), &[expected]).await;
        }
    }
}

#[tokio::test]
async fn a_call_that_meets_a_status_fails_by_its_kind() {
    let login = || HttpFault::unauthorized("http://127.0.0.1/metadata", "mcp");
    for speaks in ERAS {
        let lost = match speaks {
            // Met twice: the second time by a new session.
            Speaks::Legacy => Lost,
            Speaks::Modern | Speaks::Both => NotCarried,
        };
        meets(speaks, HttpFault::status(404), &[lost]).await;
        meets(speaks, HttpFault::status(400), &[NotCarried]).await;
        meets(speaks, login(), &[AuthRequired]).await;
        meets(speaks, HttpFault::insufficient_scope("more"), &[AuthRequired]).await;
        meets(speaks, HttpFault::status(429), &[Throttled]).await;
        meets(speaks, HttpFault::status(500), &[NotCarried]).await;
        meets(speaks, HttpFault::status(503), &[NotCarried]).await;
        meets(speaks, HttpFault::retry_after(503, "5"), &[Throttled]).await;
        meets(speaks, HttpFault::moved(), &[Answered]).await;
        meets(
            speaks,
            HttpFault::moved_to("http://127.0.0.1:1/mcp"),
            &[NotCarried],
        )
        .await;
        let circle = HttpFault::Redirect {
            code: 307,
            to: Redirect::Itself,
        };
        meets(speaks, circle, &[NotCarried]).await;
    }
}

#[tokio::test]
async fn a_stream_that_falls_silent_or_breaks_before_its_answer_ends_the_call_in_time() {
    for speaks in ERAS {
        for (fault, expected) in [
            (HttpFault::Silent, TimedOut),
            (HttpFault::DropAfterEvents(0), Lost),
            (HttpFault::EndAfterEvents(0), NotCarried),
        ] {
            let remote = serve(Script::new().speaks(speaks), HttpScript::new().streams()).await;
            let (_fleet, server) = crate::http::support::keep(web_at(&remote));
            connected(&server).await;
            remote.edit_http(|http| http.rules.push(HttpRule::on("tools/call", fault.clone())));
            let met = server
                .call("append", &json!({}))
                .options(expected.options())
                .await;
            assert_eq!(Ending::of(&met), expected, "{speaks:?}, {fault:?}: {met:?}");
            remote.edit_http(|http| http.rules.clear());
            assert!(echo(&server).await.is_ok());
        }
    }
}

#[tokio::test]
async fn an_answer_past_the_bound_is_given_up_and_nothing_else_is() {
    let over = mainstay::transport::Limits::DEFAULT_MESSAGE + 1;
    for fault in [
        HttpFault::HugeBody(over),
        HttpFault::Stream(BadStream::HugeEvent(over)),
    ] {
        let stage = stage(Speaks::Legacy, fault.clone()).await;
        let generation = connected(&stage.server).await;
        let met = crate::http::support::call(&stage.server, "append", json!({})).await;
        assert_eq!(Ending::of(&met), BadAnswer, "{fault:?}: {met:?}");
        assert!(met.unwrap_err().may_have_run(), "it was answered");
        stage.remote.edit_http(|http| http.rules.clear());
        assert_eq!(echo(&stage.server).await.unwrap().generation.0, generation);
        assert!(echo(&stage.bystander).await.is_ok());
    }
}

#[tokio::test]
async fn answers_that_the_server_gives_on_each_others_streams_complete_no_call() {
    for speaks in ERAS {
        let stage = stage(speaks, HttpFault::SwapAnswers).await;
        connected(&stage.server).await;
        let append = async |key: &str| {
            let options = CallOptions::default().timeout(SOON);
            let arguments = json!({ "key": key });
            stage.server.call("append", &arguments).options(options).await
        };
        let (one, two) = tokio::join!(append("one"), append("two"));
        for ended in [one, two] {
            let error = ended.expect_err("only the other one's answer came");
            assert!(error.may_have_run(), "{speaks:?}: {error:?}");
        }
        stage.remote.edit_http(|http| http.rules.clear());
        assert!(echo(&stage.server).await.is_ok());
    }
}

#[tokio::test]
async fn answers_that_the_server_gives_to_the_wrong_session_reach_nobody() {
    let remote = serve(Script::new(), HttpScript::new()).await;
    let url = remote.url("/mcp");
    let fleet = fleet([web("one", &url), web("two", &url)]);
    let (one, two) = (fleet.server("one").unwrap(), fleet.server("two").unwrap());
    connected(&one).await;
    connected(&two).await;
    // Their requests have different numbers from here on.
    assert!(echo(&two).await.is_ok());
    remote.edit_http(|http| {
        http.rules
            .push(HttpRule::on("tools/call", HttpFault::SwapAnswers));
    });
    let options = || CallOptions::default().timeout(SOON);
    let (of_one, of_two) = (json!({ "key": "one" }), json!({ "key": "two" }));
    let (first, second) = tokio::join!(
        one.call("append", &of_one).options(options()),
        two.call("append", &of_two).options(options()),
    );
    assert_eq!(
        (Ending::of(&first), Ending::of(&second)),
        (NotCarried, NotCarried),
        "{first:?}, {second:?}"
    );
    remote.edit_http(|http| http.rules.clear());
    seen(&remote, |traffic| traffic.noted("call append") == 2).await;
    assert!(echo(&one).await.unwrap().result.as_str().contains(r#""key":"k""#));
    assert!(echo(&two).await.is_ok());
}
