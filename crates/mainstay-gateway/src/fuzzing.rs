//! The functions that the fuzzers run. Each takes any bytes, sends them to a door as a client would, and panics where the gateway
//! breaks a promise. Behind the gateway stands one scripted server in memory, so that forwarded calls, questions and tasks are
//! reached too.
//!
//! No part of the gateway: it exists in tests and under `--cfg fuzzing` alone. The programs around it are in `fuzz/`, and a
//! test replays their corpora on every run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mainstay::Fleet;
use mainstay::config::ServerConfig;
use mainstay::gateway::message::{self, Message, Object, RawJson, RpcError};
use mainstay::transport::{Connecting, Connector, Limits, Lines, Transport};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, WriteHalf};
use tokio::runtime;
use tokio::time::timeout;

pub use crate::door::fuzz_http::{guard, http};
use crate::protocol::text;
pub use crate::router::fuzz_state::request_state;
use crate::{Gateway, Scope};

/// More than a client and all timeouts of the gateway take together, in paused time.
const VISIT_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a client waits for answers: longer than a call waits for a person.
pub(crate) const QUIET_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// What fits into a connection in memory, so that neither side has to wait for the other.
pub(crate) const CONNECTION_BYTES: usize = 16 * 1024 * 1024;

/// Retries of one visit that bring the answer to a question. Each may lead to the next question.
const RETRY_LIMIT: u32 = 4;

/// A gateway in front of one server, whose name is `a`.
pub(crate) fn gateway() -> Gateway {
    let server = ServerConfig::custom("a", "a", Arc::new(ScriptedServer));
    let server = server.build().expect("a valid configuration");
    Gateway::start(Fleet::builder(), [server])
}

/// Writes lines to the gateway as a client on stdin does, retries what needs input, and holds that each request is answered
/// once.
pub fn messages(input: &[u8]) {
    let input = input.to_vec();
    let asked = requests(&input);
    let may_be_cancelled = contains(&input, b"cancelled");
    let answered = in_paused_time(async move {
        let gateway = gateway();
        let (client, door) = tokio::io::duplex(CONNECTION_BYTES);
        let (reader, mut writer) = tokio::io::split(client);
        let visit = async {
            let (input, output) = tokio::io::split(door);
            gateway.serve_stdio(Scope::Union, input, output).await;
        };
        let client = async {
            writer.write_all(&input).await.expect("there is room");
            let mut answered = BTreeMap::<Bytes, usize>::new();
            let mut reader = BufReader::new(reader);
            let mut retries = 0;
            let mut line = Vec::new();
            while matches!(
                timeout(QUIET_TIMEOUT, reader.read_until(b'\n', &mut line)).await,
                Ok(Ok(1..))
            ) {
                let answer = Bytes::copy_from_slice(line.trim_ascii_end());
                line.clear();
                match Message::read(&answer) {
                    Message::Response { id, result } => {
                        if let Some(retry) = result.ok().and_then(|result| retry(&input, &id, &result))
                            && retries < RETRY_LIMIT
                        {
                            retries += 1;
                            writer.write_all(&retry).await.expect("there is room");
                        }
                        *answered.entry(id.into()).or_default() += 1;
                    }
                    Message::Request { .. } | Message::Notification { .. } | Message::Batch(_) => {}
                    Message::Garbage(what) => {
                        panic!("the gateway writes what is no message: {what}: {answer:?}")
                    }
                }
                if asked.keys().all(|id| answered.contains_key(id)) && retries == 0 {
                    break;
                }
            }
            writer.shutdown().await.expect("memory can be closed");
            (asked, answered)
        };
        let ((), answered) = tokio::join!(visit, client);
        gateway.close(Duration::ZERO).await;
        answered
    });
    let (asked, answered) = answered;
    for (id, times) in asked.iter().filter(|(_, times)| **times == 1) {
        let answers = answered.get(id).copied().unwrap_or_default();
        assert!(
            answers == *times || (may_be_cancelled && answers == 0),
            "the request {id:?} is answered {answers} times"
        );
    }
}

