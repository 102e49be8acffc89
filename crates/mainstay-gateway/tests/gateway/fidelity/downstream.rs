//! Clients of every kind, which send exactly what they are given and show exactly what they get.

use std::net::SocketAddr;

use mainstay::Era;
use mainstay_gateway::{Gateway, Scope};
use mainstay_testkit::client::{Ask, Reply};

use crate::fidelity::odd::ANSWER;
use crate::router::client::Client as Pipes;

/// How a client comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Downstream {
    Stdio(Era),
    Http(Era),
    /// HTTP+SSE.
    Sse,
}

/// What a modern client says of itself in each request.
pub(crate) const ITSELF: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"x-form":1.0}},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/logLevel":"debug""#;

/// The id of a listen.
pub(crate) const LISTEN: &str = r#""l\u0069sten""#;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"x-form":1.0}},"clientInfo":{"name":"t","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

pub(crate) struct Client {
    era: Era,
    way: Way,
    /// The answer to `initialize`; a modern client has none.
    pub(crate) greeting: String,
}

enum Way {
    Stdio(Pipes),
    /// With its session, and its standing stream once it has one.
    Streamable(SocketAddr, String, Option<Reply>),
    /// With the stream of its listen, once it listens.
    Stateless(SocketAddr, Option<Reply>),
    Sse(SocketAddr, String, Reply),
}

impl Downstream {
    pub(crate) const ALL: [Self; 5] = [
        Self::Stdio(Era::Legacy),
        Self::Stdio(Era::Modern),
        Self::Http(Era::Legacy),
        Self::Http(Era::Modern),
        Self::Sse,
    ];

    pub(crate) fn era(self) -> Era {
        match self {
            Self::Stdio(era) | Self::Http(era) => era,
            Self::Sse => Era::Legacy,
        }
    }

    /// A client that sees the server `one` alone.
    pub(crate) async fn connect(self, gateway: &Gateway, address: SocketAddr) -> Client {
        let mut greeting = String::new();
        let way = match self {
            Self::Stdio(era) => {
                let mut pipes = Pipes::connect(gateway, Scope::Server("one".into()));
                if era == Era::Legacy {
                    pipes.write(INITIALIZE).await;
                    greeting = pipes.line().await;
                    pipes.write(INITIALIZED).await;
                }
                Way::Stdio(pipes)
            }
            Self::Http(Era::Legacy) => {
                let reply = Ask::post_text("/mcp/one", INITIALIZE).send(address).await;
                let session = reply.header("mcp-session-id").expect("a session").to_owned();
                greeting = reply.body().await.0;
                let initialized = of_session(Ask::post_text("/mcp/one", INITIALIZED), &session);
                assert_eq!(initialized.send(address).await.status, 202);
                Way::Streamable(address, session, None)
            }
            Self::Http(Era::Modern) => Way::Stateless(address, None),
            Self::Sse => {
                let mut stream = Ask::new("GET", "/sse/one").send(address).await;
                let endpoint = stream.event().await.expect("where to send").data;
                for message in [INITIALIZE, INITIALIZED] {
                    Ask::post_text(&endpoint, message).send(address).await;
                }
                greeting = stream.event().await.expect("a greeting").data;
                Way::Sse(address, endpoint, stream)
            }
        };
        Client {
            era: self.era(),
            way,
            greeting,
        }
    }
}

impl Client {
    /// Makes a request with these parameters, which `_meta` is added to: the client's own, and what its era needs. Returns
    /// all that comes, the answer last. What is asked meanwhile is answered.
    pub(crate) async fn ask(&mut self, method: &str, params: &str, meta: &str) -> Vec<String> {
        let itself = match self.era {
            Era::Legacy => "",
            Era::Modern => ITSELF,
        };
        let comma = if meta.is_empty() || itself.is_empty() {
            ""
        } else {
            ","
        };
        let between = if params.is_empty() { "" } else { "," };
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":"\u0069d","method":"{method}","params":{{{params}{between}"_meta":{{{meta}{comma}{itself}}}}}}}"#
        );
        let mut got = Vec::new();
        match &mut self.way {
            Way::Stdio(pipes) => {
                pipes.write(&request).await;
                loop {
                    got.push(pipes.line().await);
                    match reply_to(got.last().unwrap()) {
                        Reaction::Done => return got,
                        Reaction::Answer(answer) => pipes.write(&answer).await,
                        Reaction::None => {}
                    }
                }
            }
            Way::Streamable(address, session, _) => {
                let post = |message: &str| of_session(Ask::post_text("/mcp/one", message), session);
                let reply = post(&request).send(*address).await;
                take(reply, async |answer| {
                    assert_eq!(post(&answer).send(*address).await.status, 202);
                })
                .await
            }
            Way::Stateless(address, _) => {
                let reply = modern(method, params, &request).send(*address).await;
                take(reply, async |answer| panic!("asked: {answer}")).await
            }
            Way::Sse(address, endpoint, stream) => {
                Ask::post_text(endpoint, &request).send(*address).await;
                loop {
                    got.push(stream.event().await.expect("an event").data);
                    match reply_to(got.last().unwrap()) {
                        Reaction::Done => return got,
                        Reaction::Answer(answer) => {
                            Ask::post_text(endpoint, &answer).send(*address).await;
                        }
                        Reaction::None => {}
                    }
                }
            }
        }
    }
}

