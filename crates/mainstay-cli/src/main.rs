//! The program.

mod demo;

use clap::{Parser, Subcommand};

/// Keeps MCP servers connected.
#[derive(Parser)]
#[command(name = "mainstay", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a small MCP server on stdin and stdout, to try things with.
    DemoServer,
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::DemoServer => demo::run(),
    }
}
