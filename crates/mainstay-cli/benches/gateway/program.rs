//! The programs that are measured: the gateway, and the servers behind it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::echo::{Echo, EchoKind, EchoTransport};
use crate::{Fallible, bare_loop};

/// The gateway, with a home of its own.
pub(crate) struct GatewayProcess {
    process: BenchProcess,
    pub(crate) port: u16,
}

/// A server over HTTP.
pub(crate) struct Web {
    _process: BenchProcess,
    pub(crate) port: u16,
}

/// A process that is killed when this is dropped.
pub(crate) struct BenchProcess(pub(crate) Child);

impl GatewayProcess {
    /// Starts it with these servers, and comes back when it listens.
    pub(crate) fn start(home: &TempDir, servers: &Value) -> Fallible<Self> {
        Self::start_with(home, servers, &[])
    }

    /// The same with these arguments of `serve`.
    pub(crate) fn start_with(home: &TempDir, servers: &Value, arguments: &[&str]) -> Fallible<Self> {
        Self::exec(Command::new(Self::program()), home, servers, arguments)
    }

    /// The same under a program that takes its command line, such as `valgrind`, and becomes its process.
    pub(crate) fn start_under(mut other: Command, home: &TempDir, servers: &Value) -> Fallible<Self> {
        other.arg(Self::program());
        Self::exec(other, home, servers, &[])
    }

    fn program() -> OsString {
        // Another build may take its place, to be measured beside this one.
        let built = env!("CARGO_BIN_EXE_mainstay").into();
        std::env::var_os("MAINSTAY_BENCH_PROGRAM").unwrap_or(built)
    }

    fn exec(mut command: Command, home: &TempDir, servers: &Value, arguments: &[&str]) -> Fallible<Self> {
        let config = home.path().join("mcp.json");
        std::fs::write(&config, json!({ "mcpServers": servers }).to_string())?;
        let child = command
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(config)
            .args(arguments)
            .env("MAINSTAY_CACHE", home.path().join("cache"))
            .env_remove("MAINSTAY_LOG")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        // Its guardian ends the servers when it is killed.
        let mut process = BenchProcess(child);
        let stderr = BufReader::new(process.0.stderr.take().ok_or("stderr is piped")?);
        for line in stderr.lines() {
            let line = line?;
            // `serving 1 server at http://127.0.0.1:7332/mcp`
            if let Some((_, rest)) = line.split_once("http://127.0.0.1:") {
                let port = rest.split('/').next().ok_or("a port")?.parse()?;
                return Ok(Self { process, port });
            }
        }
        Err("the gateway did not start".into())
    }

    /// What it holds of the machine's memory, in bytes.
    pub(crate) fn resident(&self) -> Fallible<f64> {
        self.kilobytes("VmRSS:")
    }

    /// The most it has held of it since [`Self::forget_peak`].
    pub(crate) fn peak(&self) -> Fallible<f64> {
        self.kilobytes("VmHWM:")
    }

    pub(crate) fn forget_peak(&self) -> Fallible {
        Ok(std::fs::write(self.proc("clear_refs"), "5")?)
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// The processor time of its threads so far, in nanoseconds.
    pub(crate) fn processor_time(&self) -> Fallible<f64> {
        let mut time = 0.0;
        for task in std::fs::read_dir(self.proc("task"))? {
            let schedule = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let on_processor = schedule.split_whitespace().next().ok_or("a time")?;
            time += on_processor.parse::<f64>()?;
        }
        Ok(time)
    }

    /// How often its threads have woken up so far.
    pub(crate) fn wake_ups(&self) -> Fallible<f64> {
        wake_ups_of(self.id())
    }

    /// Sends it SIGTERM, and waits for its end.
    pub(crate) fn terminate(mut self) -> Fallible {
        kill_process(Pid::from_child(&self.process.0), Signal::TERM)?;
        self.process.0.wait()?;
        Ok(())
    }

    fn kilobytes(&self, name: &str) -> Fallible<f64> {
        let status = std::fs::read_to_string(self.proc("status"))?;
        Ok(field(&status, name)? * 1024.0)
    }

    fn proc(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.process.0.id())
    }
}

impl Web {
    pub(crate) fn start(kind: EchoKind, result: usize) -> Fallible<Self> {
        Self::serving(Echo::new(kind, EchoTransport::Http, result))
    }

    /// This server.
    pub(crate) fn serving(server: Echo) -> Fallible<Self> {
        Self::exec(&server.arguments())
    }

    /// A server on standard input and output with nothing but a loop before it.
    pub(crate) fn looping(server: Echo) -> Fallible<Self> {
        Self::exec(&bare_loop::arguments(server))
    }

    fn exec(arguments: &[String]) -> Fallible<Self> {
        let child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut process = BenchProcess(child);
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().ok_or("stdout is piped")?).read_line(&mut line)?;
        Ok(Self {
            _process: process,
            port: line.trim().parse()?,
        })
    }

    /// Where it is.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// It as an entry of a configuration.
    pub(crate) fn entry(&self) -> Value {
        json!({ "url": self.url() })
    }
}

impl Drop for BenchProcess {
    fn drop(&mut self) {
        let _gone_already = self.0.kill();
        let _reaped_already = self.0.wait();
    }
}

impl Echo {
    /// A server on standard input and output, as an entry of a configuration.
    pub(crate) fn entry(self) -> Fallible<Value> {
        Ok(json!({ "command": this_program()?, "args": self.arguments() }))
    }
}

/// An entry whose server is spoken to without a session.
pub(crate) fn modern(mut entry: Value) -> Value {
    entry["era"] = json!("modern");
    entry
}

/// The path of this program.
pub(crate) fn this_program() -> Fallible<String> {
    let program = std::env::current_exe()?.into_os_string().into_string();
    Ok(program.map_err(|_| "the path of this program is no text")?)
}

/// Waits for something that comes of itself.
pub(crate) async fn until<T>(mut look: impl AsyncFnMut() -> Fallible<Option<T>>) -> Fallible<T> {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Err("it did not come in a minute".into())
}

/// How often the threads of a process have woken up so far.
pub(crate) fn wake_ups_of(process: u32) -> Fallible<f64> {
    let mut switches = 0.0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let status = std::fs::read_to_string(thread?.path().join("status"))?;
        switches += field(&status, "voluntary_ctxt_switches:")?;
    }
    Ok(switches)
}

/// What a process holds of the machine's memory, in bytes.
pub(crate) fn resident_of(process: u32) -> Fallible<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    Ok(field(&status, "VmRSS:")? * 1024.0)
}

/// A number in a file of `/proc`.
fn field(text: &str, name: &str) -> Fallible<f64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .ok_or(name)?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
