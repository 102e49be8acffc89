//! A host whose server is behind `mainstay connect`, beside the same host and server behind `mainstay wrap`.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::compare::{RatioPair, nanoseconds};
use crate::echo::{Echo, EchoKind, EchoTransport};
use crate::figure::{Amount, Figure};
use crate::program::{BenchProcess, resident_of, this_program, wake_ups_of};
use crate::{Effort, Fallible, runtime};

const RESULT: usize = 100;

/// Times as long as through `wrap`.
const CALL_AIM: f64 = 1.25;
/// From exec of the bridge to its first list, in nanoseconds: with a daemon, and without.
const WARM_AIM: f64 = 10e6;
const COLD_AIM: f64 = 60e6;
/// What rests, and for how long it is watched.
const IDLE_SERVERS: usize = 50;
const IDLE_BRIDGES: usize = 20;
const IDLE_WATCHED: Duration = Duration::from_secs(5);
/// Threads that a start used live ten seconds longer. A count of wake-ups is of threads that live.
const SETTLE_TIME: Duration = Duration::from_secs(12);
/// What a bridge holds of the machine's memory.
const RESIDENT_AIM: f64 = 4e6;

/// What makes this program a relay.
const RELAY_WORD: &str = "relay";

/// Runs a relay, if these arguments ask for one: two threads pass bytes between the standard streams and a command on a socket. It
/// knows no protocol, so it shows what one more process costs at least.
pub(crate) fn relay(words: &[&str]) -> Option<Fallible> {
    let [RELAY_WORD, program, arguments @ ..] = words else {
        return None;
    };
    Some(run_relay(program, arguments))
}

fn run_relay(program: &str, arguments: &[&str]) -> Fallible {
    let (near, remote) = UnixStream::pair()?;
    let output = OwnedFd::from(remote.try_clone()?);
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(OwnedFd::from(remote))
        .stdout(output)
        .spawn()?;
    let (mut to, mut from) = (near.try_clone()?, near);
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut output = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    std::thread::spawn(move || {
        let _ended = pass(&mut input, &mut to);
        to.shutdown(Shutdown::Write)
    });
    pass(&mut from, &mut output)?;
    child.wait()?;
    Ok(())
}

fn pass(from: &mut impl Read, to: &mut impl Write) -> std::io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            length => to.write_all(&buffer[..length])?,
        }
    }
}

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<Figure>> {
    let place = BenchPlace::new()?;
    let mut figures = Vec::new();
    for (name, kind, aim) in [
        ("rmcp", EchoKind::Rmcp, Some(CALL_AIM)),
        ("bare", EchoKind::Bare, None),
    ] {
        let server = Echo::new(kind, EchoTransport::Stdio, RESULT);
        let mut wrapped = BenchHost::start(&place, "wrap", server)?;
        let mut bridged = BenchHost::start(&place, "connect", server)?;
        let pair = runtime()?.block_on(RatioPair::measure(
            effort.rounds(100),
            50,
            async || wrapped.call().expect("answered"),
            async || bridged.call().expect("answered"),
        ));
        let row = format!("call through connect and the daemon, {name} stdio server (direct: through wrap)");
        figures.push(Figure::ratio(row, &pair, aim));
        let mut relayed = BenchHost::relayed(&place, server)?;
        let pair = runtime()?.block_on(RatioPair::measure(
            effort.rounds(100),
            50,
            async || wrapped.call().expect("answered"),
            async || relayed.call().expect("answered"),
        ));
        let row = format!("call through a bare relay and wrap, {name} stdio server (direct: through wrap)");
        figures.push(Figure::ratio(row, &pair, None));
    }
    figures.extend(first_lists(effort, &place)?);
    let server = Echo::new(EchoKind::Bare, EchoTransport::Stdio, RESULT);
    let mut host = BenchHost::start(&place, "connect", server)?;
    for _ in 0..1000 {
        host.call()?;
    }
    figures.push(Figure::amount(
        "resident memory of a bridge after 1000 calls",
        Amount::Bytes(resident_of(host.process.0.id())?),
        Some(RESIDENT_AIM),
    ));
    drop(host);
    place.stop_daemon()?;
    figures.extend(idle()?);
    Ok(figures)
}

/// How often the daemon and a bridge wake up when nothing happens.
fn idle() -> Fallible<Vec<Figure>> {
    let place = BenchPlace::new()?;
    let mut servers = Map::new();
    for n in 0..IDLE_SERVERS {
        let server = Echo::new(EchoKind::Bare, EchoTransport::Stdio, 10);
        servers.insert(format!("s{n}"), server.entry()?);
    }
    let config = place.0.path().join("mcp.json");
    std::fs::write(&config, json!({ "mcpServers": servers }).to_string())?;
    let config = config.display().to_string();
    let started = place
        .command(&["--config", &config, "daemon", "start"])
        .output()?;
    if !started.status.success() {
        return Err(String::from_utf8_lossy(&started.stderr).into_owned().into());
    }
    let hosts = (0..IDLE_BRIDGES).map(|_| BenchHost::open(&place, &["--config", &config, "connect"]));
    let hosts: Vec<BenchHost> = hosts.collect::<Fallible<_>>()?;
    let status = place.command(&["daemon", "status", "--json"]).output()?;
    let status: Value = serde_json::from_slice(&status.stdout)?;
    let daemon = status["daemon"]["pid"].as_u64().ok_or("a daemon runs")?;
    let daemon = u32::try_from(daemon)?;
    // The servers are up and listed, and what their start left to do is done.
    std::thread::sleep(SETTLE_TIME);
    let count = || -> Fallible<(f64, f64)> {
        let bridges = hosts.iter().map(|host| wake_ups_of(host.process.0.id()));
        Ok((wake_ups_of(daemon)?, bridges.sum::<Fallible<f64>>()?))
    };
    let before = count()?;
    std::thread::sleep(IDLE_WATCHED);
    let after = count()?;
    let often = |before: f64, after: f64| Amount::Times((after - before) / IDLE_WATCHED.as_secs_f64());
    let row = |whose: &str| {
        format!("wake-ups of {whose} in a second, {IDLE_SERVERS} servers and {IDLE_BRIDGES} bridges idle")
    };
    Ok(vec![
        Figure::amount(row("the daemon"), often(before.0, after.0), None),
        Figure::amount(row("all bridges"), often(before.1, after.1), None),
    ])
}

