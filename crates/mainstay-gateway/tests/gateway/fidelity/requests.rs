//! What a client asks of a server, and what comes back.

use crate::fidelity::downstream::Downstream;
use crate::fidelity::odd::{ERROR, ODD, REST, RESULT};
use crate::fidelity::{assert_same, everywhere};

#[tokio::test]
async fn what_a_client_sends_and_what_a_tool_answers_passes_byte_for_byte() {
    everywhere(async |pair| {
        let params = format!(r#""x-new":{ODD},"x-new":2 ,"name":"plain","arguments":{ODD}"#);
        let meta = format!(r#""example.org/own":{ODD},"traceparent":"00-\u0031""#);
        let got = pair.client.ask("tools/call", &params, &meta).await;
        assert_same(pair, &got.concat(), &pair.answer("tools/call", &RESULT));
        let received = pair.received("tools/call");
        assert_same(pair, &received, &pair.params(&params, &meta));
    })
    .await;
}

#[tokio::test]
async fn an_error_passes_byte_for_byte() {
    everywhere(async |pair| {
        let got = pair.client.ask("tools/call", r#""name":"error""#, "").await;
        let expected = format!(r#"{{"jsonrpc":"2.0","id":"\u0069d","error":{}}}"#, *ERROR);
        assert_same(pair, &got.concat(), &expected);
    })
    .await;
}

#[tokio::test]
async fn progress_passes_byte_for_byte_but_for_the_token() {
    everywhere(async |pair| {
        let token = r#""progressToken":"t\u006fken""#;
        let got = pair.client.ask("tools/call", r#""name":"progress""#, token).await;
        let progress = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progress":1.0,{token},{}}}}}"#,
            *REST
        );
        assert_same(pair, &got[0], &progress);
        assert_same(pair, &got[1..].concat(), &pair.answer("tools/call", &RESULT));
    })
    .await;
}

#[tokio::test]
async fn notifications_during_a_call_pass_byte_for_byte() {
    everywhere(async |pair| {
        for (tool, method, first) in [
            ("log", "message", format!(r#""level":"error","data":{ODD}"#)),
            ("tell", "x-vendor/thing", format!(r#""x-told":{ODD}"#)),
        ] {
            let call = format!(r#""name":"{tool}""#);
            let got = pair.client.ask("tools/call", &call, "").await;
            let expected = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{{first},{}}}}}"#,
                *REST
            );
            assert_same(pair, &got[0], &expected);
            assert_same(pair, &got[1..].concat(), &pair.answer("tools/call", &RESULT));
        }
    })
    .await;
}

#[tokio::test]
async fn a_line_break_between_two_tokens_becomes_a_space_since_a_message_is_one_line() {
    everywhere(async |pair| {
        let Downstream::Http(_) = pair.down else {
            // No other server can send one.
            return;
        };
        let written =
            |space: &str| format!(r#""name":"plain","arguments":{{"a":{space}1.0,{space}"b":"\n"}}"#);
        let meta = r#""example.org/own":1"#;
        pair.client.ask("tools/call", &written("\r\n"), meta).await;
        assert_same(
            pair,
            &pair.received("tools/call"),
            &pair.params(&written("  "), meta),
        );
    })
    .await;
}

#[tokio::test]
async fn every_other_request_passes_byte_for_byte_unknown_methods_too() {
    everywhere(async |pair| {
        for (method, params) in [
            ("prompts/get", r#""name":"p","arguments":"#),
            ("resources/read", r#""uri":"mem://one","x-new":"#),
            (
                "completion/complete",
                r#""ref":{"type":"ref/prompt","name":"p"},"argument":"#,
            ),
            ("x-vendor/method", r#""x-new":"#),
        ] {
            let (params, meta) = (format!("{params}{ODD}"), format!(r#""example.org/own":{ODD}"#));
            let got = pair.client.ask(method, &params, &meta).await;
            assert_same(pair, &got.concat(), &pair.answer(method, &RESULT));
            let received = pair.received(method);
            assert_same(pair, &received, &pair.params(&params, &meta));
        }
    })
    .await;
}
