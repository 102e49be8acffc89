//! Servers, browsers, disks and clocks that behave badly. Each ends in a typed error, or changes nothing.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mainstay_login::{
    FileStore, LoginFailure, LoginPrompt, LoginProvider, LoginRequest, LoginSettings, LoginStoreError,
    StoreProtection,
};
use mainstay_partner::ProtectedServer;
use mainstay_testkit::procfs::is_stopped;
use mainstay_testkit::{clock, poll};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{log_in, private_directory, provider, store, worker};

/// What the hostile server does with the request for its metadata.
#[derive(Clone, Debug)]
enum Metadata {
    /// It answers with this.
    Answer(String),
    /// It sends a byte of the body every second, for ever.
    Drip,
    /// It sends a body without end.
    Endless,
}

/// An MCP server that asks for a login, and whose metadata is hostile. Counts the requests for its metadata.
struct HostileServer {
    address: String,
    asked: Arc<AtomicU32>,
}

impl HostileServer {
    async fn start(metadata: Metadata) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicU32::new(0));
        let (own, counted) = (origin.clone(), asked.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, own.clone(), metadata.clone(), counted.clone()));
            }
        });
        Self {
            address: format!("{origin}/mcp"),
            asked,
        }
    }

    /// How a login there ends.
    async fn login(&self) -> LoginFailure {
        let directory = private_directory();
        let settings = LoginSettings::new(self.address.parse().unwrap());
        let provider = LoginProvider::new(settings, store(directory.path()));
        provider
            .login(LoginRequest::default())
            .await
            .expect_err("no login")
    }
}

