//! A scripted MCP server, which notes its starts and calls in a file, and awaken's manager of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use awaken_ext_mcp::{McpError, McpServerConnectionConfig, McpServerStatusSnapshot, McpToolRegistryManager};
use awaken_runtime_contract::contract::tool::ToolCallContext;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The programs, which `cargo xtask awaken` builds and names.
const MAINSTAY: &str = "MAINSTAY_PROGRAM";
const FAULTY_SERVER: &str = "FAULTY_SERVER_PROGRAM";

/// The name of the server in awaken.
const NAME: &str = "orders";

const GONE_WITHIN: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);

/// A daemon of its own, which ends with it.
pub(crate) struct Orders {
    home: TempDir,
    version: Option<&'static str>,
}

/// How awaken starts the server.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    Alone,
    Connect,
}

impl Orders {
    pub(crate) fn new() -> Self {
        let home = TempDir::new().expect("a directory");
        Self { home, version: None }
    }

    /// A server that answers with this version, whichever is asked for.
    pub(crate) fn of_version(version: &'static str) -> Self {
        let mut orders = Self::new();
        orders.version = Some(version);
        orders
    }

    pub(crate) async fn connect(&self, way: Way) -> Result<McpToolRegistryManager, McpError> {
        let server = vec![
            program(FAULTY_SERVER),
            "--script".to_owned(),
            self.script().to_string(),
        ];
        let mut config = match way {
            Way::Alone => McpServerConnectionConfig::stdio(NAME, &server[0], server[1..].to_vec()),
            Way::Connect => {
                let before = ["connect", "--"].map(str::to_owned);
                McpServerConnectionConfig::stdio(NAME, program(MAINSTAY), [before.to_vec(), server].concat())
            }
        };
        config.env = self.environment().into_iter().collect();
        McpToolRegistryManager::connect([config]).await
    }

    /// What the daemon and its servers have of this machine: nothing.
    fn environment(&self) -> [(String, String); 3] {
        let home = self.home.path().to_str().expect("UTF-8").to_owned();
        [
            ("HOME", home.clone()),
            ("MAINSTAY_RUNTIME", format!("{home}/run")),
            ("MAINSTAY_CONFIG", format!("{home}/none.json")),
        ]
        .map(|(name, value)| (name.to_owned(), value))
    }

    /// `lookup` reads and answers, `order` is refused with -32602, `fatal` ends the server.
    fn script(&self) -> Value {
        let tool = |name: &str, reads: bool| {
            json!({
                "name": name,
                "description": name,
                "inputSchema": { "type": "object", "properties": { "key": { "type": "string" } }, "required": ["key"] },
                "annotations": { "readOnlyHint": reads },
            })
        };
        let refusal = json!({ "error": { "code": -32602, "message": "no such order" } });
        json!({
            "builtin_tools": false,
            "version": self.version,
            "ledger": self.ledger(),
            "tools": [tool("lookup", true), tool("order", false), tool("fatal", false)],
            "rules": [
                { "step": "call", "named": "order", "fault": refusal },
                { "step": "call", "named": "fatal", "fault": { "exit": 3 } },
            ],
        })
    }

    fn ledger(&self) -> PathBuf {
        self.home.path().join("ledger")
    }

    /// How often the server noted something that begins so.
    pub(crate) fn count(&self, beginning: &str) -> usize {
        let text = fs::read_to_string(self.ledger()).unwrap_or_default();
        text.lines().filter(|line| line.starts_with(beginning)).count()
    }

    /// Kills the server that started last, and waits until its process is gone.
    pub(crate) async fn kill(&self) {
        let text = fs::read_to_string(self.ledger()).expect("a ledger");
        let pid = text.lines().filter_map(|line| line.strip_prefix("start ")).last();
        let pid = pid.expect("a start").trim().to_owned();
        let killed = Command::new("kill")
            .args(["-KILL", &pid])
            .status()
            .expect("kill is there");
        assert!(killed.success(), "{pid} was alive");
        let deadline = Instant::now() + GONE_WITHIN;
        while is_alive(&pid) {
            assert!(Instant::now() < deadline, "{pid} is killed and not gone");
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        let mut stop = Command::new(program(MAINSTAY));
        stop.args(["daemon", "stop", "--quiet"]).envs(self.environment());
        let _no_daemon = stop.status();
    }
}

fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

fn program(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set; run `cargo xtask awaken`"))
}

/// Calls a tool as an agent does: its text, or the error.
pub(crate) async fn call(manager: &McpToolRegistryManager, tool: &str, key: &str) -> Result<String, String> {
    let tool = manager
        .registry()
        .get(&format!("mcp__{NAME}__{tool}"))
        .expect("the tool is listed");
    let called = tool
        .execute(json!({ "key": key }), &ToolCallContext::test_default())
        .await;
    match called {
        Ok(output) if output.result.is_error() => Err(output.result.data.to_string()),
        Ok(output) => Ok(output.result.data.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

pub(crate) async fn status(manager: &McpToolRegistryManager) -> McpServerStatusSnapshot {
    manager
        .server_status_snapshot(NAME)
        .await
        .expect("awaken knows the server")
}
