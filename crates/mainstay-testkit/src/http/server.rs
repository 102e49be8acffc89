//! What all connections of a server share: its script, its sessions, and what it has seen.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{oneshot, watch};

use super::fault::HttpFault;
use super::rule::HttpStep;
use super::script::HttpScript;
use super::session::{ScriptedSession, SessionKind};
use super::stream::AnswerStream;
use super::traffic::Traffic;
use crate::action::Signal;
use crate::ledger::Ledger;
use crate::responder::{Incoming, Responder};
use crate::rule::Matched;
use crate::script::{Script, Speaks};
use crate::stdio;

/// Where a server runs, and so what its end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunsAs {
    /// A task: it stops listening and closes all connections.
    Task,
    /// A process of its own: it exits, or signals itself.
    Process,
}

/// The current run of a server. Each restart begins another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ServerRun {
    pub(super) run: u64,
    /// Nothing is written any more, on any connection.
    silent: bool,
}

#[derive(Debug)]
pub(super) struct HttpServerCore {
    stage: RunsAs,
    state: Mutex<ServerState>,
    traffic: watch::Sender<Traffic>,
    life: watch::Sender<ServerRun>,
    ledger: Option<File>,
}

#[derive(Debug)]
struct ServerState {
    script: Script,
    http: HttpScript,
    matched: Matched,
    /// How often the server was started, in all processes of its ledger.
    starts: u64,
    opened: u64,
    sessions: BTreeMap<String, Arc<ScriptedSession>>,
    stateless: Arc<ScriptedSession>,
    /// The first of two requests whose answers are to be exchanged.
    swapping: Option<(AnswerStream, oneshot::Sender<AnswerStream>)>,
}

impl HttpServerCore {
    pub(super) fn new(script: Script, http: HttpScript, stage: RunsAs) -> Self {
        let ledger = script.ledger.as_ref().map(|path| {
            let open = OpenOptions::new().create(true).append(true).open(path);
            open.expect("open the ledger")
        });
        let stateless = Arc::new(ScriptedSession::new(
            String::new(),
            SessionKind::Stateless,
            Responder::new(script.clone(), 0),
        ));
        Self {
            stage,
            state: Mutex::new(ServerState {
                script,
                http,
                matched: Matched::default(),
                starts: 0,
                opened: 0,
                sessions: BTreeMap::new(),
                stateless,
                swapping: None,
            }),
            traffic: watch::Sender::new(Traffic::default()),
            life: watch::Sender::new(ServerRun::default()),
            ledger,
        }
    }

    /// Begins a run that knows no session of those before.
    pub(super) fn begin(&self) -> u64 {
        self.note(format!("start {}", process::id()));
        let mut state = self.state();
        let in_ledger = state
            .script
            .ledger
            .as_ref()
            .map(|path| Ledger::at(path).count("start"));
        state.starts = in_ledger.map_or(state.starts + 1, |starts| starts as u64);
        state.sessions.clear();
        state.swapping = None;
        let responder = Responder::new(state.script.clone(), state.starts);
        state.stateless = Arc::new(ScriptedSession::new(
            String::new(),
            SessionKind::Stateless,
            responder,
        ));
        drop(state);
        self.life.send_modify(|life| life.silent = false);
        self.life.borrow().run
    }

