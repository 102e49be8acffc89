//! The envelope and the object, held against what `serde_json` makes of the same bytes.

use std::fmt;

use bytes::Bytes;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{MAX_MEMBERS, Message, Object, Params, RawJson, TooManyMembers, with_meta};

/// The fields of an envelope.
const FIELDS: [&str; 5] = ["id", "method", "params", "result", "error"];

/// Reads a message, and holds that it is what its JSON says.
pub fn envelope(input: &[u8]) {
    let bytes = Bytes::copy_from_slice(input);
    let message = Message::read(&bytes);
    if let Message::Garbage(_) = message {
        // Whatever can be read, and has the form of a message, is one.
        let readable = serde_json::from_slice::<Members>(input).ok();
        if let Some(members) = readable.filter(|_| std::str::from_utf8(input).is_ok()) {
            assert!(is_no_message(&members), "a message is taken for garbage");
        }
        return;
    }
    let is_json = serde_json::from_slice::<IgnoredAny>(input).is_ok();
    assert!(is_json, "what is no JSON is no message");
    if let Message::Batch(messages) = &message {
        let elements: Vec<IgnoredAny> = serde_json::from_slice(input).expect("a batch is an array");
        assert_eq!(messages.len(), elements.len());
        for message in messages {
            assert!(!matches!(Message::read(message), Message::Batch(_)));
        }
        return;
    }
    // Some numbers and escapes are JSON, and no value of serde's.
    if let Ok(members) = serde_json::from_slice::<Members>(input) {
        assert_is(&message, &members);
    }
}

fn assert_is(message: &Message<'_>, members: &Members) {
    let same = |raw: &Option<RawJson>, name: &str| {
        let expected = members.get(name).filter(|value| !value.is_null());
        let raw: Option<Value> = raw.as_ref().map(|raw| raw.parse().expect("a part of it is JSON"));
        assert_eq!(raw.as_ref(), expected, "{name}");
    };
    match message {
        Message::Request { id, method, params } => {
            assert_eq!(members.get("method").and_then(Value::as_str), Some(&**method));
            same(&Some(id.clone()), "id");
            same(params, "params");
            assert!(id.as_bytes() != b"null" && !members.has_answer());
        }
        Message::Notification { method, params } => {
            assert_eq!(members.get("method").and_then(Value::as_str), Some(&**method));
            same(params, "params");
            assert!(members.get("id").is_none_or(Value::is_null) && !members.has_answer());
        }
        Message::Response { id, result } => {
            let id: Value = id.parse().expect("a part of it is JSON");
            assert_eq!(&id, members.get("id").unwrap_or(&Value::Null));
            assert!(members.has_answer() || !members.has_method());
            match result {
                Ok(result) => {
                    let result: Value = result.parse().expect("a part of it is JSON");
                    assert_eq!(Some(&result), members.get("result"));
                    assert!(members.get("error").is_none_or(Value::is_null));
                }
                Err(_) => assert!(members.get("error").is_some_and(|error| !error.is_null())),
            }
        }
        Message::Batch(_) | Message::Garbage(_) => unreachable!("neither is an object"),
    }
}

fn is_no_message(members: &Members) -> bool {
    let repeats = FIELDS.iter().any(|field| members.count(field) > 1);
    let bad_id = members.get("id").is_some_and(|id| {
        matches!(id, Value::Bool(_) | Value::Array(_) | Value::Object(_)) && !members.has_answer()
    });
    let bad_method = members
        .get("method")
        .is_some_and(|method| !method.is_null() && !method.is_string());
    let empty = !members.has_method()
        && !members
            .0
            .iter()
            .any(|(name, _)| name == "result" || name == "error");
    let null_error_alone = !members.has_method() && !members.has_answer() && members.get("result").is_none();
    repeats || bad_id || bad_method || empty || null_error_alone
}

