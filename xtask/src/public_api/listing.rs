//! One line for each public item of a crate, from rustdoc's JSON.
//!
//! An item that can be named by several paths is listed in full under the first, shortest one; the other paths are lines
//! of their own (`use`). Implementations that every type has (auto traits, blanket implementations) are left out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anyhow::{Context, Result};
use serde_json::Value;

use super::signature::{bounds, generics, path, signature, ty};

/// All lines, sorted.
pub(super) fn lines(document: &Value) -> Result<Vec<String>> {
    let mut listing = ApiListing {
        index: &document["index"],
        paths: BTreeMap::new(),
        lines: BTreeSet::new(),
    };
    let root = listing.item(&document["root"]).context("there is no root")?;
    let name = root["name"].as_str().context("the root has no name")?.to_owned();
    let mut modules = VecDeque::from([(root, name)]);
    while let Some((module, at)) = modules.pop_front() {
        let mut items = Vec::new();
        listing.collect(&module["inner"]["module"]["items"], &mut items);
        for (name, item) in items {
            let at = format!("{at}::{name}");
            if !listing.is_new(item, &at) {
                continue;
            }
            if item["inner"].get("module").is_some() {
                listing.add(item, &format!("mod {at}"));
                modules.push_back((item, at));
            } else {
                listing.describe(item, &at);
            }
        }
    }
    Ok(listing.lines.into_iter().collect())
}

struct ApiListing<'d> {
    index: &'d Value,
    /// Where each item was listed.
    paths: BTreeMap<String, String>,
    lines: BTreeSet<String>,
}

