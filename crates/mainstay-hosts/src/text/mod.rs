//! The text of a configuration file, edited so that every byte outside of the changed keys stays.
//!
//! The library's reader says where each value stands; an edit replaces those bytes and no others. Each edit is checked:
//! the new text must read as the old one with exactly the change that was meant, or the edit is refused and the text stays
//! as it was.

mod block;
mod flow;
pub(crate) mod lines;
pub(crate) mod literal;
pub(crate) mod splice;
mod value;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use mainstay::config::ConfigError;
use mainstay::config::source::{Mapping, Node, SourceTree, Syntax, Value};

pub(crate) use block::{line_after, lines_of};
pub(crate) use flow::comma;
use lines::{indent_unit, indentation, line_break};
use literal::LineLayout;
use splice::{Splice, spliced};
pub use value::ConfigValue;
pub(crate) use value::has_duplicates;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The text of a configuration file that can be edited.
#[derive(Clone)]
pub struct EditableText {
    file: PathBuf,
    has_mark: bool,
    /// Without the byte order mark.
    text: String,
}

/// Why a text cannot be edited. The text is as it was before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The text cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ConfigError),
    /// A key on the way stands twice.
    #[error("{}: {key} holds a key twice, so it cannot be known which is meant; remove one of the two", file.display())]
    WrittenTwice {
        /// The file.
        file: PathBuf,
        /// The object with the key.
        key: String,
    },
    /// There is no way to make this change without touching other parts of the file.
    #[error("{}: {key} cannot be changed without touching other parts of the file; make the change in an editor{}", file.display(), pasted(paste.as_deref()))]
    NoSafeEdit {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
        /// What to write, where it may be shown.
        paste: Option<String>,
    },
}

fn pasted(paste: Option<&str>) -> String {
    paste.map_or_else(String::new, |paste| format!(": write\n{paste}"))
}

impl EditableText {
    /// The text of this file.
    pub fn new(file: &Path, text: &str) -> Self {
        let stripped = text.strip_prefix(BYTE_ORDER_MARK);
        Self {
            file: file.to_owned(),
            has_mark: stripped.is_some(),
            text: stripped.unwrap_or(text).to_owned(),
        }
    }

    /// The whole text, with its byte order mark if it had one.
    pub fn whole(&self) -> String {
        let mark = self.has_mark.then_some(BYTE_ORDER_MARK);
        mark.into_iter().chain(self.text.chars()).collect()
    }

    /// The text without a byte order mark.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// The text as a tree.
    pub fn tree(&self) -> Result<SourceTree<'_>, ConfigError> {
        SourceTree::read(&self.text, &self.file)
    }

    /// Sets the value that these keys lead to: replaces it, or adds it with the tables on the way.
    pub fn set(&mut self, keys: &[&str], value: &ConfigValue) -> Result<(), EditError> {
        let tree = self.tree()?;
        self.refuse_duplicates(&tree, keys)?;
        let mut meant = ConfigValue::of(&tree.root);
        meant.set(keys, value.clone());
        let splices = setting(&self.text, &tree, keys, value);
        self.edit(splices, &[meant], keys)
    }

    /// Removes the key that these keys lead to; `false` if it is not there.
    pub fn remove(&mut self, keys: &[&str]) -> Result<bool, EditError> {
        let tree = self.tree()?;
        if tree.at(keys).is_none() {
            return Ok(false);
        }
        self.refuse_duplicates(&tree, keys)?;
        let mut meant = ConfigValue::of(&tree.root);
        meant.remove(keys);
        let splices = removing(&self.text, &tree, keys);
        // A table of TOML that nothing is written of is not there.
        let mut pruned = meant.clone();
        (1..keys.len())
            .rev()
            .for_each(|n| pruned.remove_empty(&keys[..n]));
        let meant = match tree.syntax {
            Syntax::Toml => vec![meant, pruned],
            Syntax::Json | Syntax::Yaml => vec![meant],
        };
        self.edit(splices, &meant, keys)?;
        Ok(true)
    }

    /// Makes these replacements if the text then means one of these.
    pub(crate) fn edit(
        &mut self,
        splices: Option<Vec<Splice>>,
        meant: &[ConfigValue],
        keys: &[&str],
    ) -> Result<(), EditError> {
        let edited = splices.map(|splices| spliced(&self.text, splices));
        let is_meant = |text: &String| {
            let read = SourceTree::read(text, &self.file);
            let read = read.map(|tree| ConfigValue::of(&tree.root));
            read.is_ok_and(|read| meant.iter().any(|meant| read.means(meant)))
        };
        match edited.filter(is_meant) {
            Some(text) => self.text = text,
            None => {
                return Err(EditError::NoSafeEdit {
                    file: self.file.clone(),
                    key: keys.join("."),
                    paste: None,
                });
            }
        }
        Ok(())
    }

    fn refuse_duplicates(&self, tree: &SourceTree<'_>, keys: &[&str]) -> Result<(), EditError> {
        let twice = (0..keys.len()).find(|&n| {
            let object = tree.at(&keys[..n]).and_then(Node::as_object);
            object.is_some_and(has_duplicates)
        });
        match twice {
            None => Ok(()),
            Some(n) => Err(EditError::WrittenTwice {
                file: self.file.clone(),
                key: if n == 0 {
                    "the file".to_owned()
                } else {
                    keys[..n].join(".")
                },
            }),
        }
    }
}

