//! `mainstay top` in a real pseudo-terminal, against the real control API of a gateway that runs a real server.
//!
//! A terminal emulator (vt100) reads what the program writes, so a test sees what a person would.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use mainstay::{Fleet, ServerConfig};
use mainstay_control::{Control, ControlService, Role, ServerGroup};
use mainstay_gateway::Gateway;
use mainstay_testkit::poll;
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const MAINSTAY: &str = env!("CARGO_BIN_EXE_mainstay");

/// Far more than anything takes; what takes longer hangs.
const HANGS: Duration = poll::LIMIT;

/// A gateway with the demo server, whose control API listens on a socket.
struct Served {
    runtime: Option<Runtime>,
    gateway: Gateway,
}

impl Served {
    fn at(socket: &Path) -> Self {
        let runtime = Runtime::new().unwrap();
        let gateway = runtime.block_on(serve(socket));
        Self {
            runtime: Some(runtime),
            gateway,
        }
    }
}

/// Serves until the runtime is dropped.
async fn serve(socket: &Path) -> Gateway {
    let script = "echo 'the server \x1b[2Jstarts' >&2; exec \"$0\" demo-server";
    let demo = ServerConfig::stdio("demo", "sh")
        .args(["-c", script, MAINSTAY])
        .build()
        .unwrap();
    let gateway = Gateway::start(Fleet::builder(), [demo]);
    let control = Control::builder(Role::Daemon).build();
    let attached = control.attach(ServerGroup::configured(gateway.clone()));
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket).unwrap();
    tokio::spawn(async move {
        let _attached = attached;
        let service = ControlService::new(&control);
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let service = service.clone();
            connections.spawn(async move { service.serve_connection(stream).await });
        }
    });
    gateway
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.block_on(self.gateway.close(Duration::from_secs(2)));
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}

/// The program in a terminal.
struct Top {
    child: Child,
    keys: File,
    /// Kept open, so that the terminal's settings can be read after the program has ended.
    terminal: OwnedFd,
    screen: Arc<(Mutex<vt100::Parser>, Condvar)>,
}

impl Top {
    fn start(socket: &Path, variables: &[(&str, &str)]) -> Self {
        let socket = socket.to_str().expect("a short path");
        Self::with(&["--socket", socket], variables)
    }

    fn with(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let terminal = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        tcsetwinsize(&terminal, size(24, 100)).unwrap();
        let end = || Stdio::from(terminal.try_clone().unwrap());
        let child = Command::new(MAINSTAY)
            .arg("top")
            .args(arguments)
            .env_clear()
            .env("TERM", "xterm-256color")
            .envs(variables.iter().copied())
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let mut output = File::from(master);
        let keys = output.try_clone().unwrap();
        let screen = Arc::new((
            Mutex::new(vt100::Parser::new(nonzero(24), nonzero(100), 0)),
            Condvar::new(),
        ));
        let shared = screen.clone();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                shared.0.lock().unwrap().process(&bytes[..read]);
                shared.1.notify_all();
            }
        });
        Self {
            child,
            keys,
            terminal,
            screen,
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn resize(&self, rows: u16, columns: u16) {
        self.screen
            .0
            .lock()
            .unwrap()
            .screen_mut()
            .set_size(nonzero(rows), nonzero(columns));
        tcsetwinsize(&self.terminal, size(rows, columns)).unwrap();
        // The terminal is not the controlling one of the program, so the system sends no signal.
        kill_process(Pid::from_child(&self.child), Signal::WINCH).unwrap();
    }

    /// Waits until the screen shows what is wanted.
    #[track_caller]
    fn wait(&self, what: &str, shows: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + HANGS;
        let (screen, changed) = &*self.screen;
        let mut parser = screen.lock().unwrap();
        loop {
            let contents = parser.screen().contents();
            if shows(&contents) {
                return contents;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what} is not seen:\n{contents}");
            parser = changed.wait_timeout(parser, left).unwrap().0;
        }
    }

    /// Waits for the end, and checks that the terminal is as it was.
    fn ends(mut self, code: i32) {
        let ended = poll::look_for(HANGS, || self.child.try_wait().unwrap());
        let status = ended.expect("it does not end");
        assert_eq!(status.code(), Some(code));
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        assert!(
            modes.contains(LocalModes::ICANON | LocalModes::ECHO),
            "raw mode is left"
        );
        self.wait_for_the_first_screen();
    }

    fn wait_for_the_first_screen(&self) {
        let deadline = Instant::now() + HANGS;
        let (screen, changed) = &*self.screen;
        let mut parser = screen.lock().unwrap();
        while parser.screen().alternate_screen() || parser.screen().hide_cursor() {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the first screen is not shown again");
            parser = changed.wait_timeout(parser, left).unwrap().0;
        }
    }
}

