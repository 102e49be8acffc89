//! A real authorization server and the MCP server that it protects, and a person with a browser.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use mainstay_login::{
    FileStore, LoginPrompt, LoginProvider, LoginRequest, LoginSettings, LoginStore, LoginSummary,
    StoreProtection,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use url::{Position, Url};

/// The running servers. They end with it.
pub(crate) struct ProtectedServer {
    child: Child,
    pub(crate) resource: Url,
}

/// What happened at the servers.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Stats {
    pub(crate) refreshes: u32,
    pub(crate) invalid_grants: u32,
    pub(crate) token_errors: u32,
}

#[derive(Deserialize)]
struct Listening {
    resource: Url,
}

impl ProtectedServer {
    /// Starts the servers with access tokens of so many seconds. `None` if they are not installed, which only a plain
    /// `cargo test` may skip.
    pub(crate) fn start(token_seconds: u32) -> Option<Self> {
        let authorization_server = mainstay_partner::partners()?.authorization_server;
        let authorization_server =
            authorization_server.expect("run `cargo xtask partners`: it is newer than the last run");
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
        let listening: Listening = serde_json::from_str(&line).expect("as JSON");
        Some(Self {
            child,
            resource: listening.resource,
        })
    }

    pub(crate) async fn stats(&self) -> Stats {
        self.ask("/stats").await
    }

    /// Every token, code and verifier that was issued.
    pub(crate) async fn secrets(&self) -> Vec<String> {
        self.ask("/secrets").await
    }

    /// Lets the token endpoint answer with this status; 0 for its own answers.
    pub(crate) async fn set_fault(&self, status: u16) {
        let _: serde_json::Value = self.ask(&format!("/fault?status={status}")).await;
    }

    async fn ask<T: DeserializeOwned>(&self, path: &str) -> T {
        let url = self.resource.join(path).expect("a path");
        let page = get(&url, &[]).await;
        serde_json::from_str(&page.body).expect("JSON")
    }
}

impl Drop for ProtectedServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory that the user alone may enter, as a store wants it.
pub(crate) fn private_directory() -> tempfile::TempDir {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new()
        .permissions(mode)
        .tempdir()
        .expect("a directory")
}

pub(crate) fn store(directory: &Path) -> Arc<dyn LoginStore> {
    Arc::new(FileStore::open(directory, StoreProtection::Plain).expect("a store"))
}

pub(crate) fn provider(server: &ProtectedServer, store: &Arc<dyn LoginStore>) -> LoginProvider {
    LoginProvider::new(LoginSettings::new(server.resource.clone()), store.clone())
}

/// Logs in as a person who agrees to everything.
pub(crate) async fn log_in(provider: &LoginProvider) -> LoginSummary {
    let mut login = provider
        .login(LoginRequest::default())
        .await
        .expect("a login begins");
    let LoginPrompt::Browse(address) = login.prompt() else {
        panic!("a browser is needed: {:?}", login.prompt());
    };
    let page = browse(address.url()).await;
    assert_eq!(page.status, 200);
    login.finished().await.expect("logged in")
}

/// What a browser gets.
pub(crate) struct Page {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Page {
    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let is_meant = move |(known, _): &&(String, String)| known.eq_ignore_ascii_case(name);
        self.headers
            .iter()
            .filter(is_meant)
            .map(|(_, value)| value.as_str())
    }
}

/// Opens an address and follows its redirects, with cookies, to the end.
pub(crate) async fn browse(address: &Url) -> Page {
    let mut at = address.clone();
    let mut cookies: Vec<(String, String)> = Vec::new();
    for _ in 0..20 {
        let page = get(&at, &cookies).await;
        for set in page.all("set-cookie") {
            let pair = set.split(';').next().expect("a pair");
            let (name, value) = pair.split_once('=').expect("a cookie");
            cookies.retain(|(known, _)| known != name);
            cookies.push((name.to_owned(), value.to_owned()));
        }
        let location = page.all("location").next().map(|location| at.join(location));
        match location {
            Some(location) => at = location.expect("an address"),
            None => return page,
        }
    }
    panic!("redirected for ever");
}

/// One request. In HTTP/1.0 the answer ends with the connection.
async fn get(url: &Url, cookies: &[(String, String)]) -> Page {
    let authority = &url[Position::BeforeHost..Position::AfterPort];
    let path = &url[Position::BeforePath..Position::AfterQuery];
    let mut request = format!("GET {path} HTTP/1.0\r\nhost: {authority}\r\n");
    let sent: Vec<String> = cookies
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if !sent.is_empty() {
        request += &format!("cookie: {}\r\n", sent.join("; "));
    }
    request += "\r\n";
    let mut stream = TcpStream::connect(authority).await.expect("a server");
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let mut lines = head.lines();
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .expect("a status");
    let headers = lines.filter_map(|line| line.split_once(": "));
    Page {
        status: status.parse().expect("a number"),
        headers: headers
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        body: body.to_owned(),
    }
}

/// The program that a test starts several times.
pub(crate) fn worker() -> PathBuf {
    let own = std::env::current_exe().expect("a path");
    let built = own.parent().and_then(Path::parent).expect("target/debug");
    built.join("examples/login_worker")
}