    pub(super) fn traffic(&self) -> &watch::Sender<Traffic> {
        &self.traffic
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Traffic)) {
        self.traffic.send_modify(change);
    }

    pub(super) fn note(&self, note: String) {
        if let Some(ledger) = &self.ledger {
            stdio::write_note(ledger, &note);
        }
        self.count(|traffic| traffic.seen.note(note));
    }

    pub(super) fn speaks(&self) -> Speaks {
        self.state().script.speaks
    }

    pub(super) fn http(&self) -> HttpScript {
        self.state().http.clone()
    }

    /// Changes the script of the server and of all its sessions.
    pub(super) fn edit(&self, change: impl Fn(&mut Script)) {
        let mut state = self.state();
        change(&mut state.script);
        for session in state.sessions.values().chain([&state.stateless]) {
            change(session.responder().script_mut());
        }
    }

    pub(super) fn edit_http(&self, change: impl FnOnce(&mut HttpScript)) {
        change(&mut self.state().http);
    }

    pub(super) fn fired(&self, step: HttpStep, message: Option<&Incoming>) -> Vec<HttpFault> {
        let state = &mut *self.state();
        state
            .matched
            .fired(&state.http.rules, step, message, state.starts)
    }

    /// Opens a session under an id that no other run or process has used.
    pub(super) fn open_session(&self, kind: SessionKind) -> Arc<ScriptedSession> {
        let mut state = self.state();
        state.opened += 1;
        let id = format!("s{}-{}-{}", process::id(), self.life.borrow().run, state.opened);
        let responder = Responder::new(state.script.clone(), state.starts);
        let session = Arc::new(ScriptedSession::new(id.clone(), kind, responder));
        state.sessions.insert(id, Arc::clone(&session));
        drop(state);
        self.count(|traffic| traffic.sessions_opened += 1);
        session
    }

    pub(super) fn session(&self, id: &str) -> Option<Arc<ScriptedSession>> {
        self.state().sessions.get(id).cloned()
    }

    pub(super) fn stateless(&self) -> Arc<ScriptedSession> {
        Arc::clone(&self.state().stateless)
    }

    /// All sessions, the stateless one included.
    pub(super) fn sessions(&self) -> Vec<Arc<ScriptedSession>> {
        let state = self.state();
        let all = state.sessions.values().chain([&state.stateless]);
        all.cloned().collect()
    }

    /// Forgets a session and ends its streams; `false` when there was none.
    pub(super) fn forget(&self, id: &str) -> bool {
        let removed = self.state().sessions.remove(id);
        removed.inspect(|session| session.close()).is_some()
    }

    /// The stream to answer with, once another request is there to take this one in exchange.
    pub(super) async fn swap(&self, stream: AnswerStream) -> AnswerStream {
        let receiver = {
            let mut state = self.state();
            match state.swapping.take() {
                Some((other, sender)) if !sender.is_closed() => {
                    // The other request looked a moment ago; if it is gone now, so is its answer.
                    let _gone = sender.send(stream);
                    return other;
                }
                Some(_) | None => {
                    let (sender, receiver) = oneshot::channel();
                    state.swapping = Some((stream.clone(), sender));
                    receiver
                }
            }
        };
        receiver.await.unwrap_or(stream)
    }

    pub(super) fn silence(&self) {
        self.life.send_modify(|life| life.silent = true);
    }

    /// Waits while the server is silent.
    pub(super) async fn voice(&self) {
        let mut life = self.life.subscribe();
        // The sender is in `self`, so the wait cannot fail; what it yields is a lock, not to be kept.
        let _ = life.wait_for(|life| !life.silent).await;
    }

    /// Waits until this run is over.
    pub(super) async fn over(&self, run: u64) {
        let mut life = self.life.subscribe();
        let _ = life.wait_for(|life| life.run != run).await;
    }

    /// Ends this run, if it is the current one still.
    pub(super) fn end(&self, run: u64) {
        self.life.send_if_modified(|life| {
            let current = life.run == run;
            life.run += u64::from(current);
            current
        });
    }

    pub(super) fn run(&self) -> u64 {
        self.life.borrow().run
    }

    pub(super) fn exit(&self, code: i32) {
        match self.stage {
            RunsAs::Task => self.end(self.run()),
            RunsAs::Process => process::exit(code),
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        match (self.stage, signal) {
            (RunsAs::Process, _) => stdio::signal_self(signal),
            (RunsAs::Task, Signal::Stop) => self.silence(),
            (RunsAs::Task, Signal::Kill | Signal::Term | Signal::Abrt) => self.end(self.run()),
        }
    }

    fn state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
