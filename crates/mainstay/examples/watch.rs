//! Keeps one server connected and prints every change of its state, until Ctrl-C. Kill the server, and watch:
//!
//!     cargo run -p mainstay --example watch -- npx -y @modelcontextprotocol/server-everything

use std::time::Duration;

use mainstay::event::EventOrLag;
use mainstay::{Event, Fleet, ServerConfig};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().ok_or("usage: watch COMMAND ARGUMENTS…")?;
    let server = ServerConfig::stdio("watched", command).args(arguments).build()?;
    let fleet = Fleet::builder().start([server]);
    let mut events = fleet.events();
    loop {
        tokio::select! {
            heard = events.next() => match heard {
                Some(EventOrLag::Event(event)) => print(&event, &fleet),
                Some(EventOrLag::Lagged(lost)) => println!("({lost} events missed)"),
                None => break,
            },
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    for server in fleet.close(Duration::from_secs(10)).await.killed() {
        println!("{} had to be killed", server.server);
    }
    Ok(())
}

fn print(event: &Event, fleet: &Fleet) {
    let why = event
        .error
        .as_ref()
        .map_or_else(|| event.cause.to_string(), ToString::to_string);
    println!("{:>12} → {:<12} {why}", event.from, event.to);
    if let Some(pid) = fleet.server(&event.server).and_then(|server| server.status().pid) {
        println!("{:>29} pid {pid}, {} tools", "", fleet.catalog().tools().len());
    }
}
