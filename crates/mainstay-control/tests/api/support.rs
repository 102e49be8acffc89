//! A controlled gateway in front of servers in memory, with the API on a unix socket.

use std::path::PathBuf;
use std::sync::Arc;

use mainstay::{Fleet, ServerConfig};
use mainstay_control::api::{EventDetail, EventMessage, EventRecord};
use mainstay_control::{
    Attached, Control, ControlBuilder, ControlClient, ControlService, EventStream, Role, ServerGroup,
};
use mainstay_gateway::Gateway;
use mainstay_testkit::Script;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use mainstay_testkit::fleet::{LONG, Memory};

pub(crate) struct World {
    pub(crate) control: Control,
    pub(crate) gateway: Gateway,
    pub(crate) client: ControlClient,
    pub(crate) socket: PathBuf,
    pub(crate) service: ControlService,
    _attached: Attached,
    _directory: tempfile::TempDir,
}

impl World {
    /// These servers, all of them connected.
    pub(crate) async fn of(servers: &[(&str, &Arc<Memory>)]) -> Self {
        let configs = servers
            .iter()
            .map(|(name, memory)| memory.config(name).build().expect("valid"));
        let world = Self::with(Control::builder(Role::Serve), configs);
        for (name, _) in servers {
            let server = world.gateway.fleet().server(name).expect("configured");
            mainstay_testkit::fleet::connected(&server).await;
        }
        world
    }

    /// One server, `one`, with the built-in tools.
    pub(crate) async fn one() -> Self {
        Self::of(&[("one", &Memory::new(Script::new()))]).await
    }

    pub(crate) fn with(builder: ControlBuilder, servers: impl IntoIterator<Item = ServerConfig>) -> Self {
        let mut fleet = Fleet::builder().measured();
        let events = fleet.events();
        let gateway = Gateway::start(fleet, servers);
        let control = builder.build();
        let attached = control.attach(ServerGroup::configured(gateway.clone()).events(events));
        let service = ControlService::new(&control);
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("control.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let serving = service.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                tokio::spawn(async move { serving.serve_connection(stream).await });
            }
        });
        Self {
            client: ControlClient::unix(&socket).timeout(LONG),
            control,
            gateway,
            socket,
            service,
            _attached: attached,
            _directory: directory,
        }
    }

    /// The status and the JSON of the answer to a request that is written by hand.
    pub(crate) async fn raw(&self, request: &str) -> (u16, Value) {
        let stream = UnixStream::connect(&self.socket).await.expect("a connection");
        raw(stream, request).await
    }
}

/// Sends a request as it is, and reads the answer to its end.
pub(crate) async fn raw<S>(mut stream: S, request: &str) -> (u16, Value)
where
    S: AsyncReadExt + AsyncWriteExt + Unpin,
{
    // A request that is too long may be refused, and its connection closed, before all of it is written.
    let _refused_early = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let read = timeout(LONG, stream.read_to_end(&mut answer)).await;
    let _reset_after_the_answer = read.expect("an answer in time");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (
        status.expect("a status"),
        serde_json::from_str(body).unwrap_or(Value::Null),
    )
}

/// The next message of a stream.
pub(crate) async fn next(events: &mut EventStream) -> EventMessage {
    let next = timeout(LONG, events.next()).await.expect("an event in time");
    next.expect("the stream is open").expect("a readable event")
}

/// The next record of a stream.
pub(crate) async fn record(events: &mut EventStream) -> EventRecord {
    match next(events).await {
        EventMessage::Event(record) => *record,
        EventMessage::Lagged(marker) => panic!("{marker:?}"),
    }
}

/// The next record that `wanted` accepts.
pub(crate) async fn record_with(
    events: &mut EventStream,
    wanted: impl Fn(&EventDetail) -> bool,
) -> EventRecord {
    loop {
        let record = record(events).await;
        if wanted(&record.detail) {
            return record;
        }
    }
}
