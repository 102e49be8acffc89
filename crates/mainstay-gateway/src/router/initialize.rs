//! `initialize` and `server/discover`: what the gateway says of itself, in the place of the servers behind it.
//!
//! The gateway answers at once with what it knows of the servers. A client of one server that was never connected waits until it is, as
//! without the gateway. The union waits a short time where nothing is known of any server. Then it declares what the starting servers
//! may have, and says why others are not there.

use std::sync::Arc;
use std::time::Duration;

use mainstay::Era;
use mainstay::catalog::About;
use mainstay::gateway::ServerExt;
use mainstay::gateway::message::{Object, RawJson, RpcError};
use serde_json::{Map, Value, json};

use super::resolve::removed;
use super::{RoutedRequest, Router, tasks};
use crate::client::Client;
use crate::failure;
use crate::protocol::{ClientIntroduction, LEGACY_VERSIONS, MODERN_VERSIONS, raw, text};
use crate::scope::Scope;

/// How long a client waits for the first handshake of the one server that it wants. A server that takes longer to start has failed
/// by then; a client that wants to wait less gives up by itself.
const INTRODUCTION_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// How long a modern client of one server waits until it is known what the server has in the modern era.
const MODERN_TIMEOUT: Duration = Duration::from_secs(3);

impl Router {
    pub(super) async fn initialize(&self, request: &RoutedRequest<'_>) -> Result<RawJson, RpcError> {
        let introduction = ClientIntroduction::of_initialize(&request.params)?;
        let account = self.budget.account(request.client.principal);
        request
            .client
            .introduce(&introduction, account.hold(introduction.bytes())?);
        self.declare_extensions(request.client);
        let about = self.about(request.client).await?;
        let mut result = Object::default();
        result.set("protocolVersion", text(introduction.version));
        result.set("capabilities", about.capabilities);
        result.set("serverInfo", about.info);
        if let Some(instructions) = about.instructions {
            result.set("instructions", text(&instructions));
        }
        Ok(result.to_raw())
    }

    pub(super) async fn discover(&self, client: &Client) -> Result<RawJson, RpcError> {
        let about = self.about(client).await?;
        let mut result = Object::default();
        result.set("resultType", text("complete"));
        let versions: Vec<&str> = MODERN_VERSIONS.into_iter().chain(LEGACY_VERSIONS).collect();
        result.set("supportedVersions", raw(&json!(versions)));
        result.set("capabilities", about.capabilities);
        if let Some(instructions) = about.instructions {
            result.set("instructions", text(&instructions));
        }
        // Servers come and go behind the gateway, and listens get a notification.
        result.set("ttlMs", RawJson::from(0));
        result.set("cacheScope", text("private"));
        let mut meta = Object::default();
        meta.set("io.modelcontextprotocol/serverInfo", about.info);
        result.set("_meta", meta.to_raw());
        Ok(result.to_raw())
    }

    async fn about(&self, client: &Client) -> Result<GatewayAbout, RpcError> {
        match &client.scope {
            Scope::Union => {
                self.any_introduced(client).await;
                Ok(self.about_all(client))
            }
            Scope::Server(name) => {
                let server = self.fleet().server(name).ok_or_else(|| removed(name))?;
                let known = server.wait_introduced(INTRODUCTION_TIMEOUT).await;
                let mut known = known.map_err(|error| failure::not_up(&error, &self.advice))?;
                // What a server with a session has in the modern era is known once it was listed.
                if client.era == Era::Modern
                    && server.wait_listed(MODERN_TIMEOUT).await.is_ok()
                    && let Some(listed) = server.catalog()
                {
                    known = Arc::new(listed.about().clone());
                }
                Ok(about_one(&known, client.era))
            }
        }
    }

    /// The servers as one: everything that any of them has or may come to have, their instructions under their names, and why
    /// a server is not there.
    fn about_all(&self, client: &Client) -> GatewayAbout {
        let catalog = self.catalog(client);
        let mut union = UnionAbout::default();
        let servers = self.fleet().servers().into_iter();
        for server in servers.filter(|server| self.is_reachable(client, server.name())) {
            let status = server.status();
            let known = match catalog.server(server.name()) {
                Some(listed) => Some(Arc::new(listed.about().clone())),
                // It is starting, or has refused its first listing.
                None => server.about().filter(|_| status.is_starting() || status.is_up()),
            };
            match known {
                Some(about) => union.add(server.name(), &about, client.era),
                None => union.add_unknown(server.name(), failure::why_not_up(&status, &self.advice)),
            }
        }
        union.into_about()
    }
}

