//! Small catalogs for the tests.

use crate::catalog::{About, ItemList, Kind, ServerCatalog};
use crate::wire::RawJson;

pub(super) fn raw(text: &str) -> RawJson {
    RawJson::from_text(text).unwrap()
}

pub(super) fn tool(name: &str) -> (Kind, RawJson) {
    let name = serde_json::to_string(name).unwrap();
    (
        Kind::Tool,
        raw(&format!(r#"{{"name":{name},"inputSchema":{{"type":"object"}}}}"#)),
    )
}

pub(super) fn prompt(name: &str) -> (Kind, RawJson) {
    (Kind::Prompt, raw(&format!(r#"{{"name":"{name}"}}"#)))
}

pub(super) fn resource(uri: &str) -> (Kind, RawJson) {
    (
        Kind::Resource,
        raw(&format!(r#"{{"uri":"{uri}","name":"a resource"}}"#)),
    )
}

pub(super) fn template(uri_template: &str) -> (Kind, RawJson) {
    let text = format!(r#"{{"uriTemplate":"{uri_template}","name":"a template"}}"#);
    (Kind::Template, raw(&text))
}

pub(super) fn listings(items: &[(Kind, RawJson)]) -> Vec<ItemList> {
    let of = |kind: Kind| {
        items
            .iter()
            .filter(move |(its, _)| *its == kind)
            .map(|(_, raw)| raw.clone())
    };
    Kind::ALL
        .into_iter()
        .map(|kind| ItemList {
            items: of(kind).collect(),
            ..ItemList::empty(kind)
        })
        .collect()
}

pub(super) fn catalog(server: &str, items: &[(Kind, RawJson)]) -> ServerCatalog {
    ServerCatalog::new(server, About::default(), listings(items))
}

/// A tool in which everything that a careless rewrite would change is there to be changed.
pub(super) const ODD_TOOL: &str = r#"{ "x-future":{"deep":[1,{"b":2,"a":1}]} , "name":"odd","inputSchema":{"type":"object","maximum":123456789012345678901234567890,"tiny":1.0e-400,"z":1.10},"description":"esc\u0061pe \ud83d\ude00 \ud800 ﷽ \/","_meta":{"dup":1,"dup":2}}"#;
