//! Real MCP clients in front of real servers, through `mainstay serve` and `mainstay wrap`.
//!
//! Each client does with each server whatever both can. What was seen is the matrix in `docs/clients.md`: the test fails when
//! the document says anything else, and writes it anew when `UPDATE_MATRIX` is set. `cargo xtask partners` installs clients
//! and servers.

mod child;
mod client;
mod inspector;
mod matrix;
mod script;
mod server;
mod way;

use std::thread;

use mainstay_partner::{Partners, partners};

use client::{Client, Family};
use matrix::Seen;
use server::{Server, servers};
use way::{Home, Serving, Way};

#[test]
fn every_client_does_with_every_server_what_both_can() {
    let Some(partners) = partners() else { return };
    let seen = thread::scope(|scope| {
        // Each family meets servers of its own: what a server asks while two clients call it is nobody's.
        let partners = &partners;
        let families = Family::ALL.map(|family| scope.spawn(move || meet(family, partners)));
        let seen = families.map(|family| family.join().expect("the clients were run"));
        seen.concat()
    });
    matrix::check(&seen);
}

/// Puts the clients of one family in front of every server in every way, one after the other.
fn meet(family: Family, partners: &Partners) -> Vec<Seen> {
    let home = Home::new();
    let servers = servers(partners);
    let serving = Serving::start(&home, &servers);
    let mut seen = Vec::new();
    for client in family.clients() {
        for way in Way::ALL {
            for server in &servers {
                seen.extend(try_out(client, way, server, &serving, &home, partners));
            }
        }
    }
    serving.end();
    home.assert_nothing_is_left();
    seen
}

fn try_out(
    client: Client,
    way: Way,
    server: &Server,
    serving: &Serving,
    home: &Home,
    partners: &Partners,
) -> Vec<Seen> {
    let target = way.target(server, serving);
    let steps = server.steps.iter().filter(|step| client.can(step.thing));
    let steps: Vec<_> = steps.map(|step| step.through(way, server)).collect();
    let told = client.perform(home, &partners.clients, &target, &steps);
    let judged = steps.iter().zip(told).map(|(step, told)| Seen {
        client,
        way,
        server: server.name,
        thing: step.thing,
        outcome: told.and_then(|told| step.judge(&told)),
    });
    judged.collect()
}
