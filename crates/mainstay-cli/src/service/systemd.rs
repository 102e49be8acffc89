//! The units of systemd: a socket that systemd listens on, and the daemon that the first connection starts.

use std::env;
use std::path::PathBuf;

use super::place::ServicePlace;
use super::plan::{ServicePlan, command, home};
use super::written_file::{CommentStyle, WrittenFile};

const SOCKET: &str = "mainstay.socket";
const SERVICE: &str = "mainstay.service";

pub(super) fn plan(place: &ServicePlace) -> anyhow::Result<ServicePlan> {
    let configured = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let base = match configured.filter(|base| base.is_absolute()) {
        Some(base) => base,
        None => home()?.join(".config"),
    };
    let units = base.join("systemd/user");
    let file = |name: &str, text: &str| WrittenFile::new(units.join(name), text, CommentStyle::Hash);
    let systemctl = |words: &[&str]| command(&[&["systemctl", "--user"], words].concat());
    Ok(ServicePlan {
        files: vec![file(SOCKET, SOCKET_UNIT), file(SERVICE, &service_unit(place))],
        // A daemon that a client started would keep the socket's place.
        install: vec![
            command(&[&place.program, "daemon", "stop"]),
            systemctl(&["daemon-reload"]),
            systemctl(&["enable", "--now", SOCKET]),
        ],
        uninstall: vec![systemctl(&["disable", "--now", SOCKET, SERVICE])],
        forget: vec![systemctl(&["daemon-reload"])],
        status: vec![
            systemctl(&["is-enabled", SOCKET]),
            systemctl(&["is-active", SOCKET]),
            systemctl(&["is-active", SERVICE]),
        ],
    })
}

/// The socket of the daemon, where clients look for it.
const SOCKET_UNIT: &str = "\
[Unit]
Description=Socket of Mainstay, which keeps MCP servers connected

[Socket]
ListenStream=%t/mainstay/daemon.sock
# Only this user may connect. Mainstay refuses a directory that others can write to.
SocketMode=0600
DirectoryMode=0700
# Nothing stays behind when the socket is stopped.
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
";

fn service_unit(place: &ServicePlace) -> String {
    let mut line = vec![program(&place.program)];
    line.extend(
        place
            .arguments(&["--socket-on-stdin"])
            .iter()
            .map(|word| argument(word)),
    );
    let line = line.join(" ");
    let path = match &place.path {
        Some(path) => format!(
            "# The PATH of the shell that installed the service. systemd's own is short, and often lacks npx, uvx and docker.\n\
             Environment={}\n",
            setting(&format!("PATH={path}"))
        ),
        None => String::new(),
    };
    format!(
        "\
[Unit]
Description=Mainstay, which keeps MCP servers connected
Requires={SOCKET}
After={SOCKET}

[Service]
# The daemon says when it is ready, and every 15 s that it is alive. If it hangs, systemd restarts it.
Type=notify
NotifyAccess=main
WatchdogSec=30s
ExecStart={line}
# systemd listens, and hands the socket to the daemon as its standard input. The daemon ends when it is idle; the next
# connection starts it again.
StandardInput=socket
StandardOutput=journal
StandardError=journal
{path}Restart=on-failure
RestartSec=1s
# The daemon stops its servers by itself: only it gets SIGTERM. What is left after the timeout is killed.
KillMode=mixed
TimeoutStopSec=30s
# A server that takes too much memory is killed alone, and restarted by the daemon.
OOMPolicy=continue
# The daemon raises its own limit for many servers, and gives each server the usual one.
LimitNOFILE=1024:524288
# A core dump would hold the tokens of servers.
LimitCORE=0
# No server gains privileges through a setuid program such as sudo. Rootless Podman needs one: to run it, add a drop-in with
# NoNewPrivileges=no.
NoNewPrivileges=yes
"
    )
}

/// The program of a command line. systemd expands no variables there.
fn program(path: &str) -> String {
    quoted(&path.replace('%', "%%"))
}

/// An argument of a command line.
fn argument(word: &str) -> String {
    quoted(&word.replace('%', "%%").replace('$', "$$"))
}

/// A value of `Environment=`.
fn setting(text: &str) -> String {
    quoted(&text.replace('%', "%%"))
}

fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@+,%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::{argument, program, setting};

    #[test]
    fn what_systemd_would_expand_or_split_is_quoted() {
        assert_eq!(
            program("/opt/my apps/100%/mainstay"),
            "\"/opt/my apps/100%%/mainstay\""
        );
        assert_eq!(argument("/a$b/c\"d"), r#""/a$$b/c\"d""#);
        assert_eq!(setting("PATH=/usr/bin:/opt/a b"), "\"PATH=/usr/bin:/opt/a b\"");
        assert_eq!(argument("--config"), "--config");
        assert_eq!(argument(""), "\"\"");
    }
}
