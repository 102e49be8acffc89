//! MCP servers on the Python SDK and on FastMCP that are their own authorization servers, started by a test and ended with it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde::Deserialize;

use crate::partners;
use crate::protected::{browse_as, browser_of};

/// What a server is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PythonFramework {
    /// The authorization routes of the Python SDK.
    Sdk,
    /// The in-memory provider of FastMCP.
    FastMcp,
}

/// A running server. It keeps clients and tokens in memory, so that its next start on the same port knows none of them.
#[derive(Debug)]
pub struct PythonProtectedServer {
    child: Child,
    /// The address of the MCP server.
    pub resource: String,
    /// The issuer of the authorization server.
    pub issuer: String,
}

#[derive(Deserialize)]
struct Listening {
    resource: String,
    issuer: String,
}

impl PythonProtectedServer {
    /// Starts a server on this port of 127.0.0.1. `None` if the partners are not installed, which only a plain `cargo test` may skip.
    ///
    /// # Panics
    ///
    /// When they are installed and the server cannot be started.
    #[must_use]
    pub fn start(framework: PythonFramework, port: u16) -> Option<Self> {
        let python = partners()?.clients.python;
        let mut child = Command::new(python)
            .arg(scripts().join("python_server.py"))
            .arg(match framework {
                PythonFramework::Sdk => "sdk",
                PythonFramework::FastMcp => "fastmcp",
            })
            .arg(port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("piped");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("it says where it listens");
        let Listening { resource, issuer } = serde_json::from_str(&line).expect("as JSON");
        Some(Self {
            child,
            resource,
            issuer,
        })
    }

    /// The command of a browser, for the variable `BROWSER`.
    #[must_use]
    pub fn browser(&self) -> String {
        browser_of(&scripts().join("person.py"))
    }

    /// Opens an address as a person does, and returns the address it ends at.
    ///
    /// # Panics
    ///
    /// When the pages cannot be followed.
    #[must_use]
    pub fn browse(&self, address: &str) -> String {
        browse_as(&scripts().join("person.py"), address, None)
    }
}

impl Drop for PythonProtectedServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/authorization-server")
}
