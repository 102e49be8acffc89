//! The roots of the client, where they decide with whom a server is shared. Does no IO.
//!
//! A client tells its roots only after its session is open, and the session is opened by a server. So a bridge begins at the server of
//! clients without roots, asks the client as soon as it may, and holds back what the host sends until the answer is there. The bridge then
//! goes to the server of these roots as it goes to another daemon. If the client has roots and does not say which, the bridge goes to a
//! server of its own: what others share may be meant for other roots. When the roots change later, it does so at the first message
//! while no request is in flight.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::envelope::{LineKind, raw_of};

/// How long a client may take to answer `roots/list`. After that its roots are unknown.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How many bytes are held back meanwhile. After that the roots are unknown, too.
const HELD_LIMIT: usize = 1024 * 1024;

/// Which server a bridge uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RootsServer {
    /// The one that all clients with these roots share.
    Of(Vec<String>),
    /// One of its own: the client's roots are unknown.
    Own,
}

pub(super) struct ClientRoots {
    /// The server that the bridge is connected to; `None` where roots do not count.
    current: Option<RootsServer>,
    is_declared: bool,
    state: RootsState,
    last: u64,
}

enum RootsState {
    Settled,
    Asked(AskedRoots),
    /// The bridge is to use this one, and is still elsewhere.
    Changed(RootsServer),
}

struct AskedRoots {
    id: String,
    deadline: Instant,
    held: Vec<Vec<u8>>,
    bytes: usize,
}

/// What becomes of a line of the host.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RootsStep {
    Pass,
    /// It waits for the client's answer.
    Held,
    /// It passes, and then the host is asked this.
    PassAndAsk(Vec<u8>),
    /// It was the answer, or no more is held back. These lines pass.
    Release(Vec<Vec<u8>>),
}

#[derive(Deserialize)]
struct RootsAnswer {
    roots: Vec<ClientRoot>,
}

#[derive(Deserialize)]
struct ClientRoot {
    uri: String,
}

impl ClientRoots {
    pub(super) fn new(counts: bool) -> Self {
        Self {
            current: counts.then(|| RootsServer::Of(Vec::new())),
            is_declared: false,
            state: RootsState::Settled,
            last: 0,
        }
    }

    /// Looks at a line of the host before it is sent.
    pub(super) fn step(&mut self, line: &[u8], now: Instant) -> RootsStep {
        if self.current.is_none() {
            return RootsStep::Pass;
        }
        match LineKind::of(line) {
            LineKind::Response { id, result, .. } => match &self.state {
                RootsState::Asked(asked) if asked.id == id => self.answered(result),
                RootsState::Asked(_) | RootsState::Settled | RootsState::Changed(_) => RootsStep::Pass,
            },
            kind => {
                if let RootsState::Asked(asked) = &mut self.state {
                    asked.bytes += line.len();
                    asked.held.push(line.to_vec());
                    if asked.bytes > HELD_LIMIT {
                        return self.give_up();
                    }
                    return RootsStep::Held;
                }
                self.note(&kind, now)
            }
        }
    }

    fn note(&mut self, kind: &LineKind<'_>, now: Instant) -> RootsStep {
        match kind {
            LineKind::Request { method, params, .. } if method == "initialize" => {
                let declared =
                    raw_of(*params, "capabilities").and_then(|raw| RawValue::from_string(raw).ok());
                self.is_declared = raw_of(declared.as_deref(), "roots").is_some();
                RootsStep::Pass
            }
            LineKind::Notification { method, .. }
                if self.is_declared
                    && matches!(
                        &**method,
                        "notifications/initialized" | "notifications/roots/list_changed"
                    ) =>
            {
                self.ask(now)
            }
            LineKind::Request { .. }
            | LineKind::Notification { .. }
            | LineKind::Response { .. }
            | LineKind::Batch(_)
            | LineKind::Other => RootsStep::Pass,
        }
    }

