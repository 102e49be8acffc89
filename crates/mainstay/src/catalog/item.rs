//! One thing a server offers: its bytes, and the few fields Mainstay reads from them.

use std::fmt;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::mirror::{self, Mirror};
use super::pages::MAX_ITEM_BYTES;
use super::server::CatalogFault;
use crate::wire::{Object, RawJson, TooManyMembers};

/// One thing a server offers, exactly as the server sent it.
#[derive(Clone, Debug)]
pub struct Item {
    key: Arc<str>,
    raw: RawJson,
    hints: Hints,
    has_description: bool,
    /// The arguments that a tool wants mirrored in headers, or what is wrong with its `x-mcp-header`; none for most.
    mirrors: Option<Arc<Result<Vec<Mirror>, String>>>,
}

/// What a tool says of its effects. A hint is the server's word, not a proof; what it does not say is read with the
/// caution the protocol prescribes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Hints {
    /// The tool changes nothing.
    pub read_only: bool,
    /// The same call made again changes nothing more.
    pub idempotent: bool,
    /// The tool may destroy what it changes.
    pub destructive: bool,
    /// The tool reaches beyond a closed world of its own.
    pub open_world: bool,
}

/// A kind of thing that a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Something a model can call.
    Tool,
    /// A prompt a person can pick.
    Prompt,
    /// A document that can be read by its uri.
    Resource,
    /// A pattern of uris that can be read.
    Template,
}

impl Item {
    /// What the item is known by: the name of a tool or prompt, the uri of a resource or template.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The item as the server sent it, fields unknown to Mainstay included.
    pub fn raw(&self) -> &RawJson {
        &self.raw
    }

    /// What a tool says of its effects; the cautious defaults for every other kind.
    pub fn hints(&self) -> Hints {
        self.hints
    }

    /// Whether the item describes itself.
    pub fn has_description(&self) -> bool {
        self.has_description
    }

    /// The arguments of a call that this tool wants mirrored in headers over HTTP: what follows `Mcp-Param-` in the name
    /// of each, and its value: a string, an integer or a boolean. Arguments that are not there have none.
    pub fn mirrored(&self, arguments: &RawJson) -> Vec<(String, RawJson)> {
        let mirrors = match self.mirrors.as_deref() {
            Some(Ok(mirrors)) if !mirrors.is_empty() => mirrors,
            Some(_) | None => return Vec::new(),
        };
        let Some(arguments) = Object::parse(arguments) else {
            return Vec::new();
        };
        mirrors
            .iter()
            .filter_map(|mirror| mirror.of(&arguments))
            .collect()
    }

    /// Whether there is any argument that it wants mirrored.
    pub(super) fn is_mirrored(&self) -> bool {
        matches!(self.mirrors.as_deref(), Some(Ok(mirrors)) if !mirrors.is_empty())
    }

    /// What is wrong with its `x-mcp-header` declaration.
    pub(super) fn bad_mirror(&self) -> Option<&str> {
        self.mirrors.as_deref()?.as_ref().err().map(String::as_str)
    }