/// The retry of the request of this id, as a line, with an answer to the question that its result asks.
fn retry(input: &[u8], id: &RawJson, result: &RawJson) -> Option<Vec<u8>> {
    let [state] = Object::find(result, ["requestState"])?;
    let state = state?;
    let mut lines = input.split(|byte| *byte == b'\n').map(Bytes::copy_from_slice);
    let (method, params) = lines.find_map(|line| match Message::read(&line) {
        Message::Request {
            id: asked,
            method,
            params,
        } if asked == *id => Some((method.into_owned(), params?)),
        _other => None,
    })?;
    let mut params = Object::parse(&params)?;
    params.set("requestState", state);
    let answers = RawJson::from_text(r#"{"request":{"action":"accept","content":{}}}"#).ok()?;
    params.set("inputResponses", answers);
    let id = format!("retry of {id}");
    let mut request = Object::default();
    request.set("jsonrpc", text("2.0"));
    request.set("id", text(&id));
    request.set("method", text(&method));
    request.set("params", params.to_raw());
    Some([request.to_raw().as_bytes(), b"\n"].concat())
}

/// A legacy server in memory that has a tool for each thing a server can do during a call.
struct ScriptedServer;

impl Connector for ScriptedServer {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async {
            let (near, remote) = tokio::io::duplex(CONNECTION_BYTES);
            tokio::spawn(play(remote));
            let (reader, writer) = tokio::io::split(near);
            let lines: Box<dyn Transport> = Box::new(Lines::new(reader, writer, Limits::default()));
            Ok(lines)
        })
    }
}

