//! The tree that every syntax is read into: values with the places where they stand.

use std::borrow::Cow;

/// A value, and the bytes of the text that it takes up.
#[derive(Clone, Debug)]
pub(super) struct Node<'t> {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) value: Value<'t>,
}

#[derive(Clone, Debug)]
pub(super) enum Value<'t> {
    Null,
    Flag(bool),
    /// The digits, as JSON would write them.
    Number(Cow<'t, str>),
    Text(Cow<'t, str>),
    Array(Vec<Node<'t>>),
    Object(Object<'t>),
}

/// The keys of an object, in the order of the text. A key may be there twice.
#[derive(Clone, Debug, Default)]
pub(super) struct Object<'t> {
    pub(super) properties: Vec<Property<'t>>,
}

#[derive(Clone, Debug)]
pub(super) struct Property<'t> {
    pub(super) name: Cow<'t, str>,
    pub(super) name_at: usize,
    pub(super) node: Node<'t>,
}

impl<'t> Object<'t> {
    /// The first value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Node<'t>> {
        let property = self.properties.iter().find(|property| property.name == key)?;
        Some(&property.node)
    }

    /// The first value of a key, if it is an object.
    pub(super) fn object(&self, key: &str) -> Option<&Object<'t>> {
        self.get(key)?.as_object()
    }

    /// The first value of a key, if it is a text.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_text()
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
}

impl<'t> Node<'t> {
    pub(super) fn as_object(&self) -> Option<&Object<'t>> {
        match &self.value {
            Value::Object(object) => Some(object),
            _ => None,
        }
    }

    pub(super) fn as_array(&self) -> Option<&[Node<'t>]> {
        match &self.value {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Value<'_> {
    /// What a value is, in words.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Number(_) => "a number",
            Self::Flag(_) => "a boolean",
            Self::Object(_) => "an object",
            Self::Array(_) => "an array",
            Self::Null => "null",
        }
    }
}
