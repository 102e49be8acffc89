//! Connects to the daemon, and starts one if there is none.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::hello::{Ask, Hello, HelloReply, LINE_LIMIT, PROTOCOL, VERSION, line};
use crate::launch::{DaemonStart, LaunchError, Launcher};
use crate::lock::{is_held, noted_pid};
use crate::runtime_dir::RuntimeDirectory;
use crate::socket::connect;
use crate::wait::wait_readable;

/// How long all tries together may take. A daemon that is being replaced lets calls finish first.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(45);
/// How long the daemon may take to answer the first line.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a daemon may take to start: it may have to wait for the end of another one.
const START_TIMEOUT: Duration = Duration::from_secs(40);
/// Daemons that one search starts. One that ends before it is ready may have been killed; several have another reason.
const START_LIMIT: u32 = 3;
/// The pause after the first try that failed; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// How a daemon is reached.
pub struct DaemonDialer {
    directory: RuntimeDirectory,
    launcher: Launcher,
}

/// Why a bridge is not connected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The daemon refused.
    #[error("{0}")]
    Refused(String),
    /// No daemon could be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The socket cannot be used.
    #[error("cannot connect to the daemon at `{socket}` ({source}): run `mainstay daemon restart`")]
    Socket {
        /// The socket.
        socket: String,
        /// What the system said.
        source: io::Error,
    },
    /// The daemon accepted the connection and did not answer.
    #[error(
        "the daemon does not answer{}: run `mainstay daemon restart`, or end that process",
        pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
    )]
    Silent {
        /// Its process, if it noted it.
        pid: Option<u32>,
    },
}

/// A connection that the daemon has accepted.
pub(crate) struct Dialed {
    pub(crate) stream: UnixStream,
    pub(crate) reply: HelloReply,
}

/// Why one try failed.
enum TryError {
    /// There is no daemon.
    NoDaemon,
    /// The daemon was about to end, or its queue of connections is full: it may be different in a moment.
    Again(io::Error),
    Final(ConnectError),
}

impl DaemonDialer {
    /// Reaches the daemon of this directory, and starts one like this if there is none.
    pub fn new(directory: RuntimeDirectory, launcher: Launcher) -> Self {
        Self { directory, launcher }
    }

