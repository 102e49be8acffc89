//! The partners that speak HTTP: started by the test itself, on a port it chose, and surely ended with it.
//!
//! A partner says in its own way when it is ready, or not at all. A client that connects finds out: waiting for a server
//! that is not there yet is part of what is tested.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::{Partner, Partners};

/// Below what systems hand out to outgoing connections, so that a port stays free between two lives of a server.
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 12_000;

/// What one process of tests takes at most before it reaches the ports of its neighbours.
const PORTS_EACH: u16 = 16;

/// The real servers over HTTP.
#[derive(Debug, Clone)]
pub struct HttpPartners {
    /// The reference server (TypeScript SDK) over Streamable HTTP.
    pub everything: HttpPartner,
    /// The reference server over HTTP+SSE.
    pub everything_sse: HttpPartner,
    /// The server on the Python SDK over Streamable HTTP, both eras.
    pub python: HttpPartner,
    /// The server on the Python SDK over HTTP+SSE.
    pub python_sse: HttpPartner,
    /// The server on rmcp over Streamable HTTP, both eras.
    pub rmcp: HttpPartner,
}

impl Partners {
    /// The partners that speak HTTP.
    #[must_use]
    pub fn over_http(&self) -> HttpPartners {
        let streamable = "/mcp";
        let sse = "/sse";
        HttpPartners {
            everything: HttpPartner::new(&self.everything, &["streamableHttp"], streamable).told_by("PORT"),
            everything_sse: HttpPartner::new(&self.everything, &["sse"], sse).told_by("PORT"),
            python: HttpPartner::new(&self.python, &["streamable-http"], streamable),
            python_sse: HttpPartner::new(&self.python, &["sse"], sse),
            rmcp: HttpPartner::new(&self.rmcp, &["--http"], streamable),
        }
    }
}

/// How one real server is started over HTTP.
#[derive(Debug, Clone)]
pub struct HttpPartner {
    partner: Partner,
    /// The environment variable that tells the port; without it the port is the last argument.
    variable: Option<&'static str>,
    path: &'static str,
}

impl HttpPartner {
    /// Its own arguments for HTTP follow the path of a script, and take the place of `stdio`.
    fn new(partner: &Partner, args: &[&str], path: &'static str) -> Self {
        let mut partner = partner.clone();
        partner.args.retain(|argument| argument != "stdio");
        partner
            .args
            .extend(args.iter().map(|&argument| argument.to_owned()));
        Self {
            partner,
            variable: None,
            path,
        }
    }

    fn told_by(mut self, variable: &'static str) -> Self {
        self.variable = Some(variable);
        self
    }

    /// Where it is when it runs on this port.
    #[must_use]
    pub fn url(&self, port: u16) -> String {
        format!("http://127.0.0.1:{port}{}", self.path)
    }

    /// Starts it on this port, as the leader of a process group of its own. It may not listen yet when this returns.
    ///
    /// # Panics
    ///
    /// When its program cannot be started.
    #[must_use]
    pub fn start(&self, port: u16) -> RunningServer {
        let port = port.to_string();
        let mut command = Command::new(&self.partner.command);
        command.args(&self.partner.args).envs(&self.partner.env);
        match self.variable {
            Some(variable) => command.env(variable, port),
            None => command.arg(port),
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        RunningServer(child.unwrap_or_else(|error| panic!("cannot start {self:?}: {error}")))
    }
}

/// A partner that runs. Dropping it kills it.
#[derive(Debug)]
pub struct RunningServer(Child);

impl RunningServer {
    /// SIGKILL to its whole process group, and gone when this returns.
    pub fn kill(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let group = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
            // Its leader is our child and not reaped yet, so no other group has the number.
            let _gone_already = group.map(|group| kill_process_group(group, Signal::KILL));
        }
        let _reaped_already = self.0.wait();
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A free loopback port that no outgoing connection will take.
///
/// # Panics
///
/// When there is none.
#[must_use]
pub fn free_port() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    // Tests run in many processes at once, whose numbers follow each other.
    let places = u32::from(PORTS / PORTS_EACH);
    let place = u16::try_from(std::process::id() % places).expect("a remainder is below its divisor");
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    (0..PORTS)
        .map(|_| TAKEN.fetch_add(1, Ordering::Relaxed))
        .map(|taken| FIRST_PORT + (place * PORTS_EACH + taken % PORTS) % PORTS)
        .find(is_free)
        .expect("a port is free")
}

#[cfg(test)]
mod tests;
