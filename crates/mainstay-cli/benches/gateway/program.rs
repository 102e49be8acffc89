//! The programs that are measured: the gateway, and the servers behind it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Fallible, echo};

/// The gateway, with a home of its own.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) port: u16,
}

/// An echo over HTTP.
pub(crate) struct Echo {
    child: Child,
    pub(crate) port: u16,
}

impl Gateway {
    /// Starts it with these servers, and comes back when it listens.
    pub(crate) fn start(home: &TempDir, servers: &Value) -> Fallible<Self> {
        let config = home.path().join("mcp.json");
        std::fs::write(&config, json!({ "mcpServers": servers }).to_string())?;
        Self::exec(&config, &home.path().join("cache"))
    }

    fn exec(config: &Path, cache: &Path) -> Fallible<Self> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mainstay"))
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(config)
            .env("MAINSTAY_CACHE", cache)
            .env_remove("MAINSTAY_LOG")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = BufReader::new(child.stderr.take().ok_or("stderr is piped")?);
        for line in stderr.lines() {
            let line = line?;
            // `serving 1 server at http://127.0.0.1:7332/mcp`
            if let Some((_, rest)) = line.split_once("http://127.0.0.1:") {
                let port = rest.split('/').next().ok_or("a port")?.parse()?;
                return Ok(Self { child, port });
            }
        }
        Err("the gateway did not start".into())
    }

    /// What it holds of the machine's memory.
    pub(crate) fn resident(&self) -> Fallible<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .ok_or("VmRSS")?;
        let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib * 1024.0)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Its guardian ends the servers.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Echo {
    pub(crate) fn start(result: usize) -> Fallible<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([echo::HTTP, &result.to_string()])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("stdout is piped")?).read_line(&mut line)?;
        Ok(Self {
            child,
            port: line.trim().parse()?,
        })
    }

    /// It as an entry of a configuration.
    pub(crate) fn entry(&self) -> Value {
        json!({ "url": format!("http://127.0.0.1:{}/mcp", self.port), "era": "legacy" })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An echo on standard input and output, as an entry of a configuration.
pub(crate) fn stdio_entry(after_ms: u64, result: usize) -> Fallible<Value> {
    let program = std::env::current_exe()?.into_os_string().into_string();
    let program = program.map_err(|_| "the path of this program is no text")?;
    Ok(json!({
        "command": program,
        "args": [echo::STDIO, after_ms.to_string(), result.to_string()],
        "era": "legacy",
    }))
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
