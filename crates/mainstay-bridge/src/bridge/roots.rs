//! The roots of the client, where they decide with whom a server is shared. Does no IO.
//!
//! A client tells its roots only after its session is open, and the session is opened by a server. So a bridge begins at the server of
//! clients without roots, asks the client as soon as it may, and holds back what the host sends until the answer is there. The bridge then
//! goes to the server of these roots as it goes to another daemon. When the roots change later, it does so at the first message while
//! no request is in flight.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::envelope::{LineKind, raw_of};

/// How long a client may take to answer `roots/list`. After that the bridge stays with its server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How many bytes are held back meanwhile.
const HELD_LIMIT: usize = 1024 * 1024;

pub(super) struct ClientRoots {
    /// The roots of the server that the bridge is connected to; `None` where roots do not count.
    current: Option<Vec<String>>,
    is_declared: bool,
    state: RootsState,
    last: u64,
}

enum RootsState {
    Settled,
    Asked(AskedRoots),
    /// The client has these, and the bridge is still elsewhere.
    Changed(Vec<String>),
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
            current: counts.then(Vec::new),
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
        let roots = roots.map(|roots| roots.into_iter().collect::<Vec<_>>());
        let changed = roots.filter(|roots| Some(roots) != self.current.as_ref());
        let next = changed.map_or(RootsState::Settled, RootsState::Changed);
        self.release(next)
    }

    /// When the wait for the client's answer is over, if there is one.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.state {
            RootsState::Asked(asked) => Some(asked.deadline),
            RootsState::Settled | RootsState::Changed(_) => None,
        }
    }

    /// The client does not answer: the bridge stays where it is.
    pub(super) fn give_up(&mut self) -> RootsStep {
        self.release(RootsState::Settled)
    }

    fn release(&mut self, next: RootsState) -> RootsStep {
        match std::mem::replace(&mut self.state, next) {
            RootsState::Asked(asked) => RootsStep::Release(asked.held),
            RootsState::Settled | RootsState::Changed(_) => RootsStep::Release(Vec::new()),
        }
    }

    /// The roots of the server that the bridge is to go to now, if it is elsewhere.
    pub(super) fn take_changed(&mut self) -> Option<Vec<String>> {
        match std::mem::replace(&mut self.state, RootsState::Settled) {
            RootsState::Changed(roots) => {
                self.current = Some(roots.clone());
                Some(roots)
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
        assert_eq!(roots.take_changed().unwrap(), ["file:///a", "file:///b"]);
        assert_eq!(roots.take_changed(), None);
        // The same set in another order changes nothing.
        assert!(matches!(roots.step(CHANGED, now), RootsStep::PassAndAsk(_)));
        roots.step(&answer(2, &["file:///a", "file:///b"]), now);
        assert_eq!(roots.take_changed(), None);
    }

    #[test]
    fn a_client_that_does_not_answer_stays_where_it_is() {
        let (mut roots, now) = (ClientRoots::new(true), Instant::now());
        roots.step(INITIALIZE, now);
        roots.step(INITIALIZED, now);
        roots.step(CALL, now);
        assert_eq!(roots.deadline(), Some(now + ANSWER_TIMEOUT));
        assert_eq!(roots.give_up(), RootsStep::Release(vec![CALL.to_vec()]));
        assert_eq!((roots.deadline(), roots.take_changed()), (None, None));
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
    fn a_client_that_sends_much_before_its_roots_stays_where_it_is() {
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
        assert_eq!(roots.take_changed(), None);
    }

    #[test]
    fn a_client_that_refuses_to_tell_its_roots_stays_where_it_is() {
        let (mut roots, now) = (ClientRoots::new(true), Instant::now());
        roots.step(INITIALIZE, now);
        roots.step(INITIALIZED, now);
        roots.step(CALL, now);
        let refusal = br#"{"jsonrpc":"2.0","id":"mainstay-roots-1","error":{"code":-32601,"message":"no"}}"#;
        assert_eq!(roots.step(refusal, now), RootsStep::Release(vec![CALL.to_vec()]));
        assert_eq!(roots.take_changed(), None);
    }
}