    /// Reads an item, or says what it lacks.
    ///
    /// What the protocol requires is required here: many clients refuse a whole list for one item that lacks it, so a
    /// malformed item passed on would take its neighbours down.
    pub(super) fn read(kind: Kind, raw: RawJson) -> Result<Self, ItemFlaw> {
        let wanted = [
            "name",
            "uri",
            "uriTemplate",
            "inputSchema",
            "annotations",
            "description",
        ];
        let [name, uri, uri_template, schema, annotations, description] =
            Object::find_once(raw.as_str(), wanted).map_err(|error| ItemFlaw::nameless(error.to_string()))?;

        let key = match kind {
            Kind::Tool | Kind::Prompt => text("name", name),
            Kind::Resource => text("uri", uri),
            Kind::Template => text("uriTemplate", uri_template),
        };
        let key = key.map_err(ItemFlaw::nameless)?;
        if raw.as_bytes().len() > MAX_ITEM_BYTES {
            return Err(ItemFlaw {
                fault: CatalogFault::TooLarge,
                item: Some(key),
                message: format!("has more than {MAX_ITEM_BYTES} bytes"),
            });
        }
        // Its name is edited when it is published.
        if Object::has_too_many_members(&raw) {
            return Err(ItemFlaw {
                fault: CatalogFault::TooLarge,
                item: Some(key),
                message: TooManyMembers.to_string(),
            });
        }
        let complete = match kind {
            Kind::Tool => object("inputSchema", schema),
            Kind::Prompt => Ok(()),
            Kind::Resource | Kind::Template => text("name", name).map(drop),
        };
        if let Err(message) = complete {
            return Err(ItemFlaw {
                fault: CatalogFault::Malformed,
                item: Some(key),
                message,
            });
        }
        let mirrors = match kind {
            Kind::Tool => schema.map(|schema| mirror::read(schema.get())),
            Kind::Prompt | Kind::Resource | Kind::Template => None,
        };
        Ok(Self {
            key: key.into(),
            hints: annotations.map_or_else(Hints::default, Hints::read),
            has_description: description.is_some_and(|text| text.get() != "null"),
            mirrors: mirrors.filter(|read| *read != Ok(Vec::new())).map(Arc::new),
            raw,
        })
    }
}

impl Hints {
    /// Whether the server says that a call made twice does no more than a call made once.
    pub fn repeatable(self) -> bool {
        self.read_only || self.idempotent
    }

    /// Reads `annotations`; what is not plainly `true` or `false` there is not said.
    fn read(annotations: &RawValue) -> Self {
        let wanted = [
            "readOnlyHint",
            "idempotentHint",
            "destructiveHint",
            "openWorldHint",
        ];
        let said = Object::find_once(annotations.get(), wanted).unwrap_or_default();
        let [read_only, idempotent, destructive, open_world] = said.map(|value| match value?.get() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        });
        let unsaid = Self::default();
        Self {
            read_only: read_only.unwrap_or(unsaid.read_only),
            idempotent: idempotent.unwrap_or(unsaid.idempotent),
            destructive: destructive.unwrap_or(unsaid.destructive),
            open_world: open_world.unwrap_or(unsaid.open_world),
        }
    }
}

/// What a tool is taken for that says nothing of its effects.
impl Default for Hints {
    fn default() -> Self {
        Self {
            read_only: false,
            idempotent: false,
            destructive: true,
            open_world: true,
        }
    }
}

impl Kind {
    /// Every kind, in the order in which catalogs are listed, hashed and stored.
    pub const ALL: [Self; 4] = [Self::Tool, Self::Prompt, Self::Resource, Self::Template];

    /// The method that lists this kind.
    pub fn method(self) -> &'static str {
        match self {
            Self::Tool => "tools/list",
            Self::Prompt => "prompts/list",
            Self::Resource => "resources/list",
            Self::Template => "resources/templates/list",
        }
    }

    /// The server capability without which this kind is not asked for.
    pub fn capability(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Prompt => "prompts",
            Self::Resource | Self::Template => "resources",
        }
    }

    /// The field of a listing's result that holds the items.
    pub(crate) fn list_field(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Prompt => "prompts",
            Self::Resource => "resources",
            Self::Template => "resourceTemplates",
        }
    }

    pub(super) fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::Template => "resource template",
        })
    }
}

/// Why an item was set aside.
#[derive(Debug)]
pub(super) struct ItemFlaw {
    pub(super) fault: CatalogFault,
    /// The item's key, where it has one.
    pub(super) item: Option<String>,
    pub(super) message: String,
}

impl ItemFlaw {
    fn nameless(message: String) -> Self {
        Self {
            fault: CatalogFault::Malformed,
            item: None,
            message,
        }
    }
}