    fn ask(&mut self, now: Instant) -> RootsStep {
        self.last += 1;
        let id = format!("\"mainstay-roots-{}\"", self.last);
        let question = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"roots/list\"}}\n");
        self.state = RootsState::Asked(AskedRoots {
            id,
            deadline: now + ANSWER_TIMEOUT,
            held: Vec::new(),
            bytes: 0,
        });
        RootsStep::PassAndAsk(question.into_bytes())
    }

    fn answered(&mut self, result: Option<&RawValue>) -> RootsStep {
        let answer = result.and_then(|result| serde_json::from_str::<RootsAnswer>(result.get()).ok());
        // The order means nothing.
        let roots = answer.map(|answer| {
            answer
                .roots
                .into_iter()
                .map(|root| root.uri)
                .collect::<BTreeSet<_>>()
        });
        self.settle(match roots {
            Some(roots) => RootsServer::Of(roots.into_iter().collect()),
            None => RootsServer::Own,
        })
    }

    /// When the wait for the client's answer is over, if there is one.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.state {
            RootsState::Asked(asked) => Some(asked.deadline),
            RootsState::Settled | RootsState::Changed(_) => None,
        }
    }

    /// The client does not answer.
    pub(super) fn give_up(&mut self) -> RootsStep {
        self.settle(RootsServer::Own)
    }

    fn settle(&mut self, server: RootsServer) -> RootsStep {
        let next = match self.current.as_ref() == Some(&server) {
            true => RootsState::Settled,
            false => RootsState::Changed(server),
        };
        match std::mem::replace(&mut self.state, next) {
            RootsState::Asked(asked) => RootsStep::Release(asked.held),
            RootsState::Settled | RootsState::Changed(_) => RootsStep::Release(Vec::new()),
        }
    }

    /// The server that the bridge is to go to now, if it is elsewhere.
    pub(super) fn take_changed(&mut self) -> Option<RootsServer> {
        match std::mem::replace(&mut self.state, RootsState::Settled) {
            RootsState::Changed(server) => {
                self.current = Some(server.clone());
                Some(server)
            }
            other @ (RootsState::Settled | RootsState::Asked(_)) => {
                self.state = other;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIALIZE: &[u8] =
        br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{"roots":{}}}}"#;
    const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    const CHANGED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    const CALL: &[u8] = br#"{"jsonrpc":"2.0","id":2,"method":"tools/call"}"#;

    fn answer(number: u64, roots: &[&str]) -> Vec<u8> {
        let roots: Vec<_> = roots
            .iter()
            .map(|uri| serde_json::json!({ "uri": uri }))
            .collect();
        let id = format!("mainstay-roots-{number}");
        serde_json::json!({ "jsonrpc": "2.0", "id": id, "result": { "roots": roots } })
            .to_string()
            .into_bytes()
    }

    #[test]
    fn lines_wait_for_the_roots_and_the_bridge_goes_where_they_say() {
        let (mut roots, now) = (ClientRoots::new(true), Instant::now());
        assert_eq!(roots.step(INITIALIZE, now), RootsStep::Pass);
        assert!(matches!(roots.step(INITIALIZED, now), RootsStep::PassAndAsk(_)));
        assert_eq!(roots.step(CALL, now), RootsStep::Held);
        let other = br#"{"jsonrpc":"2.0","id":5,"result":{}}"#;
        assert_eq!(
            roots.step(other, now),
            RootsStep::Pass,
            "an answer to the server is not held"
        );
        assert_eq!(
            roots.step(&answer(1, &["file:///b", "file:///a"]), now),
            RootsStep::Release(vec![CALL.to_vec()])
        );
        let both = ["file:///a", "file:///b"].map(str::to_owned).to_vec();
        assert_eq!(roots.take_changed(), Some(RootsServer::Of(both)));
        assert_eq!(roots.take_changed(), None);
        // The same set in another order changes nothing.
        assert!(matches!(roots.step(CHANGED, now), RootsStep::PassAndAsk(_)));
        roots.step(&answer(2, &["file:///a", "file:///b"]), now);
        assert_eq!(roots.take_changed(), None);
    }

    #[test]
    fn a_client_that_does_not_answer_gets_a_server_of_its_own() {
        let (mut roots, now) = (ClientRoots::new(true), Instant::now());
        roots.step(INITIALIZE, now);
        roots.step(INITIALIZED, now);
        roots.step(CALL, now);
        assert_eq!(roots.deadline(), Some(now + ANSWER_TIMEOUT));
        assert_eq!(roots.give_up(), RootsStep::Release(vec![CALL.to_vec()]));
        assert_eq!(
            (roots.deadline(), roots.take_changed()),
            (None, Some(RootsServer::Own))
        );
    }

    #[test]
    fn without_the_wish_or_the_capability_no_client_is_asked() {
        let now = Instant::now();
        let mut roots = ClientRoots::new(false);
        roots.step(INITIALIZE, now);
        assert_eq!(roots.step(INITIALIZED, now), RootsStep::Pass);
        let mut roots = ClientRoots::new(true);
        roots.step(
            br#"{"id":1,"method":"initialize","params":{"capabilities":{}}}"#,
            now,
        );
        assert_eq!(roots.step(INITIALIZED, now), RootsStep::Pass);
    }

    #[test]
    fn a_client_that_sends_much_before_its_roots_gets_a_server_of_its_own() {
        let (mut roots, now) = (ClientRoots::new(true), Instant::now());
        roots.step(INITIALIZE, now);
        roots.step(INITIALIZED, now);
        let long = vec![b' '; HELD_LIMIT / 2 + 1];
        assert_eq!(roots.step(&long, now), RootsStep::Held);
        assert_eq!(
            roots.step(&long, now),
            RootsStep::Release(vec![long.clone(), long.clone()])
        );
        roots.step(&answer(1, &["file:///late"]), now);
        assert_eq!(roots.take_changed(), Some(RootsServer::Own));
    }

    #[test]
    fn a_client_that_refuses_to_tell_its_roots_gets_a_server_of_its_own_until_it_tells_them() {
        let (mut roots, now) = (ClientRoots::new(true), Instant::now());
        roots.step(INITIALIZE, now);
        roots.step(INITIALIZED, now);
        roots.step(CALL, now);
        let refusal = br#"{"jsonrpc":"2.0","id":"mainstay-roots-1","error":{"code":-32601,"message":"no"}}"#;
        assert_eq!(roots.step(refusal, now), RootsStep::Release(vec![CALL.to_vec()]));
        assert_eq!(roots.take_changed(), Some(RootsServer::Own));
        roots.step(CHANGED, now);
        roots.step(&answer(2, &[]), now);
        assert_eq!(roots.take_changed(), Some(RootsServer::Of(Vec::new())));
    }
}
