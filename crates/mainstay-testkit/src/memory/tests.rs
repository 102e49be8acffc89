use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, DuplexStream, Lines};
use tokio::time::Instant;

use super::*;
use crate::fault::Fault;
use crate::rule::Step;

/// The near side of a connection, as a test client sees it.
struct Near {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Near {
    fn new(stream: DuplexStream) -> Self {
        let (reader, writer) = io::split(stream);
        Self {
            lines: BufReader::new(reader).lines(),
            writer,
        }
    }

    async fn send(&mut self, id: u64, method: &str, params: Value) {
        let line = format!(
            "{}\n",
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
        );
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }
}

fn pair(script: Script) -> (Near, MemoryServer) {
    let (near, remote) = io::duplex(4096);
    (Near::new(near), MemoryServer::spawn(remote, script))
}

#[tokio::test(start_paused = true)]
async fn a_sleeping_call_takes_its_time_and_blocks_no_other() {
    let (mut near, remote) = pair(Script::new());
    let began = Instant::now();
    near.send(
        1,
        "tools/call",
        json!({ "name": "sleep_ms", "arguments": { "ms": 60_000 } }),
    )
    .await;
    near.send(2, "ping", json!({})).await;
    assert_eq!(near.next().await.unwrap()["id"], 2);
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(near.next().await.unwrap()["id"], 1);
    assert_eq!(began.elapsed(), Duration::from_secs(60));
    assert_eq!(
        (remote.count("ping"), remote.count("tools/call"), remote.total()),
        (1, 1, 2)
    );
    assert_eq!(remote.noted("call sleep_ms"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_not_answered() {
    let (mut near, remote) = pair(Script::new());
    near.send(
        1,
        "tools/call",
        json!({ "name": "sleep_ms", "arguments": { "ms": 50 } }),
    )
    .await;
    near.send(
        2,
        "tools/call",
        json!({ "name": "slow_then_answer", "arguments": { "ms": 90 } }),
    )
    .await;
    for id in [1, 2] {
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
        near.writer
            .write_all(format!("{cancel}\n").as_bytes())
            .await
            .unwrap();
    }
    assert_eq!(near.next().await.unwrap()["id"], 2);
    assert_eq!(remote.count("notifications/cancelled"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_remote_peer_still_reads_and_still_ends_with_its_input() {
    let (mut near, remote) = pair(Script::new().on(Step::Ping, Fault::Hang));
    near.send(1, "ping", json!({})).await;
    near.send(2, "tools/list", json!({})).await;
    remote.wait_for("tools/list", 1).await;
    let silence = tokio::time::timeout(Duration::from_secs(3600), near.next()).await;
    assert!(silence.is_err());
    near.writer.shutdown().await.unwrap();
    remote.over().await;
    assert_eq!(near.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn an_exit_cuts_the_connection_after_what_was_written_before() {
    let (mut near, remote) = pair(Script::new().on(Step::Ping, Fault::Exit(1)));
    near.send(1, "tools/list", json!({})).await;
    near.send(2, "ping", json!({})).await;
    assert_eq!(near.next().await.unwrap()["id"], 1);
    assert_eq!(near.next().await, None);
    remote.over().await;
}

#[tokio::test(start_paused = true)]
async fn a_test_injects_lines_cuts_the_stream_and_edits_the_script() {
    let (mut near, remote) = pair(Script::new().bare());
    remote
        .inject_message(&json!({ "method": "notifications/x" }))
        .await;
    assert_eq!(near.next().await.unwrap()["method"], "notifications/x");
    remote.edit(|script| script.prompts.push(json!({ "name": "new" })));
    near.send(1, "prompts/list", json!({ "x": 1 })).await;
    assert_eq!(near.next().await.unwrap()["result"]["prompts"][0]["name"], "new");
    assert_eq!(remote.last_params("prompts/list").unwrap()["x"], 1);
    remote.cut();
    assert_eq!(near.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_answer_in_the_place_of_the_script() {
    let (near, remote) = io::duplex(4096);
    let mut near = Near::new(near);
    let hook = |message: &Incoming| {
        let late = Action::Wait(Duration::from_secs(5));
        (message.method() == "ping").then(|| vec![late, Action::answer(message, &json!({ "hooked": true }))])
    };
    let _remote = MemoryServer::spawn_with(remote, Script::new(), Box::new(hook));
    let began = Instant::now();
    near.send(1, "ping", json!({})).await;
    assert_eq!(near.next().await.unwrap()["result"]["hooked"], true);
    assert_eq!(began.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_closed_output_ends_the_clients_reading_while_the_server_lives() {
    let (mut near, remote) = pair(Script::new().on(Step::Ping, Fault::CloseStdout));
    near.send(1, "ping", json!({})).await;
    assert_eq!(near.next().await, None);
    near.send(2, "tools/list", json!({})).await;
    remote.wait_for("tools/list", 1).await;
    let mut rest = Vec::new();
    near.lines.into_inner().read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty());
}
