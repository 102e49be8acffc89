//! The store of files: what it keeps, whom it refuses, and who may write.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use mainstay_login::{
    FileStore, LoginKey, LoginStore, LoginStoreError, ReadLogin, StoreProtection, StoredLogin,
};
use mainstay_oauth::LoginRecord;
use mainstay_testkit::poll;
use serde_json::json;

fn record(user: Option<&str>, issuer: &str, token: &str) -> LoginRecord {
    serde_json::from_value(json!({
        "version": 1,
        "server": "https://mcp.example/mcp",
        "issuer": issuer,
        "user": user,
        "client_id": "c",
        "method": "none",
        "token_endpoint": format!("{issuer}/token"),
        "access_token": token,
        "refresh_token": format!("refresh-{token}"),
    }))
    .unwrap()
}

fn login(user: Option<&str>, issuer: &str, token: &str) -> StoredLogin {
    StoredLogin::new(record(user, issuer, token), SystemTime::now()).unwrap()
}

fn key(user: Option<&str>) -> LoginKey {
    LoginKey {
        server: "https://mcp.example/mcp".parse().unwrap(),
        user: user.map(str::to_owned),
    }
}

fn tokens(found: &[ReadLogin]) -> Vec<&str> {
    found
        .iter()
        .map(|read| read.login.record.access_token.expose())
        .collect()
}

/// A directory that the user alone may enter, as a store wants it.
fn private_directory() -> tempfile::TempDir {
    let mode = Permissions::from_mode(0o700);
    tempfile::Builder::new().permissions(mode).tempdir().unwrap()
}

fn plain(directory: &Path) -> FileStore {
    FileStore::open(directory, StoreProtection::Plain).unwrap()
}

/// The only file of a directory with this ending.
fn file(directory: &Path, ending: &str) -> std::path::PathBuf {
    let mut found = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    found
        .find(|path| path.to_str().unwrap().ends_with(ending))
        .unwrap()
}

#[test]
fn each_user_and_each_issuer_has_a_login_of_its_own() {
    let directory = private_directory();
    let store = plain(directory.path());
    for (user, issuer, token) in [
        (None, "https://a.example", "one"),
        (None, "https://b.example", "two"),
        (Some("ann"), "https://a.example", "three"),
    ] {
        store.replace(&login(user, issuer, token), None).unwrap();
    }
    let mut found = store.logins(&key(None)).unwrap();
    found.sort_by(|a, b| a.login.record.issuer.cmp(&b.login.record.issuer));
    assert_eq!(tokens(&found), ["one", "two"]);
    assert_eq!(tokens(&store.logins(&key(Some("ann"))).unwrap()), ["three"]);
    assert!(store.logins(&key(Some("bob"))).unwrap().is_empty());
    assert_eq!(store.all_logins().unwrap().len(), 3);
    store.remove(&found[0].login).unwrap();
    assert_eq!(tokens(&store.logins(&key(None)).unwrap()), ["two"]);
}

#[test]
fn a_write_replaces_the_expected_state_and_no_other() {
    let directory = private_directory();
    let store = plain(directory.path());
    let first = login(None, "https://a.example", "one");
    store.replace(&first, None).unwrap();
    assert!(matches!(
        store.replace(&first, None),
        Err(LoginStoreError::Changed)
    ));
    let read = store.logins(&key(None)).unwrap().remove(0);
    let second = first.renewed(record(None, "https://a.example", "two"), SystemTime::now());
    store.replace(&second, Some(&read.version)).unwrap();
    let third = first.renewed(record(None, "https://a.example", "three"), SystemTime::now());
    assert!(matches!(
        store.replace(&third, Some(&read.version)),
        Err(LoginStoreError::Changed)
    ));
    assert_eq!(tokens(&store.logins(&key(None)).unwrap()), ["two"]);
    assert_eq!(store.logins(&key(None)).unwrap()[0].login.id, first.id);
}

