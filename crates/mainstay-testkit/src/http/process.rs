//! A faulty HTTP server as a process of its own, to be killed in the middle of an answer.

use std::convert::Infallible;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal as UnixSignal, kill_process};

use super::handle::FaultyHttpServer;
use super::port::Port;
use super::script::HttpScript;
use super::server::RunsAs;
use crate::faulty_server::FaultyServer;
use crate::poll;
use crate::script::Script;
use crate::stdio::LIFETIME;

/// Long enough for a busy machine to start a small program.
const START_LIMIT: Duration = poll::LIMIT;

/// Plays the scripts on this port of 127.0.0.1 (0: any free one), whose number is the first line on stdout.
///
/// # Errors
/// When the port cannot be bound. Otherwise it never returns.
pub fn play(port: u16, script: Script, http: HttpScript) -> io::Result<Infallible> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let server = FaultyHttpServer::start_at(port, script, http, RunsAs::Process).await?;
        println!("{}", server.port());
        io::stdout().flush()?;
        tokio::time::sleep(LIFETIME).await;
        std::process::exit(124)
    })
}

/// A running server process. Dropping it kills it.
#[derive(Debug)]
pub struct FaultyHttpProcess {
    child: Child,
    /// Held while the process is dead, too.
    port: Port,
}

impl FaultyHttpProcess {
    /// Starts a server on this port of 127.0.0.1 (0: any free one), holds the port, and returns when the server listens.
    ///
    /// Blocks the thread meanwhile.
    ///
    /// # Panics
    /// When another process listens there, or the program cannot be built or started, or does not listen in time.
    #[must_use]
    pub fn start(port: u16, script: &Script, http: &HttpScript) -> Self {
        let port = Port::hold(port).expect("hold a port");
        let server = FaultyServer::from(script.clone());
        let http = serde_json::to_string(http).expect("a script is plain data");
        let mut child = Command::new(server.command())
            .args(server.args())
            .args(["--http", &port.number().to_string(), "--http-script", &http])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // The stderr of a stdio server is read by its parent; this one would write to the test's own.
            .stderr(Stdio::null())
            .spawn()
            .expect("start faulty-server");
        let stdout = child.stdout.take().expect("its stdout is a pipe");
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(stdout).read_line(&mut line);
            // The receiver may have timed out.
            let _late = sender.send(read.map(|_| line));
        });
        let process = Self { child, port };
        let said = receiver.recv_timeout(START_LIMIT).ok().and_then(Result::ok);
        let listens = said.and_then(|line| line.trim().parse().ok());
        assert_eq!(
            listens,
            Some(process.port()),
            "faulty-server says its port in time"
        );
        process
    }

    /// The port it serves on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// `http://127.0.0.1:PORT` with this path: `/mcp` or `/sse`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.port.address())
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id fits")
    }

    /// SIGKILL, and gone when this returns.
    pub fn kill(&mut self) {
        let _gone_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }

    /// Waits until it has ended by itself, looking every few milliseconds; `None` when `limit` has passed first.
    ///
    /// Blocks the thread.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        poll::look_for(limit, || self.child.try_wait().ok().flatten())
    }

    /// SIGSTOP: its connections stay open, and nothing moves on them.
    pub fn freeze(&self) {
        self.signal(UnixSignal::STOP);
    }

    /// SIGCONT: it goes on as if nothing had been.
    pub fn thaw(&self) {
        self.signal(UnixSignal::CONT);
    }

    fn signal(&self, signal: UnixSignal) {
        let pid = Pid::from_raw(self.pid()).expect("a process id is not zero");
        // Our own child: until it is reaped, no other process has its id.
        let _dead_already = kill_process(pid, signal);
    }
}

impl Drop for FaultyHttpProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
