//! Streamable HTTP on axum, for the servers of this crate.

use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::Router;
use axum::serve::ListenerExt;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

/// Serves at `/mcp` on this port of 127.0.0.1 for as long as the process lives; 0 is any free port. The port is the first
/// line on stdout.
///
/// The eras differ in what `for_another_client` is called for: a legacy session keeps its server, a modern request gets
/// one of its own.
///
/// # Errors
/// When the port is taken, or accepting connections fails.
///
/// Cancel safety: dropping it closes the port; connections that are open go on.
pub async fn serve_http<S: ServerHandler>(
    port: u16,
    for_another_client: impl Fn() -> S + Send + Sync + 'static,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    println!("{}", listener.local_addr()?.port());
    std::io::stdout().flush()?;
    let service = StreamableHttpService::new(
        move || Ok(for_another_client()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let listener = listener.tap_io(|connection| {
        // Without it each small answer waits for the acknowledgement of the one before.
        let _as_it_was = connection.set_nodelay(true);
    });
    axum::serve(listener, Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