#[test]
fn files_that_others_could_read_or_replace_are_refused() {
    let directory = private_directory();
    let store = plain(directory.path());
    store
        .replace(&login(None, "https://a.example", "one"), None)
        .unwrap();
    let path = file(directory.path(), ".login");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(directory.path())), (0o600, 0o700));

    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let refused = store.logins(&key(None)).unwrap_err();
    assert!(matches!(refused, LoginStoreError::Unsafe { .. }), "{refused}");
    assert!(refused.to_string().contains("chmod 0600"), "{refused}");
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();

    let moved = directory.path().join("moved");
    std::fs::rename(&path, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &path).unwrap();
    let refused = store.logins(&key(None)).unwrap_err();
    assert!(refused.to_string().contains("symbolic link"), "{refused}");

    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let refused = FileStore::open(directory.path(), StoreProtection::Plain)
        .err()
        .unwrap();
    assert!(refused.to_string().contains("chmod 0700"), "{refused}");
}

#[test]
fn a_broken_file_is_an_error_that_shows_none_of_it() {
    let directory = private_directory();
    let store = plain(directory.path());
    store
        .replace(&login(None, "https://a.example", "hunter2"), None)
        .unwrap();
    let path = file(directory.path(), ".login");
    let whole = std::fs::read(&path).unwrap();
    for bytes in [
        &whole[..whole.len() / 2],
        b"{\"version\":1,\"id\":\"hunter2\"}",
        b"",
        b"[]",
        b"hunter2",
    ] {
        std::fs::write(&path, bytes).unwrap();
        let error = store.logins(&key(None)).unwrap_err();
        assert!(matches!(error, LoginStoreError::Unreadable { .. }), "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        assert!(store.all_logins().unwrap().is_empty());
    }
    let newer = String::from_utf8(whole)
        .unwrap()
        .replacen("\"version\": 1", "\"version\": 9", 1);
    std::fs::write(&path, newer).unwrap();
    let error = store.logins(&key(None)).unwrap_err().to_string();
    assert!(error.contains("version 9"), "{error}");
}

#[test]
fn encrypted_files_show_nothing_and_fit_one_key_and_one_name() {
    let directory = private_directory();
    let keys = tempfile::tempdir().unwrap();
    let key_file = |name: &str, bytes: &[u8]| {
        let path = keys.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        StoreProtection::KeyFile(path)
    };
    let protection = key_file("right", &[7; 32]);
    let store = FileStore::open(directory.path(), protection.clone()).unwrap();
    store
        .replace(&login(None, "https://a.example", "hunter2"), None)
        .unwrap();
    assert_eq!(tokens(&store.logins(&key(None)).unwrap()), ["hunter2"]);
    assert_eq!(store.describe().protection, "key_file");
    let path = file(directory.path(), ".login");
    let bytes = std::fs::read(&path).unwrap();
    assert!(!String::from_utf8_lossy(&bytes).contains("hunter2"));

    // Another key, another protection, and a file under another name.
    let other = FileStore::open(directory.path(), key_file("wrong", &[8; 32])).unwrap();
    assert!(matches!(
        other.logins(&key(None)),
        Err(LoginStoreError::Unreadable { .. })
    ));
    assert!(matches!(
        FileStore::open(directory.path(), StoreProtection::Plain),
        Err(LoginStoreError::OtherProtection { .. })
    ));
    store
        .replace(&login(None, "https://b.example", "two"), None)
        .unwrap();
    let mut names = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let second = names.find(|found| *found != path && found.to_str().unwrap().ends_with(".login"));
    std::fs::write(second.unwrap(), &bytes).unwrap();
    assert!(
        store.logins(&key(None)).is_err(),
        "the name is bound to the content"
    );

    for bad in [&b"short"[..], b"", &[7; 33]] {
        assert!(matches!(
            FileStore::open(directory.path(), key_file("bad", bad)),
            Err(LoginStoreError::Key { .. })
        ));
    }
}

#[test]
fn a_lock_keeps_others_out_until_it_is_dropped() {
    let directory = private_directory();
    let (store, other) = (plain(directory.path()), plain(directory.path()));
    let held = store.lock(&key(None), Duration::from_secs(1)).unwrap();
    let refused = other.lock(&key(None), Duration::from_millis(50)).err().unwrap();
    assert!(matches!(refused, LoginStoreError::Locked { .. }), "{refused}");
    assert!(
        other.lock(&key(Some("ann")), Duration::from_millis(50)).is_ok(),
        "another login"
    );
    drop(held);
    assert!(other.lock(&key(None), Duration::from_millis(50)).is_ok());
}

#[tokio::test]
async fn a_change_by_another_process_is_reported() {
    let directory = private_directory();
    let (store, other) = (plain(directory.path()), plain(directory.path()));
    let mut watch = store.watch();
    let login = login(None, "https://a.example", "one");
    other.replace(&login, None).unwrap();
    let within = Duration::from_secs(20);
    tokio::time::timeout(within, watch.changed())
        .await
        .expect("written");
    other.remove(&login).unwrap();
    tokio::time::timeout(within, watch.changed())
        .await
        .expect("removed");
}

#[test]
fn the_protection_that_was_chosen_is_found_again_without_a_setting() {
    let (directory, keys) = (private_directory(), private_directory());
    let key_file = keys.path().join("key");
    std::fs::write(&key_file, [7; 32]).unwrap();
    std::fs::set_permissions(&key_file, Permissions::from_mode(0o600)).unwrap();
    // A long-lived process opens the store before the person chooses.
    let early = FileStore::open_as_chosen(directory.path()).unwrap();
    assert_eq!(early.describe().protection, "plain");
    let chosen = StoreProtection::KeyFile(key_file.clone());
    let store = FileStore::open(directory.path(), chosen).unwrap();
    store
        .replace(&login(None, "https://a.example", "hunter2"), None)
        .unwrap();
    assert_eq!(tokens(&early.logins(&key(None)).unwrap()), ["hunter2"]);
    assert_eq!(early.describe().protection, "key_file");
    let later = FileStore::open_as_chosen(directory.path()).unwrap();
    assert_eq!(tokens(&later.logins(&key(None)).unwrap()), ["hunter2"]);

    // A missing key is an error that names it, and loses nothing. Nothing is written without the key.
    let moved = keys.path().join("moved");
    std::fs::rename(&key_file, &moved).unwrap();
    let keyless = FileStore::open_as_chosen(directory.path()).unwrap();
    assert_eq!(keyless.describe().protection, "key_file");
    let registrations = keyless.registrations().map(drop);
    for refused in [
        keyless.logins(&key(None)).map(drop),
        keyless.all_logins().map(drop),
        registrations,
        keyless.replace(&login(None, "https://b.example", "two"), None),
    ] {
        let missing = refused.unwrap_err();
        assert!(matches!(missing, LoginStoreError::Key { .. }), "{missing}");
        assert!(missing.to_string().contains("not there"), "{missing}");
    }
    // It asks again, and goes on when the key is back.
    std::fs::rename(&moved, &key_file).unwrap();
    assert_eq!(tokens(&keyless.logins(&key(None)).unwrap()), ["hunter2"]);
    // While there are logins, no other protection can be chosen; without them it can.
    let refused = FileStore::open(directory.path(), StoreProtection::Plain);
    assert!(matches!(refused, Err(LoginStoreError::OtherProtection { .. })));
    store.remove_all(&key(None)).unwrap();
    FileStore::open(directory.path(), StoreProtection::Plain).unwrap();
}

#[test]
fn a_key_command_that_fails_is_asked_again_later_and_not_by_every_server() {
    let (directory, keys) = (private_directory(), private_directory());
    let (key, calls) = (keys.path().join("key"), keys.path().join("calls"));
    let script = format!("echo >> {}; cat {}", calls.display(), key.display());
    let command = StoreProtection::KeyCommand(["sh", "-c", &script].map(str::to_owned).to_vec());
    std::fs::write(&key, "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=").unwrap();
    let store = FileStore::open(directory.path(), command).unwrap();
    store
        .replace(&login(None, "https://a.example", "hunter2"), None)
        .unwrap();
    drop(store);
    let moved = keys.path().join("moved");
    std::fs::rename(&key, &moved).unwrap();
    std::fs::remove_file(&calls).unwrap();
    let locked = FileStore::open_as_chosen(directory.path()).unwrap();
    let ask = || locked.logins(&self::key(None));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let refused = ask().unwrap_err();
                assert!(matches!(refused, LoginStoreError::KeyCommand { .. }), "{refused}");
            });
        }
    });
    let calls = std::fs::read_to_string(&calls).unwrap().lines().count();
    assert_eq!(calls, 1, "one answer for all");
    std::fs::rename(&moved, &key).unwrap();
    assert!(
        poll::comes_true(poll::LIMIT, || ask().is_ok()),
        "it is asked again"
    );
    assert_eq!(tokens(&ask().unwrap()), ["hunter2"]);
}

