//! Points the entry of a server at `mainstay connect`, and back.
//!
//! `"command": "npx", "args": ["-y", "x"]` becomes `"command": "/path/mainstay", "args": ["connect", "--", "npx","-y", "x"]`:
//! all that is needed to turn it back stands in the entry itself. The value of `command` moves into `args` as it is
//! written, and nothing else of the entry is touched, so undoing it gives the same bytes. What follows the moved command
//! says what was there before: a comma before other arguments, a space in an empty list, nothing if there was no list.

mod undo;
mod wrap;

#[cfg(test)]
mod tests;

use std::path::Path;

use mainstay::config::source::{Mapping, Node, Property};

use crate::text::{ConfigValue, EditError, EditableText, has_duplicates};

/// The command that stands in a host's entry.
const CONNECT: &str = "connect";
/// What stands before the server's own command.
const END_OF_OPTIONS: &str = "--";

/// Why an entry is left as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BridgeError {
    /// It has no `command` that can be moved.
    #[error("{0}")]
    Unsuitable(&'static str),
    /// It cannot be edited.
    #[error(transparent)]
    Edit(#[from] EditError),
}

/// What an entry is, to Mainstay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryOwner {
    /// It starts a server itself.
    Host,
    /// It starts `mainstay connect -- COMMAND …`.
    Bridge,
    /// It starts Mainstay in another way: `wrap`, `serve`, or `connect` without a command.
    Mainstay,
}

/// Points an entry at `program connect` with these options, such as `--env NAME`.
pub fn wrap(
    text: &mut EditableText,
    keys: &[&str],
    program: &str,
    options: &[String],
) -> Result<(), BridgeError> {
    let tree = text.tree().map_err(EditError::from)?;
    let entry = tree
        .at(keys)
        .ok_or(BridgeError::Unsuitable("there is no such entry"))?;
    let parts = Parts::of(entry)?;
    let mut words = vec![CONNECT];
    words.extend(options.iter().map(String::as_str));
    words.push(END_OF_OPTIONS);
    let mut args: Vec<ConfigValue> = words.iter().map(|word| (*word).into()).collect();
    args.push(ConfigValue::of(&parts.command.node));
    if let Some(list) = parts.args.and_then(|args| args.node.as_array()) {
        args.extend(list.iter().map(ConfigValue::of));
    }
    let mut meant = ConfigValue::of(&tree.root);
    meant.set(&parts.keys(keys, &parts.command.name), program.into());
    meant.set(&parts.keys(keys, "args"), ConfigValue::List(args));
    let splices = wrap::splices(text.text(), tree.syntax, &parts, program, &words)?;
    let mut edited = text.clone();
    edited.edit(Some(splices), &[meant], keys)?;
    *text = edited;
    Ok(())
}

/// Turns an entry that [`wrap`] made back.
pub fn undo(text: &mut EditableText, keys: &[&str]) -> Result<(), BridgeError> {
    let tree = text.tree().map_err(EditError::from)?;
    let entry = tree
        .at(keys)
        .ok_or(BridgeError::Unsuitable("there is no such entry"))?;
    let parts = Parts::of(entry)?;
    let (list, moved) =
        moved_command(&parts).ok_or(BridgeError::Unsuitable("it does not start mainstay connect"))?;
    let rest: Vec<_> = list.iter().skip(moved + 1).map(ConfigValue::of).collect();
    let without_args = rest.is_empty();
    let mut meant = ConfigValue::of(&tree.root);
    let command = ConfigValue::of(&list[moved]);
    meant.set(&parts.keys(keys, &parts.command.name), command);
    meant.set(&parts.keys(keys, "args"), ConfigValue::List(rest));
    let mut meant = vec![meant];
    if without_args {
        // The key goes as a whole, or stays with an empty list.
        let mut removed = meant[0].clone();
        removed.remove(&parts.keys(keys, "args"));
        meant.push(removed);
    }
    let splices = undo::splices(text.text(), tree.syntax, &parts, list, moved);
    let mut edited = text.clone();
    edited.edit(Some(splices), &meant, keys)?;
    *text = edited;
    Ok(())
}

/// Whether an entry starts a server itself or through Mainstay.
pub fn owner(entry: &Node<'_>, program: &str) -> EntryOwner {
    let Ok(parts) = Parts::of(entry) else {
        return EntryOwner::Host;
    };
    let command = parts.command.node.as_text().unwrap_or_default();
    let is_mainstay = Path::new(command)
        .file_name()
        .is_some_and(|name| name == "mainstay");
    if !is_mainstay && command != program {
        return EntryOwner::Host;
    }
    match moved_command(&parts) {
        Some(_) => EntryOwner::Bridge,
        None => EntryOwner::Mainstay,
    }
}

/// The arguments of an entry that starts `mainstay connect`, and which of them is the server's own command.
fn moved_command<'a, 't>(parts: &Parts<'a, 't>) -> Option<(&'a [Node<'t>], usize)> {
    let list = parts.args?.node.as_array()?;
    let is = |node: Option<&Node<'_>>, word| node.and_then(Node::as_text) == Some(word);
    if !is(list.first(), CONNECT) {
        return None;
    }
    let moved = list.iter().position(|node| is(Some(node), END_OF_OPTIONS))? + 1;
    list.get(moved)?.as_text()?;
    Some((list, moved))
}

/// The keys of an entry that say what is started.
struct Parts<'a, 't> {
    /// Where `command` and `args` stand.
    node: &'a Node<'t>,
    object: &'a Mapping<'t>,
    command: &'a Property<'t>,
    args: Option<&'a Property<'t>>,
    /// Whether they stand in an object `command`, as in older files of Zed.
    is_nested: bool,
}

impl<'a, 't> Parts<'a, 't> {
    fn of(entry: &'a Node<'t>) -> Result<Self, BridgeError> {
        let object = entry
            .as_object()
            .ok_or(BridgeError::Unsuitable("it is no object"))?;
        let find = |object: &'a Mapping<'t>, key: &str| {
            object.properties.iter().find(|property| property.name == key)
        };
        let command = find(object, "command").or_else(|| find(object, "cmd"));
        let command = command.ok_or(BridgeError::Unsuitable("it has no command"))?;
        let (node, object, command, is_nested) = match command.node.as_object() {
            None => (entry, object, command, false),
            Some(nested) => {
                let path = find(nested, "path").ok_or(BridgeError::Unsuitable("its command has no path"))?;
                (&command.node, nested, path, true)
            }
        };
        if command.node.as_array().is_some() {
            return Err(BridgeError::Unsuitable(
                "its command is a list; write the path of mainstay, \"connect\" and \"--\" in front of it by hand",
            ));
        }
        if command.node.as_text().is_none() {
            return Err(BridgeError::Unsuitable("its command is no text"));
        }
        if has_duplicates(object) {
            return Err(BridgeError::Unsuitable("it holds a key twice"));
        }
        let args = find(object, "args");
        if args.is_some_and(|args| args.node.as_array().is_none()) {
            return Err(BridgeError::Unsuitable("its args are no list"));
        }
        Ok(Self {
            node,
            object,
            command,
            args,
            is_nested,
        })
    }

    /// The keys that lead to a key of these parts.
    fn keys<'k>(&self, entry: &[&'k str], key: &'k str) -> Vec<&'k str> {
        let mut keys = entry.to_vec();
        keys.extend(self.is_nested.then_some("command"));
        keys.push(key);
        keys
    }
}