impl Client {
    /// Subscribes to the resource.
    pub(crate) async fn subscribe(&mut self) {
        let listen = format!(
            r#"{{"jsonrpc":"2.0","id":{LISTEN},"method":"subscriptions/listen","params":{{"notifications":{{"resourceSubscriptions":["mem://one"]}},"_meta":{{{ITSELF}}}}}}}"#
        );
        match (&mut self.way, self.era) {
            (Way::Stateless(address, listening), _) => {
                let ask = modern("subscriptions/listen", "", &listen);
                *listening = Some(ask.send(*address).await);
                self.unasked().await;
            }
            (Way::Stdio(pipes), Era::Modern) => {
                pipes.write(&listen).await;
                self.unasked().await;
            }
            (Way::Streamable(..), _) => {
                self.listen().await;
                self.ask("resources/subscribe", r#""uri":"mem://one""#, "").await;
            }
            (Way::Stdio(_) | Way::Sse(..), _) => {
                self.ask("resources/subscribe", r#""uri":"mem://one""#, "").await;
            }
        }
    }

    /// Opens the way for what belongs to no request, where that has to be opened.
    pub(crate) async fn listen(&mut self) {
        if let Way::Streamable(address, session, standing) = &mut self.way {
            let ask = Ask::new("GET", "/mcp/one").header("accept", "text/event-stream");
            *standing = Some(of_session(ask, session).send(*address).await);
        }
    }

    /// Sends a notification.
    pub(crate) async fn notify(&mut self, method: &str, params: &str) {
        let message = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#);
        let (ask, address) = match &mut self.way {
            Way::Stdio(pipes) => return pipes.write(&message).await,
            Way::Streamable(address, session, _) => (
                of_session(Ask::post_text("/mcp/one", &message), session),
                *address,
            ),
            Way::Stateless(address, _) => (modern(method, "", &message), *address),
            Way::Sse(address, endpoint, _) => (Ask::post_text(endpoint, &message), *address),
        };
        assert_eq!(ask.send(address).await.status, 202);
    }

    /// The next message that belongs to no request.
    pub(crate) async fn unasked(&mut self) -> String {
        match &mut self.way {
            Way::Stdio(pipes) => pipes.line().await,
            Way::Streamable(_, _, stream) | Way::Stateless(_, stream) => {
                let stream = stream.as_mut().expect("a stream");
                stream.event().await.expect("an event").data
            }
            Way::Sse(_, _, stream) => stream.event().await.expect("an event").data,
        }
    }
}

/// Takes what a POST is answered with: one body, or events.
async fn take(mut reply: Reply, answer: impl AsyncFn(String)) -> Vec<String> {
    if !reply.is_events() {
        return vec![reply.body().await.0];
    }
    let mut got = Vec::new();
    loop {
        got.push(reply.event().await.expect("an event").data);
        match reply_to(got.last().unwrap()) {
            Reaction::Done => return got,
            Reaction::Answer(text) => answer(text).await,
            Reaction::None => {}
        }
    }
}

fn of_session(ask: Ask, session: &str) -> Ask {
    ask.header("mcp-session-id", session)
        .header("mcp-protocol-version", "2025-11-25")
}

/// A request with the headers that a modern one must have.
fn modern(method: &str, params: &str, request: &str) -> Ask {
    let ask = Ask::post_text("/mcp/one", request)
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method);
    let name = [r#""name":""#, r#""uri":""#]
        .iter()
        .find_map(|field| params.split_once(field));
    match name.and_then(|(_, rest)| rest.split_once('"')) {
        Some((name, _)) => ask.header("mcp-name", name),
        None => ask,
    }
}

enum Reaction {
    /// It was the answer.
    Done,
    /// It was a question, which is answered so.
    Answer(String),
    None,
}

fn reply_to(message: &str) -> Reaction {
    let Some(rest) = message.strip_prefix(r#"{"jsonrpc":"2.0","id":"#) else {
        return Reaction::None;
    };
    let Some((id, _)) = rest.split_once(r#","method":"#) else {
        return Reaction::Done;
    };
    if id.contains(',') {
        // The method stands somewhere inside of an answer.
        return Reaction::Done;
    }
    Reaction::Answer(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, *ANSWER))
}
