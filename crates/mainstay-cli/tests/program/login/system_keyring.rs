//! `mainstay login --keyring` with a real Secret Service (gnome-keyring) on a private bus: unlocked, locked, gone, forgetful.

use super::keyring::KeyringUser;
use crate::sandbox::Sandbox;

/// The text of every file of the store.
fn stored(sandbox: &Sandbox) -> String {
    let directory = sandbox.path("home/.local/state/mainstay/logins");
    let mut all = String::new();
    for entry in std::fs::read_dir(directory).expect("a store") {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap_or_default();
        all += &String::from_utf8_lossy(&bytes);
    }
    all
}

#[test]
fn the_system_keyring_keeps_the_key_and_a_locked_or_missing_one_loses_no_login() {
    let Some(user) = KeyringUser::start("--keyring") else {
        return;
    };
    let made = r#"
        login && "$MAINSTAY" call search echo && "$MAINSTAY" auth status || exit 91
        "$MAINSTAY" auth status --json
    "#;
    let ran = user.session(made);
    ran.exits(0)
        .prints("ok")
        .says("encrypted with a key from the system keyring");
    ran.prints(r#""protection": "keyring""#);
    let files = stored(&user.sandbox);
    for secret in user.protected.secrets() {
        assert!(!files.contains(&secret), "a secret is not encrypted");
    }

    let locked = r#"
        lock
        "$MAINSTAY" auth status && exit 92
        "$MAINSTAY" call search echo && exit 93
        login && exit 94
        "$MAINSTAY" logout search && exit 95
        true
    "#;
    let ran = user.session(locked);
    ran.exits(0).says("the keyring is locked; unlock it");
    assert!(!ran.stderr.contains("mainstay login search"), "{}", ran.stderr);

    // Without a bus, as over SSH, and with a bus that has no keyring.
    let gone = user.sandbox.run(&["auth", "status"]);
    gone.exits(1).says("no keyring answers").says("--key-file");
    let gone = user.sandbox.run(&["call", "search", "echo"]);
    gone.says("no keyring answers");
    assert_ne!(gone.code, Some(0));
    // Back in a session with the same keyring, nothing is lost.
    let back = user.session(r#""$MAINSTAY" call search echo"#);
    back.exits(0).prints("ok");
}

#[test]
fn a_keyring_that_forgot_the_key_is_named_and_the_key_can_come_back() {
    let Some(user) = KeyringUser::start("--keyring") else {
        return;
    };
    let forgotten = r#"
        login || exit 91
        store=$(sed -n 's/.*"keyring_item":"\([^"]*\)".*/\1/p' "$HOME/.local/state/mainstay/logins/protection")
        key=$(secret-tool lookup service mainstay store "$store")
        secret-tool clear service mainstay store "$store"
        "$MAINSTAY" auth status && exit 92
        "$MAINSTAY" call search echo && exit 93
        login && exit 94
        printf %s "$key" | secret-tool store --label=mainstay service mainstay store "$store"
        "$MAINSTAY" call search echo || exit 95
        printf no-key | secret-tool store --label=mainstay service mainstay store "$store"
        "$MAINSTAY" call search echo && exit 96
        secret-tool clear service mainstay store "$store"
        "$MAINSTAY" logout search && login && "$MAINSTAY" call search echo
    "#;
    let ran = user.session(forgotten);
    ran.exits(0)
        .says("does not hold the key of these logins")
        .says("is no key of 32 bytes");
}

#[test]
fn a_keyring_that_would_forget_the_key_is_not_given_one() {
    let Some(user) = KeyringUser::start("--keyring") else {
        return;
    };
    let volatile = r#"
        alias() {
            dbus-send --session --print-reply --dest=org.freedesktop.secrets /org/freedesktop/secrets \
                org.freedesktop.Secret.Service.SetAlias string:default "objpath:$1" >/dev/null
        }
        alias /org/freedesktop/secrets/collection/session || exit 91
        login && exit 92
        alias /org/freedesktop/secrets/collection/login || exit 93
        lock
        login && exit 94
        "$MAINSTAY" auth status
    "#;
    let ran = user.session(volatile);
    ran.exits(0)
        .says("forgets its keys when the session ends")
        .says("the keyring is locked");
    // Nothing was chosen, and nothing is in the way of another choice.
    ran.says("not encrypted").prints("not logged in");
}

#[test]
fn many_processes_that_choose_the_keyring_at_once_share_one_key() {
    let Some(user) = KeyringUser::start("--keyring") else {
        return;
    };
    let race = r#"
        for one in 1 2 3 4; do login & done
        wait
        "$MAINSTAY" call search echo || exit 91
        secret-tool search --all service mainstay 2>/dev/null | grep -c '^secret = '
    "#;
    let ran = user.session(race);
    ran.exits(0).prints("ok");
    assert!(ran.stdout.trim_end().ends_with('1'), "one key: {}", ran.stdout);
}