#[test]
fn a_keyring_that_this_process_cannot_reach_is_an_error_that_loses_nothing() {
    let directory = private_directory();
    let store = plain(directory.path());
    store
        .replace(&login(None, "https://a.example", "one"), None)
        .unwrap();
    // With logins, the protection stays, and the keyring is not asked.
    let refused = FileStore::open(directory.path(), StoreProtection::Keyring);
    assert!(matches!(refused, Err(LoginStoreError::OtherProtection { .. })));
    store.remove_all(&key(None)).unwrap();
    // The note of another process names an item that no keyring of the tests has.
    let note = r#"{"version":1,"protection":"keyring","keyring_item":"no-such-item"}"#;
    std::fs::write(directory.path().join("protection"), note).unwrap();
    let keyless = FileStore::open_as_chosen(directory.path()).unwrap();
    assert_eq!(keyless.describe().protection, "keyring");
    let refused = keyless.replace(&login(None, "https://a.example", "two"), None);
    assert!(matches!(refused, Err(LoginStoreError::Keyring(_))), "{refused:?}");
    let files = std::fs::read_dir(directory.path()).unwrap();
    let is_login = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "login");
    assert_eq!(
        files.map(|entry| entry.unwrap().path()).filter(is_login).count(),
        0
    );
}

#[test]
fn a_key_can_come_from_a_command() {
    let directory = private_directory();
    let shell = |script: &str| StoreProtection::KeyCommand(["sh", "-c", script].map(str::to_owned).to_vec());
    let prints_key = "printf %s BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
    let store = FileStore::open(directory.path(), shell(prints_key)).unwrap();
    store
        .replace(&login(None, "https://a.example", "hunter2"), None)
        .unwrap();
    let bytes = std::fs::read(file(directory.path(), ".login")).unwrap();
    assert!(!String::from_utf8_lossy(&bytes).contains("hunter2"));
    let later = FileStore::open_as_chosen(directory.path()).unwrap();
    assert_eq!(tokens(&later.logins(&key(None)).unwrap()), ["hunter2"]);
    assert_eq!(later.describe().protection, "key_command");
    for (script, said) in [
        ("exit 1", "ended with"),
        ("echo nothing", "neither 32 bytes"),
        ("kill -9 $$", "ended with"),
        ("cat /dev/zero", "ended with"),
    ] {
        let error = FileStore::open(directory.path(), shell(script)).err().unwrap();
        assert!(
            matches!(error, LoginStoreError::KeyCommand { .. }),
            "{script}: {error}"
        );
        assert!(error.to_string().contains(said), "{script}: {error}");
    }
    let missing = StoreProtection::KeyCommand(vec!["no-such-program-anywhere".to_owned()]);
    let error = FileStore::open(directory.path(), missing)
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("cannot be started"), "{error}");
}
