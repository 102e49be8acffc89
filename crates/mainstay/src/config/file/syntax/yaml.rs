//! YAML: the first document of a text, in the core schema. Aliases stand for a copy of what they name, and a merge key (`<<`) for
//! the keys of what it names that the mapping does not have itself.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::SyntaxError;
use crate::config::file::syntax::{Mapping, Node, Property, Value};

/// How deep values may nest; a person needs a handful.
const MAX_NESTING: usize = 64;

/// The key whose value is merged into the mapping that it stands in.
const MERGE_KEY: &str = "<<";

/// How much the copies of aliases may weigh in all, in bytes. A few lines of aliases can name billions of values.
const MAX_COPIED_BYTES: usize = 1024 * 1024;

pub(super) fn read(text: &str) -> Result<Option<Node<'_>>, SyntaxError> {
    let mut tree = YamlTree {
        text,
        offsets: Offsets::of(text),
        open: Vec::new(),
        anchors: HashMap::new(),
        copied: 0,
        root: None,
    };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| SyntaxError {
            at: tree.offsets.byte(error.marker().index()),
            reason: error.info().to_owned(),
        })?;
        if let Some(root) = tree.take(event, span)? {
            return Ok(Some(root));
        }
    }
    Ok(tree.root)
}

struct YamlTree<'t> {
    text: &'t str,
    offsets: Offsets,
    open: Vec<Open<'t>>,
    anchors: HashMap<usize, Node<'t>>,
    copied: usize,
    root: Option<Node<'t>>,
}

/// A collection whose end was not met yet.
struct Open<'t> {
    start: usize,
    anchor: usize,
    collection: Collection<'t>,
}

enum Collection<'t> {
    Items(Vec<Node<'t>>),
    /// The key whose value comes next, too.
    Keys(YamlMapping<'t>, Option<(YamlKey<'t>, usize)>),
}

#[derive(Default)]
struct YamlMapping<'t> {
    properties: Vec<Property<'t>>,
    /// What merge keys name, in order: the first that has a key wins.
    merged: Vec<Mapping<'t>>,
}

/// The key of a value that comes next.
enum YamlKey<'t> {
    Named(Cow<'t, str>),
    Merge,
}

impl<'t> YamlMapping<'t> {
    fn push(&mut self, key: YamlKey<'t>, name_at: usize, node: Node<'t>) -> Result<(), SyntaxError> {
        match key {
            YamlKey::Named(name) => self.properties.push(Property { name, name_at, node }),
            YamlKey::Merge => {
                let values = match node.value {
                    Value::Array(items) => items.into_iter().map(|item| item.value).collect(),
                    one => vec![one],
                };
                for value in values {
                    let Value::Object(mapping) = value else {
                        let reason = "a merge key (<<) takes a mapping, or a list of mappings".to_owned();
                        return Err(SyntaxError { at: name_at, reason });
                    };
                    self.merged.push(mapping);
                }
            }
        }
        Ok(())
    }

    /// The keys of the mapping, and the merged ones that it does not have itself.
    fn finish(self) -> Mapping<'t> {
        let mut properties = self.properties;
        for property in self.merged.into_iter().flat_map(|mapping| mapping.properties) {
            if !properties.iter().any(|own| own.name == property.name) {
                properties.push(property);
            }
        }
        Mapping { properties }
    }
}

