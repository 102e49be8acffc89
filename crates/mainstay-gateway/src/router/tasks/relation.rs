//! Messages that belong to a task, and name it in their `_meta`.

use mainstay::gateway::message::{Object, RawJson};

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
    /// Reads a message, if it belongs to a task.
    pub(super) fn read(message: &RawJson) -> Option<Self> {
        let message = Object::parse(Some(message).filter(|message| message.may_hold(RELATED))?)?;
        let meta = Object::parse(message.get("_meta")?)?;
        let related = Object::parse(meta.get(RELATED)?)?;
        let id = related.get("taskId")?.parse().ok()?;
        Some(Self {
            message,
            meta,
            related,
            id,
        })
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
