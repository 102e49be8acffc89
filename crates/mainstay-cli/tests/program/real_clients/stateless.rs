//! A server on the TypeScript SDK 2 over HTTP, which opens no session: what it asks reaches hosts of both eras, though directly it reaches
//! modern ones alone.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use mainstay_partner::{Clients, partners};
use serde_json::json;

use super::child::Group;
use super::client::{Client, Era, Family};
use super::server::{MAINSTAY, Step, Thing};
use super::way::{Home, Serving};

#[test]
fn a_server_that_opens_no_session_asks_hosts_of_both_eras() {
    let Some(partners) = partners() else { return };
    let home = Home::new();
    let (running, url) = start(&home, &partners.clients);
    let serving = Serving::start_configured(&home, &json!({ "ts": { "url": url } }));
    let served = json!({ "url": format!("{}/ts", serving.url()) });
    let connected =
        json!({ "command": MAINSTAY, "args": ["connect", "--url", url], "env": home.variables() });
    let steps = [
        Step::new(Thing::List, "ask", json!({}), ""),
        Step::new(Thing::Elicitation, "ask", json!({}), "accept:Ada"),
    ];
    for family in [Family::Python, Family::TypeScript] {
        for era in [Era::Legacy, Era::Modern] {
            let client = Client { family, era };
            for target in [&served, &connected] {
                let told = client.perform(&home, &partners.clients, target, &steps);
                for (step, told) in steps.iter().zip(told) {
                    let seen = told.and_then(|told| step.judge(&told));
                    assert_eq!(seen, Ok(()), "{client}, {target}");
                }
            }
        }
    }
    serving.end();
    drop(running);
    home.assert_nothing_is_left();
}

/// Starts the server, and returns its address.
fn start(home: &Home, clients: &Clients) -> (Group, String) {
    let script = home.script(clients, "ts_server.mjs");
    let mut node = home.command(&clients.node);
    let mut running = Group::start(node.arg(script).stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut port = String::new();
    let stdout = running.child.stdout.take().expect("piped");
    let read = BufReader::new(stdout).read_line(&mut port);
    assert!(read.is_ok_and(|length| length > 0), "it says its port");
    (running, format!("http://127.0.0.1:{}/mcp", port.trim()))
}