/// How soon a host has its tools: with a daemon that has the server, and with no daemon and the catalog on disk.
fn first_lists(effort: Effort, place: &BenchPlace) -> Fallible<Vec<Figure>> {
    let server = Echo::new(EchoKind::Bare, EchoTransport::Stdio, RESULT);
    let (mut warm, mut cold) = (RatioPair::new(), RatioPair::new());
    // Once, so that the catalog is on disk.
    drop(BenchHost::start(place, "connect", server)?);
    for _ in 0..effort.rounds(20) {
        let direct = first_list(place, "wrap", server)?;
        place.stop_daemon()?;
        cold.push(direct, first_list(place, "connect", server)?);
        let kept = BenchHost::start(place, "connect", server)?;
        warm.push(direct, first_list(place, "connect", server)?);
        drop(kept);
    }
    Ok(vec![
        Figure::time(
            "exec of a bridge to its first tools/list, daemon and server up (direct: wrap)",
            &warm,
            Some(WARM_AIM),
        ),
        Figure::time(
            "exec of a bridge to its first tools/list, no daemon, catalog on disk (direct: wrap)",
            &cold,
            Some(COLD_AIM),
        ),
    ])
}

fn first_list(place: &BenchPlace, command: &str, server: Echo) -> Fallible<f64> {
    let began = Instant::now();
    let host = BenchHost::start(place, command, server)?;
    let took = nanoseconds(began.elapsed());
    drop(host);
    Ok(took)
}

/// Where the daemon and the catalogs are.
pub(crate) struct BenchPlace(TempDir);

impl BenchPlace {
    pub(crate) fn new() -> Fallible<Self> {
        Ok(Self(TempDir::new()?))
    }

    /// Where the daemon listens.
    pub(crate) fn runtime(&self) -> PathBuf {
        self.0.path().join("run")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let built = env!("CARGO_BIN_EXE_mainstay").into();
        let program = std::env::var_os("MAINSTAY_BENCH_PROGRAM").unwrap_or(built);
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("MAINSTAY_RUNTIME", self.runtime())
            .env("MAINSTAY_CACHE", self.0.path().join("cache"))
            .env_remove("MAINSTAY_LOG")
            .env_remove("MAINSTAY_CONFIG");
        command
    }

    fn stop_daemon(&self) -> Fallible {
        self.command(&["daemon", "stop"]).output()?;
        Ok(())
    }
}

impl Drop for BenchPlace {
    fn drop(&mut self) {
        let _nothing_to_stop = self.stop_daemon();
    }
}

/// A host on the standard input and output of a command, that waits for each answer.
pub(crate) struct BenchHost {
    process: BenchProcess,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
}

impl BenchHost {
    /// Starts the command in front of the server, opens a session, and lists the tools.
    pub(crate) fn start(place: &BenchPlace, command: &str, server: Echo) -> Fallible<Self> {
        let (program, arguments) = (this_program()?, server.arguments());
        let mut words = vec![command, "--", &program];
        words.extend(arguments.iter().map(String::as_str));
        Self::open(place, &words)
    }

    /// A host whose server is behind `wrap`, and that behind a relay.
    fn relayed(place: &BenchPlace, server: Echo) -> Fallible<Self> {
        let (this, arguments) = (this_program()?, server.arguments());
        let wrap = place.command(&["wrap", "--", &this]);
        let mut relay = Command::new(&this);
        relay
            .arg(RELAY_WORD)
            .arg(wrap.get_program())
            .args(wrap.get_args());
        relay.args(arguments);
        for (name, value) in wrap.get_envs() {
            match value {
                Some(value) => relay.env(name, value),
                None => relay.env_remove(name),
            };
        }
        Self::of(relay)
    }

    /// The same with the program's own arguments.
    fn open(place: &BenchPlace, words: &[&str]) -> Fallible<Self> {
        Self::of(place.command(words))
    }

    fn of(mut command: Command) -> Fallible<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("stdin is piped")?;
        let output = BufReader::new(child.stdout.take().ok_or("stdout is piped")?);
        let mut host = Self {
            process: BenchProcess(child),
            input,
            output,
            line: String::new(),
        };
        let client = json!({ "name": "bench", "version": "1" });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        host.ask("initialize", &params)?;
        writeln!(
            host.input,
            "{}",
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
        )?;
        host.ask("tools/list", &json!({}))?;
        Ok(host)
    }

    pub(crate) fn call(&mut self) -> Fallible {
        self.ask(
            "tools/call",
            &json!({ "name": "echo", "arguments": { "text": "x" } }),
        )
    }

    fn ask(&mut self, method: &str, params: &Value) -> Fallible {
        writeln!(
            self.input,
            "{}",
            json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
        )?;
        loop {
            self.line.clear();
            if self.output.read_line(&mut self.line)? == 0 {
                return Err("the program ended".into());
            }
            if self.line.contains("\"result\"") {
                return Ok(());
            }
            if self.line.contains("\"error\"") {
                return Err(self.line.clone().into());
            }
        }
    }
}
