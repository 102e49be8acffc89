//! One client's session: a gateway with one server and one client, on an in-memory pipe.

use std::path::PathBuf;
use std::time::Duration;

use mainstay::gateway::introduced_as;
use mainstay::{Fleet, Server, ServerConfig};
use mainstay_gateway::{ClientInput, Gateway, Scope};
use tokio::io::{DuplexStream, split};
use tokio::sync::{oneshot, watch};

pub(crate) struct Session {
    pub(crate) config: ServerConfig,
    pub(crate) store: Option<PathBuf>,
    pub(crate) close_timeout: Duration,
    /// Receives the server when it is started.
    pub(crate) started: watch::Sender<Option<Server>>,
}

impl Session {
    /// Serves the client until it closes its side, then stops the server within the close timeout.
    ///
    /// Cancel safety: dropping the future ends the server's processes at once.
    pub(crate) async fn run(self, client: DuplexStream, mut closed: oneshot::Receiver<()>) {
        let (input, output) = split(client);
        let input = tokio::select! {
            input = ClientInput::wait_for_request(input) => input,
            _ = &mut closed => None,
        };
        let Some(input) = input else { return };
        let mut fleet = Fleet::builder();
        if let Some(introduction) = input.introduction() {
            fleet = introduced_as(fleet, introduction.clone());
        }
        if let Some(store) = self.store {
            fleet = fleet.store(store);
        }
        let scope = Scope::Server(self.config.name().into());
        let name = self.config.name().to_owned();
        let gateway = Gateway::builder(fleet).for_one_client().max_isolated(1);
        let gateway = gateway.start([self.config]);
        self.started.send_replace(gateway.fleet().server(&name));
        tokio::select! {
            () = gateway.serve_stdio(scope, input, output) => {}
            // The client reads no answer any more, so none is awaited.
            _ = &mut closed => {}
        }
        let report = gateway.close(self.close_timeout).await;
        for server in report.killed() {
            tracing::warn!(
                server = server.server,
                overdue = server.overdue,
                "the server did not stop by itself"
            );
        }
    }
}
