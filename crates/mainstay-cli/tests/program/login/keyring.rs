//! The key of the logins in a real Secret Service (gnome-keyring) on a private bus: unlocked, locked, gone, volatile.

use std::process::{Command, Stdio};

use mainstay_partner::ProtectedServer;

use super::start;
use crate::sandbox::{MAINSTAY, Ran, Sandbox, finish};

/// Prepares a session in which the keyring of this user is unlocked. `login` logs in as this user chose.
const KEYRING: &str = r#"
unlock() { printf pw | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1; }
lock() {
    dbus-send --session --print-reply --dest=org.freedesktop.secrets /org/freedesktop/secrets \
        org.freedesktop.Secret.Service.Lock array:objpath:/org/freedesktop/secrets/collection/login >/dev/null
}
make_key() { head -c 32 /dev/urandom | base64 | secret-tool store --label=mainstay "$@" service mainstay; }
unlock || exit 90
"#;

/// A user with a keyring, who has a protected server in the configuration.
pub(super) struct KeyringUser {
    pub(super) protected: ProtectedServer,
    pub(super) sandbox: Sandbox,
    /// The options of `mainstay login` that choose where the key of the logins is.
    key: &'static str,
}

impl KeyringUser {
    /// `None` where the partners are not installed.
    pub(super) fn start(key: &'static str) -> Option<Self> {
        let (protected, sandbox) = start(600)?;
        if !has_keyring() {
            eprintln!("skipped: no keyring");
            return None;
        }
        Some(Self {
            protected,
            sandbox,
            key,
        })
    }

    /// Runs a script with a session bus and the keyring of this user.
    pub(super) fn session(&self, script: &str) -> Ran {
        let sandbox = &self.sandbox;
        let own = sandbox.command(&[]);
        let login = format!(
            r#"login() {{ "$MAINSTAY" login search {} </dev/null; }}"#,
            self.key
        );
        let mut command = Command::new("dbus-run-session");
        command
            .args(["--", "sh", "-c", &format!("{KEYRING}{login}\n{script}")])
            .env_clear()
            .envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("MAINSTAY", MAINSTAY)
            .env("BROWSER", self.protected.browser())
            .env("XDG_RUNTIME_DIR", sandbox.path("work"))
            .current_dir(sandbox.path("work"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish(command.spawn().expect("a session"))
    }
}

/// Whether the keyring is installed. Only a plain `cargo test` may go on without.
fn has_keyring() -> bool {
    let found = Command::new("sh")
        .args([
            "-c",
            "command -v secret-tool && command -v gnome-keyring-daemon && command -v dbus-run-session && command -v dbus-send",
        ])
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    let is_promised = std::env::var_os("MAINSTAY_PARTNERS").is_some_and(|file| !file.is_empty());
    assert!(
        found || !is_promised,
        "run `cargo xtask partners`: it installs gnome-keyring and secret-tool"
    );
    found
}

/// The key comes from the keyring by a command.
const KEY_COMMAND: &str = r#"--key-command "secret-tool lookup service mainstay""#;

#[test]
fn a_key_in_the_keyring_protects_logins_and_a_locked_or_missing_keyring_loses_none() {
    let Some(user) = KeyringUser::start(KEY_COMMAND) else {
        return;
    };
    let session = r#"
        make_key && login && "$MAINSTAY" call search echo && "$MAINSTAY" auth status || exit 91
        lock
        "$MAINSTAY" auth status && exit 92
        "$MAINSTAY" call search echo && exit 93
        true
    "#;
    let ran = user.session(session);
    ran.exits(0).says("encrypted with a key from a command");
    ran.says("is the keyring there");

    // Without the bus, as in a session over SSH.
    let gone = user.sandbox.run(&["auth", "status"]);
    gone.exits(1).says("secret-tool");
    // Back in a session with the same keyring, nothing is lost.
    user.session(r#""$MAINSTAY" call search echo"#)
        .exits(0)
        .prints("ok");
}

#[test]
fn a_key_that_vanished_with_its_session_is_named_and_a_new_login_is_possible() {
    let Some(user) = KeyringUser::start(KEY_COMMAND) else {
        return;
    };
    let volatile = r#"make_key --collection=session && login && "$MAINSTAY" call search echo"#;
    user.session(volatile).exits(0).prints("ok");
    let lost = user.session(r#""$MAINSTAY" auth status"#);
    lost.exits(1).says("does it hold the key");
    // Another key does not fit. The message says what to do, and that works.
    let again = r#"
        make_key
        "$MAINSTAY" auth status search && exit 94
        "$MAINSTAY" logout search && login && "$MAINSTAY" call search echo
    "#;
    let ran = user.session(again);
    ran.exits(0).says("mainstay logout").prints("ok");
}
