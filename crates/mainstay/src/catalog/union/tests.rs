mod reference;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{PreparedOffers, Union};
use crate::catalog::fixtures::{catalog, prompt, raw, resource, tool};
use crate::catalog::{Catalog, CatalogFault, Freshness, Kind, Offer};
use crate::wire::RawJson;

type Items = Vec<(Kind, RawJson)>;

fn put(union: &mut Union, server: &str, items: &Items) {
    put_at(SystemTime::UNIX_EPOCH, union, server, items);
}

fn put_at(listed_at: SystemTime, union: &mut Union, server: &str, items: &Items) {
    let freshness = Freshness {
        listed_at,
        stale_since: None,
        generation: None,
    };
    let listed = Arc::new(catalog(server, items));
    let offers = PreparedOffers::new(&Arc::from(server), listed, Arc::default());
    union.put(offers.listed(server, freshness));
}

fn joined(servers: &[(&str, Items)]) -> Catalog {
    let mut union = Union::default();
    for (server, items) in servers {
        put(&mut union, server, items);
    }
    union.catalog().clone()
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.tools().iter().map(Offer::name).collect()
}

#[test]
fn the_revision_grows_with_content_and_with_nothing_else() {
    let mut union = Union::default();
    let empty = union.catalog().clone();
    put(&mut union, "a", &vec![tool("x"), tool("y")]);
    let first = union.catalog().clone();
    assert_eq!((first.revision(), first.tools().len()), (1, 2));

    let later = SystemTime::UNIX_EPOCH + Duration::from_secs(60);
    put_at(later, &mut union, "a", &vec![tool("y"), tool("x")]);
    let shuffled = union.catalog().clone();
    assert_eq!((shuffled.revision(), shuffled.hash()), (1, first.hash()));
    assert_eq!(shuffled.freshness("a").unwrap().listed_at, later);

    let respelt = (
        Kind::Tool,
        raw(r#"{"name":"x","inputSchema":{"type":"object"} }"#),
    );
    put(&mut union, "a", &vec![respelt, tool("y")]);
    let changed = union.catalog().clone();
    assert_eq!(changed.revision(), 2);
    assert_ne!(changed.hash(), first.hash());

    put(&mut union, "a", &vec![tool("x"), tool("y")]);
    let back = union.catalog().clone();
    assert_eq!((back.revision(), back.hash()), (3, first.hash()));
    assert!(union.remove("a"));
    let gone = union.catalog();
    assert_eq!((gone.revision(), gone.hash()), (4, empty.hash()));
}

#[test]
fn a_server_that_offers_nothing_is_published_without_a_change_of_content() {
    let healthy = joined(&[("a", vec![])]);
    assert_eq!(healthy.revision(), 0);
    assert_eq!(healthy.servers().collect::<Vec<_>>(), ["a"]);
    assert!(healthy.freshness("a").is_some() && healthy.freshness("b").is_none());
}

#[test]
fn a_name_leads_to_what_is_really_called_so_whichever_server_is_listed_first() {
    let owner = |catalog: &Catalog| {
        let tool = catalog.tool("my_server__x_y").unwrap();
        (tool.server().to_owned(), tool.original().to_owned())
    };
    let exact = ("my_server", vec![tool("x_y"), tool("x y"), tool("x.y")]);
    let changed = ("my server", vec![tool("x_y")]);
    let alone = joined(std::slice::from_ref(&exact));
    let both = joined(&[changed, exact]);
    for catalog in [&alone, &both] {
        assert_eq!(owner(catalog), ("my_server".to_owned(), "x_y".to_owned()));
        assert_eq!(names(catalog), ["my_server__x_y"]);
    }
    let said: Vec<_> = both.diagnostics().iter().map(ToString::to_string).collect();
    assert_eq!(both.diagnostics().len(), 3, "{said:?}");
    assert_eq!(both.diagnostics()[0].server, "my server", "{said:?}");
    assert!(said.iter().all(|said| said.contains("is set aside")), "{said:?}");
}

#[test]
fn a_tool_of_another_server_is_other_content() {
    let one = joined(&[("a__b", vec![tool("c")])]);
    let two = joined(&[("a", vec![tool("b__c")])]);
    assert_eq!(names(&one), names(&two));
    assert_ne!(one.hash(), two.hash());
}

#[test]
fn the_later_of_two_colliding_tools_is_set_aside_with_a_diagnostic() {
    let offers = [
        ("a", vec![tool("b__c"), tool("x y"), tool("x.y"), tool("x_z")]),
        ("a__b", vec![tool("c"), tool("d")]),
    ];
    let joined = joined(&offers);
    assert_eq!(names(&joined), ["a__b__c", "a__x_y", "a__x_z", "a__b__d"]);
    assert_eq!(joined.tool("a__b__c").unwrap().server(), "a");
    assert_eq!(joined.tool("a__x_y").unwrap().original(), "x y");
    let told: Vec<_> = joined
        .diagnostics()
        .iter()
        .map(|d| (d.server.as_str(), d.fault, d.item.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            ("a", CatalogFault::Collision, Some("x.y")),
            ("a__b", CatalogFault::Collision, Some("c"))
        ]
    );
}

#[test]
fn what_is_set_aside_is_no_content() {
    let other = (
        Kind::Tool,
        raw(r#"{"name":"c","inputSchema":{},"description":"changed"}"#),
    );
    let mut union = Union::default();
    put(&mut union, "a", &vec![tool("b__c")]);
    put(&mut union, "a__b", &vec![tool("c")]);
    let before = union.catalog().clone();
    put(&mut union, "a__b", &vec![other]);
    let after = union.catalog();
    assert_eq!(
        (after.revision(), after.hash()),
        (before.revision(), before.hash())
    );
    assert_eq!(names(after), ["a__b__c"]);
}

#[test]
fn prompts_collide_like_tools_and_not_with_tools() {
    let joined = joined(&[
        ("a", vec![prompt("b__c"), tool("b__c")]),
        ("a__b", vec![prompt("c")]),
    ]);
    assert_eq!((joined.prompts().len(), joined.tools().len()), (1, 1));
    assert_eq!(joined.prompt("a__b__c").unwrap().server(), "a");
    assert_eq!(joined.diagnostics()[0].kind, Kind::Prompt);
}

#[test]
fn a_resource_of_two_servers_is_listed_twice_and_read_from_the_first() {
    let joined = joined(&[("b", vec![resource("x:1")]), ("a", vec![resource("x:1")])]);
    let servers: Vec<_> = joined.resources().iter().map(Offer::server).collect();
    assert_eq!(servers, ["a", "b"]);
    assert_eq!(joined.resource("x:1").unwrap().server(), "a");
    let [told] = joined.diagnostics() else {
        panic!("{:?}", joined.diagnostics());
    };
    assert_eq!(
        (told.server.as_str(), told.kind, told.fault),
        ("b", Kind::Resource, CatalogFault::Collision)
    );
}

#[test]
fn every_published_tool_is_found_by_its_name_and_sits_in_its_place() {
    let many: Vec<_> = (0..50).map(|n| tool(&format!("t{n:02}"))).collect();
    let joined = joined(&[("b", many.clone()), ("a", many)]);
    assert_eq!(joined.tools().len(), 100);
    for tool in joined.tools() {
        let found = joined.tool(tool.name()).unwrap();
        assert_eq!(
            (found.server(), found.original()),
            (tool.server(), tool.original())
        );
    }
    assert!(
        joined
            .tools()
            .is_sorted_by_key(|tool| (tool.server(), tool.original()))
    );
    assert!(joined.tool("a__t99").is_none());
}

#[test]
fn overlong_names_stay_apart() {
    let long = "検".repeat(200);
    let offers = [("s", vec![tool(&format!("{long}1")), tool(&format!("{long}2"))])];
    let joined = joined(&offers);
    assert_eq!((joined.tools().len(), joined.diagnostics().len()), (2, 0));
}

#[test]
fn a_catalog_of_parts_has_each_server_as_its_own_catalog_has_it() {
    let shared = joined(&[
        ("a", vec![tool("b__c"), tool("x")]),
        ("a__b", vec![tool("c"), tool("d")]),
        ("z", vec![tool("y")]),
    ]);
    let own = joined(&[("a", vec![tool("mine")])]);
    let parts = [("z", &shared), ("a__b", &shared), ("a", &own), ("gone", &own)];
    let joined = Catalog::of(parts);
    assert_eq!(
        names(&joined),
        ["a__mine", "a__b__c", "a__b__d", "z__y"],
        "in the order of names, and with what only the absent stood in the way of"
    );
    assert_eq!(joined.servers().collect::<Vec<_>>(), ["a", "a__b", "z"]);
    assert_eq!(joined.tool("a__b__c").unwrap().server(), "a__b");

    let same = Catalog::of(shared.servers().map(|server| (server, &shared)));
    assert_eq!(same.hash(), shared.hash());
    assert_eq!(same.diagnostics(), shared.diagnostics());
}

fn template(uri_template: &str) -> (Kind, RawJson) {
    let text = format!(r#"{{"uriTemplate":"{uri_template}","name":"any"}}"#);
    (Kind::Template, raw(&text))
}

#[test]
fn an_address_is_read_where_it_is_listed_or_from_the_template_with_the_most_literal_text() {
    let servers = [
        ("a", vec![template("{+anything}"), template("db://{table}")]),
        ("b", vec![resource("db://users"), template("db://users/{id}")]),
        (
            "c",
            vec![template("db://users/{id}.json"), template("web://{page}")],
        ),
    ];
    let catalog = joined(&servers);
    for (uri, owner) in [
        ("db://users", "b"),
        ("db://orders", "a"),
        ("db://users/7", "b"),
        ("db://users/7.json", "c"),
        ("web://x", "c"),
        ("other://x", "a"),
    ] {
        assert_eq!(catalog.owner(uri), Some(owner), "{uri}");
    }
    let told = catalog.diagnostics().iter();
    let told: Vec<_> = told
        .map(|told| (told.server.as_str(), told.fault, told.item.as_deref().unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            ("a", CatalogFault::Overlap, "db://{table}"),
            ("a", CatalogFault::Overlap, "{+anything}"),
            ("b", CatalogFault::Overlap, "db://users/{id}"),
        ]
    );
    let message = catalog.diagnostics()[0].to_string();
    assert_eq!(
        message,
        "a: resource template `db://{table}`: fits `db://users` of server `b` too, which is read from there: it has more \
         literal text"
    );
}

#[test]
fn templates_that_fit_nobody_else_s_addresses_are_told_to_nobody() {
    let servers = [
        ("a", vec![template("db://{table}"), resource("db://users")]),
        ("b", vec![template("web://{page}"), resource("web://x")]),
    ];
    assert!(joined(&servers).diagnostics().is_empty());
}