fn setting(text: &str, tree: &SourceTree<'_>, keys: &[&str], value: &ConfigValue) -> Option<Vec<Splice>> {
    if let Some(node) = tree.at(keys) {
        return replacing(text, tree.syntax, node, value);
    }
    // The deepest object that is there, and the key to add to it, with all that comes below it.
    let depth = (0..keys.len()).rev().find(|&n| tree.at(&keys[..n]).is_some())?;
    let node = tree.at(&keys[..depth])?;
    let object = node.as_object()?;
    let mut added = value.clone();
    for key in keys[depth + 1..].iter().rev() {
        added = ConfigValue::Table(vec![((*key).to_owned(), added)]);
    }
    let name = keys[depth];
    if is_flow(text, tree.syntax, node) {
        return Some(flow::insert(text, tree.syntax, node, object, name, &added));
    }
    if tree.syntax == Syntax::Toml && keys.len() > 1 && matches!(value, ConfigValue::Table(_)) {
        return Some(vec![appended(text, keys, value)]);
    }
    block::insert(text, tree.syntax, node, object, name, &added)
}

/// A table at the end of a TOML file.
fn appended(text: &str, keys: &[&str], value: &ConfigValue) -> Splice {
    let line_break = line_break(text);
    let table = literal::toml_table(keys, value, line_break);
    let before = match text {
        "" => "".to_owned(),
        _ if text.ends_with('\n') => line_break.to_owned(),
        _ => line_break.repeat(2),
    };
    Splice::insert(text.len(), format!("{before}{table}"))
}

fn replacing(text: &str, syntax: Syntax, node: &Node<'_>, value: &ConfigValue) -> Option<Vec<Splice>> {
    let is_scalar = match &node.value {
        Value::Null => node.end > node.start,
        Value::Flag(_) | Value::Number(_) | Value::Text(_) => true,
        Value::Array(_) => text[node.start..].starts_with('['),
        Value::Object(_) => text[node.start..].starts_with('{'),
    };
    let written = match syntax {
        Syntax::Json => {
            let layout = LineLayout {
                indent: indentation(text, node.start),
                unit: indent_unit(text),
                line_break: line_break(text),
            };
            literal::json(value, layout)
        }
        Syntax::Toml => literal::toml(value),
        Syntax::Yaml => literal::json_flow(value),
    };
    is_scalar.then(|| vec![Splice::replace(node.start..node.end, written)])
}

fn removing(text: &str, tree: &SourceTree<'_>, keys: &[&str]) -> Option<Vec<Splice>> {
    let (name, parent) = keys.split_last()?;
    let node = tree.at(parent)?;
    let object: &Mapping<'_> = node.as_object()?;
    let index = object
        .properties
        .iter()
        .position(|property| property.name == *name)?;
    if is_flow(text, tree.syntax, node) {
        return Some(flow::remove(text, node, object, index));
    }
    let mut splices = block::remove(text, &object.properties[index]);
    if tree.syntax == Syntax::Yaml && object.properties.len() == 1 {
        // Without a key, a block is null and no longer an empty mapping.
        let (name, around) = parent.split_last()?;
        let around = tree.at(around)?.as_object()?;
        let parent = around.properties.iter().find(|property| property.name == *name)?;
        let colon = parent.name_at + text[parent.name_at..].find(':')?;
        splices.push(Splice::insert(colon + 1, " {}"));
    }
    Some(splices)
}

/// Whether an object stands in braces.
pub(crate) fn is_flow(text: &str, syntax: Syntax, node: &Node<'_>) -> bool {
    match syntax {
        Syntax::Json => true,
        Syntax::Toml | Syntax::Yaml => text[node.start..node.end].starts_with('{'),
    }
}
