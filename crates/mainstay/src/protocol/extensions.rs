//! The extensions of several clients that share one connection to a server.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::wire::{Object, RawJson};

/// Extensions that are kept for one server. A client declares a handful.
const EXTENSIONS_LIMIT: usize = 64;

/// The longest settings of one extension, in bytes.
const SETTINGS_LIMIT: usize = 16 * 1024;

/// What the clients behind this one declare under `capabilities.extensions`, together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientExtensions(BTreeMap<String, Value>);

impl ClientExtensions {
    /// Adds what one client declares. What does not fit is left out.
    pub(crate) fn add(&mut self, declared: &RawJson) {
        let declared = declared.parse::<BTreeMap<String, Value>>().unwrap_or_default();
        for (name, settings) in declared {
            let is_known = self.0.contains_key(&name);
            if !is_known && self.0.len() >= EXTENSIONS_LIMIT {
                continue;
            }
            let mut joined = self.0.get(&name).cloned().unwrap_or(Value::Null);
            join(&mut joined, settings);
            if name.len() + joined.to_string().len() <= SETTINGS_LIMIT {
                self.0.insert(name, joined);
            }
        }
    }

    /// All of it as one object; `None` if no client declares anything.
    pub(crate) fn declared(&self) -> Option<RawJson> {
        (!self.0.is_empty())
            .then(|| RawJson::from_value(&self.0).ok())
            .flatten()
    }

    /// The capabilities of a client together with these extensions. What the client declares itself stays as it is.
    pub(crate) fn added_to(&self, capabilities: &RawJson) -> RawJson {
        if self.0.is_empty() {
            return capabilities.clone();
        }
        let mut capabilities = Object::parse(capabilities).unwrap_or_default();
        let own = capabilities.get("extensions").and_then(Object::parse);
        let mut extensions = own.unwrap_or_default();
        for (name, settings) in &self.0 {
            if extensions.get(name).is_none()
                && let Ok(settings) = RawJson::from_value(settings)
            {
                extensions.set(name, settings);
            }
        }
        capabilities.set("extensions", extensions.to_raw());
        capabilities.to_raw()
    }
}

/// Everything that either of two settings says.
fn join(all: &mut Value, more: Value) {
    match (all, more) {
        (Value::Object(all), Value::Object(more)) => {
            for (key, value) in more {
                join(all.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(all), Value::Array(more)) => {
            for value in more {
                if !all.contains(&value) {
                    all.push(value);
                }
            }
        }
        (all @ Value::Null, more) => *all = more,
        // Two clients that contradict each other: the first one counts.
        (_all, _more) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> RawJson {
        RawJson::from_text(text).unwrap()
    }

    fn together(declared: &[&str]) -> String {
        let mut extensions = ClientExtensions::default();
        for declared in declared {
            extensions.add(&raw(declared));
        }
        extensions.added_to(&RawJson::EMPTY_OBJECT).to_string()
    }

    #[test]
    fn the_extensions_of_several_clients_are_declared_together() {
        let declared = [
            r#"{"x/ui":{"mimeTypes":["a"],"n":1}}"#,
            r#"{"x/ui":{"mimeTypes":["b","a"],"n":2},"x/skills":{}}"#,
            "7",
        ];
        assert_eq!(
            together(&declared),
            r#"{"extensions":{"x/skills":{},"x/ui":{"mimeTypes":["a","b"],"n":1}}}"#
        );
    }

    #[test]
    fn what_a_client_declares_itself_stays_as_it_is() {
        let own = raw(r#"{ "sampling":{},"extensions":{"x/ui":{"a":1.0}} }"#);
        let mut extensions = ClientExtensions::default();
        assert_eq!(extensions.added_to(&own).as_str(), own.as_str());
        extensions.add(&raw(r#"{"x/ui":{"a":2},"x/y":true}"#));
        let both = extensions.added_to(&own).to_string();
        assert!(
            both.contains(r#""x/ui":{"a":1.0}"#) && both.contains(r#""x/y":true"#),
            "{both}"
        );
    }

    #[test]
    fn a_client_cannot_make_the_declaration_grow_without_bound() {
        let mut extensions = ClientExtensions::default();
        let long = "x".repeat(SETTINGS_LIMIT);
        extensions.add(&raw(&format!(r#"{{"x/long":"{long}"}}"#)));
        for number in 0..2 * EXTENSIONS_LIMIT {
            extensions.add(&raw(&format!(r#"{{"x/{number}":{{}}}}"#)));
            extensions.add(&raw(&format!(r#"{{"x/0":["{number}{}"]}}"#, "y".repeat(1000))));
        }
        let declared = extensions.added_to(&RawJson::EMPTY_OBJECT).to_string();
        assert_eq!(extensions.0.len(), EXTENSIONS_LIMIT);
        assert!(declared.len() < 2 * SETTINGS_LIMIT, "{}", declared.len());
    }
}
