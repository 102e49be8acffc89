//! Other programs that make an HTTP endpoint of a server, where `cargo xtask rivals` has installed them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use mainstay_partner::free_port;
use tempfile::TempDir;

use crate::Fallible;
use crate::client::BenchClient;
use crate::echo::Echo;
use crate::program::{BenchProcess, Web, this_program, until};

/// A rival that serves one server.
pub(crate) struct Rival {
    _process: BenchProcess,
    _home: TempDir,
    pub(crate) port: u16,
    pub(crate) path: &'static str,
    /// The name of the server's tool `echo` there.
    pub(crate) tool: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    /// mcp-proxy, the crate.
    Crate,
    /// mcp-proxy of PyPI. It makes an HTTP endpoint of servers on standard input and output only.
    Pypi,
}

/// The server behind a rival.
pub(crate) enum Behind<'a> {
    Stdio(Echo),
    Http(&'a Web),
}

impl Product {
    pub(crate) const ALL: [Self; 2] = [Self::Crate, Self::Pypi];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Crate => "mcp-proxy (crate)",
            Self::Pypi => "mcp-proxy (PyPI)",
        }
    }

    /// Starts it, and comes back when it answers. `None` where it is not installed or cannot do it: a line says so.
    pub(crate) async fn start(self, behind: Behind<'_>) -> Fallible<Option<Rival>> {
        let Some(program) = self.installed() else {
            let name = self.name();
            eprintln!("skipped: {name} is not installed; `cargo xtask rivals` does that");
            return Ok(None);
        };
        let (home, port) = (TempDir::new()?, free_port());
        let mut command = Command::new(program);
        let (path, tool) = match (self, behind) {
            (Self::Crate, behind) => {
                let config = home.path().join("proxy.toml");
                std::fs::write(&config, configuration(port, &behind)?)?;
                command.arg("--config").arg(config);
                ("/", "echo__echo")
            }
            (Self::Pypi, Behind::Stdio(echo)) => {
                command.args(["--port", &port.to_string(), "--log-level", "ERROR", "--"]);
                command.arg(this_program()?).args(echo.arguments());
                ("/mcp", "echo")
            }
            (Self::Pypi, Behind::Http(_)) => return Ok(None),
        };
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let rival = Rival {
            _process: BenchProcess(command.spawn()?),
            _home: home,
            port,
            path,
            tool,
        };
        let answers = async || match BenchClient::connect(port, path).await {
            Ok(mut client) => Ok(client.call(tool).await.ok()),
            Err(_not_there_yet) => Ok(None),
        };
        until(answers).await?;
        Ok(Some(rival))
    }

    fn installed(self) -> Option<PathBuf> {
        let program = match self {
            Self::Crate => "rivals/bin/mcp-proxy",
            Self::Pypi => "rivals/python/bin/mcp-proxy",
        };
        let this = std::env::current_exe().ok()?;
        let places = this.ancestors().map(|directory| directory.join(program));
        places.into_iter().find(|program| program.is_file())
    }
}

/// The configuration of the crate.
fn configuration(port: u16, behind: &Behind<'_>) -> Fallible<String> {
    let backend = match behind {
        Behind::Stdio(echo) => format!(
            "transport = \"stdio\"\ncommand = {:?}\nargs = {:?}\n",
            this_program()?,
            echo.arguments()
        ),
        Behind::Http(web) => format!("transport = \"http\"\nurl = {:?}\n", web.url()),
    };
    Ok(format!(
        "[proxy]\nname = \"bench\"\nseparator = \"__\"\n[proxy.listen]\nhost = \"127.0.0.1\"\nport = {port}\n\
         [[backends]]\nname = \"echo\"\n{backend}"
    ))
}
