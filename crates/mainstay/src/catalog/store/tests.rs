use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::{CatalogDirectory, CatalogStore as _, MAX_FILE_BYTES, StoreError, Stored};
use crate::catalog::fixtures::{ODD_TOOL, catalog, listings, prompt, raw, resource, template, tool};
use crate::catalog::{
    About, CacheScope, Caching, Freshness, Item, ItemList, Kind, PreparedOffers, Publisher, ServerCatalog,
};

const IDENTITY: &str = "0123456789abcdef";

fn store() -> (TempDir, CatalogDirectory) {
    let dir = TempDir::new().unwrap();
    let store = CatalogDirectory::open(dir.path().join("a/b")).unwrap();
    (dir, store)
}

fn stored(catalog: ServerCatalog) -> Stored {
    Stored {
        identity: IDENTITY.into(),
        server: "s".into(),
        era: Some("modern".into()),
        listed_at: SystemTime::UNIX_EPOCH + Duration::from_millis(1_234_567),
        catalog,
        extensions: Some(raw(r#"{"x/ui":{"mimeTypes":["a"]}}"#)),
    }
}

fn small() -> Stored {
    stored(catalog("s", &[tool("a")]))
}

fn file_of(store: &CatalogDirectory) -> PathBuf {
    store.path(IDENTITY).unwrap()
}

#[test]
fn a_catalog_comes_back_byte_for_byte_and_is_published_as_before() {
    let about = About {
        protocol_version: Some("2026-07-28".into()),
        server_info: Some(raw(r#"{"name":"x","version":1.0}"#)),
        capabilities: Some(raw(r#"{"tools":{ "listChanged":true}}"#)),
        instructions: Some("use\nwell \u{1f980}".into()),
        modern_capabilities: Some(raw(r#"{"extensions":{"io.x/y":{ "a":1.0}}}"#)),
    };
    let items = [
        (Kind::Tool, raw(ODD_TOOL)),
        tool("after"),
        prompt("p"),
        resource("a:b"),
        template("a:{b}"),
    ];
    let before = stored(ServerCatalog::new("s", about, listings(&items)));
    let (_dir, store) = store();
    store.save(&before).unwrap();
    let after = store.load(IDENTITY).unwrap().unwrap();

    assert_eq!(after.catalog, before.catalog);
    assert_eq!(after.extensions, before.extensions);
    let order: Vec<_> = after.catalog.listed(Kind::Tool).map(Item::key).collect();
    assert_eq!(order, ["odd", "after"], "in the server's order");
    assert_eq!(
        after.catalog.item(Kind::Tool, "odd").unwrap().raw().as_str(),
        ODD_TOOL
    );
    assert_eq!(
        after.catalog.about().instructions,
        before.catalog.about().instructions
    );
    assert_eq!(
        (after.identity, after.server, after.era),
        (before.identity, before.server, before.era)
    );
    assert_eq!(after.listed_at, before.listed_at);

    let mut publisher = Publisher::new();
    let freshness = Freshness {
        listed_at: after.listed_at,
        stale_since: Some(after.listed_at),
        generation: None,
    };
    let prepared = |catalog| PreparedOffers::new(&Arc::from("s"), Arc::new(catalog), Arc::default());
    assert!(publisher.set("s", prepared(after.catalog), freshness));
    assert!(
        !publisher.set("s", prepared(before.catalog), freshness),
        "the live one is no change"
    );
    let published = publisher.reader().load();
    let text = published.tool("s__odd").unwrap().published().as_str();
    assert_eq!(text, ODD_TOOL.replace(r#""odd""#, r#""s__odd""#));
}

#[test]
fn what_was_never_stored_is_not_there() {
    let (_dir, store) = store();
    assert!(store.load(IDENTITY).unwrap().is_none());
    store.remove(IDENTITY).unwrap();
}

#[test]
fn a_file_cut_at_any_length_is_ignored() {
    let (_dir, store) = store();
    store.save(&small()).unwrap();
    let whole = fs::read(file_of(&store)).unwrap();
    for length in 0..whole.len() {
        fs::write(file_of(&store), &whole[..length]).unwrap();
        assert!(store.load(IDENTITY).unwrap().is_none(), "cut to {length}");
    }
    fs::write(file_of(&store), &whole).unwrap();
    assert!(store.load(IDENTITY).unwrap().is_some());
}

#[test]
fn a_file_with_any_byte_changed_is_ignored() {
    let (_dir, store) = store();
    store.save(&small()).unwrap();
    let whole = fs::read(file_of(&store)).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x01;
        fs::write(file_of(&store), &damaged).unwrap();
        assert!(store.load(IDENTITY).unwrap().is_none(), "byte {at} changed");
    }
}

#[test]
fn foreign_future_and_misplaced_files_are_ignored() {
    let (_dir, store) = store();
    let path = file_of(&store);
    for foreign in [
        &b""[..],
        b"{}",
        b"\xff\xfe\x00",
        b"mainstay-catalog",
        b"mainstay-catalog \n",
        b"\n\n",
    ] {
        fs::write(&path, foreign).unwrap();
        assert!(store.load(IDENTITY).unwrap().is_none(), "{foreign:?}");
    }

    store.save(&small()).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replacen("mainstay-catalog 1 ", "mainstay-catalog 2 ", 1),
    )
    .unwrap();
    assert!(
        store.load(IDENTITY).unwrap().is_none(),
        "written by a later version"
    );

    fs::write(&path, &text).unwrap();
    let elsewhere = store.path("ffff").unwrap();
    fs::copy(&path, &elsewhere).unwrap();
    assert!(store.load("ffff").unwrap().is_none(), "another identity's file");

    fs::remove_file(&elsewhere).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    assert!(store.load("ffff").unwrap().is_none(), "no file at all");
    assert!(store.load(IDENTITY).unwrap().is_some(), "its neighbour is sound");
}

#[test]
fn a_file_that_is_too_large_is_ignored() {
    let (_dir, store) = store();
    store.save(&small()).unwrap();
    let file = fs::OpenOptions::new().write(true).open(file_of(&store)).unwrap();
    file.set_len(MAX_FILE_BYTES + 1).unwrap();
    assert!(store.load(IDENTITY).unwrap().is_none());
}

fn private() -> Stored {
    let listing = ItemList {
        caching: Some(Caching {
            scope: Some(CacheScope::Private),
            ..Caching::default()
        }),
        ..ItemList::empty(Kind::Tool)
    };
    stored(ServerCatalog::new("s", About::default(), [listing]))
}

fn open_to_others(path: &std::path::Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_private_catalog_is_stored_where_this_user_alone_can_read_it_and_stays_private() {
    let (_dir, store) = store();
    store.save(&private()).unwrap();
    let found = store.load(IDENTITY).unwrap().expect("stored");
    assert!(found.catalog.is_private());
    assert_eq!(found.catalog, private().catalog, "the same content");
    let modes = [&store.dir, &file_of(&store)].map(|path| fs::metadata(path).unwrap().permissions().mode());
    assert_eq!(modes.map(|mode| mode & 0o777), [0o700, 0o600]);
}

#[test]
fn a_private_catalog_is_not_stored_where_others_can_look_and_takes_the_older_one_with_it() {
    for mode in [0o750, 0o705, 0o711, 0o777] {
        let (_dir, store) = store();
        store.save(&small()).unwrap();
        open_to_others(&store.dir, mode);
        store.save(&private()).unwrap();
        assert!(store.load(IDENTITY).unwrap().is_none());
        assert_eq!(fs::read_dir(&store.dir).unwrap().count(), 0);
        store.save(&small()).unwrap();
        assert!(store.load(IDENTITY).unwrap().is_some(), "public ones are");
    }
}

#[test]
fn a_private_catalog_that_others_can_read_by_now_is_removed_unread() {
    let (_dir, store) = store();
    for open in [
        |store: &CatalogDirectory| file_of(store),
        |store: &CatalogDirectory| store.dir.clone(),
    ] {
        store.save(&private()).unwrap();
        open_to_others(&open(&store), 0o755);
        assert!(store.load(IDENTITY).unwrap().is_none());
        assert_eq!(fs::read_dir(&store.dir).unwrap().count(), 0);
        open_to_others(&store.dir, 0o700);
    }
}

#[test]
fn saving_again_replaces_the_file_and_leaves_nothing_beside_it() {
    let (_dir, store) = store();
    store.save(&small()).unwrap();
    store.save(&stored(catalog("s", &[tool("b")]))).unwrap();
    let found = store.load(IDENTITY).unwrap().unwrap();
    assert!(found.catalog.item(Kind::Tool, "b").is_some());
    assert_eq!(fs::read_dir(&store.dir).unwrap().count(), 1);
}

#[test]
fn only_the_owner_may_read_what_is_stored() {
    let (_dir, store) = store();
    store.save(&small()).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&store.dir), 0o700);
    assert_eq!(mode(&file_of(&store)), 0o600);
}

#[test]
fn an_identity_that_could_leave_the_directory_is_refused() {
    let (_dir, store) = store();
    for identity in ["", "../x", "a/b", "xyz", "é", &"a".repeat(129)] {
        assert!(
            matches!(store.load(identity), Err(StoreError::Identity)),
            "{identity}"
        );
        let stored = Stored {
            identity: identity.into(),
            ..small()
        };
        assert!(
            matches!(store.save(&stored), Err(StoreError::Identity)),
            "{identity}"
        );
    }
}

#[test]
fn housekeeping_removes_old_files_that_nobody_keeps_and_touches_no_others() {
    let (_dir, store) = store();
    for identity in ["aa", "bb"] {
        store
            .save(&Stored {
                identity: identity.into(),
                ..small()
            })
            .unwrap();
    }
    fs::write(store.dir.join("aa.1-2-3.tmp"), "half").unwrap();
    fs::write(store.dir.join("notes.txt"), "not ours").unwrap();
    let keep = BTreeSet::from(["aa".to_owned()]);

    assert_eq!(
        store.prune(&keep, SystemTime::UNIX_EPOCH).unwrap(),
        0,
        "nothing is that old"
    );
    let later = SystemTime::now() + Duration::from_secs(60);
    assert_eq!(store.prune(&keep, later).unwrap(), 2);
    assert!(store.load("aa").unwrap().is_some());
    assert!(store.load("bb").unwrap().is_none());
    assert!(store.dir.join("notes.txt").exists());
}
