//! Real MCP clients in front of real servers, through `mainstay serve`, `mainstay wrap` and `mainstay connect`.
//!
//! Each client does with each server whatever both can. What was seen is the matrix in `docs/clients.md`: the test fails when
//! the document says anything else, and writes it anew when `UPDATE_MATRIX` is set. `cargo xtask partners` installs clients
//! and servers.
//!
//! `lossless` compares with the same client directly, `stateless` has a server without sessions, and `nemo_agent_toolkit` has a framework whose
//! client starts servers anew by itself.

mod child;
mod client;
mod inspector;
mod lossless;
mod matrix;
mod nemo_agent_toolkit;
mod script;
mod server;
mod stateless;
mod way;

use mainstay_partner::{Partners, partners};
use serde_json::Value;

use client::{Client, Era, Family};
use matrix::Seen;
use server::{Server, servers};
use way::{Home, Serving, Way};

#[test]
fn the_legacy_inspector_does_with_every_server_what_both_can() {
    meets_every_server(Family::Inspector, Era::Legacy);
}

#[test]
fn the_modern_inspector_does_with_every_server_what_both_can() {
    meets_every_server(Family::Inspector, Era::Modern);
}

#[test]
fn the_legacy_python_client_does_with_every_server_what_both_can() {
    meets_every_server(Family::Python, Era::Legacy);
}

#[test]
fn the_modern_python_client_does_with_every_server_what_both_can() {
    meets_every_server(Family::Python, Era::Modern);
}

#[test]
fn the_legacy_typescript_client_does_with_every_server_what_both_can() {
    meets_every_server(Family::TypeScript, Era::Legacy);
}

#[test]
fn the_modern_typescript_client_does_with_every_server_what_both_can() {
    meets_every_server(Family::TypeScript, Era::Modern);
}

/// Puts a client in front of every server in every way, one after the other, and compares what is seen with the document.
/// Each client has servers of its own: what a server asks while two clients call it is nobody's.
fn meets_every_server(family: Family, era: Era) {
    let Some(partners) = partners() else { return };
    let client = Client { family, era };
    let home = Home::new();
    let servers = servers(&partners);
    let serving = Serving::start(&home, &servers);
    let mut seen = Vec::new();
    for way in Way::ALL {
        for server in &servers {
            let target = way.target(server, &serving);
            seen.extend(try_out(client, way, server, &target, &home, &partners));
        }
    }
    serving.end();
    home.assert_nothing_is_left();
    matrix::check(client, &seen);
}

fn try_out(
    client: Client,
    way: Way,
    server: &Server,
    target: &Value,
    home: &Home,
    partners: &Partners,
) -> Vec<Seen> {
    let steps = server.steps.iter().filter(|step| client.can(step.thing));
    let steps: Vec<_> = steps.map(|step| step.through(way, server)).collect();
    let told = client.perform(home, &partners.clients, target, &steps);
    let judged = steps.iter().zip(told).map(|(step, told)| Seen {
        way,
        server: server.name,
        thing: step.thing,
        outcome: told.and_then(|told| step.judge(&told)),
    });
    judged.collect()
}
