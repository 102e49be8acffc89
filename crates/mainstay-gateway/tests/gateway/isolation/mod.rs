//! Servers that no two sessions share.

mod bounds;
mod http;
mod introducing;
mod lists;
mod processes;
mod questions;
mod sessions;

use std::sync::Arc;

use mainstay::Fleet;
use mainstay::config::Isolation;
use mainstay_gateway::Gateway;
use mainstay_testkit::fleet::{Memory, connected};
use mainstay_testkit::{Script, Speaks};
use serde_json::{Value, json};

/// A gateway in front of `own`, which each session has for itself, and of `all`, which all share. Both are connected: the
/// first connection of `own` is the template server's.
async fn gateway(own: &Arc<Memory>, all: &Arc<Memory>) -> Gateway {
    gateway_of(own, all, 8).await
}

/// The same, with room for so many servers of sessions.
async fn gateway_of(own: &Arc<Memory>, all: &Arc<Memory>, most: usize) -> Gateway {
    let own = own.config("own").isolation(Isolation::Session);
    let configs = [own.build().unwrap(), all.config("all").build().unwrap()];
    let gateway = Gateway::builder(Fleet::builder())
        .max_isolated(most)
        .start(configs);
    for name in ["own", "all"] {
        connected(&gateway.fleet().server(name).unwrap()).await;
    }
    gateway
}

fn speaking(speaks: Speaks) -> Arc<Memory> {
    Memory::new(Script {
        speaks,
        ..Script::default()
    })
}

fn server() -> Arc<Memory> {
    speaking(Speaks::Legacy)
}

fn call(tool: &str, arguments: Value) -> Value {
    let mut params = json!({ "name": tool });
    params["arguments"] = arguments;
    params
}