fn text(field: &str, value: Option<&RawValue>) -> Result<String, String> {
    let value = value.ok_or_else(|| format!("has no `{field}`"))?;
    let text: String =
        serde_json::from_str(value.get()).map_err(|error| format!("`{field}` is no text: {error}"))?;
    if text.is_empty() {
        return Err(format!("`{field}` is empty"));
    }
    Ok(text)
}

fn object(field: &str, value: Option<&RawValue>) -> Result<(), String> {
    match value {
        Some(value) if value.get().starts_with('{') => Ok(()),
        Some(_) => Err(format!("`{field}` is no object")),
        None => Err(format!("has no `{field}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Hints, Item};
    use crate::catalog::Kind;
    use crate::wire::{MAX_MEMBERS, RawJson};

    fn read(kind: Kind, text: &str) -> Result<Item, String> {
        Item::read(kind, RawJson::from_text(text).unwrap()).map_err(|flaw| flaw.message)
    }

    #[test]
    fn an_item_with_too_many_members_is_set_aside() {
        let members = vec![r#""":0"#; MAX_MEMBERS].join(",");
        let flaw = read(Kind::Prompt, &format!(r#"{{"name":"a",{members}}}"#)).unwrap_err();
        assert_eq!(flaw, "an object has more than 4096 members");
        let members = vec![r#""":0"#; MAX_MEMBERS - 1].join(",");
        assert!(read(Kind::Prompt, &format!(r#"{{"name":"a",{members}}}"#)).is_ok());
    }

    #[test]
    fn what_a_kind_must_have_is_required() {
        for (kind, sound) in [
            (Kind::Tool, r#"{"name":"a","inputSchema":{}}"#),
            (Kind::Prompt, r#"{"name":"a"}"#),
            (Kind::Resource, r#"{"name":"a","uri":"a:b"}"#),
            (Kind::Template, r#"{"name":"a","uriTemplate":"a:{b}"}"#),
        ] {
            assert!(read(kind, sound).is_ok(), "{sound}");
        }
        for (kind, flawed) in [
            (Kind::Tool, "3"),
            (Kind::Tool, "{}"),
            (Kind::Tool, r#"{"name":"","inputSchema":{}}"#),
            (Kind::Tool, r#"{"name":7,"inputSchema":{}}"#),
            (Kind::Tool, r#"{"name":"\ud800","inputSchema":{}}"#),
            (Kind::Tool, r#"{"name":"a","name":"b","inputSchema":{}}"#),
            (Kind::Tool, r#"{"name":"a"}"#),
            (Kind::Tool, r#"{"name":"a","inputSchema":null}"#),
            (Kind::Prompt, r#"{"uri":"a:b"}"#),
            (Kind::Resource, r#"{"name":"a"}"#),
            (Kind::Resource, r#"{"uri":"a:b"}"#),
            (Kind::Template, r#"{"name":"a","uri":"a:b"}"#),
        ] {
            assert!(read(kind, flawed).is_err(), "{flawed}");
        }
    }

    #[test]
    fn a_hint_that_is_not_given_or_not_understood_is_read_with_caution() {
        let hints = |annotations: &str| {
            let text = format!(r#"{{"name":"a","inputSchema":{{}},"annotations":{annotations}}}"#);
            read(Kind::Tool, &text).unwrap().hints()
        };
        let spoken = hints(
            r#"{"readOnlyHint":true,"idempotentHint":true,"destructiveHint":false,"openWorldHint":false}"#,
        );
        assert!(spoken.read_only && spoken.idempotent && !spoken.destructive && !spoken.open_world);
        for unclear in [
            "null",
            "{}",
            "[true]",
            r#"{"readOnlyHint":"true","idempotentHint":1}"#,
        ] {
            assert_eq!(hints(unclear), Hints::default(), "{unclear}");
        }
        assert!(!Hints::default().repeatable());
        assert!(hints(r#"{"idempotentHint":true}"#).repeatable());
    }
}
