//! What the disk remembers of a fleet: enough to serve a catalog before any server is up, and nothing it should not.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use mainstay::config::{CustomTarget, ServerBuilder};
use mainstay::gateway::{Introduction, ServerExt as _, introduced_as};
use mainstay::{CallOptions, Fleet, Server, ServerConfig, StateKind};
use mainstay_testkit::store::catalogs_are_stored;
use mainstay_testkit::{Script, Speaks, clock, poll};
use serde_json::json;
use tempfile::TempDir;

use mainstay_testkit::fleet::{LONG, Memory, connected, fleet_with, raw};

fn start(store: &TempDir, server: ServerBuilder<CustomTarget>) -> (Fleet, Server) {
    fleet_with(Fleet::builder().store(store.path()), server)
}

/// Starts once, and leaves the catalog on disk.
async fn seed(store: &TempDir, memory: &Arc<Memory>) {
    let (fleet, server) = start(store, memory.config("s"));
    connected(&server).await;
    catalogs_are_stored(store.path(), 1).await;
    fleet.close(LONG).await;
}

/// Waits for this: a file gives no event when it is written.
async fn comes_true(holds: impl FnMut() -> bool) {
    assert!(poll::comes_true_async(poll::LIMIT, holds).await, "in time");
}

fn files(store: &TempDir) -> Vec<PathBuf> {
    let entries = fs::read_dir(store.path()).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn one_tool(name: &str) -> Arc<Memory> {
    Memory::new(Script::new().without_builtin_tools().tool(name))
}

fn tools(fleet: &Fleet) -> usize {
    fleet.catalog().tools().len()
}

#[tokio::test]
async fn a_fresh_start_serves_the_catalog_from_disk_before_any_server_is_up() {
    let store = TempDir::new().unwrap();
    let memory = one_tool("t");
    seed(&store, &memory).await;

    memory.set_down(true);
    let (fleet, server) = start(&store, memory.config("s"));
    // Nothing was awaited: this is what the first reader sees.
    let catalog = fleet.catalog();
    assert_eq!(catalog.tool("s__t").unwrap().original(), "t");
    assert!(catalog.freshness("s").unwrap().stale_since.is_some());
    assert_ne!(server.status().state, StateKind::Connected);

    let calling = fleet.clone();
    let mut call = pin!(async move {
        let options = CallOptions::default().timeout(LONG);
        calling.call("s__t", &json!({})).options(options).await
    });
    assert!(
        clock::keeps_waiting(&mut call).await,
        "the call waits for the server"
    );
    memory.set_down(false);
    call.await.expect("and then runs");
    assert_eq!(fleet.catalog().freshness("s").unwrap().stale_since, None);
}

#[tokio::test]
async fn a_server_that_is_added_to_a_running_fleet_is_served_from_disk_too() {
    let store = TempDir::new().unwrap();
    let memory = one_tool("t");
    seed(&store, &memory).await;

    memory.set_down(true);
    let fleet = Fleet::builder().store(store.path()).start([]);
    let added = fleet.add(memory.config("s").build().unwrap()).await;
    let server = added.expect("the name is free");
    let published = server.wait_until(LONG, |status| status.state == StateKind::Reconnecting);
    published.await.expect("it is tried");
    assert_eq!(fleet.catalog().tool("s__t").unwrap().original(), "t");
}

#[tokio::test]
async fn a_fleet_without_a_store_writes_nothing() {
    let store = TempDir::new().unwrap();
    let memory = one_tool("t");
    let builder = Fleet::builder()
        .client("editor", "1")
        .store(store.path())
        .without_store();
    let (fleet, server) = fleet_with(builder, memory.config("s"));
    connected(&server).await;
    fleet.close(LONG).await;
    assert_eq!(files(&store), Vec::<PathBuf>::new());
    let introduction = memory.side(1).await.last_params("initialize").unwrap();
    assert_eq!(
        introduction["clientInfo"]["name"], "editor",
        "the rest stays as it was"
    );
}

#[tokio::test]
async fn what_clients_declared_is_in_the_first_introduction_after_a_start() {
    let store = TempDir::new().unwrap();
    let memory = one_tool("t");
    let declared = async |connection: usize| {
        let side = memory.side(connection).await;
        side.last_params("initialize").unwrap()["capabilities"]["extensions"].clone()
    };
    let (fleet, server) = start(&store, memory.config("s"));
    connected(&server).await;
    server.declare_extensions(&raw(r#"{ "x/ui": { "a": [1] } }"#));
    fleet.close(LONG).await;
    assert_eq!(declared(1).await, json!(null));
    let (fleet, server) = start(&store, memory.config("s"));
    connected(&server).await;
    assert_eq!(declared(2).await, json!({ "x/ui": { "a": [1] } }));
    fleet.close(LONG).await;
}

#[tokio::test]
async fn a_start_removes_the_catalogs_of_servers_that_were_not_configured_for_months() {
    let store = TempDir::new().unwrap();
    seed(&store, &one_tool("t")).await;
    let [old] = &files(&store)[..] else {
        panic!("one catalog")
    };
    let months_ago = SystemTime::now() - Duration::from_secs(100 * 24 * 60 * 60);
    let file = fs::File::options().write(true).open(old).unwrap();
    file.set_modified(months_ago).unwrap();
    let _fleet = Fleet::builder().store(store.path()).start([]);
    comes_true(|| !old.exists()).await;
}

/// A file that is written is another file: it is moved over the one before it.
fn written(store: &TempDir) -> u64 {
    let files = files(store);
    assert_eq!(files.len(), 1, "{files:?}");
    fs::metadata(&files[0]).unwrap().ino()
}

#[tokio::test]
async fn a_listing_that_changes_nothing_is_not_written() {
    let store = TempDir::new().unwrap();
    let memory = one_tool("t");
    seed(&store, &memory).await;
    let first = written(&store);

    seed(&store, &memory).await;
    assert_eq!(written(&store), first, "the next start lists the same");
    let (fleet, server) = start(&store, memory.config("s"));
    connected(&server).await;
    server.refresh().await.unwrap();
    fleet.close(LONG).await;
    assert_eq!(written(&store), first, "and so does a refresh");

    *memory.script.lock().unwrap() = Script::new().without_builtin_tools().tool("u");
    let (fleet, server) = start(&store, memory.config("s"));
    connected(&server).await;
    let path = identity_file(&store, &memory.config("s"));
    comes_true(|| fs::metadata(&path).unwrap().ino() != first).await;
    fleet.close(LONG).await;
    memory.set_down(true);
    let (fleet, _server) = start(&store, memory.config("s"));
    comes_true(|| fleet.catalog().tool("s__u").is_some()).await;
}

/// The one thread that may block is kept busy, so that the file is read after the server was listed.
#[test]
fn a_stored_catalog_that_is_read_late_does_not_replace_a_listing() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = TempDir::new().unwrap();
        let memory = one_tool("t");
        seed(&store, &memory).await;
        *memory.script.lock().unwrap() = Script::new().without_builtin_tools().tool("u");

        let (release, released) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || released.recv());
        let (fleet, server) = start(&store, memory.config("s"));
        connected(&server).await;
        assert!(fleet.catalog().tool("s__u").is_some(), "listed");
        drop(release);
        // What the file says is posted by the thread that this waits for, and taken before the command.
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        memory.set_down(true);
        server.restart().await.unwrap();
        let catalog = fleet.catalog();
        assert!(catalog.tool("s__u").is_some() && catalog.tool("s__t").is_none());
        fleet.close(LONG).await;
    });
}