impl<'d> ApiListing<'d> {
    fn item(&self, id: &Value) -> Option<&'d Value> {
        self.index.get(id.to_string())
    }

    /// The public items of a module under the names they have there; what is imported stands for its origin.
    fn collect(&mut self, ids: &Value, items: &mut Vec<(&'d str, &'d Value)>) {
        for item in self.items(ids) {
            if item["visibility"] != "public" {
                continue;
            }
            let Some(import) = item["inner"].get("use") else {
                items.extend(item["name"].as_str().map(|name| (name, item)));
                continue;
            };
            match self.item(&import["id"]) {
                Some(origin) if import["is_glob"] == true => {
                    let inner = &origin["inner"];
                    let ids = if inner.get("enum").is_some() {
                        &inner["enum"]["variants"]
                    } else {
                        &inner["module"]["items"]
                    };
                    self.collect(ids, items);
                }
                Some(origin) => items.extend(import["name"].as_str().map(|name| (name, origin))),
                None => {
                    let (name, source) = (text(&import["name"]), text(&import["source"]));
                    self.lines.insert(format!("use {source} as {name}"));
                }
            }
        }
    }

    /// Whether an item is listed for the first time. A later path to it becomes a line.
    fn is_new(&mut self, item: &Value, at: &str) -> bool {
        let id = item["id"].to_string();
        if let Some(first) = self.paths.get(&id) {
            self.lines.insert(format!("use {first} as {at}"));
            return false;
        }
        self.paths.insert(id, at.to_owned());
        true
    }

    fn add(&mut self, item: &Value, line: &str) {
        let attributes = item["attrs"].as_array().into_iter().flatten();
        let mut marks = attributes
            .filter_map(Value::as_str)
            .filter(|mark| *mark == "non_exhaustive");
        let mark = marks.next().map(|_| "#[non_exhaustive] ").unwrap_or_default();
        self.lines.insert(format!("{mark}{line}"));
    }

    fn describe(&mut self, item: &'d Value, at: &str) {
        let Some((kind, inner)) = item["inner"].as_object().and_then(|inner| inner.iter().next()) else {
            return;
        };
        let generic = generics(&inner["generics"]);
        match kind.as_str() {
            "struct" | "union" => {
                self.add(item, &format!("{kind} {at}{generic}"));
                let fields = &inner["kind"];
                self.fields(&fields["plain"]["fields"], at);
                self.fields(&fields["tuple"], at);
                self.impls(&inner["impls"], at);
            }
            "enum" => {
                self.add(item, &format!("enum {at}{generic}"));
                for variant in self.items(&inner["variants"]) {
                    let at = format!("{at}::{}", text(&variant["name"]));
                    self.add(variant, &format!("variant {at}"));
                    let fields = &variant["inner"]["variant"]["kind"];
                    self.fields(&fields["struct"]["fields"], &at);
                    self.fields(&fields["tuple"], &at);
                }
                self.impls(&inner["impls"], at);
            }
            "trait" => {
                self.add(item, &format!("trait {at}{generic}{}", bounds(&inner["bounds"])));
                for member in self.items(&inner["items"]) {
                    self.member(member, at);
                }
            }
            "function" => self.add(item, &format!("fn {at}{}", signature(inner))),
            "type_alias" => self.add(item, &format!("type {at}{generic} = {}", ty(&inner["type"]))),
            "constant" => self.add(item, &format!("const {at}: {}", ty(&inner["type"]))),
            "static" => self.add(item, &format!("static {at}: {}", ty(&inner["type"]))),
            other => self.add(item, &format!("{other} {at}")),
        }
    }

    fn items(&self, ids: &Value) -> Vec<&'d Value> {
        let ids = ids.as_array().into_iter().flatten();
        ids.filter_map(|id| self.item(id)).collect()
    }

    /// The public fields; those of a variant are as public as it.
    fn fields(&mut self, ids: &Value, at: &str) {
        for field in self.items(ids) {
            if field["visibility"] == "public" || field["visibility"] == "default" {
                let of = ty(&field["inner"]["struct_field"]);
                self.add(field, &format!("field {at}::{}: {of}", text(&field["name"])));
            }
        }
    }

    fn impls(&mut self, ids: &Value, at: &str) {
        for item in self.items(ids) {
            let inner = &item["inner"]["impl"];
            if inner["is_synthetic"] == true || !inner["blanket_impl"].is_null() {
                continue;
            }
            if inner["trait"].is_null() {
                for member in self.items(&inner["items"]) {
                    if member["visibility"] == "public" {
                        self.member(member, at);
                    }
                }
            } else {
                let (of, generic) = (path(&inner["trait"]), generics(&inner["generics"]));
                let of_type = ty(&inner["for"]);
                self.lines
                    .insert(format!("impl{generic} {of} for {of_type} ({at})"));
            }
        }
    }

    /// A member of a trait or of an inherent implementation.
    fn member(&mut self, member: &Value, at: &str) {
        let at = format!("{at}::{}", text(&member["name"]));
        let inner = &member["inner"];
        if let Some(function) = inner.get("function") {
            let provided = if function["has_body"] == true { "" } else { ";" };
            self.add(member, &format!("fn {at}{}{provided}", signature(function)));
        } else if let Some(constant) = inner.get("assoc_const") {
            self.add(member, &format!("const {at}: {}", ty(&constant["type"])));
        } else if let Some(of) = inner.get("assoc_type") {
            self.add(member, &format!("type {at}{}", bounds(&of["bounds"])));
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::lines;

    #[test]
    fn an_item_is_listed_once_and_its_other_paths_as_imports() {
        let function = json!({ "sig": { "inputs": [["self", { "borrowed_ref": { "is_mutable": false, "type": { "generic": "Self" } } }]], "output": { "primitive": "u8" } }, "header": {}, "has_body": true });
        let document = json!({ "root": 0, "index": {
            "0": { "id": 0, "name": "a", "inner": { "module": { "items": [1, 2, 5] } } },
            "1": { "id": 1, "visibility": "public", "inner": { "use": { "name": "S", "id": 3, "is_glob": false } } },
            "2": { "id": 2, "name": "m", "visibility": "public", "inner": { "module": { "items": [3] } } },
            "3": { "id": 3, "name": "S", "visibility": "public", "attrs": ["non_exhaustive"], "inner": { "struct": { "kind": { "plain": { "fields": [6, 7] } }, "impls": [4] } } },
            "4": { "id": 4, "inner": { "impl": { "items": [8], "trait": null, "is_synthetic": false } } },
            "5": { "id": 5, "name": "hidden", "visibility": "crate", "inner": { "module": { "items": [] } } },
            "6": { "id": 6, "name": "shown", "visibility": "public", "inner": { "struct_field": { "primitive": "u8" } } },
            "7": { "id": 7, "name": "own", "visibility": "crate", "inner": { "struct_field": { "primitive": "u8" } } },
            "8": { "id": 8, "name": "f", "visibility": "public", "inner": { "function": function } },
        } });
        let expected = [
            "#[non_exhaustive] struct a::S",
            "field a::S::shown: u8",
            "fn a::S::f(&self) -> u8",
            "mod a::m",
            "use a::S as a::m::S",
        ];
        assert_eq!(lines(&document).unwrap(), expected);
    }
}
