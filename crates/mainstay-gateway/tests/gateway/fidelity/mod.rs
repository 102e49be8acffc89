//! Under `/mcp/SERVER` payloads pass byte for byte, in both directions, whatever carries them on either side. What has to
//! differ is written out here, and nothing else does.

mod downstream;
mod odd;
mod scripted_server;
mod upstream;

mod notifications;
mod offering;
mod questions;
mod requests;

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;

use mainstay::{Era, Fleet};
use mainstay_gateway::{Gateway, GatewayBuilder, HttpDoor};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use downstream::{Client, Downstream};
use mainstay_testkit::client::LONG;
use scripted_server::ScriptedServer;
use upstream::Upstream;

/// One client before one server.
struct Pair {
    up: Upstream,
    down: Downstream,
    scripted: Arc<ScriptedServer>,
    client: Client,
}

/// Holds for every kind of client before every kind of server.
async fn everywhere(check: impl AsyncFn(&mut Pair)) {
    for up in Upstream::ALL {
        let stage = Stage::set(up).await;
        for down in Downstream::ALL {
            check(&mut stage.pair(down).await).await;
        }
    }
}

/// Holds for every kind of client that is the only one before every kind of server.
async fn everywhere_alone(check: impl AsyncFn(&mut Pair)) {
    for up in Upstream::ALL {
        for down in Downstream::ALL {
            let stage = Stage::of(up, Gateway::builder(Fleet::builder()).for_one_client()).await;
            check(&mut stage.pair(down).await).await;
        }
    }
}

/// One server behind a gateway.
struct Stage {
    up: Upstream,
    scripted: Arc<ScriptedServer>,
    gateway: Gateway,
    address: SocketAddr,
    _serving: JoinSet<()>,
}

impl Stage {
    async fn set(up: Upstream) -> Self {
        Self::of(up, Gateway::builder(Fleet::builder())).await
    }

    async fn of(up: Upstream, builder: GatewayBuilder) -> Self {
        let (scripted, config) = up.start().await;
        let gateway = builder.start([config]);
        let server = gateway.fleet().server("one").unwrap();
        server.wait_connected(LONG).await.expect("connected");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serves = gateway.clone();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let served = serves.serve_http(listener, HttpDoor::new(), pending()).await;
            served.unwrap();
        });
        Self {
            up,
            scripted,
            gateway,
            address,
            _serving: serving,
        }
    }

    async fn pair(&self, down: Downstream) -> Pair {
        Pair {
            up: self.up,
            down,
            scripted: self.scripted.clone(),
            client: down.connect(&self.gateway, self.address).await,
        }
    }
}

impl Pair {
    /// The answer that the client of this pair gets for this result of its server.
    ///
    /// For a modern client the gateway adds that it is complete where the server does not say; and that it must not keep what it reads,
    /// for the same reason.
    fn answer(&self, method: &str, result: &str) -> String {
        let mut result = self.scripted.completed(result);
        if (self.up.era(), self.down.era()) == (Era::Legacy, Era::Modern) {
            let added = match method {
                "resources/read" => r#","resultType":"complete","ttlMs":0,"cacheScope":"private"}"#,
                _other => r#","resultType":"complete"}"#,
            };
            result.pop();
            result.push_str(added);
        }
        format!(r#"{{"jsonrpc":"2.0","id":"\u0069d","result":{result}}}"#)
    }

    /// The parameters that the server of this pair gets for these of its client, with this in their `_meta`.
    ///
    /// What a modern client says of itself goes no further than the gateway. The gateway adds what a modern server
    /// must know of its client, and how much that client wants logged. It also asks for progress.
    fn params(&self, params: &str, meta: &str) -> String {
        let added = match (self.up.era(), self.down.era()) {
            (Era::Legacy, _) => String::new(),
            (Era::Modern, Era::Legacy) => CLIENT_META.to_owned(),
            (Era::Modern, Era::Modern) => {
                format!(r#"{CLIENT_META},"io.modelcontextprotocol/logLevel":"debug""#)
            }
        };
        format!(r#"{{{params},"_meta":{{{meta}{added},"progressToken":#}}}}"#)
    }

    /// The parameters of the latest message of this method at the server, but for the number that the gateway gave it.
    fn received(&self, method: &str) -> String {
        let received = self.scripted.received(method);
        let (head, token) = received.rsplit_once(r#""progressToken":"#).expect("a token");
        let rest = token.trim_start_matches(|digit: char| digit.is_ascii_digit());
        format!(r#"{head}"progressToken":#{rest}"#)
    }
}

/// What the gateway says of a client to a modern server with each request: what the client can answer is passed on as it is.
const CLIENT_META: &str = concat!(
    r#","io.modelcontextprotocol/protocolVersion":"2026-07-28""#,
    r#","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"x-form":1.0}}"#,
    r#","io.modelcontextprotocol/clientInfo":{"name":"mainstay","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}"#
);

/// Shows where two long texts part.
#[track_caller]
fn assert_same(pair: &Pair, got: &str, expected: &str) {
    if got == expected {
        return;
    }
    let equal = got
        .chars()
        .zip(expected.chars())
        .take_while(|(got, expected)| got == expected)
        .count();
    let around = |text: &str| -> String { text.chars().skip(equal.saturating_sub(60)).take(260).collect() };
    panic!(
        "{:?} before {:?}, after {equal} equal characters:\n     got …{}\nexpected …{}",
        pair.down,
        pair.up,
        around(got),
        around(expected)
    );
}
