//! What the gateway says of itself, in the place of the servers behind it.
//!
//! It is said at once, from what is known of the servers; what is not known of one yet is taken to be there.

use mainstay::Era;
use mainstay::message::{Object, RawJson, RpcError};
use serde_json::{Map, Value, json};

use super::{Desk, Request, tasks};
use crate::client::Client;
use crate::introduction::Said;
use crate::protocol::{LEGACY_VERSIONS, MODERN_VERSIONS};
use crate::scope::Scope;

impl Desk {
    pub(super) fn initialize(&self, request: &Request<'_>) -> Result<RawJson, RpcError> {
        let said = Said::of_initialize(request.params.as_raw())?;
        request.client.introduce(&said);
        let about = self.about(request.client);
        let mut result = Object::default();
        result.set("protocolVersion", crate::protocol::text(said.version));
        result.set("capabilities", about.capabilities);
        result.set("serverInfo", about.info);
        if let Some(instructions) = about.instructions {
            result.set("instructions", crate::protocol::text(&instructions));
        }
        Ok(result.to_raw())
    }

    pub(super) fn discover(&self, client: &Client) -> RawJson {
        let about = self.about(client);
        let mut result = Object::default();
        result.set("resultType", crate::protocol::text("complete"));
        let versions: Vec<&str> = MODERN_VERSIONS.into_iter().chain(LEGACY_VERSIONS).collect();
        result.set("supportedVersions", raw(&json!(versions)));
        result.set("capabilities", about.capabilities);
        if let Some(instructions) = about.instructions {
            result.set("instructions", crate::protocol::text(&instructions));
        }
        // Servers come and go behind the gateway, and whoever listens is told.
        result.set("ttlMs", RawJson::from(0));
        result.set("cacheScope", crate::protocol::text("private"));
        let mut meta = Object::default();
        meta.set("io.modelcontextprotocol/serverInfo", about.info);
        result.set("_meta", meta.to_raw());
        result.to_raw()
    }

    fn about(&self, client: &Client) -> About {
        match &client.scope {
            Scope::Union => self.about_all(client),
            Scope::Server(name) => self.about_one(name),
        }
    }

    /// The servers as one: everything that any of them has, their instructions under their names.
    fn about_all(&self, client: &Client) -> About {
        let catalog = self.catalog(client);
        let mut capabilities = Map::new();
        let mut instructions = Vec::new();
        let servers = self.fleet().servers().into_iter();
        for server in servers.filter(|server| self.is_reachable(client, server.name())) {
            let Some(known) = catalog.server(server.name()) else {
                add_everything(&mut capabilities);
                continue;
            };
            let about = known.about();
            let declared = about
                .capabilities
                .as_ref()
                .and_then(|raw| raw.parse::<Map<String, Value>>().ok());
            for (name, value) in declared.unwrap_or_default() {
                add(&mut capabilities, &name);
                add_tasks(&mut capabilities, client.era, &name, value);
            }
            if let Some(text) = about
                .instructions
                .as_deref()
                .filter(|text| !text.trim().is_empty())
            {
                instructions.push(format!("## {}\n\n{}", server.name(), text.trim()));
            }
        }
        About {
            capabilities: raw(&Value::Object(capabilities)),
            info: own_info(),
            instructions: (!instructions.is_empty()).then(|| instructions.join("\n\n")),
        }
    }

    /// One server, as it speaks of itself; but its lists are always told to have changed when they have.
    fn about_one(&self, name: &str) -> About {
        let known = self.fleet().server(name).and_then(|server| server.catalog());
        let Some(known) = known else {
            let mut capabilities = Map::new();
            add_everything(&mut capabilities);
            return About {
                capabilities: raw(&Value::Object(capabilities)),
                info: own_info(),
                instructions: None,
            };
        };
        let about = known.about();
        let mut capabilities = about
            .capabilities
            .as_ref()
            .and_then(Object::parse)
            .unwrap_or_default();
        for list in ["tools", "prompts", "resources"] {
            if let Some(mut declared) = capabilities.get(list).and_then(Object::parse) {
                declared.set("listChanged", raw(&json!(true)));
                capabilities.set(list, declared.to_raw());
            }
        }
        About {
            capabilities: capabilities.to_raw(),
            info: about.server_info.clone().unwrap_or_else(own_info),
            instructions: about.instructions.clone(),
        }
    }
}

struct About {
    capabilities: RawJson,
    info: RawJson,
    instructions: Option<String>,
}

/// Adds a capability that the union has too: what needs to know which server is meant is left out.
fn add(capabilities: &mut Map<String, Value>, name: &str) {
    let value = match name {
        "tools" | "prompts" => json!({ "listChanged": true }),
        "resources" => json!({ "listChanged": true, "subscribe": true }),
        "logging" | "completions" => json!({}),
        _other => return,
    };
    capabilities.insert(name.to_owned(), value);
}

/// Adds what one server says of its tasks, in the way of the client's era: tasks pass where both are of one era.
fn add_tasks(capabilities: &mut Map<String, Value>, era: Era, name: &str, declared: Value) {
    match (era, name) {
        (Era::Legacy, "tasks") => join(capabilities.entry(name).or_insert_with(|| json!({})), declared),
        (Era::Modern, "extensions") if declared.get(tasks::EXTENSION).is_some() => {
            capabilities.insert(name.to_owned(), json!({ tasks::EXTENSION: {} }));
        }
        (Era::Legacy | Era::Modern, _) => {}
    }
}

/// Everything that either of two objects says.
fn join(all: &mut Value, more: Value) {
    match (all, more) {
        (Value::Object(all), Value::Object(more)) => {
            for (key, value) in more {
                join(all.entry(key).or_insert(Value::Null), value);
            }
        }
        (all, more) => *all = more,
    }
}

fn add_everything(capabilities: &mut Map<String, Value>) {
    for name in ["tools", "prompts", "resources", "logging", "completions"] {
        add(capabilities, name);
    }
}

fn own_info() -> RawJson {
    raw(&json!({ "name": "mainstay", "version": env!("CARGO_PKG_VERSION") }))
}

fn raw(value: &Value) -> RawJson {
    RawJson::from_value(value).unwrap_or(RawJson::EMPTY_OBJECT)
}
