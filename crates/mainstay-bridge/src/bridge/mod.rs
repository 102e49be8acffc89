//! The bridge: passes a host's messages to the daemon and back, and outlives the daemon.
//!
//! Two threads: one reads the host and writes to the daemon, one reads the daemon and writes to the host. So a side that does not read
//! stops the messages to it and no others. The second thread also finds the next daemon when the first is gone: it fails what may have
//! run, tells the new daemon of the session, and sends what is to be sent again. Meanwhile the first thread waits, and with it the host's
//! pipe. A third thread, which rests while the host waits for nothing, notices a daemon that is frozen.

mod envelope;
mod failure;
mod in_flight;
mod lines;
mod read_lists;
mod roots;
mod session;

use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::dial::{ConnectError, DaemonDialer, Dialed};
use crate::hello::{ConnectRequest, EndNotice, EndReason, Hello, Share, line};
use lines::{BlockingLines, LinePiece, write_all};
use roots::{ClientRoots, RootsServer, RootsStep};
use session::{FromDaemon, FromHost, HostSession};

/// How long the daemon may take with its last answers after the host has closed its side: longer than the daemon gives them.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_secs(4);

/// How long a new daemon may take to answer the session's `initialize` before the rest follows. Only a server that was never up takes
/// longer.
const RESUME_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a daemon may say nothing while the host waits for an answer, before the bridge asks whether it is alive.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);

/// The thread that looks for a frozen daemon needs little.
const WATCH_STACK_SIZE: usize = 256 * 1024;

/// After how many questions without an answer the daemon counts as frozen. Each takes ten seconds; one alone may meet a daemon that
/// ends in order behind a socket that a service manager holds.
const UNANSWERED_PROBES: u32 = 2;

/// What is known when a daemon is gone before the session was resumed: it got nothing but the introduction.
const NOTHING_SENT: EndNotice = EndNotice {
    reason: EndReason::Restart,
    answered_all: true,
};

const LOST: &str = "The Mainstay daemon ended, and is being started again.";

/// Connects the host on the standard input and output to a server of the daemon, until the host closes its side. Fails if no daemon
/// can be had at first.
pub fn run(dialer: DaemonDialer, request: ConnectRequest) -> Result<(), ConnectError> {
    let dialed = dialer.dial(&line(&Hello::connecting(request.clone())))?;
    let unusable = |source| ConnectError::Socket {
        socket: "standard input and output".to_owned(),
        source,
    };
    let input = standard(&io::stdin()).map_err(unusable)?;
    let output = standard(&io::stdout()).map_err(unusable)?;
    Bridge::new(dialer, request, output)
        .serve(dialed, input)
        .map_err(unusable)
}

/// A descriptor of its own, without the buffer and the lock of the standard one.
fn standard(stream: &impl AsFd) -> io::Result<File> {
    Ok(File::from(stream.as_fd().try_clone_to_owned()?))
}

struct Bridge {
    dialer: DaemonDialer,
    /// Where the host reads.
    output: Mutex<File>,
    link: Mutex<Link>,
    /// Notified at every change of the link that another thread may wait for.
    changed: Condvar,
    /// Wakes the thread that looks for a frozen daemon.
    asked: Condvar,
}

/// The connection to the daemon, and the session that it carries.
struct Link {
    session: HostSession,
    roots: ClientRoots,
    /// What the bridge wants to be connected to.
    request: ConnectRequest,
    /// `None` while there is no daemon.
    stream: Option<Arc<UnixStream>>,
    server: Option<String>,
    /// A thread writes to the stream.
    is_sending: bool,
    /// The host has something to send, and there is no daemon.
    host_waits: bool,
    /// Why the search for a daemon failed, for the line that waited for it.
    failure: Option<String>,
    host_has_closed: bool,
    /// How many threads wait for a change.
    waiting: u32,
    /// How many pieces of lines came from daemons.
    received: u64,
    /// The thread that looks for a frozen daemon rests until the host asks for something.
    watch_rests: bool,
    /// Why the connection was given up, if the daemon is frozen.
    frozen: Option<String>,
}

