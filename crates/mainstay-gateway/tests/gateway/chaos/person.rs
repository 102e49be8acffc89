//! A person at a client: wants things of the servers, one after the other, and writes down what came of each.

use std::time::{Duration, Instant};

use mainstay_testkit::Speaks;
use mainstay_testkit::chaos::{ChaosServerKind, DEADLINE, Dice, NEVER_DISABLED, PlannedCall, name};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::chaos::clients::{Client, ClientKind, URI};

use crate::chaos::SERVERS;

/// How long something may take that no server needs to be asked for.
const AT_ONCE: Duration = Duration::ZERO;

pub(crate) struct Person {
    pub(crate) client: Client,
    /// The server that is seen alone; all of them otherwise.
    pub(crate) server: Option<usize>,
    /// What the keys of this person begin with.
    pub(crate) mark: String,
    pub(crate) dice: Dice,
    pub(crate) diary: Diary,
    last: usize,
}

/// What came of it all.
#[derive(Debug, Default)]
pub(crate) struct Diary {
    pub(crate) calls: Vec<Made>,
    pub(crate) waits: Vec<Wait>,
    /// Questions whose answer reached the tool that asked.
    pub(crate) answered: usize,
}

/// One call, and the outcome that its caller saw.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) key: String,
    pub(crate) server: usize,
    pub(crate) tool: &'static str,
    /// How often it may run.
    pub(crate) most: usize,
    /// In how many rounds it runs, of which only the last may have failed.
    pub(crate) rounds: usize,
    pub(crate) outcome: SeenOutcome,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SeenOutcome {
    /// What the server said.
    Answer,
    /// What the gateway said for it: what is known of the call.
    Failed(String),
    /// That there is nothing of this name.
    NotThere,
    /// Nothing: it did not wait.
    GivenUp,
}

/// How long a request took that was waited for.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) what: String,
    pub(crate) took: Duration,
    pub(crate) limit: Duration,
}

impl Person {
    pub(crate) fn new(client: Client, server: Option<usize>, mark: String, dice: Dice) -> Self {
        Self {
            client,
            server,
            mark,
            dice,
            diary: Diary::default(),
            last: 0,
        }
    }

    pub(crate) async fn live(mut self, over: watch::Receiver<bool>) -> Self {
        while !*over.borrow() {
            match self.dice.below(100) {
                0..12 => self.list(NEVER_DISABLED).await,
                12..16 => self.look("resources/read", json!({ "uri": URI }), DEADLINE).await,
                16..19 => {
                    let prompt = json!({ "name": self.public(0, "greet"), "arguments": { "who": "Ada" } });
                    self.look("prompts/get", prompt, DEADLINE).await;
                }
                19..22 if self.client.subscribes() => self.look("ping", json!({}), AT_ONCE).await,
                22..25 if self.client.subscribes() => {
                    let method = ["resources/subscribe", "resources/unsubscribe"][self.dice.index(2)];
                    self.look(method, json!({ "uri": URI }), DEADLINE).await;
                }
                25..26 if self.client.subscribes() => {
                    let level = json!({ "level": "warning" });
                    self.look("logging/setLevel", level, Duration::from_secs(2)).await;
                }
                26..42 => {
                    let planned = self.question();
                    let kind = self.kind();
                    self.call(planned, kind).await;
                }
                _ => {
                    let key = self.key();
                    let planned = PlannedCall::draw(key, &mut self.dice);
                    let kind = self.kind();
                    self.call(planned, kind).await;
                }
            }
            tokio::time::sleep(Duration::from_millis(self.dice.below(25))).await;
        }
        self
    }

    /// Lists the tools: those of the first so many servers are there.
    pub(crate) async fn list(&mut self, servers: usize) {
        let answer = self.wait("tools/list", json!({}), AT_ONCE).await;
        let tools = answer["result"]["tools"].as_array();
        let tools = tools.unwrap_or_else(|| panic!("{}: {answer}", self.mark));
        let listed: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        for server in self.servers(servers) {
            let echo = self.public(server, "echo");
            assert!(
                listed.contains(&echo.as_str()),
                "{}: {echo} is not listed",
                self.mark
            );
        }
    }

    /// Calls a tool at a server that is seen.
    pub(crate) async fn call(&mut self, planned: PlannedCall, kind: ClientKind) {
        let server = self.server.unwrap_or_else(|| self.dice.index(SERVERS));
        self.call_at(server, planned, kind).await;
    }