    /// Whether the daemon that runs answers a new connection; why not, if it does not. One that is about to end counts as answering:
    /// its connections end by themselves.
    pub(crate) fn probe(&self) -> Result<(), ConnectError> {
        match dial_running(&self.directory, &line(&Hello::asking(Ask::Status))) {
            Err(error @ ConnectError::Silent { .. }) => Err(error),
            // A frozen daemon accepts nothing, and its queue of connections is full.
            Err(error @ ConnectError::Socket { .. }) if is_full(&error) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Makes sure that a daemon answers: the one that runs, or a new one.
    pub fn ensure_daemon(&self) -> Result<DaemonStart, ConnectError> {
        let (_answered, start) = self.find(&line(&Hello::asking(Ask::Status)))?;
        Ok(start)
    }

    /// Connects, and sends this first line. Tries again until a daemon answers or the time is over.
    pub(crate) fn dial(&self, hello: &[u8]) -> Result<Dialed, ConnectError> {
        self.find(hello).map(|(dialed, _)| dialed)
    }

    /// Connects; and whether the daemon that answers was started for that.
    fn find(&self, hello: &[u8]) -> Result<(Dialed, DaemonStart), ConnectError> {
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        let mut pause = FIRST_PAUSE;
        let mut starts = 0;
        let mut start = DaemonStart::Running;
        loop {
            let failed = match dial_once(&self.directory, hello) {
                Ok(dialed) => return Ok((dialed, start)),
                Err(TryError::Final(error)) => return Err(error),
                // A daemon is about to start: one process more would only end again.
                Err(TryError::NoDaemon) if is_held(&self.directory.start_lock()) => None,
                Err(TryError::NoDaemon) => {
                    starts += 1;
                    match self.launcher.start(&self.directory, START_TIMEOUT) {
                        Ok(DaemonStart::Ready) => {
                            start = DaemonStart::Ready;
                            continue;
                        }
                        Ok(DaemonStart::Running) => None,
                        Err(error @ LaunchError::Ended { .. }) if starts < START_LIMIT => Some(error.into()),
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(TryError::Again(source)) => Some(ConnectError::Socket {
                    socket: self.directory.socket().display().to_string(),
                    source,
                }),
            };
            if Instant::now() >= deadline {
                return Err(failed.unwrap_or(ConnectError::Silent {
                    pid: noted_pid(&self.directory.lock()),
                }));
            }
            std::thread::sleep(jittered(pause));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

fn is_full(error: &ConnectError) -> bool {
    match error {
        ConnectError::Socket { source, .. } => source.kind() == io::ErrorKind::WouldBlock,
        ConnectError::Refused(_) | ConnectError::Launch(_) | ConnectError::Silent { .. } => false,
    }
}

/// Connects to the daemon that runs; `None` if there is none.
pub(crate) fn dial_running(
    directory: &RuntimeDirectory,
    hello: &[u8],
) -> Result<Option<Dialed>, ConnectError> {
    match dial_once(directory, hello) {
        Ok(dialed) => Ok(Some(dialed)),
        Err(TryError::NoDaemon) => Ok(None),
        Err(TryError::Final(error)) => Err(error),
        Err(TryError::Again(source)) => Err(ConnectError::Socket {
            socket: directory.socket().display().to_string(),
            source,
        }),
    }
}

fn dial_once(directory: &RuntimeDirectory, hello: &[u8]) -> Result<Dialed, TryError> {
    let (stream, line) = exchange(directory, hello)?;
    let reply: HelloReply = serde_json::from_slice(&line).map_err(|_| {
        let what = format!(
            "the daemon answers in a way that version {VERSION} of this program does not understand: run `mainstay daemon restart`"
        );
        TryError::Final(ConnectError::Refused(what))
    })?;
    if let Some(refusal) = &reply.error {
        return Err(TryError::Final(ConnectError::Refused(refusal.to_string())));
    }
    if reply.mainstay != PROTOCOL {
        let what = format!(
            "the daemon is of version {} and speaks another protocol than version {VERSION} of this program: run `mainstay daemon restart`",
            reply.version
        );
        return Err(TryError::Final(ConnectError::Refused(what)));
    }
    Ok(Dialed { stream, reply })
}

/// What became of the order to end.
pub(crate) enum EndReply {
    NoDaemon,
    /// The daemon ends, and the connection with it.
    Accepted(UnixStream),
    /// The daemon does not know the order.
    Refused,
    /// The daemon does not answer.
    Unanswered,
}

/// What every protocol says in the answer to the order to end.
#[derive(Deserialize)]
struct EndAnswer {
    #[serde(rename = "mainstay")]
    _number: u32,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

/// Orders the daemon that runs to end, whatever the number of its protocol.
pub(crate) fn order_end(directory: &RuntimeDirectory, ask: Ask) -> EndReply {
    match exchange(directory, &line(&Hello::asking(ask))) {
        Ok((stream, line)) => match serde_json::from_slice(&line) {
            Ok(EndAnswer { error: None, .. }) => EndReply::Accepted(stream),
            Ok(EndAnswer { error: Some(_), .. }) | Err(_) => EndReply::Refused,
        },
        Err(TryError::NoDaemon) => EndReply::NoDaemon,
        Err(TryError::Again(_) | TryError::Final(_)) => EndReply::Unanswered,
    }
}

/// Connects, sends the first line, and reads the first line of the daemon.
fn exchange(directory: &RuntimeDirectory, hello: &[u8]) -> Result<(UnixStream, Vec<u8>), TryError> {
    let socket = directory.socket();
    let mut stream = connect(&socket).map_err(|error| match error.kind() {
        // A socket that a dead daemon left refuses.
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => TryError::NoDaemon,
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => TryError::Again(error),
        _ => TryError::Final(ConnectError::Socket {
            socket: socket.display().to_string(),
            source: error,
        }),
    })?;
    // A daemon without room refuses before it reads.
    let sent = send_hello(&mut stream, hello);
    match read_line(&mut stream, REPLY_TIMEOUT) {
        Ok(Some(line)) => Ok((stream, line)),
        Ok(None) => {
            let pid = noted_pid(&directory.lock());
            Err(TryError::Final(ConnectError::Silent { pid }))
        }
        Err(error) => Err(TryError::Again(sent.err().unwrap_or(error))),
    }
}

/// Sends the first line. A daemon that is stopped does not read it, and a long one does not fit into the socket.
fn send_hello(stream: &mut UnixStream, hello: &[u8]) -> io::Result<()> {
    stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
    stream.write_all(hello)?;
    stream.set_write_timeout(None)
}

/// Reads one line, byte by byte at its end so that nothing after it is taken; `None` if it does not come in time.
fn read_line(stream: &mut UnixStream, within: Duration) -> io::Result<Option<Vec<u8>>> {
    let deadline = Instant::now() + within;
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < LINE_LIMIT {
        let Some(left) = deadline.checked_duration_since(Instant::now()) else {
            return Ok(None);
        };
        if !wait_readable(stream, left)? {
            return Ok(None);
        }
        // The line is short, and read once for each connection.
        if stream.read(&mut byte)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if byte[0] == b'\n' {
            return Ok(Some(line));
        }
        line.push(byte[0]);
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// A pause between half and all of this, different for each process.
fn jittered(pause: Duration) -> Duration {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = now.map_or(0, |now| now.subsec_nanos());
    let seed = nanos.wrapping_mul(2_654_435_761).wrapping_add(std::process::id());
    pause.mul_f64(0.5 + f64::from(seed % 1000) / 2000.0)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;
    use std::path::Path;
    use std::thread;

    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};

    use super::*;

    fn directory(runtime: &Path) -> RuntimeDirectory {
        RuntimeDirectory::find(|name| (name == "MAINSTAY_RUNTIME").then(|| runtime.into())).unwrap()
    }

    #[test]
    fn a_daemon_that_ends_before_it_is_ready_is_started_a_few_times() {
        let runtime = tempfile::tempdir().unwrap();
        let starts = runtime.path().join("starts");
        let program = runtime.path().join("daemon");
        let script = format!("#!/bin/sh\necho >> '{}'\n", starts.display());
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let dialer = DaemonDialer::new(directory(runtime.path()), Launcher::new(program, Vec::new()));
        let Err(error) = dialer.dial(b"{}\n") else {
            panic!("there is no daemon");
        };
        assert!(
            matches!(error, ConnectError::Launch(LaunchError::Ended { .. })),
            "{error}"
        );
        let starts = fs::read_to_string(starts).unwrap().lines().count();
        assert_eq!(starts, 3);
    }

    /// A daemon that accepts no connection before it is told to.
    fn listening(directory: &RuntimeDirectory, queue: i32) -> UnixListener {
        let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(directory.socket()).unwrap()).unwrap();
        listen(&listener, queue).unwrap();
        UnixListener::from(listener)
    }

    /// Accepts one connection, and answers its first line.
    fn welcome(listener: &UnixListener) {
        let (mut stream, _) = listener.accept().unwrap();
        let _hello = read_line(&mut stream, REPLY_TIMEOUT);
        let reply = serde_json::json!({ "mainstay": PROTOCOL, "version": VERSION });
        // A connection that only filled the queue is gone.
        let _ = stream.write_all(format!("{reply}\n").as_bytes());
    }

    #[test]
    fn a_daemon_that_ends_during_the_first_line_is_tried_again() {
        let runtime = tempfile::tempdir().unwrap();
        let directory = directory(runtime.path());
        let listener = listening(&directory, 8);
        let daemon = thread::spawn(move || {
            drop(listener.accept().unwrap());
            welcome(&listener);
        });
        let dialer = DaemonDialer::new(directory, Launcher::new("/nowhere", Vec::new()));
        assert!(dialer.dial(b"{}\n").is_ok());
        daemon.join().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_daemon_whose_queue_of_connections_is_full_is_tried_again() {
        let runtime = tempfile::tempdir().unwrap();
        let directory = directory(runtime.path());
        let listener = listening(&directory, 1);
        let queued: Vec<_> = std::iter::from_fn(|| connect(&directory.socket()).ok()).collect();
        let full = queued.len();
        let daemon = thread::spawn(move || {
            // Until the first try has failed, which is no event here.
            thread::sleep(Duration::from_millis(100));
            drop(queued);
            (0..=full).for_each(|_| welcome(&listener));
        });
        let dialer = DaemonDialer::new(directory, Launcher::new("/nowhere", Vec::new()));
        assert!(dialer.dial(b"{}\n").is_ok());
        daemon.join().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_daemon_whose_queue_of_connections_is_full_does_not_answer() {
        let runtime = tempfile::tempdir().unwrap();
        let directory = directory(runtime.path());
        let listener = listening(&directory, 1);
        let queued: Vec<_> = std::iter::from_fn(|| connect(&directory.socket()).ok()).collect();
        let dialer = DaemonDialer::new(directory, Launcher::new("/nowhere", Vec::new()));
        assert!(dialer.probe().is_err());
        drop((listener, queued));
        assert!(dialer.probe().is_ok(), "none runs, so its connections have ended");
    }
}
