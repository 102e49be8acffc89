//! A server that sends exactly what it is meant to send, and keeps exactly what it receives, over every transport.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use mainstay::Era;
use mainstay::gateway::message::{Message, Object, RawJson};
use mainstay_testkit::client::LONG;
use tokio::sync::{mpsc, oneshot, watch};

use crate::fidelity::odd::{
    CAPABILITIES, ERROR, INFO, ODD, PROMPT, QUESTION, RESOURCE, REST, RESULT, TEMPLATE, TOOL,
};

/// Where what belongs to one message goes.
pub(crate) type Out = mpsc::UnboundedSender<String>;

pub(crate) struct ScriptedServer {
    pub(crate) era: Era,
    received: watch::Sender<Vec<(String, String)>>,
    /// Who waits for the client's answers, by the id of the question.
    asked: Mutex<HashMap<String, oneshot::Sender<String>>>,
    /// Who listens, by the id of the listen.
    listens: Mutex<Vec<(String, Out)>>,
    /// Where what belongs to no message goes, once there is a way, with the label that it has there.
    unasked: watch::Sender<Option<(Out, String)>>,
}

impl ScriptedServer {
    pub(crate) fn new(era: Era) -> Arc<Self> {
        Arc::new(Self {
            era,
            received: watch::Sender::default(),
            asked: Mutex::default(),
            listens: Mutex::default(),
            unasked: watch::Sender::default(),
        })
    }

    /// The parameters of the latest message of this method, as they came.
    pub(crate) fn received(&self, method: &str) -> String {
        let received = self.received.borrow();
        let latest = received.iter().rev().find(|(of, _)| of == method);
        latest.unwrap_or_else(|| panic!("{method} came")).1.clone()
    }

    /// The same, once a message of this method has come.
    pub(crate) async fn wait_for(&self, method: &str) -> String {
        let mut received = self.received.subscribe();
        let came = received.wait_for(|received| received.iter().any(|(of, _)| of == method));
        drop(tokio::time::timeout(LONG, came).await.expect("it comes"));
        self.received(method)
    }

    /// Has a way for what belongs to no message.
    pub(crate) fn speaks_on(&self, out: Out, label: String) {
        self.unasked.send_replace(Some((out, label)));
    }

