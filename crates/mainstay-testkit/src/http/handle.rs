//! A faulty HTTP server as a task of the test's own runtime.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use super::connection;
use super::perform;
use super::port::Port;
use super::script::HttpScript;
use super::server::{HttpServerCore, RunsAs};
use super::session::SessionKind;
use super::traffic::Traffic;
use crate::script::Script;

/// A scripted HTTP server on a loopback port. Dropping it closes its port and its connections.
///
/// The rules of the [`Script`] count within one session, those of the [`HttpScript`] over the whole life of the server.
#[derive(Debug)]
pub struct FaultyHttpServer {
    server: Arc<HttpServerCore>,
    /// Held while the server is stopped, too.
    port: Port,
    serving: Option<JoinHandle<()>>,
}

impl FaultyHttpServer {
    /// Serves on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be bound.
    ///
    /// # Cancel safety
    /// Safe: a server that is not returned does not exist.
    pub async fn start(script: Script, http: HttpScript) -> io::Result<Self> {
        Self::start_on(0, script, http).await
    }

    /// Serves on this port of 127.0.0.1, and holds it; 0 is any free one.
    ///
    /// # Errors
    /// When the port cannot be bound.
    ///
    /// # Cancel safety
    /// As [`FaultyHttpServer::start`].
    pub async fn start_on(port: u16, script: Script, http: HttpScript) -> io::Result<Self> {
        Self::start_at(port, script, http, RunsAs::Task).await
    }

    pub(super) async fn start_at(
        port: u16,
        script: Script,
        http: HttpScript,
        stage: RunsAs,
    ) -> io::Result<Self> {
        let port = Port::hold(port)?;
        let listener = TcpListener::bind(port.address()).await?;
        let mut handle = Self {
            server: Arc::new(HttpServerCore::new(script, http, stage)),
            port,
            serving: None,
        };
        handle.serve(listener);
        Ok(handle)
    }

    /// The port it serves on; the same after a restart.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// `http://127.0.0.1:PORT` with this path: `/mcp` or `/sse`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.port.address())
    }

    /// Looks at what has come in so far.
    pub fn traffic<T>(&self, look: impl FnOnce(&Traffic) -> T) -> T {
        look(&self.server.traffic().borrow())
    }

    /// Waits until what has come in satisfies `holds`; `false` when `limit` has passed first.
    ///
    /// # Cancel safety
    /// Safe: it only looks.
    pub async fn wait_until(&self, limit: Duration, mut holds: impl FnMut(&Traffic) -> bool) -> bool {
        let mut traffic = self.server.traffic().subscribe();
        let reached = traffic.wait_for(|traffic| holds(traffic));
        matches!(tokio::time::timeout(limit, reached).await, Ok(Ok(_)))
    }

    /// Waits until at least `count` messages of this JSON-RPC method have come in; `false` when `limit` has passed first.
    ///
    /// # Cancel safety
    /// Safe: it only looks.
    pub async fn wait_for(&self, method: &str, count: usize, limit: Duration) -> bool {
        self.wait_until(limit, |traffic| traffic.count(method) >= count)
            .await
    }

    /// Changes the script while it plays, for the sessions there are and for those to come.
    pub fn edit(&self, change: impl Fn(&mut Script)) {
        self.server.edit(change);
    }

    /// Changes the HTTP script while it plays. Rules that are added count from their addition.
    pub fn edit_http(&self, change: impl FnOnce(&mut HttpScript)) {
        self.server.edit_http(change);
    }

    /// Sends a notification to all clients: on standalone and HTTP+SSE streams, and to the listeners that asked for it.
    pub fn notify(&self, method: &str, params: &Value) {
        for session in self.server.sessions() {
            let actions = session.responder().notify(method, params);
            perform::spawn(&self.server, &session, None, actions);
        }
    }

    /// Sends a message that the test wrote to where it belongs: an answer to its request, a notification of a
    /// subscription to its listener, anything else on the standalone and HTTP+SSE streams.
    pub fn say(&self, message: &Value) {
        for session in self.server.sessions() {
            session.say(message.to_string().as_bytes(), None);
        }
    }

    /// Forgets all sessions and ends their streams, without a restart.
    pub fn forget_sessions(&self) {
        for session in self.server.sessions() {
            if session.kind() != SessionKind::Stateless {
                self.server.forget(session.id());
            }
        }
    }

    /// Closes the port and all connections, in the middle of their messages. Connecting is refused from here on.
    ///
    /// # Cancel safety
    /// The server is stopped in any case; only the wait for its last connection is lost.
    pub async fn stop(&mut self) {
        self.server.end(self.server.run());
        if let Some(serving) = self.serving.take() {
            // A task that is cancelled or has panicked serves no more than one that has ended.
            let _ended = serving.await;
        }
    }

    /// Stops, then serves on the same port again, with new session ids and none of the old sessions.
    ///
    /// # Errors
    /// When the system refuses to listen.
    ///
    /// # Cancel safety
    /// As [`FaultyHttpServer::stop`]; the server may be left stopped, and another restart starts it.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.stop().await;
        let listener = TcpListener::bind(self.port.address()).await?;
        self.serve(listener);
        Ok(())
    }

    fn serve(&mut self, listener: TcpListener) {
        let run = self.server.begin();
        self.serving = Some(tokio::spawn(serve(Arc::clone(&self.server), run, listener)));
    }
}

impl Drop for FaultyHttpServer {
    fn drop(&mut self) {
        self.server.end(self.server.run());
    }
}

async fn serve(server: Arc<HttpServerCore>, run: u64, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection::serve(Arc::clone(&server), stream));
                }
                Err(_) => break,
            },
            Some(_) = connections.join_next() => {}
            () = server.over(run) => break,
        }
    }
    drop(listener);
    connections.shutdown().await;
}
