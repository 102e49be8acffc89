//! Streamable HTTP on axum.

use std::io::Write;
use std::net::Ipv4Addr;

use axum::Router;
use axum::serve::ListenerExt;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

use crate::server::RmcpServer;

/// Serves on this port of 127.0.0.1 for as long as the process lives.
pub(crate) async fn serve(port: u16) -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    println!("{}", listener.local_addr()?.port());
    std::io::stdout().flush()?;
    // The eras differ here: a legacy session keeps its server, a modern request gets one of its own.
    let shared = RmcpServer::default();
    let service = StreamableHttpService::new(
        move || Ok(shared.for_another_client()),
        std::sync::Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let listener = listener.tap_io(|connection| {
        // Without it each small answer waits for the acknowledgement of the one before.
        let _as_it_was = connection.set_nodelay(true);
    });
    axum::serve(listener, Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