/// The one thread that may block is kept busy: what needs it waits, and nothing else does.
#[test]
fn stored_catalogs_are_read_by_threads_that_may_block_and_a_start_waits_only_a_moment_for_them() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = TempDir::new().unwrap();
        let memory = one_tool("t");
        seed(&store, &memory).await;
        memory.set_down(true);

        let (release, released) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || released.recv());
        let (fleet, server) = start(&store, memory.config("s"));
        assert_eq!(tools(&fleet), 0, "not read by this thread");
        let mut changes = fleet.catalog_reader();
        drop(release);
        let catalog = tokio::time::timeout(LONG, changes.changed())
            .await
            .unwrap()
            .unwrap();
        assert!(catalog.tool("s__t").is_some(), "published as soon as it is read");
        assert!(catalog.freshness("s").unwrap().stale_since.is_some());
        assert_ne!(server.status().state, StateKind::Connected);
    });
}

#[tokio::test]
async fn what_a_server_shows_one_client_is_not_served_from_disk_to_another() {
    let store = TempDir::new().unwrap();
    let memory = one_tool("t");
    let client = |name: &str, capabilities: &str| {
        let info = raw(&format!(r#"{{"name":"{name}","version":"1"}}"#));
        let introduction = Introduction::new(raw(capabilities)).client_info(info);
        introduced_as(Fleet::builder().store(store.path()), introduction)
    };
    let (fleet, server) = fleet_with(client("one", "{}"), memory.config("s"));
    connected(&server).await;
    catalogs_are_stored(store.path(), 1).await;
    fleet.close(LONG).await;

    memory.set_down(true);
    let others = [
        client("two", "{}"),
        client("one", r#"{"sampling":{}}"#),
        Fleet::builder().store(store.path()),
    ];
    for other in others {
        let (fleet, _) = fleet_with(other, memory.config("s"));
        assert_eq!(tools(&fleet), 0);
    }
    let (fleet, _) = fleet_with(client("one", "{}"), memory.config("s"));
    comes_true(|| tools(&fleet) == 1).await;
}

#[tokio::test]
async fn a_corrupt_or_foreign_file_is_ignored_with_a_warning_and_the_server_is_listed_anew() {
    let foreign = {
        let store = TempDir::new().unwrap();
        seed(&store, &one_tool("foreign")).await;
        // The same server name, another identity: what it holds is not this server's.
        let other = ServerConfig::custom("s", "other identity", one_tool("foreign"));
        let (fleet, server) = start(&store, other);
        connected(&server).await;
        catalogs_are_stored(store.path(), 2).await;
        fleet.close(LONG).await;
        let own = identity_file(&store, &one_tool("x").config("s"));
        let foreign = files(&store).into_iter().find(|path| *path != own).unwrap();
        fs::read(foreign).unwrap()
    };
    for content in [&b"\xff\xfe no catalog"[..], b"", b"{}", &foreign[..]] {
        let store = TempDir::new().unwrap();
        let memory = one_tool("t");
        seed(&store, &memory).await;
        let [file] = &files(&store)[..] else {
            panic!("one file")
        };
        fs::write(file, content).unwrap();

        let warnings = Warnings::default();
        let (fleet, server) = {
            let _listening = tracing::subscriber::set_default(warnings.clone());
            start(&store, memory.config("s"))
        };
        assert_eq!(tools(&fleet), 0, "{content:?}");
        comes_true(|| warnings.count() > 0).await;
        assert_eq!(warnings.count(), 1, "{content:?}");
        connected(&server).await;
        assert!(fleet.catalog().tool("s__t").is_some());
        // What is listed is stored again.
        comes_true(|| fs::read(file).unwrap() != content).await;
        fleet.close(LONG).await;
    }
}

#[tokio::test]
async fn a_server_with_another_identity_inherits_no_catalog() {
    let store = TempDir::new().unwrap();
    let memory = one_tool("t");
    seed(&store, &memory).await;
    let stranger = one_tool("u");
    stranger.set_down(true);
    let config = || ServerConfig::custom("s", "another", stranger.clone());
    let (fleet, _) = start(&store, config());
    assert_eq!(tools(&fleet), 0, "at a fresh start");
    fleet.close(LONG).await;

    let (fleet, server) = start(&store, memory.config("s"));
    connected(&server).await;
    assert_eq!(tools(&fleet), 1);
    fleet.apply([config().build().unwrap()]).await;
    assert_eq!(tools(&fleet), 0, "when the configuration changes");
    stranger.set_down(false);
    connected(&server).await;
    assert!(fleet.catalog().tool("s__u").is_some());
    catalogs_are_stored(store.path(), 2).await;
    fleet.close(LONG).await;
    assert_eq!(files(&store).len(), 2, "each has a file of its own");
}

#[tokio::test]
async fn what_a_server_marks_private_is_there_after_a_restart_where_this_user_alone_can_read_it() {
    let script = Script {
        private: true,
        ..Script::new()
            .speaks(Speaks::Modern)
            .without_builtin_tools()
            .tool("t")
    };
    for (mode, remembered) in [(0o700, 1), (0o755, 0)] {
        let store = TempDir::new().unwrap();
        fs::set_permissions(store.path(), fs::Permissions::from_mode(mode)).unwrap();
        let memory = Memory::new(script.clone());
        let (fleet, server) = start(&store, memory.config("s"));
        connected(&server).await;
        catalogs_are_stored(store.path(), remembered).await;
        fleet.close(LONG).await;
        assert_eq!(files(&store).len(), remembered, "{mode:o}");
        memory.set_down(true);
        let (fleet, _server) = start(&store, memory.config("s"));
        comes_true(|| tools(&fleet) == remembered).await;
    }
}

fn identity_file(store: &TempDir, server: &ServerBuilder<CustomTarget>) -> PathBuf {
    let identity = server.clone().build().unwrap().identity().to_string();
    Path::new(store.path()).join(identity).with_extension("catalog")
}

/// Counts what is logged as a warning.
#[derive(Clone, Default)]
pub(crate) struct Warnings(Arc<Mutex<usize>>);

impl Warnings {
    pub(crate) fn count(&self) -> usize {
        *self.0.lock().unwrap()
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        *self.0.lock().unwrap() += 1;
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
