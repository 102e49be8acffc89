//! Keeps one server connected and prints every change of its state: `cargo run --example watch -- COMMAND ARGS…`, then
//! kill the server and watch.

use std::time::Duration;

use mainstay::{CallOptions, Fleet, Heard, ServerConfig};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().ok_or("usage: watch COMMAND ARGS…")?;
    let server = ServerConfig::stdio("watched", command).args(arguments).build()?;
    let fleet = Fleet::builder().start([server]);
    let mut events = fleet.events();
    let server = fleet.server("watched").ok_or("just started")?;
    println!(
        "{:?}",
        server
            .wait_connected(Duration::from_secs(60))
            .await
            .map(|status| status.pid)
    );
    for tool in fleet.catalog().tools() {
        println!("  {}", tool.name());
    }
    let reply = server
        .call(
            "echo",
            &serde_json::json!({"message": "hello"}),
            CallOptions::default(),
        )
        .await;
    println!("{reply:?}");
    let until = tokio::time::Instant::now() + Duration::from_secs(20);
    while let Ok(Some(heard)) = tokio::time::timeout_at(until, events.next()).await {
        match heard {
            Heard::Event(event) => {
                let error = event
                    .error
                    .as_ref()
                    .map(|error| format!(" ({error})"))
                    .unwrap_or_default();
                println!("{} -> {}: {}{error}", event.from, event.to, event.cause);
            }
            Heard::Lagged(lost) => println!("{lost} events missed"),
        }
    }
    let report = fleet.close(Duration::from_secs(10)).await;
    println!("{report:?}");
    Ok(())
}