async fn answer(mut stream: TcpStream, origin: String, metadata: Metadata, asked: Arc<AtomicU32>) {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(read @ 1..) => head.extend_from_slice(&piece[..read]),
            Ok(_) | Err(_) => return,
        }
    }
    if !head.starts_with(b"GET /metadata") {
        let challenge = format!("Bearer resource_metadata=\"{origin}/metadata\"");
        let refusal = format!(
            "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: {challenge}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        let _ = stream.write_all(refusal.as_bytes()).await;
        return;
    }
    asked.fetch_add(1, Ordering::Relaxed);
    let json = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
    match metadata {
        Metadata::Answer(answer) => {
            let _ = stream.write_all(answer.as_bytes()).await;
        }
        Metadata::Drip => {
            let _ = stream.write_all(json.as_bytes()).await;
            while stream.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
        Metadata::Endless => {
            let _ = stream.write_all(json.as_bytes()).await;
            while stream.write_all(&[b' '; 16 * 1024]).await.is_ok() {}
        }
    }
}

#[tokio::test]
async fn metadata_that_drips_or_never_ends_is_given_up() {
    // At a bound of bytes, not of time.
    let endless = HostileServer::start(Metadata::Endless).await;
    let endless = clock::within(Duration::from_secs(8), endless.login()).await;
    assert!(matches!(endless, LoginFailure::Http { .. }), "{endless:?}");
    // One time limit for the whole answer.
    let dripped = HostileServer::start(Metadata::Drip).await;
    let dripped = clock::within(Duration::from_secs(20), dripped.login()).await;
    assert!(matches!(dripped, LoginFailure::Http { .. }), "{dripped:?}");
    let origin = dripped.to_string();
    assert!(
        origin.contains("http://127.0.0.1:"),
        "it names the server: {origin}"
    );
}

#[tokio::test]
async fn metadata_elsewhere_is_not_fetched() {
    let other = HostileServer::start(Metadata::Answer(String::new())).await;
    let elsewhere = other.address.replace("/mcp", "/metadata");
    let redirect = format!(
        "HTTP/1.1 302 Found\r\nlocation: {elsewhere}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    let failure = HostileServer::start(Metadata::Answer(redirect))
        .await
        .login()
        .await;
    assert_eq!(other.asked.load(Ordering::Relaxed), 0, "{failure}");

    // A redirect to itself ends too.
    let circle =
        "HTTP/1.1 302 Found\r\nlocation: /metadata\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let server = HostileServer::start(Metadata::Answer(circle.to_owned())).await;
    let failure = server.login().await;
    assert!(server.asked.load(Ordering::Relaxed) < 24, "{failure}");
}

#[tokio::test]
async fn a_server_that_asks_for_no_login_is_said_to_need_none() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let server = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let read = stream.read(&mut head).await.unwrap_or_default();
            let answer = if head[..read].starts_with(b"POST /mcp") {
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
            } else {
                "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            };
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    let directory = private_directory();
    let settings = LoginSettings::new(server.parse().unwrap());
    let provider = LoginProvider::new(settings, store(directory.path()));
    let refused = provider.login(LoginRequest::default()).await.unwrap_err();
    assert!(matches!(refused, LoginFailure::NotNeeded { .. }), "{refused:?}");
    assert!(refused.to_string().starts_with("no login is needed"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_forged_callbacks_do_not_end_a_login() {
    let Some(protected) = ProtectedServer::start(600) else {
        return;
    };
    let directory = private_directory();
    let logins = provider(&protected, &store(directory.path()));
    let mut login = logins.login(LoginRequest::default()).await.unwrap();
    let LoginPrompt::Browse(page) = login.prompt() else {
        panic!("a browser is needed");
    };
    let redirect = page
        .url()
        .query_pairs()
        .find(|(name, _)| name == "redirect_uri")
        .unwrap()
        .1
        .into_owned();
    let place = redirect
        .trim_start_matches("http://")
        .split('/')
        .next()
        .unwrap()
        .to_owned();
    // Connections that never send anything take places as well.
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(TcpStream::connect(&place).await.unwrap());
    }
    for number in 0..1000 {
        let mut stream = TcpStream::connect(&place).await.unwrap();
        let forged = match number % 4 {
            0 => format!("GET /callback?code=x&state={number} HTTP/1.0\r\n\r\n"),
            1 => "GET /callback?error=access_denied HTTP/1.0\r\n\r\n".to_owned(),
            2 => "POST /callback?code=x HTTP/1.0\r\n\r\n".to_owned(),
            _ => format!("GET /callback?code={} HTTP/1.0\r\n\r\n", "a".repeat(20_000)),
        };
        stream.write_all(forged.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        assert!(answer.starts_with("HTTP/1.0 4"), "{answer}");
    }
    let _ended_at = protected.browse(page.url().as_str(), None);
    login.finished().await.expect("the right callback counts");
    // The port is closed.
    assert!(TcpStream::connect(&place).await.is_err());
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_costs_no_call_while_the_process_lives() {
    let Some(protected) = ProtectedServer::start(2) else {
        return;
    };
    let directory = private_directory();
    log_in(&protected, &provider(&protected, &store(directory.path()))).await;
    // Files may not grow in this process: each write fails as on a full disk. The lock files are there already.
    let limited = "ulimit -f 0; trap '' XFSZ; exec \"$@\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", limited, "sh"])
        .arg(worker())
        .arg(&protected.resource);
    command
        .arg(directory.path())
        .args(["4", "5"])
        .stdout(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    let worked: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(
        (&worked["failed"], &worked["asked"]),
        (&0.into(), &0.into()),
        "{worked}"
    );
    let stats = protected.stats();
    assert!(stats.refreshes >= 2 && stats.invalid_grants == 0, "{stats:?}");
}

#[test]
fn a_store_that_belongs_to_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can give a file away");
        return;
    }
    let directory = private_directory();
    let opened = store(directory.path());
    // A file of another user in a directory of this one.
    let note = directory.path().join("protection");
    std::os::unix::fs::chown(&note, Some(1), None).unwrap();
    let refused = FileStore::open(directory.path(), StoreProtection::Plain)
        .err()
        .unwrap();
    assert!(refused.to_string().contains("another user"), "{refused}");
    std::os::unix::fs::chown(&note, Some(0), None).unwrap();
    drop(opened);
    std::os::unix::fs::chown(directory.path(), Some(1), None).unwrap();
    let refused = FileStore::open(directory.path(), StoreProtection::Plain)
        .err()
        .unwrap();
    assert!(matches!(refused, LoginStoreError::Unsafe { .. }), "{refused}");
    assert!(refused.to_string().contains("another user"), "{refused}");
}

#[test]
fn a_lock_that_a_stopped_process_holds_is_an_error_that_names_it() {
    let directory = private_directory();
    let logins = store(directory.path());
    let settings = LoginSettings::new("https://mcp.example/mcp".parse().unwrap());
    let key = settings.key();
    drop(logins.lock(&key, Duration::from_secs(1)).unwrap());
    let file = std::fs::read_dir(directory.path().join("locks")).unwrap();
    let file = file
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "refresh"));
    let mut holder = Command::new("flock")
        .arg(file.expect("a lock file"))
        .args(["sh", "-c", "echo held; kill -STOP $$"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("flock is there");
    let mut held = [0; 5];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut held).unwrap();
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", holder.id()));
    let children: Vec<i32> = children
        .unwrap_or_default()
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    // Not all systems list the children of a process.
    let are_stopped = || children.iter().all(|&pid| is_stopped(pid));
    assert!(
        poll::comes_true(poll::LIMIT, are_stopped),
        "the shell stops itself"
    );
    let refused = logins.lock(&key, Duration::from_millis(300)).err().unwrap();
    assert!(matches!(refused, LoginStoreError::Locked { .. }), "{refused}");
    assert!(refused.to_string().contains("stopped"), "{refused}");
    // Its death frees the lock. The shell below it holds the lock as well.
    for child in children {
        let pid = rustix::process::Pid::from_raw(child).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    holder.kill().unwrap();
    holder.wait().unwrap();
    logins.lock(&key, poll::LIMIT).expect("free again");
}
