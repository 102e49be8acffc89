//! The four listings and their pages.

use std::fs;

use serde_json::{Value, json};

use super::message::ScriptedAnswer;
use super::{Incoming, Responder, tools};
use crate::script::Cursors;

/// One of the four kinds of offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListedKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl ListedKind {
    /// The member of the result that holds the items.
    fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }
}

impl Responder {
    pub(super) fn list(&mut self, offer: ListedKind, request: &Incoming) -> ScriptedAnswer {
        let cursor = request.params()["cursor"].as_str();
        if cursor.is_none() {
            *self.listings.entry(offer.member()).or_default() += 1;
        }
        let items = match self.items(offer) {
            Ok(items) => items,
            Err(error) => return ScriptedAnswer::error(-32603, error),
        };
        let Some((page, next)) = self.page(offer, &items, cursor) else {
            return ScriptedAnswer::error(-32602, "no such cursor");
        };
        let mut result = json!({ offer.member(): page });
        if let Some(next) = next {
            result["nextCursor"] = Value::from(next);
        }
        ScriptedAnswer::Result(self.dress(request, result.to_string(), true))
    }

    fn items(&self, offer: ListedKind) -> Result<Vec<Value>, String> {
        let mut items = match offer {
            ListedKind::Tools => self.tools()?,
            ListedKind::Prompts => self.script.prompts.clone(),
            ListedKind::Resources => self.script.resources.clone(),
            ListedKind::Templates => self.script.templates.clone(),
        };
        if self.script.fidelity {
            items.iter_mut().for_each(embroider);
        }
        Ok(items)
    }

    fn tools(&self) -> Result<Vec<Value>, String> {
        if self
            .listings
            .get(ListedKind::Tools.member())
            .copied()
            .unwrap_or_default()
            <= self.script.warm_up
        {
            return Ok(Vec::new());
        }
        if let Some(path) = &self.script.tools_file {
            let text = fs::read(path).map_err(|error| format!("tools file: {error}"))?;
            return serde_json::from_slice(&text).map_err(|error| format!("tools file: {error}"));
        }
        let mut all = if self.script.builtin_tools {
            tools::definitions()
        } else {
            Vec::new()
        };
        all.extend(self.script.tools.iter().cloned());
        Ok(all)
    }

    /// The items of the page at `cursor`, and the cursor after it; `None` for a cursor we never gave.
    fn page(
        &self,
        offer: ListedKind,
        items: &[Value],
        cursor: Option<&str>,
    ) -> Option<(Vec<Value>, Option<String>)> {
        let size = self.script.page_size.unwrap_or(items.len()).max(1);
        match self.script.cursors {
            Cursors::Honest => {
                let from = cursor.map_or(Some(0), |cursor| {
                    cursor.strip_prefix("from-")?.parse::<usize>().ok()
                })?;
                let rest = items.get(from..)?;
                let page = &rest[..size.min(rest.len())];
                let next = (page.len() < rest.len()).then(|| format!("from-{}", from + size));
                Some((page.to_vec(), next))
            }
            Cursors::Repeating => Some((items[..size.min(items.len())].to_vec(), Some("again".to_owned()))),
            Cursors::Endless => {
                let page = cursor.map_or(Some(0), |cursor| {
                    cursor.strip_prefix("page-")?.parse::<u64>().ok()
                })?;
                let next = Some(format!("page-{}", page + 1));
                if page == 0 {
                    Some((items.to_vec(), next))
                } else {
                    Some((vec![endless(offer, page)], next))
                }
            }
        }
    }
}

fn endless(offer: ListedKind, page: u64) -> Value {
    let name = format!("endless_{page}");
    match offer {
        ListedKind::Tools => json!({ "name": name, "inputSchema": { "type": "object" } }),
        ListedKind::Prompts => json!({ "name": name }),
        ListedKind::Resources => json!({ "name": name, "uri": format!("mem://{name}") }),
        ListedKind::Templates => json!({ "name": name, "uriTemplate": format!("mem://{name}/{{x}}") }),
    }
}

/// Adds members no version of the protocol knows.
fn embroider(item: &mut Value) {
    item["x-item"] = json!({ "since": 3, "nested": [true, null, { "deep": "é" }] });
    item["_meta"] = json!({ "example.org/item": 1 });
    if item.get("annotations").is_some() {
        item["annotations"]["x-annotation"] = json!("kept");
    }
    if item.get("inputSchema").is_some() {
        item["inputSchema"]["x-schema"] = json!({ "kept": true });
    }
}