/// Why no more lines of a daemon are read.
enum DaemonEnd {
    Gone(Option<EndNotice>),
    /// The host does not read any more.
    HostGone,
}

impl Bridge {
    fn new(dialer: DaemonDialer, request: ConnectRequest, output: File) -> Arc<Self> {
        Arc::new(Self {
            dialer,
            output: Mutex::new(output),
            link: Mutex::new(Link {
                session: HostSession::default(),
                roots: ClientRoots::new(request.share == Share::Roots),
                request,
                stream: None,
                server: None,
                is_sending: false,
                host_waits: false,
                failure: None,
                host_has_closed: false,
                waiting: 0,
                received: 0,
                watch_rests: false,
                frozen: None,
            }),
            changed: Condvar::new(),
            asked: Condvar::new(),
        })
    }

    fn serve(self: Arc<Self>, first: Dialed, input: File) -> io::Result<()> {
        let mut lines = self.publish(first)?;
        let reading = self.clone();
        // It ends with the process: it may be waiting for a host that never closes its side.
        thread::Builder::new()
            .name("from-host".to_owned())
            .spawn(move || reading.read_host(input))?;
        let watching = self.clone();
        thread::Builder::new()
            .name("watch".to_owned())
            .stack_size(WATCH_STACK_SIZE)
            .spawn(move || watching.watch_daemon())?;
        loop {
            let notice = match self.read_daemon(&mut lines) {
                DaemonEnd::HostGone => return Ok(()),
                DaemonEnd::Gone(notice) => notice,
            };
            if !self.lose(lines.get_ref(), notice) {
                return Ok(());
            }
            let Some(next) = self.find_next(notice) else {
                return Ok(());
            };
            lines = next;
        }
    }

