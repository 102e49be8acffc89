use super::{About, ServerCatalog};
use crate::catalog::fixtures::{catalog, listings, prompt, raw, resource, template, tool};
use crate::catalog::pages::{CutOff, ItemList, MAX_BYTES, MAX_ITEM_BYTES};
use crate::catalog::server::{CatalogFault, MAX_DIAGNOSTICS};
use crate::catalog::{CacheScope, Caching, Item, Kind};

fn keys(catalog: &ServerCatalog, kind: Kind) -> Vec<&str> {
    catalog.items(kind).iter().map(Item::key).collect()
}

fn bytes(catalog: &ServerCatalog) -> Vec<&[u8]> {
    let all = Kind::ALL.into_iter().flat_map(|kind| catalog.items(kind));
    all.map(|item| item.raw().as_bytes()).collect()
}

#[test]
fn an_item_of_too_many_bytes_is_set_aside_by_its_name_and_its_neighbours_stay() {
    let sized = |name: &str, bytes: usize| {
        let around = format!(r#"{{"name":"{name}","inputSchema":{{}},"description":""}}"#).len();
        let text = "x".repeat(bytes - around);
        let item = format!(r#"{{"name":"{name}","inputSchema":{{}},"description":"{text}"}}"#);
        (Kind::Tool, raw(&item))
    };
    let items = [
        tool("a"),
        sized("b", MAX_ITEM_BYTES),
        sized("c", MAX_ITEM_BYTES + 1),
    ];
    let catalog = catalog("s", &items);
    assert_eq!(keys(&catalog, Kind::Tool), ["a", "b"]);
    let [diagnostic] = catalog.diagnostics() else {
        panic!("{:?}", catalog.diagnostics());
    };
    assert_eq!(
        (diagnostic.fault, diagnostic.item.as_deref()),
        (CatalogFault::TooLarge, Some("c"))
    );
}

#[test]
fn a_shuffled_listing_gives_equal_bytes_and_an_equal_hash() {
    let mut items = vec![
        tool("b"),
        tool("a"),
        (
            Kind::Tool,
            raw(r#"{"name":"a","inputSchema":{},"description":"another a"}"#),
        ),
        tool("c"),
        prompt("q"),
        prompt("p"),
        resource("z:1"),
        resource("a:1"),
        template("t:{x}"),
    ];
    let first = catalog("s", &items);
    for turn in 0..items.len() {
        items.rotate_left(1);
        items.swap(0, turn);
        let again = catalog("s", &items);
        assert_eq!(first.hash(), again.hash());
        assert_eq!(bytes(&first), bytes(&again));
        assert_eq!(first.diagnostics(), again.diagnostics());
    }
    assert_eq!(keys(&first, Kind::Tool), ["a", "b", "c"]);
    assert_eq!(keys(&first, Kind::Resource), ["a:1", "z:1"]);
}

#[test]
fn every_byte_of_an_item_and_every_word_about_the_server_is_in_the_hash() {
    let base = catalog("s", &[tool("a")]);
    let spaced = (
        Kind::Tool,
        raw(r#"{"name": "a","inputSchema":{"type":"object"}}"#),
    );
    assert_ne!(base, catalog("s", &[spaced]));
    assert_ne!(base, catalog("s", &[prompt("a")]));
    assert_ne!(base, catalog("s", &[]));
    for about in [
        About {
            protocol_version: Some("x".into()),
            ..About::default()
        },
        About {
            server_info: Some(raw("{}")),
            ..About::default()
        },
        About {
            capabilities: Some(raw("{}")),
            ..About::default()
        },
        About {
            instructions: Some(String::new()),
            ..About::default()
        },
        About {
            modern_capabilities: Some(raw("{}")),
            ..About::default()
        },
    ] {
        assert_ne!(base, ServerCatalog::new("s", about, listings(&[tool("a")])));
    }
    let private = ItemList {
        caching: Some(Caching {
            scope: Some(CacheScope::Private),
            ..Caching::default()
        }),
        ..ItemList::empty(Kind::Prompt)
    };
    assert_ne!(
        base,
        ServerCatalog::new(
            "s",
            About::default(),
            listings(&[tool("a")]).into_iter().chain([private])
        )
    );
    assert_eq!(base, catalog("another name", &[tool("a")]));
}

#[test]
fn a_malformed_item_is_set_aside_and_its_neighbours_stay() {
    let bad = |text: &str| (Kind::Tool, raw(text));
    let items = [
        tool("a"),
        bad("null"),
        bad(r#"{"inputSchema":{}}"#),
        bad(r#"{"name":{},"inputSchema":{}}"#),
        bad(r#"{"name":"no-schema"}"#),
        tool("b"),
    ];
    let listed = catalog("s", &items);
    assert_eq!(keys(&listed, Kind::Tool), ["a", "b"]);
    let named: Vec<_> = listed
        .diagnostics()
        .iter()
        .map(|found| found.item.as_deref())
        .collect();
    assert_eq!(named, [None, None, None, Some("no-schema")]);
    for found in listed.diagnostics() {
        assert_eq!(
            (found.server.as_str(), found.kind, found.fault),
            ("s", Kind::Tool, CatalogFault::Malformed)
        );
    }
    let last = listed.diagnostics().last().unwrap();
    assert_eq!(last.to_string(), "s: tool `no-schema`: has no `inputSchema`");
}

#[test]
fn a_name_offered_twice_is_kept_once_and_told_only_if_the_two_differ() {
    let other = (Kind::Prompt, raw(r#"{"name":"p","description":"different"}"#));
    let listed = catalog("s", &[prompt("p"), other, tool("a"), tool("a")]);
    assert_eq!(keys(&listed, Kind::Prompt), ["p"]);
    assert_eq!(keys(&listed, Kind::Tool), ["a"]);
    let [found] = listed.diagnostics() else {
        panic!("{:?}", listed.diagnostics());
    };
    assert_eq!(
        (found.kind, found.fault, found.item.as_deref()),
        (Kind::Prompt, CatalogFault::Duplicate, Some("p"))
    );
}

#[test]
fn a_server_with_only_prompts_and_resources_offers_them() {
    let listed = catalog("s", &[prompt("p"), resource("a:b")]);
    assert!(listed.items(Kind::Tool).is_empty() && listed.diagnostics().is_empty());
    assert!(listed.item(Kind::Prompt, "p").is_some() && listed.item(Kind::Resource, "a:b").is_some());
    assert!(listed.item(Kind::Prompt, "a:b").is_none());
}

#[test]
fn a_list_that_was_cut_off_says_so() {
    let cut = ItemList {
        cut_off: Some(CutOff::RepeatedCursor),
        ..ItemList::empty(Kind::Resource)
    };
    let listed = ServerCatalog::new("s", About::default(), [cut]);
    let [found] = listed.diagnostics() else {
        panic!("{:?}", listed.diagnostics());
    };
    assert_eq!(
        (found.kind, found.fault, found.item.as_deref()),
        (Kind::Resource, CatalogFault::CutOff, None)
    );
}

#[test]
fn a_catalog_over_its_bytes_keeps_what_fits() {
    let room = tool("a").1.as_bytes().len() + prompt("p").1.as_bytes().len();
    let about = About {
        instructions: Some("x".repeat(MAX_BYTES - room)),
        ..About::default()
    };
    let items = [tool("b"), tool("a"), prompt("q"), prompt("p")];
    let listed = ServerCatalog::new("s", about, listings(&items));
    assert_eq!(keys(&listed, Kind::Tool), ["a"]);
    assert_eq!(
        keys(&listed, Kind::Prompt),
        ["p"],
        "a small list after a cut one still fits"
    );
    let faults: Vec<_> = listed.diagnostics().iter().map(|found| found.fault).collect();
    assert_eq!(faults, [CatalogFault::CutOff, CatalogFault::CutOff]);
}

#[test]
fn diagnostics_and_the_names_in_them_are_bounded() {
    let nameless = vec![(Kind::Tool, raw("1")); MAX_DIAGNOSTICS * 2];
    assert_eq!(catalog("s", &nameless).diagnostics().len(), MAX_DIAGNOSTICS);
    let long = format!(r#"{{"name":"{}"}}"#, "é".repeat(10_000));
    let listed = catalog("s", &[(Kind::Tool, raw(&long))]);
    assert_eq!(
        listed.diagnostics()[0].item.as_ref().unwrap().chars().count(),
        128
    );
}

#[test]
fn items_can_be_read_in_the_order_in_which_they_were_listed() {
    let bad = (Kind::Tool, raw("null"));
    let items = [
        tool("c"),
        bad,
        tool("a"),
        prompt("q"),
        tool("b"),
        tool("a"),
        prompt("p"),
    ];
    let listed = catalog("s", &items);
    let order = |kind| listed.listed(kind).map(Item::key).collect::<Vec<_>>();
    assert_eq!(order(Kind::Tool), ["c", "a", "b"]);
    assert_eq!(order(Kind::Prompt), ["q", "p"]);
    assert!(order(Kind::Resource).is_empty());
    assert_eq!(keys(&listed, Kind::Tool), ["a", "b", "c"]);
}
