//! A value of a configuration file, apart from how it is written.

use std::borrow::Cow;

use mainstay::config::source::{Mapping, Node, Value};

/// A value of a configuration file. It may hold secrets, so it has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub enum ConfigValue {
    /// `null`; TOML has none.
    Null,
    /// `true` or `false`.
    Flag(bool),
    /// A number, as JSON would write it.
    Number(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<ConfigValue>),
    /// Keys with their values, in order.
    Table(Vec<(String, ConfigValue)>),
}

impl ConfigValue {
    /// A list of texts.
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::List(texts.into_iter().map(|text| Self::Text(text.into())).collect())
    }

    /// What a node of a file means.
    pub(crate) fn of(node: &Node<'_>) -> Self {
        match &node.value {
            Value::Null => Self::Null,
            Value::Flag(flag) => Self::Flag(*flag),
            Value::Number(number) => Self::Number(number.clone().into_owned()),
            Value::Text(text) => Self::Text(text.clone().into_owned()),
            Value::Array(items) => Self::List(items.iter().map(Self::of).collect()),
            Value::Object(object) => Self::Table(
                object
                    .properties
                    .iter()
                    .map(|property| (property.name.clone().into_owned(), Self::of(&property.node)))
                    .collect(),
            ),
        }
    }

    /// Whether two values mean the same. The order of keys does not count.
    pub(crate) fn means(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Table(one), Self::Table(two)) => {
                let has = |(name, value): &(String, Self)| {
                    two.iter()
                        .any(|(other, found)| other == name && value.means(found))
                };
                one.len() == two.len() && one.iter().all(has)
            }
            (Self::List(one), Self::List(two)) => {
                one.len() == two.len() && one.iter().zip(two).all(|(one, two)| one.means(two))
            }
            _ => self == other,
        }
    }

    /// Sets the value that these keys lead to, and makes the tables on the way.
    pub(crate) fn set(&mut self, keys: &[&str], value: Self) {
        let Some((key, rest)) = keys.split_first() else {
            *self = value;
            return;
        };
        if !matches!(self, Self::Table(_)) {
            *self = Self::Table(Vec::new());
        }
        if let Self::Table(entries) = self {
            let at = entries
                .iter()
                .position(|(name, _)| name == key)
                .unwrap_or_else(|| {
                    entries.push(((*key).to_owned(), Self::Table(Vec::new())));
                    entries.len() - 1
                });
            entries[at].1.set(rest, value);
        }
    }

    /// Removes the value that these keys lead to.
    pub(crate) fn remove(&mut self, keys: &[&str]) {
        let (Self::Table(entries), Some((key, rest))) = (self, keys.split_first()) else {
            return;
        };
        if rest.is_empty() {
            entries.retain(|(name, _)| name != key);
        } else if let Some((_, value)) = entries.iter_mut().find(|(name, _)| name == key) {
            value.remove(rest);
        }
    }
}

impl ConfigValue {
    /// Removes the table that these keys lead to, if it is empty.
    pub(crate) fn remove_empty(&mut self, keys: &[&str]) {
        let mut value: &Self = self;
        for key in keys {
            let Self::Table(entries) = value else {
                return;
            };
            let Some((_, found)) = entries.iter().find(|(name, _)| name == key) else {
                return;
            };
            value = found;
        }
        if matches!(value, Self::Table(entries) if entries.is_empty()) {
            self.remove(keys);
        }
    }
}

impl From<&str> for ConfigValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<ConfigValue> for serde_json::Value {
    fn from(value: ConfigValue) -> Self {
        match value {
            ConfigValue::Null => Self::Null,
            ConfigValue::Flag(flag) => Self::Bool(flag),
            // What is no number of JSON, such as `inf` of TOML, stays a text.
            ConfigValue::Number(number) => serde_json::from_str(&number).unwrap_or(Self::String(number)),
            ConfigValue::Text(text) => Self::String(text),
            ConfigValue::List(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            ConfigValue::Table(entries) => Self::Object(
                entries
                    .into_iter()
                    .map(|(name, value)| (name, Self::from(value)))
                    .collect(),
            ),
        }
    }
}

impl From<serde_json::Value> for ConfigValue {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(flag) => Self::Flag(flag),
            serde_json::Value::Number(number) => Self::Number(number.to_string()),
            serde_json::Value::String(text) => Self::Text(text),
            serde_json::Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            serde_json::Value::Object(object) => Self::Table(
                object
                    .into_iter()
                    .map(|(name, value)| (name, Self::from(value)))
                    .collect(),
            ),
        }
    }
}

/// Whether a key stands more than once in an object: which of the two is meant cannot be known.
pub(crate) fn has_duplicates(object: &Mapping<'_>) -> bool {
    let mut names: Vec<&Cow<'_, str>> = object.properties.iter().map(|property| &property.name).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}