fn nonzero(cells: u16) -> NonZeroU16 {
    NonZeroU16::new(cells).expect("a terminal has cells")
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

fn socket() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("control.sock");
    (directory, socket)
}

#[test]
fn a_person_sees_and_commands_the_servers() {
    let (_directory, socket) = socket();
    let served = Served::at(&socket);
    let mut top = Top::start(&socket, &[]);
    let shown = top.wait("the server", |screen| screen.contains("> demo   connected"));
    assert!(shown.contains("1 of 1 server up"), "{shown}");
    top.wait("its memory", |screen| screen.contains(" MB"));
    top.press("d");
    top.wait("the disabled server", |screen| {
        screen.contains("> demo   disabled")
    });
    top.press("e");
    top.wait("the enabled server", |screen| {
        screen.contains("> demo   connected")
    });
    let before = served.gateway.fleet().server("demo").unwrap().status().generation;
    top.press("r");
    top.wait("the command", |screen| screen.contains("restart demo: done"));
    let generation = || served.gateway.fleet().server("demo").unwrap().status().generation;
    let restarted = poll::comes_true(HANGS, || generation().is_some_and(|now| Some(now) != before));
    assert!(restarted, "it is not restarted");
    top.press("l");
    top.wait("its stderr", |screen| {
        screen.contains("stderr of demo") && screen.contains("the server starts")
    });
    top.press("\x1b");
    top.wait("the list", |screen| screen.contains("SERVER"));
    top.press("t");
    top.wait("its tools", |screen| screen.contains("demo__echo"));
    top.press("?");
    top.wait("the help", |screen| screen.contains("Quitting stops no server."));
    top.press("q");
    top.ends(0);
}

#[test]
fn a_daemon_that_goes_away_and_comes_back_is_followed_and_a_resize_is_drawn() {
    let (_directory, socket) = socket();
    let top = Top::start(&socket, &[("NO_COLOR", "1")]);
    top.wait("that there is none", |screen| {
        screen.contains("no daemon answers")
    });
    let served = Served::at(&socket);
    top.wait("the server", |screen| screen.contains("> demo   connected"));
    drop(served);
    let shown = top.wait("that it is gone", |screen| screen.contains("no daemon answers"));
    assert!(shown.contains("demo"), "what was known stays: {shown}");
    let _served = Served::at(&socket);
    top.wait("the server again", |screen| screen.contains("1 of 1 server up"));
    top.resize(8, 40);
    top.wait("the narrow list", |screen| {
        screen.contains("> demo   connected") && !screen.contains("MEMORY")
    });
    kill_process(Pid::from_child(&top.child), Signal::TERM).unwrap();
    top.ends(143);
}

/// A process that is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // Its guardian ends the servers.
        let _gone_already = self.0.kill();
        let _reaped_already = self.0.wait();
    }
}

#[test]
fn the_servers_of_a_program_that_serves_over_http_are_watched_by_its_address() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let config = format!(r#"{{"mcpServers":{{"demo":{{"command":"{MAINSTAY}","args":["demo-server"]}}}}}}"#);
    std::fs::write(at("mcp.json"), config).unwrap();
    let mut serving = Command::new(MAINSTAY);
    serving
        .args(["serve", "--admin", "--listen", "127.0.0.1:0", "--config"])
        .arg(at("mcp.json"))
        .arg("--admin-token-file")
        .arg(at("token"))
        .env_clear()
        .env("HOME", directory.path())
        .stderr(Stdio::piped());
    let mut serving = Killed(serving.spawn().unwrap());
    let mut lines = BufReader::new(serving.0.stderr.take().unwrap()).lines();
    let url = lines.find_map(|line| {
        let line = line.unwrap();
        let (_, address) = line.split_once("the control API is at ")?;
        Some(address.split("/api").next()?.to_owned())
    });
    // To the end, so that it never finds its pipe full.
    thread::spawn(move || lines.for_each(drop));
    let token = at("token");
    let arguments = [
        "--url",
        &url.unwrap(),
        "--admin-token-file",
        token.to_str().unwrap(),
    ];
    let mut top = Top::with(&arguments, &[]);
    top.wait("the server", |screen| screen.contains("> demo   connected"));
    top.press("d");
    top.wait("the disabled server", |screen| {
        screen.contains("> demo   disabled")
    });
    top.press("q");
    top.ends(0);
}

#[test]
fn without_a_terminal_it_says_what_to_use_instead() {
    let output = Command::new(MAINSTAY)
        .arg("top")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("needs a terminal") && said.contains("mainstay status"),
        "{said}"
    );
}