    /// Passes the host's lines to the daemon until the host closes its side.
    fn read_host(&self, input: File) {
        let mut lines = BlockingLines::of_host(input);
        // Where the parts of a line go that is too long.
        let mut parts_to = None;
        loop {
            let deadline = self.link().roots.deadline();
            if deadline.is_some_and(|deadline| !lines.wait_until(deadline)) {
                let step = self.link().roots.give_up();
                self.follow(step, b"");
            }
            match lines.next() {
                LinePiece::Line(line) => self.take_line(line),
                LinePiece::Part { bytes, is_last } => {
                    let to = parts_to.get_or_insert_with(|| self.link().stream.clone());
                    self.send_part(to.as_ref(), bytes);
                    if is_last {
                        parts_to = None;
                    }
                }
                LinePiece::End => break,
            }
        }
        let mut link = self.link();
        link.host_has_closed = true;
        if let Some(stream) = &link.stream {
            // The daemon answers what runs, within its grace, and closes.
            let _ = stream.shutdown(Shutdown::Write);
        }
        self.changed.notify_all();
        let (link, _) = self
            .changed
            .wait_timeout_while(link, LAST_ANSWERS_TIMEOUT, |link| link.stream.is_some())
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = &link.stream {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn take_line(&self, line: &[u8]) {
        let step = self.link().roots.step(line, Instant::now());
        self.follow(step, line);
    }

    fn follow(&self, step: RootsStep, line: &[u8]) {
        match step {
            RootsStep::Pass => self.send(line),
            RootsStep::Held => {}
            RootsStep::PassAndAsk(question) => {
                self.send(line);
                let _ = self.write_host(&question);
            }
            RootsStep::Release(held) => held.iter().for_each(|line| self.send(line)),
        }
    }

    /// Goes to the server for the client's roots, if the bridge is elsewhere and no request is in flight. It leaves the connection; the
    /// thread that reads finds the end of it and dials again.
    fn follow_roots(link: &mut Link) {
        if link.session.has_requests() {
            return;
        }
        if let Some(server) = link.roots.take_changed() {
            (link.request.share, link.request.roots) = match server {
                RootsServer::Of(roots) => (Share::Roots, Some(roots)),
                RootsServer::Own => (Share::Never, None),
            };
            if let Some(stream) = link.stream.take() {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    /// Sends one line of the host. A line that was not written as a whole did not reach the daemon, and goes to the next one.
    fn send(&self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let mut link = self.link();
        Self::follow_roots(&mut link);
        loop {
            link = self.wait_for_daemon(link);
            let (added, is_answer) = match link.session.note_host_line(line) {
                FromHost::Send { added } => (added, false),
                FromHost::Answer => (Vec::new(), true),
            };
            let Some(stream) = link.stream.clone() else {
                let why = link.failure.take().unwrap_or_default();
                let server = link.server.clone();
                let answers = link.session.refuse(&added, &why, server.as_deref());
                drop(link);
                let _ = self.write_host(&answers.concat());
                return;
            };
            link.is_sending = true;
            if link.watch_rests && link.session.awaits_answer() {
                link.watch_rests = false;
                self.asked.notify_all();
            }
            drop(link);
            let written = write_all(&mut &*stream, line);
            link = self.link();
            link.is_sending = false;
            // A notification is a system call, also if no thread waits: this is on the way of every message.
            if link.waiting > 0 {
                self.changed.notify_all();
            }
            // An answer belongs to the daemon that asked.
            if written.is_ok() || is_answer {
                return;
            }
            link.session.not_sent(&added);
            link.drop_stream(&stream);
        }
    }

    /// Sends a part of a line that is too long, which the daemon refuses at its end. If that daemon is gone, the part is dropped.
    fn send_part(&self, to: Option<&Arc<UnixStream>>, bytes: &[u8]) {
        let mut link = self.link();
        while link.is_sending {
            link = self.wait(link);
        }
        let (Some(stream), Some(to)) = (link.stream.clone(), to) else {
            return;
        };
        if !Arc::ptr_eq(&stream, to) {
            return;
        }
        link.is_sending = true;
        drop(link);
        let _ = write_all(&mut &*stream, bytes);
        self.link().is_sending = false;
        self.changed.notify_all();
    }

    /// Gives up the connection to a daemon that says nothing while the host waits for an answer, and does not answer a new connection
    /// either: it is stopped, or hangs. The thread that reads finds the end of the connection.
    fn watch_daemon(&self) {
        let mut link = self.link();
        loop {
            while !link.session.awaits_answer() {
                link.watch_rests = true;
                link = self.asked.wait(link).unwrap_or_else(PoisonError::into_inner);
            }
            link.watch_rests = false;
            let received = link.received;
            let waited = self
                .asked
                .wait_timeout_while(link, SILENCE_LIMIT, |link| link.received == received);
            (link, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let Some(stream) = link.stream.clone() else {
                // Another one is being found.
                continue;
            };
            if link.received != received || !link.session.awaits_answer() {
                continue;
            }
            drop(link);
            let frozen = (0..UNANSWERED_PROBES).try_fold(None, |_, _| self.dialer.probe().err().map(Some));
            link = self.link();
            if let Some(Some(error)) = frozen
                && link.received == received
                && link.stream.as_ref().is_some_and(|now| Arc::ptr_eq(now, &stream))
            {
                link.frozen = Some(format!("The Mainstay daemon is frozen ({error})."));
                let _ = stream.shutdown(Shutdown::Both);
                // What is left to do is to find another one; that is not watched.
                while link.stream.as_ref().is_some_and(|now| Arc::ptr_eq(now, &stream)) {
                    link = self.wait(link);
                }
            }
        }
    }

    /// Waits until there is a daemon that no other thread writes to, or the search for one has failed.
    fn wait_for_daemon<'a>(&self, mut link: MutexGuard<'a, Link>) -> MutexGuard<'a, Link> {
        loop {
            let is_ready = match &link.stream {
                Some(_) => !link.is_sending,
                None => link.failure.is_some(),
            };
            link.host_waits = !is_ready && link.stream.is_none();
            if is_ready {
                return link;
            }
            self.changed.notify_all();
            link = self.wait(link);
        }
    }

    /// Passes the daemon's lines to the host until one of the two is gone.
    fn read_daemon(&self, lines: &mut BlockingLines<UnixStream>) -> DaemonEnd {
        let mut notice = None;
        loop {
            match self.pass_one(lines) {
                Ok(Passed::Message | Passed::Swallowed(_)) => {}
                Ok(Passed::EndNotice(said)) => notice = Some(said),
                Ok(Passed::End) => return DaemonEnd::Gone(notice),
                Err(_) => return DaemonEnd::HostGone,
            }
        }
    }

    /// Passes one line of the daemon. Fails if the host does not read any more.
    fn pass_one(&self, lines: &mut BlockingLines<UnixStream>) -> io::Result<Passed> {
        match lines.next() {
            LinePiece::Line(line) => {
                let passed = {
                    let mut link = self.link();
                    link.received += 1;
                    link.session.note_daemon_line(line)
                };
                match passed {
                    FromDaemon::Pass => self.write_host(line)?,
                    FromDaemon::Swallow(id) => return Ok(Passed::Swallowed(id)),
                    FromDaemon::Replace(notification) => self.write_host(&notification)?,
                    FromDaemon::Ends(notice) => return Ok(Passed::EndNotice(notice)),
                }
            }
            LinePiece::Part { bytes, .. } => {
                self.link().received += 1;
                self.write_host(bytes)?;
            }
            LinePiece::End => return Ok(Passed::End),
        }
        Ok(Passed::Message)
    }

    fn write_host(&self, bytes: &[u8]) -> io::Result<()> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        write_all(&mut *output, bytes)
    }

    /// The daemon is gone: tells the host what becomes of its requests; `false` if the host is gone too.
    fn lose(&self, stream: &UnixStream, notice: Option<EndNotice>) -> bool {
        // A thread that is writing to it fails at once.
        let _ = stream.shutdown(Shutdown::Both);
        let mut link = self.link();
        link.stream = None;
        self.changed.notify_all();
        while link.is_sending {
            link = self.wait(link);
        }
        if link.host_has_closed {
            return false;
        }
        let server = link.server.clone();
        let why = link.frozen.take();
        let why = why.as_deref().unwrap_or(LOST);
        let messages = link.session.lost(notice, why, server.as_deref());
        drop(link);
        self.write_host(&messages.concat()).is_ok()
    }

    /// Finds the next daemon and tells it of the session; `None` when the host is gone.
    fn find_next(self: &Arc<Self>, notice: Option<EndNotice>) -> Option<BlockingLines<UnixStream>> {
        let mut may_rest = match notice.map(|notice| notice.reason) {
            // A person stopped it: it comes back when the host needs it.
            Some(EndReason::Stop | EndReason::Idle) => true,
            Some(EndReason::Restart) | None => false,
        };
        loop {
            let mut link = self.link();
            may_rest &= !link.session.needs_daemon();
            while may_rest && !link.host_waits && !link.host_has_closed {
                link = self.wait(link);
            }
            if link.host_has_closed {
                return None;
            }
            let hello = line(&Hello::connecting(ConnectRequest {
                resumes: true,
                ..link.request.clone()
            }));
            drop(link);
            match self.dialer.dial(&hello).map(|dialed| self.resume(dialed)) {
                Ok(Some(lines)) => return Some(lines),
                // It was gone again before the session was resumed.
                Ok(None) => may_rest = false,
                Err(error) => {
                    self.fail(&error)?;
                    may_rest = true;
                }
            }
        }
    }

    /// No daemon can be had now: everything that waits for one fails. The next message of the host begins another search.
    fn fail(&self, error: &ConnectError) -> Option<()> {
        let mut link = self.link();
        let why = format!("The Mainstay daemon cannot be reached ({error}).");
        let server = link.server.clone();
        let messages = link.session.give_up(&why, server.as_deref());
        link.failure = std::mem::take(&mut link.host_waits).then_some(why);
        self.changed.notify_all();
        drop(link);
        self.write_host(&messages.concat()).ok()
    }

    /// Tells a new daemon of the session; `None` if it is gone meanwhile.
    fn resume(self: &Arc<Self>, dialed: Dialed) -> Option<BlockingLines<UnixStream>> {
        let Dialed { stream, reply } = dialed;
        let initialize = self.link().session.replay_initialize();
        let mut lines = BlockingLines::of_daemon(stream);
        if let Some((line, id)) = initialize {
            write_all(&mut lines.get_ref(), &line).ok()?;
            // What follows belongs to a session that is open.
            let deadline = Instant::now() + RESUME_TIMEOUT;
            while lines.wait_until(deadline) {
                match self.pass_one(&mut lines).ok()? {
                    Passed::Swallowed(answered) if answered.as_ref() == Some(&id) => break,
                    Passed::Message | Passed::Swallowed(_) => {}
                    Passed::EndNotice(_) | Passed::End => {
                        let messages =
                            self.link()
                                .session
                                .lost(Some(NOTHING_SENT), LOST, reply.server.as_deref());
                        let _ = self.write_host(&messages.concat());
                        return None;
                    }
                }
            }
        }
        let mut link = self.link();
        let rest = link.session.replay_rest().concat();
        let shared = Arc::new(lines.get_ref().try_clone().ok()?);
        link.stream = Some(shared.clone());
        link.server = reply.server;
        if link.host_has_closed {
            let _ = shared.shutdown(Shutdown::Write);
        }
        link.is_sending = !rest.is_empty();
        self.changed.notify_all();
        drop(link);
        if !rest.is_empty() {
            self.send_rest(shared, rest);
        }
        Some(lines)
    }

    /// Writes what a resumed session begins with in a thread of its own, while this one reads the answers.
    fn send_rest(self: &Arc<Self>, stream: Arc<UnixStream>, rest: Vec<u8>) {
        let bridge = self.clone();
        let write = move || {
            let written = write_all(&mut &*stream, &rest);
            let mut link = bridge.link();
            link.is_sending = false;
            if written.is_err() {
                link.drop_stream(&stream);
            }
            bridge.changed.notify_all();
        };
        if thread::Builder::new()
            .name("resume".to_owned())
            .spawn(write)
            .is_err()
        {
            // No thread is to be had: the connection is given up, and the next one tries again.
            let mut link = self.link();
            link.is_sending = false;
            if let Some(stream) = link.stream.take() {
                let _ = stream.shutdown(Shutdown::Both);
            }
            self.changed.notify_all();
        }
    }

    /// Makes the first connection the current one.
    fn publish(&self, dialed: Dialed) -> io::Result<BlockingLines<UnixStream>> {
        let Dialed { stream, reply } = dialed;
        let mut link = self.link();
        link.stream = Some(Arc::new(stream.try_clone()?));
        link.server = reply.server;
        Ok(BlockingLines::of_daemon(stream))
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, mut link: MutexGuard<'a, Link>) -> MutexGuard<'a, Link> {
        link.waiting += 1;
        let mut link = self.changed.wait(link).unwrap_or_else(PoisonError::into_inner);
        link.waiting -= 1;
        link
    }
}

/// What a line of the daemon was.
enum Passed {
    Message,
    /// It was for the bridge: the answer to this id.
    Swallowed(Option<String>),
    EndNotice(EndNotice),
    End,
}

impl Link {
    /// The stream failed. The thread that reads it finds the end of it, and the next daemon.
    fn drop_stream(&mut self, failed: &Arc<UnixStream>) {
        if self
            .stream
            .as_ref()
            .is_some_and(|stream| Arc::ptr_eq(stream, failed))
        {
            self.stream = None;
        }
    }
}

#[cfg(test)]
mod tests;
