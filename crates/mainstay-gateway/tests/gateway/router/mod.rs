//! What the gateway answers, seen by clients of both eras in front of servers of both.

mod bad_input;
pub(crate) mod client;
mod client_notifications;
mod extensions;
mod following_tasks;
mod forwarding;
mod large;
mod lists;
mod log_levels;
mod outliving;
mod parked_calls;
mod places;
mod questions;
mod roots;
mod server_notifications;
mod starting;
mod subscriptions;
mod tasks;
mod union;

use std::sync::Arc;

use mainstay::Fleet;
use mainstay_gateway::{Gateway, GatewayBuilder, Scope};
use mainstay_testkit::fleet::{Memory, connected};
use mainstay_testkit::{Script, Speaks};

/// A gateway in front of servers in memory, all of them connected.
async fn gateway(servers: &[(&str, &Arc<Memory>)]) -> Gateway {
    started(Gateway::builder(Fleet::builder()), servers).await
}

/// The same for one client alone.
async fn gateway_for_one(servers: &[(&str, &Arc<Memory>)]) -> Gateway {
    started(Gateway::builder(Fleet::builder()).for_one_client(), servers).await
}

async fn started(builder: GatewayBuilder, servers: &[(&str, &Arc<Memory>)]) -> Gateway {
    let configs: Vec<_> = servers
        .iter()
        .map(|(name, memory)| memory.config(name).build().unwrap())
        .collect();
    let gateway = builder.start(configs);
    for (name, _) in servers {
        connected(&gateway.fleet().server(name).unwrap()).await;
    }
    gateway
}

fn one(name: &str) -> Scope {
    Scope::Server(name.into())
}

/// A server of one era.
fn speaking(speaks: Speaks) -> Arc<Memory> {
    Memory::new(Script {
        speaks,
        ..Script::default()
    })
}
