//! One TCP connection: its requests one after the other, each answered before the next is read.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;

use super::exchange;
use super::out::{ConnectionEnd, Out};
use super::server::HttpServerCore;
use super::wire::ReceivedRequest;

/// Serves a connection to its end.
pub(super) async fn serve(server: Arc<HttpServerCore>, stream: TcpStream) {
    let _open = CountedConnection::new(&server);
    // An answer that waits for the kernel would be mistaken for a slow one.
    let _slow = stream.set_nodelay(true);
    let (reader, writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let mut out = Out::new(Arc::clone(&server), writer);
    while let Ok(Some(request)) = ReceivedRequest::read(&mut reader).await {
        let answered = tokio::select! {
            answered = exchange::answer(&server, &mut out, &request) => answered,
            () = hung_up(&mut reader) => Err(ConnectionEnd::Close),
        };
        match answered {
            Ok(()) if request.keeps_alive() => {}
            Ok(()) | Err(ConnectionEnd::Close) => return,
            Err(ConnectionEnd::Reset) => {
                drop(reader);
                return out.reset();
            }
        }
    }
}

/// Waits until the client closes the connection. A request sent ahead keeps it from being noticed.
async fn hung_up(reader: &mut BufReader<OwnedReadHalf>) {
    if reader.fill_buf().await.is_ok_and(|ahead| !ahead.is_empty()) {
        std::future::pending::<()>().await;
    }
}

struct CountedConnection<'a>(&'a HttpServerCore);

impl<'a> CountedConnection<'a> {
    fn new(server: &'a HttpServerCore) -> Self {
        server.count(|traffic| {
            traffic.connections += 1;
            traffic.open_connections += 1;
        });
        Self(server)
    }
}

impl Drop for CountedConnection<'_> {
    fn drop(&mut self) {
        self.0.count(|traffic| traffic.open_connections -= 1);
    }
}
