//! The gateway, and its clients.

use std::net::SocketAddr;

use mainstay::{Fleet, ServerConfig};
use mainstay_gateway::{DoorError, Gateway, HttpDoor, Scope};
use mainstay_testkit::chaos::{Dice, NEVER_DISABLED, name};
use mainstay_testkit::fleet::LONG;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::chaos::clients::{Client, Old, Piped, ReceivedMessages, Stateless, Streamable};
use crate::chaos::person::Person;

/// Where the servers are that are seen alone: they are never disabled.
const ALONE: [[&str; 2]; NEVER_DISABLED] = [
    ["/mcp/s00", "/sse/s00"],
    ["/mcp/s01", "/sse/s01"],
    ["/mcp/s02", "/sse/s02"],
    ["/mcp/s03", "/sse/s03"],
    ["/mcp/s04", "/sse/s04"],
    ["/mcp/s05", "/sse/s05"],
];

/// A gateway that serves.
pub(crate) struct RunningGateway {
    pub(crate) gateway: Gateway,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), DoorError>>,
}

impl RunningGateway {
    pub(crate) async fn open(servers: impl IntoIterator<Item = ServerConfig>) -> Self {
        let gateway = Gateway::start(Fleet::builder(), servers);
        for server in gateway.fleet().servers() {
            server.wait_connected(LONG).await.unwrap();
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serves = gateway.clone();
        let serving = tokio::spawn(async move {
            let shutdown = async { drop(stopped.await) };
            serves.serve_http(listener, HttpDoor::new(), shutdown).await
        });
        Self {
            gateway,
            address,
            stop,
            serving,
        }
    }

    /// People at clients of every kind: some see all servers, some one of them.
    pub(crate) async fn people(&self, seed: u64, over: &watch::Receiver<bool>) -> Vec<Person> {
        let mut people = Vec::new();
        for guest in 0..4 * (NEVER_DISABLED + 2) {
            let (way, at) = (guest % 4, guest / 4);
            let server = at.checked_sub(2);
            let [mcp, sse] = server.map_or(["/mcp", "/sse"], |server| ALONE[server]);
            let received = ReceivedMessages::new(format!("c{guest:02}-"));
            let dice = |role: usize| Dice::new(seed, guest * 10 + role);
            let person = |client, hand: &str, role| {
                Person::new(client, server, format!("c{guest:02}-{hand}"), dice(role))
            };
            let client = match way {
                0 => {
                    let client = Streamable::open(self.address, mcp, received, dice(0), over.clone()).await;
                    people.push(person(Client::Streamable(client.other_hand()), "other-", 1));
                    Client::Streamable(client)
                }
                1 => Client::Stateless(Stateless::new(self.address, mcp, received, dice(0), over.clone())),
                2 => Client::Old(Old::open(self.address, sse, received).await),
                _ => {
                    let scope = server.map_or(Scope::Union, |server| Scope::Server(name(server).into()));
                    Client::Piped(Piped::open(&self.gateway, scope, received).await)
                }
            };
            people.push(person(client, "", 2));
        }
        people
    }

    /// Closes the door, and all servers behind it.
    pub(crate) async fn close(self) {
        let _ = self.stop.send(());
        let served = timeout(LONG, self.serving).await;
        served.expect("it closes in time").unwrap().unwrap();
        let report = self.gateway.fleet().close(LONG).await;
        assert!(report.servers.iter().all(|server| !server.overdue), "{report:?}");
    }
}
