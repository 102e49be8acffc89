//! A server in memory that plays a script at the other end of a stream, on tokio's clock.
//!
//! Made for paused time: nothing here sleeps but through `tokio::time`, and every wait of a test has an event behind it.
//! There is no process: faults that would end one cut the connection instead.

pub(crate) mod seen;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{
    self, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, ReadHalf, WriteHalf,
};
use tokio::sync::{mpsc, watch};

use crate::action::{Action, Signal};
use crate::responder::{Incoming, Responder};
use crate::script::Script;
use seen::SeenMessages;

/// Writes that may wait for the stream; a track that adds one more waits itself.
const QUEUED_WRITES: usize = 1024;

/// Longer than any test waits for a message.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// What a hook decides about a message: `Some` replaces what the script would do.
pub type Hook = Box<dyn FnMut(&Incoming) -> Option<Vec<Action>> + Send>;

/// The handle of a scripted server in memory. Dropping it leaves the server playing until its stream ends.
#[derive(Clone)]
pub struct MemoryServer {
    shared: Arc<Shared>,
    writes: mpsc::Sender<Write>,
}

impl MemoryServer {
    /// Plays `script` on `stream`, in tasks of the current runtime.
    pub fn spawn<S>(stream: S, script: Script) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        Self::spawn_with(stream, script, Box::new(|_| None))
    }

    /// As [`MemoryServer::spawn`], with a hook that sees each message first.
    pub fn spawn_with<S>(stream: S, script: Script, hook: Hook) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (reader, writer) = io::split(stream);
        let (writes, queue) = mpsc::channel(QUEUED_WRITES);
        let shared = Arc::new(Shared {
            responder: Mutex::new(Responder::new(script, 1)),
            seen: watch::Sender::new(SeenMessages::default()),
            life: watch::Sender::new(Life::Playing),
        });
        let memory_server = Self { shared, writes };
        tokio::spawn(write_all(Arc::clone(&memory_server.shared), writer, queue));
        tokio::spawn(memory_server.clone().read_all(reader, hook));
        memory_server
    }

    /// How many requests and notifications of this method have arrived.
    #[must_use]
    pub fn count(&self, method: &str) -> usize {
        self.shared.seen.borrow().count(method)
    }

    /// How many messages of any kind have arrived.
    #[must_use]
    pub fn total(&self) -> usize {
        self.shared.seen.borrow().total()
    }

    /// Waits until at least `count` messages of this method have arrived, or the connection is over.
    ///
    /// # Panics
    /// When an hour has passed by tokio's clock: a test whose event never comes fails instead of hanging.
    ///
    /// # Cancel safety
    /// Safe: it only looks.
    pub async fn wait_for(&self, method: &str, count: usize) {
        let mut seen = self.shared.seen.subscribe();
        let enough = |seen: &SeenMessages| seen.count(method) >= count;
        tokio::select! {
            _ = seen.wait_for(enough) => {}
            () = self.shared.over() => {}
            () = tokio::time::sleep(LONGEST_WAIT) => panic!("no {count} messages of {method:?} in an hour"),
        }
    }

    /// The last messages that arrived, oldest first.
    #[must_use]
    pub fn received(&self) -> Vec<Incoming> {
        self.shared.seen.borrow().messages().cloned().collect()
    }

    /// The params of the last message of this method.
    #[must_use]
    pub fn last_params(&self, method: &str) -> Option<Value> {
        let seen = self.shared.seen.borrow();
        seen.messages()
            .rev()
            .find(|message| message.method() == method)
            .map(|message| message.params().clone())
    }

    /// How many ledger lines begin with these words, as in [`crate::Ledger::count`].
    #[must_use]
    pub fn noted(&self, words: &str) -> usize {
        self.shared.seen.borrow().noted(words)
    }

    /// Changes the script while it plays.
    pub fn edit(&self, change: impl FnOnce(&mut Script)) {
        change(self.shared.responder().script_mut());
    }

    /// Writes a line, valid or not.
    ///
    /// # Cancel safety
    /// Safe: the line is queued whole or not at all.
    pub async fn inject(&self, line: &str) {
        self.inject_bytes(format!("{line}\n").into_bytes()).await;
    }

    /// Writes a JSON message.
    ///
    /// # Cancel safety
    /// As [`MemoryServer::inject`].
    pub async fn inject_message(&self, message: &Value) {
        self.inject(&message.to_string()).await;
    }

    /// Writes bytes as they are.
    ///
    /// # Cancel safety
    /// As [`MemoryServer::inject`].
    pub async fn inject_bytes(&self, bytes: Vec<u8>) {
        // A stream that is gone takes nothing, which is what its reader will see.
        let _gone = self.writes.send(Write::Bytes(bytes)).await;
    }

    /// Drops the stream, at once: what is queued is lost.
    pub fn cut(&self) {
        self.shared.end();
    }

    /// Waits until the connection is over: cut, ended by the script, or its input ended.
    ///
    /// # Cancel safety
    /// Safe: it only looks.
    pub async fn over(&self) {
        self.shared.over().await;
    }

    async fn read_all<S: AsyncRead>(self, reader: ReadHalf<S>, mut hook: Hook) {
        let opening = self.shared.responder().start();
        self.perform_here(opening).await;
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = tokio::select! {
                read = reader.read_until(b'\n', &mut line) => read,
                () = self.shared.over() => return,
            };
            match read {
                Ok(0) | Err(_) => break,
                Ok(_) => {
                    let actions = self.take(line.trim_ascii_end(), &mut hook);
                    self.perform(actions).await;
                }
            }
        }
        let ending = self.shared.responder().end_of_input();
        self.perform_here(ending).await;
    }

    fn take(&self, line: &[u8], hook: &mut Hook) -> Vec<Action> {
        let Ok(message) = Incoming::parse(line) else {
            return self.shared.responder().line(line);
        };
        let actions = hook(&message).unwrap_or_else(|| self.shared.responder().message(&message));
        self.shared.seen.send_modify(|seen| seen.add(message));
        actions
    }

    /// Performs at once up to the first wait; the rest gets its own task.
    async fn perform(&self, mut actions: Vec<Action>) {
        let waits = actions
            .iter()
            .position(|action| matches!(action, Action::Wait(_) | Action::Work(..)));
        let rest = actions.split_off(waits.unwrap_or(actions.len()));
        if self.perform_here(actions).await && !rest.is_empty() {
            self.aside(rest);
        }
    }

    fn aside(&self, actions: Vec<Action>) {
        let memory_server = self.clone();
        tokio::spawn(async move { memory_server.perform_here(actions).await });
    }

    /// Performs all actions in this task; `false` when they were stopped by a cancellation or the end.
    async fn perform_here(&self, actions: Vec<Action>) -> bool {
        tokio::select! {
            finished = self.perform_each(actions) => finished,
            () = self.shared.over() => false,
        }
    }

    async fn perform_each(&self, actions: Vec<Action>) -> bool {
        for action in actions {
            let write = match action {
                Action::Note(note) => {
                    self.shared.seen.send_modify(|seen| seen.note(note));
                    continue;
                }
                Action::Wait(pause) | Action::Work(pause, _) | Action::Block(pause) => {
                    tokio::time::sleep(pause).await;
                    continue;
                }
                Action::StopIfCancelled(id) => {
                    if self.shared.responder().is_cancelled(&id) {
                        return false;
                    }
                    continue;
                }
                Action::Aside(actions) => {
                    self.aside(actions);
                    continue;
                }
                Action::Stderr(_) | Action::Spawn(_) => continue,
                Action::Park | Action::CloseStdin => std::future::pending().await,
                Action::Signal(Signal::Stop) => {
                    let _gone = self.writes.send(Write::Silence).await;
                    std::future::pending().await
                }
                Action::Write(bytes) => Write::Bytes(bytes),
                Action::WriteFilled { head, fill, tail } => {
                    Write::Bytes([head, vec![b'x'; fill], tail].concat())
                }
                Action::Repeat { line, count } => {
                    Write::Bytes(line.repeat(usize::try_from(count).unwrap_or(usize::MAX)))
                }
                Action::Silence => Write::Silence,
                Action::CloseStdout => Write::Close,
                Action::Exit(_) | Action::Signal(Signal::Kill | Signal::Term | Signal::Abrt) => Write::Cut,
            };
            if self.writes.send(write).await.is_err() {
                return false;
            }
        }
        true
    }
}