impl<'t> YamlTree<'t> {
    /// Takes the next event; the root when its document ends.
    fn take(&mut self, event: Event<'t>, span: Span) -> Result<Option<Node<'t>>, SyntaxError> {
        let start = self.offsets.byte(span.start.index());
        let end = self.offsets.byte(span.end.index());
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let end = match style {
                    ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => {
                        closing_quote(self.text, start).unwrap_or(end)
                    }
                    ScalarStyle::Plain | ScalarStyle::Literal | ScalarStyle::Folded => end,
                };
                let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix == "str");
                let value = if is_text { Value::Text(text) } else { plain(text) };
                let is_merge_key = !is_text && matches!(&value, Value::Text(text) if *text == MERGE_KEY);
                if is_merge_key
                    && let Some(Collection::Keys(_, key @ None)) =
                        self.open.last_mut().map(|open| &mut open.collection)
                {
                    *key = Some((YamlKey::Merge, start));
                    return Ok(None);
                }
                self.add(Node { start, end, value }, anchor)?;
            }
            Event::Alias(anchor) => {
                let copy = self.anchors.get(&anchor).cloned().ok_or_else(|| SyntaxError {
                    at: start,
                    reason: "an alias inside of what it names; write the value out".to_owned(),
                })?;
                self.copied += weight(&copy);
                if self.copied > MAX_COPIED_BYTES {
                    let reason =
                        "the aliases of this file stand for too much; write the values out".to_owned();
                    return Err(SyntaxError { at: start, reason });
                }
                self.add(copy, 0)?;
            }
            Event::SequenceStart(anchor, _) => self.open(start, anchor, Collection::Items(Vec::new()))?,
            Event::MappingStart(anchor, _) => {
                self.open(start, anchor, Collection::Keys(YamlMapping::default(), None))?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(open) = self.open.pop() {
                    let value = match open.collection {
                        Collection::Items(items) => Value::Array(items),
                        Collection::Keys(mapping, _) => Value::Object(mapping.finish()),
                    };
                    let node = Node {
                        start: open.start,
                        end,
                        value,
                    };
                    self.add(node, open.anchor)?;
                }
            }
            Event::DocumentEnd => return Ok(self.root.take()),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => {}
        }
        Ok(None)
    }

    fn open(&mut self, start: usize, anchor: usize, collection: Collection<'t>) -> Result<(), SyntaxError> {
        if self.open.len() >= MAX_NESTING {
            let reason = "nested too deeply".to_owned();
            return Err(SyntaxError { at: start, reason });
        }
        self.open.push(Open {
            start,
            anchor,
            collection,
        });
        Ok(())
    }

    /// Puts a finished value where it belongs.
    fn add(&mut self, node: Node<'t>, anchor: usize) -> Result<(), SyntaxError> {
        if anchor != 0 {
            self.copied += weight(&node);
            if self.copied > MAX_COPIED_BYTES {
                let reason = "the anchors of this file hold too much; write the values out".to_owned();
                return Err(SyntaxError {
                    at: node.start,
                    reason,
                });
            }
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.collection) {
            None => self.root = Some(node),
            Some(Collection::Items(items)) => items.push(node),
            Some(Collection::Keys(mapping, key)) => match key.take() {
                Some((key, name_at)) => mapping.push(key, name_at, node)?,
                None => *key = Some((YamlKey::Named(name(&node)?), node.start)),
            },
        }
        Ok(())
    }
}

/// The byte after a text in quotes that begins at `start`. The parser counts the comment behind it, too.
fn closing_quote(text: &str, start: usize) -> Option<usize> {
    let quoted = text.get(start..)?;
    let quote = quoted.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut characters = quoted.char_indices().skip(1).peekable();
    while let Some((at, c)) = characters.next() {
        if c == '\\' && quote == '"' {
            characters.next();
        } else if c == quote {
            // A quote that is written twice is a part of the text.
            if quote == '"' || characters.next_if(|(_, next)| *next == quote).is_none() {
                return Some(start + at + 1);
            }
        }
    }
    None
}

/// A key. Numbers and booleans are keys as they are written.
fn name<'t>(node: &Node<'t>) -> Result<Cow<'t, str>, SyntaxError> {
    match &node.value {
        Value::Text(text) | Value::Number(text) => Ok(text.clone()),
        Value::Flag(flag) => Ok(flag.to_string().into()),
        Value::Null => Ok("".into()),
        Value::Array(_) | Value::Object(_) => Err(SyntaxError {
            at: node.start,
            reason: "a key must be a plain text".to_owned(),
        }),
    }
}

/// What a text without quotes means.
fn plain(text: Cow<'_, str>) -> Value<'_> {
    match &*text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Flag(true),
        "false" | "False" | "FALSE" => Value::Flag(false),
        number if is_number(number) => Value::Number(text),
        _ => Value::Text(text),
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit()) && text.parse::<f64>().is_ok()
}

