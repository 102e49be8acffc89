//! A real authorization server and the MCP server that it protects, started by a test and ended with it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::partners;

/// How long the servers may take to answer a test's own question.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// The running servers. They end with it.
#[derive(Debug)]
pub struct ProtectedServer {
    child: Child,
    /// The address of the MCP server.
    pub resource: String,
    /// The issuer of the authorization server.
    pub issuer: String,
    person: PathBuf,
}

/// What happened at the servers.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct ProtectedStats {
    /// Requests of clients to both servers, without those of a browser.
    pub requests: u32,
    /// Requests to the token endpoint.
    pub token_requests: u32,
    /// Refreshes that succeeded.
    pub refreshes: u32,
    /// Refreshes of a token that had just been issued.
    pub early_refreshes: u32,
    /// Refused refresh tokens and codes.
    pub invalid_grants: u32,
    /// All refusals of the token endpoint.
    pub token_errors: u32,
    /// MCP requests that were answered.
    pub accepted: u32,
    /// MCP requests with a token that was not accepted.
    pub refused: u32,
    /// Refreshes whose answer was held back.
    pub stalled: u32,
    /// The shortest time between two refreshes.
    pub shortest_life_ms: Option<u64>,
    /// The longest time between two refreshes.
    pub longest_life_ms: Option<u64>,
}

/// How the token endpoint behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// As it should.
    Healthy,
    /// It answers with this status.
    Status(u16),
    /// It answers after two seconds.
    Slow,
    /// It closes the connection.
    Down,
    /// It does its work and never answers.
    Stall,
}

#[derive(Deserialize)]
struct Listening {
    resource: String,
    issuer: String,
}

#[derive(Deserialize)]
struct LatestToken {
    refresh_token: Option<String>,
}

impl ProtectedServer {
    /// Starts the servers with access tokens of so many seconds. `None` if they are not installed, which only a plain
    /// `cargo test` may skip.
    ///
    /// # Panics
    ///
    /// When they are installed and cannot be started.
    #[must_use]
    pub fn start(token_seconds: u32) -> Option<Self> {
        let authorization_server = partners()?.authorization_server;
        let authorization_server =
            authorization_server.expect("run `cargo xtask partners`: it is newer than the last run");
        let script = authorization_server.args.first().expect("a script");
        let person = PathBuf::from(script).with_file_name("person.py");
        let mut child = Command::new(&authorization_server.command)
            .args(&authorization_server.args)
            .arg(token_seconds.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the authorization server starts");
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
            person,
        })
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> ProtectedStats {
        self.ask("/stats")
    }

    /// Every token, code, verifier and client secret that was issued.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        self.ask("/secrets")
    }

    /// When each access token expires, in milliseconds since 1970.
    #[must_use]
    pub fn expiries(&self) -> BTreeMap<String, u64> {
        self.ask("/expiries")
    }

    /// The refresh token that was issued last.
    #[must_use]
    pub fn latest_refresh_token(&self) -> Option<String> {
        let latest: LatestToken = self.ask("/latest");
        latest.refresh_token
    }

    /// Lets the token endpoint behave so from now on.
    pub fn set_fault(&self, fault: TokenFault) {
        let kind = match fault {
            TokenFault::Healthy => "none".to_owned(),
            TokenFault::Status(status) => status.to_string(),
            TokenFault::Slow => "slow".to_owned(),
            TokenFault::Down => "down".to_owned(),
            TokenFault::Stall => "stall".to_owned(),
        };
        let _: serde_json::Value = self.ask(&format!("/fault?kind={kind}"));
    }

    /// Says who opens the login page next, and whether that person agrees.
    pub fn set_person(&self, name: &str, agrees: bool) {
        let agrees = if agrees { "yes" } else { "no" };
        let _: serde_json::Value = self.ask(&format!("/person?name={name}&agrees={agrees}"));
    }

    /// The command of a browser with its person, for the variable `BROWSER`: it opens an address, follows redirects and submits
    /// forms.
    #[must_use]
    pub fn browser(&self) -> String {
        browser_of(&self.person)
    }

    /// Opens an address as the person does, and enters a code if a page asks for one. Returns the address it ends at.
    ///
    /// # Panics
    ///
    /// When the pages cannot be followed.
    #[must_use]
    pub fn browse(&self, address: &str, code: Option<&str>) -> String {
        browse_as(&self.person, address, code)
    }

    fn ask<T: DeserializeOwned>(&self, path: &str) -> T {
        let place = self.resource.trim_start_matches("http://");
        let authority = place.split('/').next().expect("a host");
        let mut stream = TcpStream::connect(authority).expect("a server");
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).expect("a timeout");
        // In HTTP/1.0 the answer ends with the connection.
        let request = format!("GET {path} HTTP/1.0\r\nhost: {authority}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (_head, body) = answer.split_once("\r\n\r\n").expect("a head");
        serde_json::from_str(body).expect("JSON")
    }
}

/// The command of the browser of this person.
pub(crate) fn browser_of(person: &Path) -> String {
    format!("python3 {}", person.display())
}

/// Opens an address as this person, and returns the address it ends at.
pub(crate) fn browse_as(person: &Path, address: &str, code: Option<&str>) -> String {
    let output = Command::new("python3")
        .arg(person)
        .arg(address)
        .args(code)
        .output()
        .expect("Python is there");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl Drop for ProtectedServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
