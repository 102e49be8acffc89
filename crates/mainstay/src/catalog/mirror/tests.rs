use std::sync::Arc;

use arc_swap::ArcSwapOption;
use serde_json::json;

use super::{CallHeaders, MAX_HEADERS, read};
use crate::catalog::fixtures::{listings, raw};
use crate::catalog::{About, CatalogFault, Item, Kind, ServerCatalog};
use crate::transport::http::ParamHeaders;
use crate::wire::RawJson;

/// A tool whose arguments have these schemas.
fn tool(name: &str, properties: &serde_json::Value) -> (Kind, RawJson) {
    let tool = json!({ "name": name, "inputSchema": { "type": "object", "properties": properties } });
    (Kind::Tool, raw(&tool.to_string()))
}

fn headers(catalog: ServerCatalog, name: &str, arguments: &serde_json::Value) -> Vec<(String, String)> {
    let catalog = Arc::new(ArcSwapOption::from_pointee(catalog));
    let mut headers = CallHeaders::of(catalog).of_call(name, &arguments.to_string());
    headers.sort();
    headers
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = pairs.iter();
    pairs.map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn the_arguments_that_a_tool_names_are_mirrored_wherever_they_stand() {
    let properties = json!({
        "region": { "type": "string", "x-mcp-header": "Region" },
        "limit": { "type": ["integer", "null"], "x-mcp-header": "Limit" },
        "dry": { "type": "boolean", "x-mcp-header": "Dry" },
        "query": { "type": "string" },
        "target": { "type": "object", "properties": { "zone": { "type": "string", "x-mcp-header": "Zone" } } },
    });
    let catalog = || ServerCatalog::over_http("s", About::default(), listings(&[tool("t", &properties)]));
    let arguments = json!({
        "region": "eu \"1\"", "limit": -7, "dry": false, "query": "q", "target": { "zone": "é" },
    });
    let expected = [
        ("Dry", "false"),
        ("Limit", "-7"),
        ("Region", "eu \"1\""),
        ("Zone", "é"),
    ];
    assert_eq!(headers(catalog(), "t", &arguments), pairs(&expected));
    let sparse = json!({ "region": "", "limit": null, "dry": [true], "target": "elsewhere" });
    assert_eq!(headers(catalog(), "t", &sparse), pairs(&[("Region", "")]));
    assert_eq!(headers(catalog(), "t", &json!([1])), []);
    assert_eq!(headers(catalog(), "another", &arguments), []);
}

#[test]
fn what_breaks_a_rule_of_headers_is_told_from_what_does_not() {
    let plain = |header: &str| json!({ "a": { "type": "string", "x-mcp-header": header } });
    let of = |schema: serde_json::Value| read(&schema.to_string());
    let argument = |property: serde_json::Value| of(json!({ "properties": { "a": property } }));
    for sound in ["Region", "x-1", "a!#$%&'*+-.^_`|~9"] {
        assert!(of(json!({ "properties": plain(sound) })).is_ok(), "{sound}");
    }
    for broken in [
        "",
        "My Region",
        "Region:1",
        "Région",
        "Region\t1",
        "a\r\nb",
        "(a)",
    ] {
        assert!(of(json!({ "properties": plain(broken) })).is_err(), "{broken:?}");
    }
    for its_type in [
        json!("number"),
        json!("object"),
        json!("array"),
        json!("null"),
        json!(["null"]),
        json!(["string", "number"]),
        json!([]),
        json!(null),
    ] {
        let read = argument(json!({ "type": its_type, "x-mcp-header": "A" }));
        assert!(read.is_err(), "{its_type}");
    }
    assert!(argument(json!({ "type": "string", "x-mcp-header": 7 })).is_err());
    assert!(argument(json!({ "enum": ["a"], "x-mcp-header": "A" })).is_err());
    let twice = |one: &str, other: &str| {
        of(json!({ "properties": {
            "a": { "type": "string", "x-mcp-header": one },
            "b": { "properties": { "c": { "type": "string", "x-mcp-header": other } } },
        } }))
    };
    assert!(twice("Region", "Region").is_err());
    assert!(twice("MyField", "myfield").is_err());
    assert!(twice("Region", "Zone").is_ok());
}

#[test]
fn a_mirror_must_have_a_fixed_place_among_the_arguments() {
    let annotated = json!({ "type": "string", "x-mcp-header": "A" });
    for schema in [
        json!({ "x-mcp-header": "A", "type": "object" }),
        json!({ "properties": { "a": { "items": annotated } } }),
        json!({ "properties": { "a": { "items": { "properties": { "b": annotated } } } } }),
        json!({ "oneOf": [{ "properties": { "a": annotated } }] }),
        json!({ "if": { "properties": { "a": annotated } } }),
        json!({ "additionalProperties": annotated }),
        json!({ "patternProperties": { "^a": annotated } }),
        json!({ "$defs": { "a": annotated }, "properties": { "a": { "$ref": "#/$defs/a" } } }),
    ] {
        assert!(read(&schema.to_string()).is_err(), "{schema}");
    }
    for schema in [
        json!({ "properties": { "x-mcp-header": { "type": "string" } } }),
        json!({ "items": { "properties": { "x-mcp-header": { "type": "string" } } } }),
        json!({ "$defs": { "x-mcp-header": {} }, "description": "x-mcp-header" }),
        json!({ "properties": { "a": { "default": annotated, "enum": [annotated] } } }),
    ] {
        assert_eq!(read(&schema.to_string()), Ok(Vec::new()), "{schema}");
    }
}

#[test]
fn a_tool_may_ask_for_no_more_headers_than_a_server_would_take() {
    let properties = |count: usize| {
        let property = |n: usize| {
            let schema = json!({ "type": "string", "x-mcp-header": format!("H{n}") });
            (format!("a{n}"), schema)
        };
        let properties: serde_json::Map<_, _> = (0..count).map(property).collect();
        json!({ "properties": properties }).to_string()
    };
    assert_eq!(read(&properties(MAX_HEADERS)).unwrap().len(), MAX_HEADERS);
    assert!(read(&properties(MAX_HEADERS + 1)).is_err());
}

#[test]
fn over_http_a_tool_that_breaks_the_rules_is_set_aside_and_its_neighbours_stay() {
    let broken = tool(
        "broken",
        &json!({ "a": { "type": "number", "x-mcp-header": "A" } }),
    );
    let sound = tool(
        "sound",
        &json!({ "a": { "type": "string", "x-mcp-header": "A" } }),
    );
    let items = [broken, sound];
    let names = |catalog: &ServerCatalog| {
        let tools = catalog.items(Kind::Tool).iter();
        tools.map(Item::key).map(str::to_owned).collect::<Vec<_>>()
    };
    let http = ServerCatalog::over_http("s", About::default(), listings(&items));
    assert_eq!(names(&http), ["sound"]);
    let [diagnostic] = http.diagnostics() else {
        panic!("one is set aside: {:?}", http.diagnostics());
    };
    assert_eq!(
        (diagnostic.fault, diagnostic.item.as_deref()),
        (CatalogFault::Malformed, Some("broken"))
    );
    let elsewhere = ServerCatalog::new("s", About::default(), listings(&items));
    assert_eq!(names(&elsewhere), ["broken", "sound"]);
    assert_eq!(headers(elsewhere, "broken", &json!({ "a": "x" })), []);
}