fn weight(node: &Node<'_>) -> usize {
    let own = size_of::<Property<'_>>();
    own + match &node.value {
        Value::Null | Value::Flag(_) => 0,
        Value::Number(text) | Value::Text(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(object) => {
            let properties = object.properties.iter();
            properties
                .map(|property| property.name.len() + weight(&property.node))
                .sum()
        }
    }
}

/// Where each character begins: the parser counts characters.
enum Offsets {
    /// Every character is a byte.
    Ascii,
    Bytes(Vec<usize>),
}

impl Offsets {
    fn of(text: &str) -> Self {
        if text.is_ascii() {
            return Self::Ascii;
        }
        let starts = text.char_indices().map(|(at, _)| at);
        Self::Bytes(starts.chain([text.len()]).collect())
    }

    fn byte(&self, character: usize) -> usize {
        match self {
            Self::Ascii => character,
            Self::Bytes(starts) => starts.get(character).or(starts.last()).copied().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_NESTING, read};
    use crate::config::file::syntax::{Node, Value};

    #[test]
    fn plain_texts_have_the_types_of_the_core_schema() {
        let text =
            "a: 1\nb: -1.5\nc: yes\nd: true\ne: ~\nf: \"1\"\ng: 1.2.3\nh:\ni: 08:30\nj: .inf\nk: !!str 5\n";
        let root = read(text).unwrap().unwrap();
        let root = root.as_object().unwrap();
        let kinds: Vec<_> = root.properties.iter().map(|p| p.node.value.kind()).collect();
        let (text, number) = ("a string", "a number");
        let expected = [
            number,
            number,
            text,
            "a boolean",
            "null",
            text,
            text,
            "null",
            text,
            text,
            text,
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn places_are_bytes_of_the_text() {
        let text = "é: ö\r\nkey:\r\n  - ü\r\n  - [x, \"ÿ\"]\r\n";
        let root = read(text).unwrap().unwrap();
        let root = root.as_object().unwrap();
        let second = &root.properties[1];
        assert!(text[second.name_at..].starts_with("key:"));
        let items = second.node.as_array().unwrap();
        assert_eq!(&text[items[0].start..items[0].end], "ü");
        let last = &items[1].as_array().unwrap()[1];
        assert_eq!(&text[last.start..last.end], "\"ÿ\"");
    }

    #[test]
    fn a_text_in_quotes_ends_at_its_quote() {
        let text = "a: \"x\\\"y\" # c\nb: 'it''s'   # d\nc: [\"ü\" , 'v' ]\n";
        let root = read(text).unwrap().unwrap();
        let root = root.as_object().unwrap();
        let written = |node: &Node<'_>| text[node.start..node.end].to_owned();
        assert_eq!(written(root.get("a").unwrap()), "\"x\\\"y\"");
        assert_eq!(written(root.get("b").unwrap()), "'it''s'");
        let items: Vec<_> = root
            .get("c")
            .unwrap()
            .as_array()
            .unwrap()
            .iter()
            .map(written)
            .collect();
        assert_eq!(items, ["\"ü\"", "'v'"]);
    }

    #[test]
    fn aliases_are_copies_and_cannot_grow_without_bound() {
        let root = read("a: &x {k: v}\nb: *x\n").unwrap().unwrap();
        assert_eq!(
            root.as_object().unwrap().object("b").unwrap().text("k"),
            Some("v")
        );
        let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..12 {
            let before = format!("*a{}, ", n - 1).repeat(10);
            laughs += &format!("a{n}: &a{n} [{before}]\n");
        }
        assert!(read(&laughs).unwrap_err().reason.contains("too much"));
        assert!(read("a: &x [*x]\n").is_err());
    }

    #[test]
    fn a_merge_key_adds_the_keys_that_a_mapping_does_not_have_itself() {
        let text = "x: &x {k: of x, l: of x}\ny: &y {l: of y, m: of y}\na: {k: own, <<: *x}\nb: {<<: [*y, *x]}\nc: {\"<<\": plain}\n";
        let root = read(text).unwrap().unwrap();
        let root = root.as_object().unwrap();
        let texts = |name: &str, keys: &[&str]| {
            let mapping = root.object(name).unwrap();
            let texts = keys
                .iter()
                .map(|key| mapping.text(key).unwrap_or("none").to_owned());
            texts.collect::<Vec<_>>()
        };
        assert_eq!(
            texts("a", &["k", "l", "m", "<<"]),
            ["own", "of x", "none", "none"]
        );
        assert_eq!(texts("b", &["k", "l", "m"]), ["of x", "of y", "of y"]);
        assert_eq!(
            texts("c", &["<<"]),
            ["plain"],
            "in quotes it is a key like any other"
        );
        let error = read("a:\n  <<: text\n").unwrap_err();
        assert!(error.reason.contains("merge key"), "{}", error.reason);
        assert_eq!(error.at, 5);
    }

    #[test]
    fn what_cannot_be_read_has_a_place() {
        let error = read("a: b\n  c: d\n").unwrap_err();
        assert!(error.at >= 5, "{}: {}", error.at, error.reason);
        let deep = "[".repeat(MAX_NESTING + 1);
        assert!(read(&deep).unwrap_err().reason.contains("deep"));
        assert!(read("? [a]\n: b\n").is_err());
        for nothing in ["", "# only a comment\n", "---\n"] {
            let read = read(nothing).unwrap();
            assert!(
                read.is_none_or(|node| matches!(node.value, Value::Null)),
                "{nothing:?}"
            );
        }
    }
}
