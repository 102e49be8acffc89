//! Messages that belong to a task, and name it in their `_meta`.

use mainstay::message::{Object, RawJson, TooManyMembers};

use crate::protocol::text;

/// The key in `_meta` that names the task which a message belongs to.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// A message that belongs to a task.
pub(super) struct Relation {
    message: Object,
    meta: Object,
    related: Object,
    id: String,
}

impl Relation {
    /// Reads a message, if it belongs to a task. One that cannot be read may belong to any.
    pub(super) fn read(message: &RawJson) -> Result<Option<Self>, TooManyMembers> {
        if !message.may_hold(RELATED) {
            return Ok(None);
        }
        let member = |object: &Object, name| object.get(name).map_or(Ok(None), Object::read);
        let Some(message) = Object::read(message)? else {
            return Ok(None);
        };
        let Some(meta) = member(&message, "_meta")? else {
            return Ok(None);
        };
        let Some(related) = member(&meta, RELATED)? else {
            return Ok(None);
        };
        let id = related.get("taskId").and_then(|id| id.parse().ok());
        Ok(id.map(|id| Self {
            message,
            meta,
            related,
            id,
        }))
    }

    /// The id of the task.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The same message with another id of the task.
    pub(super) fn renamed(mut self, id: &str) -> RawJson {
        self.related.set("taskId", text(id));
        self.meta.set(RELATED, self.related.to_raw());
        self.message.set("_meta", self.meta.to_raw());
        self.message.to_raw()
    }
}