/// Several servers, described as one.
#[derive(Default)]
struct UnionAbout {
    capabilities: Map<String, Value>,
    instructions: Vec<String>,
}

impl UnionAbout {
    fn add(&mut self, server: &str, about: &About, era: Era) {
        let declared = capabilities_in(about, era).and_then(|raw| raw.parse::<Map<String, Value>>().ok());
        for (name, value) in declared.unwrap_or_default() {
            add(&mut self.capabilities, &name);
            add_of_era(&mut self.capabilities, era, &name, value);
        }
        if let Some(text) = &about.instructions {
            self.instruct(server, text);
        }
    }

    /// A server of which nothing is published may have anything once it is up.
    fn add_unknown(&mut self, server: &str, why: Option<String>) {
        for name in ["tools", "prompts", "resources", "logging", "completions"] {
            add(&mut self.capabilities, name);
        }
        if let Some(why) = why {
            self.instruct(server, &why);
        }
    }

    fn instruct(&mut self, server: &str, text: &str) {
        if !text.trim().is_empty() {
            self.instructions.push(format!("## {server}\n\n{}", text.trim()));
        }
    }

    fn into_about(self) -> GatewayAbout {
        GatewayAbout {
            capabilities: raw(&Value::Object(self.capabilities)),
            info: own_info(),
            instructions: (!self.instructions.is_empty()).then(|| self.instructions.join("\n\n")),
        }
    }
}

/// One server, as it describes itself. The gateway always notifies of changed lists, and lists tasks to sessions alone: it cannot tell
/// other clients apart.
fn about_one(known: &About, era: Era) -> GatewayAbout {
    let mut capabilities = capabilities_in(known, era)
        .and_then(Object::parse)
        .unwrap_or_default();
    for list in ["tools", "prompts", "resources"] {
        if let Some(mut declared) = capabilities.get(list).and_then(Object::parse) {
            declared.set("listChanged", raw(&json!(true)));
            capabilities.set(list, declared.to_raw());
        }
    }
    if era == Era::Modern
        && let Some(mut tasks) = capabilities.get("tasks").and_then(Object::parse)
        && tasks.remove("list").is_some()
    {
        capabilities.set("tasks", tasks.to_raw());
    }
    GatewayAbout {
        capabilities: capabilities.to_raw(),
        info: known.server_info.clone().unwrap_or_else(own_info),
        instructions: known.instructions.clone(),
    }
}

/// What a server declares to clients of this era.
fn capabilities_in(about: &About, era: Era) -> Option<&RawJson> {
    let in_session = about.capabilities.as_ref();
    match era {
        Era::Legacy => in_session,
        Era::Modern => about.modern_capabilities.as_ref().or(in_session),
    }
}

struct GatewayAbout {
    capabilities: RawJson,
    info: RawJson,
    instructions: Option<String>,
}

/// Adds a capability that the union has too. Those that need to know which server is meant are left out.
fn add(capabilities: &mut Map<String, Value>, name: &str) {
    let value = match name {
        "tools" | "prompts" => json!({ "listChanged": true }),
        "resources" => json!({ "listChanged": true, "subscribe": true }),
        "logging" | "completions" => json!({}),
        _other => return,
    };
    capabilities.insert(name.to_owned(), value);
}

/// Adds what one server says of its extensions, and of its tasks as the client's era has them: tasks pass where client and server are of one
/// era.
fn add_of_era(capabilities: &mut Map<String, Value>, era: Era, name: &str, mut declared: Value) {
    match (era, name) {
        (Era::Legacy, "tasks") => {}
        (_, "extensions") => {
            if let (Era::Legacy, Some(declared)) = (era, declared.as_object_mut()) {
                declared.remove(tasks::EXTENSION);
            }
            if declared.as_object().is_none_or(Map::is_empty) {
                return;
            }
        }
        (Era::Legacy | Era::Modern, _) => return,
    }
    join(capabilities.entry(name).or_insert_with(|| json!({})), declared);
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

fn own_info() -> RawJson {
    raw(&json!({ "name": "mainstay", "version": env!("CARGO_PKG_VERSION") }))
}
