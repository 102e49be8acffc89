//! What opens a transport: the embedder's door to servers that Mainstay does not start itself.

use std::future::Future;
use std::io;
use std::pin::Pin;

use super::Transport;

/// A transport being opened.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Transport>>> + Send + 'a>>;

/// Opens a transport, once for each connection.
pub trait Connector: Send + Sync + 'static {
    /// Opens one. A failure is retried as the server's policy says; the policy also bounds how long it may take.
    fn connect(&self) -> Connecting<'_>;
}

/// A closure that opens a transport is a connector.
impl<F, Opening> Connector for F
where
    F: Fn() -> Opening + Send + Sync + 'static,
    Opening: Future<Output = io::Result<Box<dyn Transport>>> + Send + 'static,
{
    fn connect(&self) -> Connecting<'_> {
        Box::pin(self())
    }
}