    pub(crate) async fn call_at(
        &mut self,
        server: usize,
        planned: PlannedCall,
        kind: ClientKind,
    ) -> &SeenOutcome {
        let mut params = json!({ "name": self.public(server, planned.tool), "arguments": planned.arguments });
        if kind == ClientKind::Breaks || self.dice.below(2) == 0 {
            params["_meta"] = json!({ "progressToken": planned.key });
        }
        let asks = planned.tool == "ask";
        let began = Instant::now();
        let answer = self.client.ask("tools/call", params, kind).await;
        let waited = match kind {
            ClientKind::Waits | ClientKind::Breaks => true,
            // A client that does not answer a request for input gets no answer to its call.
            ClientKind::IsMute => answer.is_some(),
            ClientKind::Cancels(_) | ClientKind::Leaves(_) => false,
        };
        assert!(answer.is_some() || !waited, "no answer to {planned:?}");
        if waited {
            // A request for input makes it two requests.
            let limit = if asks { 2 * DEADLINE } else { DEADLINE };
            let what = format!("{} of {} at {server}, {kind:?}", planned.tool, planned.key);
            self.diary.note(&what, began, limit);
        }
        let outcome = answer.map_or(SeenOutcome::GivenUp, |answer| SeenOutcome::of(&answer, &planned));
        if asks && outcome == SeenOutcome::Answer {
            self.diary.answered += 1;
        }
        let rounds = match ChaosServerKind::of(server).speaks(server) {
            Speaks::Modern | Speaks::Both if asks => 2,
            Speaks::Legacy | Speaks::Modern | Speaks::Both => 1,
        };
        self.diary.calls.push(Made {
            server,
            tool: planned.tool,
            most: if planned.repeatable { 2 } else { rounds },
            rounds,
            key: planned.key,
            outcome,
        });
        &self.diary.calls.last().expect("just noted").outcome
    }

    /// Makes a request that only looks; whether it succeeds is up to its server.
    pub(crate) async fn look(&mut self, method: &str, params: Value, limit: Duration) {
        self.wait(method, params, limit).await;
    }

    /// A call in which the server asks the client.
    pub(crate) fn question(&mut self) -> PlannedCall {
        let key = self.key();
        PlannedCall::new(key, "ask", false, json!({ "kind": "elicitation" }))
    }

    pub(crate) fn key(&mut self) -> String {
        self.last += 1;
        format!("{}{}", self.mark, self.last)
    }

    /// Those of the first so many servers that are seen.
    pub(crate) fn servers(&self, first: usize) -> Vec<usize> {
        self.server
            .map_or_else(|| (0..first).collect(), |server| vec![server])
    }

    async fn wait(&mut self, method: &str, params: Value, limit: Duration) -> Value {
        let began = Instant::now();
        let answer = self.client.ask(method, params, ClientKind::Waits).await;
        self.diary.note(&format!("{} {method}", self.mark), began, limit);
        answer.unwrap_or_else(|| panic!("{}: no answer to {method}", self.mark))
    }

    fn public(&self, server: usize, own: &str) -> String {
        match self.server {
            Some(_) => own.to_owned(),
            None => format!("{}__{own}", name(server)),
        }
    }

    fn kind(&mut self) -> ClientKind {
        let after = Duration::from_millis(self.dice.below(40));
        match self.dice.below(100) {
            0..8 => ClientKind::Cancels(after),
            8..16 => ClientKind::Leaves(after),
            16..36 => ClientKind::Breaks,
            36..39 => ClientKind::IsMute,
            _ => ClientKind::Waits,
        }
    }
}

impl Diary {
    fn note(&mut self, what: &str, began: Instant, limit: Duration) {
        self.waits.push(Wait {
            what: what.to_owned(),
            took: began.elapsed(),
            limit,
        });
    }
}

impl SeenOutcome {
    /// What an answer says, which must be the answer to this very call.
    fn of(answer: &Value, planned: &PlannedCall) -> Self {
        let (result, error) = (&answer["result"], &answer["error"]);
        let facts = [&result["_meta"]["mainstay"], &error["data"]["mainstay"]];
        if let Some(outcome) = facts.iter().find_map(|facts| facts["outcome"].as_str()) {
            return Self::Failed(outcome.to_owned());
        }
        if error.is_object() {
            let is_missing = error["message"]
                .as_str()
                .is_some_and(|message| message.starts_with("there is no "));
            return if is_missing { Self::NotThere } else { Self::Answer };
        }
        planned.check(result);
        if planned.tool == "ask" {
            let text = result.to_string();
            let declined = text.contains("declined") || text.contains("went away");
            assert!(text.contains(&planned.key) || declined, "{planned:?}: {text}");
            if declined {
                return Self::Failed("unknown".to_owned());
            }
        }
        Self::Answer
    }
}