    /// Tells something that belongs to no message.
    pub(crate) async fn notify(&self, method: &str, first: &str) {
        let mut unasked = self.unasked.subscribe();
        let way = unasked.wait_for(Option::is_some);
        let way = tokio::time::timeout(LONG, way)
            .await
            .expect("a way")
            .unwrap()
            .clone();
        let (out, label) = way.unwrap();
        let sent = notification(method, first);
        let sent = sent.replace(r#""_meta":{"#, &format!(r#""_meta":{{{label}"#));
        out.send(sent).expect("a client listens");
    }

    /// Takes one message; what it leads to goes out until this is done.
    pub(crate) async fn take(&self, line: Bytes, out: Out) {
        match Message::read(&line) {
            Message::Request { id, method, params } => {
                self.note(&method, params.as_ref());
                self.answer(id.as_str(), &method, params.as_ref(), &out).await;
            }
            Message::Notification { method, params } => self.note(&method, params.as_ref()),
            Message::Response { id, result } => {
                let answer = result.expect("the client answers").to_string();
                let waits = self.asked.lock().unwrap().remove(id.as_str());
                let _ = waits.expect("it was asked").send(answer);
            }
            Message::Batch(_) | Message::Garbage(_) => panic!("{line:?}"),
        }
    }

    fn note(&self, method: &str, params: Option<&RawJson>) {
        let params = params.map_or_else(String::new, RawJson::to_string);
        self.received
            .send_modify(|received| received.push((method.to_owned(), params)));
    }

    fn note_answer(&self, answer: String) {
        self.received
            .send_modify(|received| received.push(("answer".to_owned(), answer)));
    }

    async fn answer(&self, id: &str, method: &str, params: Option<&RawJson>, out: &Out) {
        let say = |what: String| drop(out.send(what));
        let result = |result: &str| say(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
        let list = |field: &str, item: &str| match self.era {
            Era::Legacy => result(&format!(r#"{{"{field}":[{item}]}}"#)),
            Era::Modern => result(&format!(
                r#"{{"resultType":"complete","{field}":[{item}],"ttlMs":0,"cacheScope":"private"}}"#
            )),
        };
        match (method, self.era) {
            ("initialize", Era::Legacy) => result(&format!(
                r#"{{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{}}}"#,
                *CAPABILITIES, *INFO
            )),
            ("server/discover", Era::Modern) => result(&format!(
                r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"public","_meta":{{"io.modelcontextprotocol/serverInfo":{}}}}}"#,
                *CAPABILITIES, *INFO
            )),
            ("initialize" | "server/discover", _) => say(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no such method"}}}}"#
            )),
            ("tools/list", _) => list("tools", &TOOL),
            ("prompts/list", _) => list("prompts", &PROMPT),
            ("resources/list", _) => list("resources", &RESOURCE),
            ("resources/templates/list", _) => list("resourceTemplates", &TEMPLATE),
            ("ping" | "resources/subscribe" | "logging/setLevel", Era::Legacy) => result("{}"),
            ("subscriptions/listen", Era::Modern) => {
                say(format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
                ));
                self.listens.lock().unwrap().push((id.to_owned(), out.clone()));
                let label = format!(r#""io.modelcontextprotocol/subscriptionId":{id},"#);
                self.speaks_on(out.clone(), label);
                out.closed().await;
            }
            ("tools/call", _) => self.call(id, params.expect("a call has parameters"), out).await,
            _other => result(&self.completed(&RESULT)),
        }
    }

    async fn call(&self, id: &str, params: &RawJson, out: &Out) {
        let say = |what: String| drop(out.send(what));
        let params = Object::parse(params).expect("an object");
        let tool: String = params.get("name").expect("a name").parse().unwrap();
        let meta = params.get("_meta").and_then(Object::parse).unwrap_or_default();
        match tool.as_str() {
            "error" => return say(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{}}}"#, *ERROR)),
            "progress" => {
                let token = meta.get("progressToken").expect("a token");
                say(notification(
                    "progress",
                    &format!(r#""progress":1.0,"progressToken":{token}"#),
                ));
            }
            "log" => say(notification(
                "message",
                &format!(r#""level":"error","data":{ODD}"#),
            )),
            "tell" => say(notification("x-vendor/thing", &format!(r#""x-told":{ODD}"#))),
            "touch" => self.touch(out),
            "ask" if self.era == Era::Legacy => {
                let (answer, answered) = oneshot::channel();
                self.asked
                    .lock()
                    .unwrap()
                    .insert(r#""q\u0031""#.to_owned(), answer);
                say(format!(
                    r#"{{"jsonrpc":"2.0","id":"q\u0031","method":"elicitation/create","params":{}}}"#,
                    *QUESTION
                ));
                let answer = answered.await.expect("an answer");
                self.note_answer(answer);
            }
            "ask" => match params.get("inputResponses") {
                None => {
                    return say(format!(
                        r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#,
                        input_required()
                    ));
                }
                Some(answers) => {
                    let answers = Object::parse(answers).expect("an object");
                    let answer = answers.get("q").expect("an answer").to_string();
                    self.note_answer(answer);
                }
            },
            _plain => {}
        }
        let result = self.completed(&RESULT);
        say(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
    }

    /// Notifies the clients of this era that a resource was updated.
    fn touch(&self, out: &Out) {
        let uri = r#""uri":"mem:\/\/one""#;
        match self.era {
            Era::Legacy => drop(out.send(notification("resources/updated", uri))),
            Era::Modern => {
                for (id, listens) in &*self.listens.lock().unwrap() {
                    let label = format!(r#""io.modelcontextprotocol/subscriptionId":{id}"#);
                    let update = notification("resources/updated", uri);
                    let update = update.replace(r#""_meta":{"#, &format!(r#""_meta":{{{label},"#));
                    // It may be over.
                    let _ = listens.send(update);
                }
            }
        }
    }

    /// A result as its era has it.
    pub(crate) fn completed(&self, result: &str) -> String {
        match self.era {
            Era::Legacy => result.to_owned(),
            Era::Modern => result.replacen('{', r#"{"resultType":"complete","#, 1),
        }
    }
}

/// What a modern server answers that needs input.
pub(crate) fn input_required() -> String {
    format!(
        r#"{{"resultType":"input_required","x-input":{ODD},"inputRequests":{{"q":{{"method":"elicitation/create","params":{},"x-request":{ODD}}}}},"requestState":"\u0073tate"}}"#,
        *QUESTION
    )
}

fn notification(method: &str, first: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{{first},{}}}}}"#,
        *REST
    )
}