impl std::fmt::Debug for MemoryServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("MemoryServer")
            .field("total", &self.total())
            .finish_non_exhaustive()
    }
}

struct Shared {
    responder: Mutex<Responder>,
    seen: watch::Sender<SeenMessages>,
    life: watch::Sender<Life>,
}

impl Shared {
    fn responder(&self) -> MutexGuard<'_, Responder> {
        self.responder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.life.send_replace(Life::Over);
    }

    async fn over(&self) {
        let mut life = self.life.subscribe();
        // The sender is in `self`, so the wait cannot fail.
        let _over = life.wait_for(|life| *life == Life::Over).await;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Playing,
    Over,
}

/// Commands to the writing task, in order.
enum Write {
    Bytes(Vec<u8>),
    Silence,
    Close,
    Cut,
}

async fn write_all<S: AsyncWrite>(
    shared: Arc<Shared>,
    mut writer: WriteHalf<S>,
    mut queue: mpsc::Receiver<Write>,
) {
    let mut silent = false;
    let play = async {
        while let Some(write) = queue.recv().await {
            match write {
                Write::Bytes(_) if silent => {}
                Write::Bytes(bytes) => {
                    if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
                        silent = true;
                    }
                }
                Write::Silence => silent = true,
                Write::Close => {
                    silent = true;
                    // A peer that is gone has seen the end already.
                    let _gone = writer.shutdown().await;
                }
                Write::Cut => return,
            }
        }
    };
    tokio::select! {
        () = play => shared.end(),
        () = shared.over() => {}
    }
}

#[cfg(test)]
mod tests;