/// Reads an object, edits it, and holds that each step is what a plain list of its members would show.
pub fn object(input: &[u8]) {
    let (Some((&choice, text)), Ok(raw)) = (input.split_first(), text_of(input)) else {
        return;
    };
    let Ok(mut members) = serde_json::from_slice::<Members>(text) else {
        return;
    };
    for (name, _) in &members.0 {
        assert!(raw.may_hold(name), "{name:?} is in it");
    }
    let mut object = match Object::read(&raw) {
        Ok(object) => object.expect("an object is read as one"),
        Err(TooManyMembers) => {
            assert!(members.0.len() > MAX_MEMBERS, "an object is not read");
            return;
        }
    };
    assert_eq!(object.to_raw(), raw, "what is not edited stays byte-equal");
    for (name, _) in &members.0 {
        let found = object.get(name).map(|raw| raw.parse().expect("a member is JSON"));
        assert_eq!(found.as_ref(), members.get(name));
    }
    let name = match members.0.get(usize::from(choice)) {
        Some((name, _)) => name.clone(),
        None => "added \"\n".to_owned(),
    };
    let [found] = Object::find(&raw, [&name]).expect("an object");
    let [meta, absent] = Object::find(&raw, ["_meta", "absent"]).expect("an object");
    for (name, found) in [(name.as_str(), found), ("_meta", meta), ("absent", absent)] {
        let found = found.map(|raw| raw.parse().expect("a member is JSON"));
        assert_eq!(found.as_ref(), members.get(name), "{name:?} is found");
    }
    params(&raw, &members, &name);
    let extended = Object::extended(&raw, &[(&name, RawJson::from(7))]);
    if let Ok(merged) = with_meta(Some(&raw), &[(&name, RawJson::from(7))]) {
        let meta: Value = merged.parse().expect("what was merged is JSON");
        assert_eq!(meta["_meta"][&name], Value::from(7));
    }

    object.set(&name, RawJson::from(7));
    members.set(&name, Value::from(7));
    assert_same(&object.to_raw(), &members);
    if let Some(extended) = extended {
        assert_same(&extended, &members);
    }
    let removed = object.remove(&name);
    assert_eq!(removed, Some(RawJson::from(7)));
    members.0.retain(|(member, _)| *member != name);
    assert_same(&object.to_raw(), &members);
}

/// Reads the same object as parameters, edits one member and the `_meta`, and holds them against the plain list.
fn params(raw: &RawJson, members: &Members, name: &str) {
    let mut params = Params::new(Some(raw.clone()));
    let meta = members.get("_meta").filter(|meta| meta.is_object());
    if params.check_members().is_err() {
        assert!(meta.is_some(), "the parameters themselves were read");
        return;
    }
    assert!(params.is_object());
    assert_eq!(params.meta().is_some(), meta.is_some());
    assert_eq!(
        params.to_raw().as_ref(),
        Some(raw),
        "what is only read stays byte-equal"
    );

    let mut expected: Vec<_> = members.0.clone();
    if let Some(mut meta) = meta.cloned() {
        let parsed = params
            .meta()
            .and_then(|meta| meta.get(name))
            .map(|raw| raw.parse().expect("JSON"));
        assert_eq!(parsed.as_ref(), meta.get(name));
        params.remove_from_meta(&[name]);
        meta.as_object_mut().expect("it is an object").remove(name);
        let mut edited = Members(expected);
        edited.set("_meta", meta);
        expected = edited.0;
    }
    let mut expected = Members(expected);
    if name != "_meta" {
        params.set(name, RawJson::from(7));
        expected.set(name, Value::from(7));
    }
    assert_same(&params.to_raw().expect("parameters"), &expected);
}

fn text_of(input: &[u8]) -> Result<RawJson, ()> {
    let text = input.get(1..).and_then(|text| std::str::from_utf8(text).ok());
    RawJson::from_text(text.ok_or(())?).map_err(|_| ())
}

fn assert_same(raw: &RawJson, expected: &Members) {
    let members: Members = raw.parse().expect("what was edited is an object");
    assert_eq!(members.0, expected.0);
}

/// The members of an object in their order, repeated names included.
struct Members(Vec<(String, Value)>);

impl Members {
    /// The last of this name.
    fn get(&self, name: &str) -> Option<&Value> {
        let found = self.0.iter().rev().find(|(member, _)| member == name);
        found.map(|(_, value)| value)
    }

    fn count(&self, name: &str) -> usize {
        self.0.iter().filter(|(member, _)| member == name).count()
    }

    fn has_method(&self) -> bool {
        self.get("method").is_some_and(|method| !method.is_null())
    }

    fn has_answer(&self) -> bool {
        let given = |name| self.get(name).is_some_and(|value| !value.is_null());
        given("error") || given("result")
    }

    fn set(&mut self, name: &str, value: Value) {
        let Some(at) = self.0.iter().position(|(member, _)| member == name) else {
            return self.0.push((name.to_owned(), value));
        };
        self.0[at].1 = value;
        let mut place = 0..;
        self.0
            .retain(|(member, _)| place.next() <= Some(at) || member != name);
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}