/// The side of the server of one connection, until it is closed.
async fn play(connection: DuplexStream) {
    let (reader, mut writer) = tokio::io::split(connection);
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    // The calls that wait for an answer of the client, in the order of their questions.
    let mut asking = Vec::new();
    while matches!(reader.read_until(b'\n', &mut line).await, Ok(1..)) {
        let message = Bytes::copy_from_slice(line.trim_ascii_end());
        line.clear();
        match Message::read(&message) {
            Message::Request { id, method, params } => {
                answer(&mut writer, &mut asking, &id, &method, params.as_ref()).await;
            }
            Message::Response { id, result } => {
                let question = id.parse::<usize>().ok();
                if let Some(call) = question.and_then(|question| asking.get(question)) {
                    let answered = result.unwrap_or_else(|error| text(error.message()));
                    let result = json(&format!(r#"{{"content":[],"answered":{answered}}}"#));
                    send(&mut writer, message::response(call, &Ok(result))).await;
                }
            }
            Message::Notification { .. } | Message::Batch(_) | Message::Garbage(_) => {}
        }
    }
}

async fn answer(
    writer: &mut WriteHalf<DuplexStream>,
    asking: &mut Vec<RawJson>,
    id: &RawJson,
    method: &str,
    params: Option<&RawJson>,
) {
    let of = |name: &str| {
        let [value] = Object::find(params?, [name])?;
        value?.parse::<String>().ok()
    };
    let result = match (method, of("name").as_deref()) {
        ("initialize", _) => {
            r#"{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},"capabilities":{"tools":{},
            "logging":{},"resources":{"subscribe":true},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}}"#
        }
        ("tools/list", _) => {
            r#"{"tools":[{"name":"ask","inputSchema":{}},{"name":"begin","inputSchema":{}},
            {"name":"echo","inputSchema":{}}]}"#
        }
        ("resources/list", _) => r#"{"resources":[{"name":"r","uri":"test://r"}]}"#,
        ("tools/call", Some("ask")) => {
            let question = RawJson::from(asking.len() as u64);
            asking.push(id.clone());
            let form = json(r#"{"message":"?","requestedSchema":{"type":"object","properties":{}}}"#);
            let number = question.parse().unwrap_or_default();
            return send(
                writer,
                message::request(number, "elicitation/create", Some(&form)),
            )
            .await;
        }
        ("tools/call", Some("begin")) => r#"{"task":{"taskId":"1","status":"working"}}"#,
        ("tools/call", _) => {
            let log = json(r#"{"level":"warning","data":"called"}"#);
            send(writer, message::notification("notifications/message", Some(&log))).await;
            r#"{"content":[{"type":"text","text":"\"task\""}]}"#
        }
        ("tasks/get" | "tasks/cancel", _) => r#"{"taskId":"1","status":"completed"}"#,
        ("tasks/result", _) => {
            r#"{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"}}}"#
        }
        ("tasks/list", _) => {
            r#"{"tasks":[{"taskId":"1","status":"working"},{"taskId":"2","status":"working"}]}"#
        }
        ("resources/subscribe", _) => {
            let update = json(r#"{"uri":"test://r"}"#);
            let update = message::notification("notifications/resources/updated", Some(&update));
            send(writer, update).await;
            "{}"
        }
        ("ping" | "logging/setLevel" | "resources/unsubscribe", _) => "{}",
        _unknown => {
            let unknown = RpcError::new(RpcError::METHOD_NOT_FOUND, "unknown");
            return send(writer, message::response(id, &Err(unknown))).await;
        }
    };
    send(writer, message::response(id, &Ok(json(result)))).await;
}

fn json(text: &str) -> RawJson {
    RawJson::from_text(text.replace(['\n', '\r'], " ")).expect("it is JSON")
}

/// Sends a message to the gateway, which may have closed the connection.
async fn send(writer: &mut WriteHalf<DuplexStream>, message: Bytes) {
    let _ = writer.write_all(&message).await;
    if !message.ends_with(b"\n") {
        let _ = writer.write_all(b"\n").await;
    }
}

/// How often each id asks for something that ends. An id that is also in a batch may be answered there.
fn requests(input: &[u8]) -> BTreeMap<Bytes, usize> {
    let mut asked = BTreeMap::<Bytes, usize>::new();
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    for line in input.split(|byte| *byte == b'\n') {
        match Message::read(&Bytes::copy_from_slice(line)) {
            Message::Request { id, method, .. } => {
                let times = if method == "subscriptions/listen" { 2 } else { 1 };
                *asked.entry(id.into()).or_default() += times;
            }
            Message::Batch(messages) => {
                for message in messages {
                    if let Message::Request { id, .. } = Message::read(&message) {
                        *asked.entry(id.into()).or_default() += 2;
                    }
                }
            }
            Message::Notification { .. } | Message::Response { .. } | Message::Garbage(_) => {}
        }
    }
    asked
}

fn contains(input: &[u8], word: &[u8]) -> bool {
    // A method may be spelt with escapes.
    input
        .windows(word.len())
        .any(|window| window == word || window.starts_with(b"\\u"))
}

/// Runs what a client does, which must end.
pub(crate) fn in_paused_time<T>(visit: impl Future<Output = T>) -> T {
    let runtime = runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime needs only memory");
    runtime
        .block_on(async { timeout(VISIT_TIMEOUT, visit).await })
        .expect("the visit ends")
}

#[cfg(test)]
mod tests {
    use mainstay_testkit::replay_corpus as replay;

    /// What a client on stdin is answered, as text.
    fn answers(lines: &[&str]) -> String {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let input = lines.join("\n") + "\n";
        super::in_paused_time(async move {
            let gateway = super::gateway();
            let (mut client, door) = tokio::io::duplex(super::CONNECTION_BYTES);
            client.write_all(input.as_bytes()).await.unwrap();
            let visit = async {
                let (input, output) = tokio::io::split(door);
                gateway.serve_stdio(crate::Scope::Union, input, output).await;
            };
            let client = async {
                tokio::time::sleep(std::time::Duration::from_secs(60)).await;
                client.shutdown().await.unwrap();
                let mut read = String::new();
                client.read_to_string(&mut read).await.unwrap();
                read
            };
            let ((), read) = tokio::join!(visit, client);
            read
        })
    }

    #[test]
    fn calls_questions_and_tasks_reach_the_server_behind_the_fuzzed_gateway() {
        let modern = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;
        let ask = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a__ask","arguments":{{}},{modern}}}}}"#
        );
        assert!(answers(&[&ask]).contains("input_required"));
        let begin = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__begin","arguments":{},"task":{}}}"#;
        let begun = answers(&[begin]);
        assert!(begun.contains(r#""taskId":"a/1~"#), "{begun}");
        let echoed = answers(&[&begin.replace("begin", "echo")]);
        assert!(echoed.contains(r#""type":"text""#), "{echoed}");
    }

    #[test]
    fn the_retry_of_a_question_is_answered_with_the_end_of_its_call() {
        let modern = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;
        let ask = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a__ask",{modern}}}}}"#
        );
        let result = mainstay::gateway::message::RawJson::from_text(r#"{"requestState":"s"}"#).unwrap();
        let retry = super::retry(
            ask.as_bytes(),
            &mainstay::gateway::message::RawJson::from(1),
            &result,
        )
        .unwrap();
        let retry = String::from_utf8(retry).unwrap();
        assert!(
            retry.contains(r#""requestState":"s""#) && retry.contains("inputResponses"),
            "{retry}"
        );
    }

    #[test]
    fn every_request_on_stdin_in_the_corpus_is_answered_once() {
        replay("messages", super::messages);
    }

    #[test]
    fn every_connection_in_the_corpus_is_answered_and_ends() {
        replay("http", super::http);
    }

    #[test]
    fn no_request_state_in_the_corpus_is_opened_but_as_it_was_sealed() {
        replay("request_state", super::request_state);
    }

    #[test]
    fn no_host_or_origin_in_the_corpus_passes_for_this_machine() {
        replay("guard", super::guard);
    }
}
