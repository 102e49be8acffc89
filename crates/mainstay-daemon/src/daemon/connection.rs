//! One connection: its first bytes say whether it is a bridge, a command, or a client of the control API.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mainstay::config::nearest;
use mainstay::gateway::{Introduction, introduced_as};
use mainstay_control::api::{Actor, ActorKind};
use mainstay_gateway::{ClientInput, Gateway, Scope, ServerWait, StreamEnd};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::admission::{CONNECTION_LIMIT, Newcomer};
use super::halves::{self, SocketReader, SocketWriter};
use super::listed::UnsharedServer;
use super::pool::{PoolKey, of_command, of_url};
use super::stream::{BridgeInput, PeekedStream};
use super::{Daemon, lock, seconds};
use crate::live;
use mainstay_bridge::hello::{
    Ask, BridgeStatus, ConnectRequest, EndOrder, EndReason, Goodbye, Hello, HelloRefusal, HelloReply,
    PROTOCOL, ProtocolNumber, ServerRequestKind, Share, VERSION, line,
};

/// How long a connection may take to say what it wants.
const FIRST_LINE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a bridge may take to read a line that the daemon writes itself.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long running requests may take to finish after the host has closed its side.
const HOST_CLOSED_GRACE: Duration = Duration::from_secs(1);

/// What a bridge is connected to.
enum BridgeTarget {
    /// A server that bridges share, joined when the client has said who it is: a server that starts now receives its extensions.
    Shared(Box<SharedTarget>),
    /// A server of its own, started when its client has said who it is.
    Own(Box<mainstay::ServerConfig>),
    Configured(Scope),
}

struct SharedTarget {
    key: PoolKey,
    share: Share,
    config: mainstay::ServerConfig,
}

impl BridgeTarget {
    fn shared(key: PoolKey, share: Share, config: mainstay::ServerConfig) -> Self {
        Self::Shared(Box::new(SharedTarget { key, share, config }))
    }
}

/// What a connection begins with.
pub(super) enum ConnectionStart {
    /// It ended, or said nothing in time.
    Nothing,
    /// A client of the control API.
    Control(PeekedStream),
    /// The first line of a bridge or a command.
    Line(PeekedStream, Vec<u8>),
    /// A first line that is too long, or did not come in time.
    Unfinished(PeekedStream),
}

impl ConnectionStart {
    /// Reads it.
    ///
    /// Cancel safety: not safe, what was read is lost.
    pub(super) async fn read(stream: UnixStream) -> Self {
        let Ok(Ok(Some(mut stream))) = timeout(FIRST_LINE_TIMEOUT, PeekedStream::peek(stream)).await else {
            return Self::Nothing;
        };
        if stream.first_byte() != Some(b'{') {
            return Self::Control(stream);
        }
        match timeout(FIRST_LINE_TIMEOUT, stream.read_line()).await {
            Ok(Ok(line)) => Self::Line(stream, line),
            Ok(Err(_)) | Err(_) => Self::Unfinished(stream),
        }
    }
}

impl Daemon {
    pub(super) async fn serve(self: &Arc<Self>, stream: UnixStream, newcomer: Newcomer) {
        let peer = stream.peer_cred();
        let user = rustix::process::geteuid().as_raw();
        match &peer {
            Ok(peer) if peer.uid() == user => {}
            Ok(peer) => {
                tracing::warn!(user = peer.uid(), "a connection of another user is refused");
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "a connection is refused: its user is not known");
                return;
            }
        }
        let pid = peer.ok().and_then(|peer| peer.pid());
        let Some((introduction, _place)) = newcomer.introduced(ConnectionStart::read(stream)).await else {
            tracing::debug!(?pid, "a connection that says nothing made room for newer ones");
            return;
        };
        match introduction {
            ConnectionStart::Nothing => {}
            ConnectionStart::Control(stream) => self.serve_control(stream).await,
            ConnectionStart::Line(stream, first) => self.serve_hello(stream, &first, pid).await,
            ConnectionStart::Unfinished(mut stream) => {
                let refusal =
                    HelloRefusal::new("the first line is too long, or did not come in time", UPGRADE);
                write(stream.get_mut(), &line(&HelloReply::refused(refusal))).await;
            }
        }
    }

    async fn serve_control(&self, stream: PeekedStream) {
        let mut ending = self.ending.subscribe();
        tokio::select! {
            () = self.control.serve_connection(stream) => {}
            _ = ending.wait_for(Option::is_some) => {}
        }
    }

    async fn serve_hello(self: &Arc<Self>, mut stream: PeekedStream, first: &[u8], pid: Option<i32>) {
        match read_hello(first) {
            Ok(HelloRequest::Connect(request)) => self.serve_bridge(stream, *request, pid).await,
            Ok(HelloRequest::Ask(Ask::Status)) => {
                let reply = HelloReply::status(self.status());
                write(stream.get_mut(), &line(&reply)).await;
            }
            Ok(HelloRequest::Ask(Ask::Stop)) => self.serve_stop(stream, EndReason::Stop).await,
            Ok(HelloRequest::Ask(Ask::Restart)) => self.serve_stop(stream, EndReason::Restart).await,
            Err(refusal) => write(stream.get_mut(), &line(&HelloReply::refused(refusal))).await,
        }
    }

    /// Ends the daemon. The command waits for the end of its connection, which is the end of the process.
    async fn serve_stop(&self, mut stream: PeekedStream, reason: EndReason) {
        let command = match reason {
            EndReason::Restart => "daemon restart",
            EndReason::Stop | EndReason::Idle => "daemon stop",
        };
        let mut by = Actor::via(ActorKind::Command);
        by.who = Some(format!("uid {}", rustix::process::geteuid().as_raw()));
        self.control.record_command(command, by);
        write(stream.get_mut(), &line(&HelloReply::connected(None))).await;
        let (_, stream) = stream.into_parts();
        lock(&self.waiting).push(stream);
        self.asked.send_if_modified(|asked| {
            let is_first = asked.is_none();
            asked.get_or_insert(reason);
            is_first
        });
    }

    async fn serve_bridge(
        self: &Arc<Self>,
        mut stream: PeekedStream,
        request: ConnectRequest,
        pid: Option<i32>,
    ) {
        let serves = match self.find(&request).await {
            Ok(serves) => serves,
            Err(refusal) => return write(stream.get_mut(), &line(&HelloReply::refused(refusal))).await,
        };
        let name = match &serves {
            BridgeTarget::Shared(shared) => Some(shared.config.name().to_owned()),
            BridgeTarget::Own(config) => Some(config.name().to_owned()),
            BridgeTarget::Configured(Scope::Server(name)) => Some(name.to_string()),
            BridgeTarget::Configured(Scope::Union) => None,
        };
        write(stream.get_mut(), &line(&HelloReply::connected(name.as_deref()))).await;
        let _connected = self.connected(pid, name);
        let (head, stream) = stream.into_parts();
        let Ok((input, output)) = halves::split(stream) else {
            // Out of descriptors: the bridge sees the end of its connection and dials again.
            return;
        };
        let input = BridgeInput::new(head, input, self.ending.subscribe());
        let wait = ServerWait {
            limit: request.wait_ms.map(Duration::from_millis),
            whole_first_start: request.resumes,
        };
        let end = match serves {
            BridgeTarget::Shared(shared) => self.serve_shared(*shared, input, output, wait).await,
            BridgeTarget::Configured(scope) => {
                self.serve_on(&self.configured, scope, input, output, wait).await
            }
            BridgeTarget::Own(config) => self.serve_own(*config, input, output, wait).await,
        };
        self.say_goodbye(end).await;
    }

    /// Serves a bridge on a server that it shares with others.
    async fn serve_shared(
        self: &Arc<Self>,
        shared: SharedTarget,
        input: BridgeInput<SocketReader>,
        output: SocketWriter,
        wait: ServerWait,
    ) -> StreamEnd<SocketWriter> {
        let Some(input) = ClientInput::wait_for_request(input).await else {
            return nothing_asked(output);
        };
        let extensions = input.introduction().and_then(Introduction::extensions);
        let SharedTarget { key, share, config } = shared;
        let member = self.pool.join(key, share, config, extensions).await;
        let scope = Scope::Server(member.name.clone());
        self.serve_on(&member.gateway, scope, input, output, wait).await
    }

    /// Serves a bridge on a server of its own, which meets the bridge's client.
    async fn serve_own(
        self: &Arc<Self>,
        config: mainstay::ServerConfig,
        input: BridgeInput<SocketReader>,
        output: SocketWriter,
        wait: ServerWait,
    ) -> StreamEnd<SocketWriter> {
        let Some(input) = ClientInput::wait_for_request(input).await else {
            return nothing_asked(output);
        };
        let mut fleet = self.settings.gateways.fleets.clone();
        if let Some(introduction) = input.introduction() {
            fleet = introduced_as(fleet, introduction.clone());
        }
        let config = self.live.host_switches().applied_to(config);
        let switch_key = live::key(&config);
        let scope = Scope::Server(config.name().into());
        let name = config.name().to_owned();
        let gateway = self.settings.gateways.of(&config, fleet);
        let gateway = gateway.for_one_client().start([config]);
        let own = UnsharedServer::new(self, self.listing.add(&name, &switch_key, &gateway), &gateway);
        let end = self.serve_on(&gateway, scope, input, output, wait).await;
        gateway.close(self.settings.stop_within).await;
        drop(own);
        end
    }

    async fn serve_on<R>(
        &self,
        gateway: &Gateway,
        scope: Scope,
        input: R,
        output: SocketWriter,
        wait: ServerWait,
    ) -> StreamEnd<SocketWriter>
    where
        R: tokio::io::AsyncRead + Send + Unpin,
    {
        let grace = || match *self.ending.borrow() {
            Some(_) => self.settings.drain,
            None => HOST_CLOSED_GRACE,
        };
        gateway.serve_stream(scope, input, output, wait, grace).await
    }

    /// Says why the connection ends, if the daemon ends it.
    async fn say_goodbye(&self, end: StreamEnd<SocketWriter>) {
        let reason = *self.ending.borrow();
        if let (Some(reason), Some(mut output)) = (reason, end.output) {
            write(&mut output, &line(&Goodbye::new(reason, end.is_all_answered))).await;
        }
    }

    /// Finds or starts what a bridge wants.
    async fn find(self: &Arc<Self>, request: &ConnectRequest) -> Result<BridgeTarget, HelloRefusal> {
        let roots = match request.share {
            Share::Roots => Some(request.roots.clone().unwrap_or_default()),
            Share::Yes | Share::Never => None,
        };
        match &request.server {
            ServerRequestKind::Command(server) if request.share == Share::Never => {
                of_command(server).map(|config| BridgeTarget::Own(Box::new(config)))
            }
            ServerRequestKind::Url(server) if request.share == Share::Never => {
                of_url(server).map(|config| BridgeTarget::Own(Box::new(config)))
            }
            ServerRequestKind::Command(server) => {
                let key = PoolKey::of_command(server, roots);
                Ok(BridgeTarget::shared(key, request.share, of_command(server)?))
            }
            ServerRequestKind::Url(server) => {
                let key = PoolKey::of_url(server, roots);
                Ok(BridgeTarget::shared(key, request.share, of_url(server)?))
            }
            ServerRequestKind::Configured(name) => {
                self.check_configuration(request)?;
                let gateway = self.configured().await;
                if gateway.fleet().server(name).is_none() {
                    return Err(unknown(gateway, name));
                }
                Ok(BridgeTarget::Configured(Scope::Server(name.as_str().into())))
            }
            ServerRequestKind::Union => {
                self.check_configuration(request)?;
                self.configured().await;
                Ok(BridgeTarget::Configured(Scope::Union))
            }
        }
    }

    /// Refuses a bridge that names another configuration, and every bridge if the daemon's own cannot be used.
    fn check_configuration(&self, request: &ConnectRequest) -> Result<(), HelloRefusal> {
        if let Some(why) = self.live.unusable() {
            return Err(HelloRefusal::new(
                format!("the daemon's configuration cannot be used ({why})"),
                "fix it: the daemon reads it again when it changes",
            ));
        }
        let own = self.live.file();
        let Some(wanted) = request.config.as_deref() else {
            return Ok(());
        };
        if own == Some(Path::new(wanted)) {
            return Ok(());
        }
        let own = own.map_or_else(|| "no file".to_owned(), |path| path.display().to_string());
        Err(HelloRefusal::new(
            format!("the daemon uses {own}, and this bridge is to use {wanted}"),
            format!(
                "run `mainstay --config {wanted} daemon restart`, or set MAINSTAY_RUNTIME for a daemon of its own"
            ),
        ))
    }

    fn connected(self: &Arc<Self>, pid: Option<i32>, server: Option<String>) -> Connected {
        let mut bridges = lock(&self.bridges);
        bridges.last += 1;
        let number = bridges.last;
        let status = BridgeStatus {
            pid,
            server,
            since: seconds(SystemTime::now()),
        };
        bridges.connected.insert(number, status);
        Connected {
            daemon: self.clone(),
            number,
        }
    }
}

/// A bridge in the status, as long as this lives.
struct Connected {
    daemon: Arc<Daemon>,
    number: u64,
}

impl Drop for Connected {
    fn drop(&mut self) {
        lock(&self.daemon.bridges).connected.remove(&self.number);
    }
}

/// The end of a client that left before its first request.
fn nothing_asked(output: SocketWriter) -> StreamEnd<SocketWriter> {
    StreamEnd {
        is_all_answered: true,
        output: Some(output),
    }
}

/// What a connection wants.
enum HelloRequest {
    Connect(Box<ConnectRequest>),
    Ask(Ask),
}

const UPGRADE: &str = "run `mainstay daemon restart` with the newer of the two programs";

fn read_hello(first: &[u8]) -> Result<HelloRequest, HelloRefusal> {
    let number: ProtocolNumber = serde_json::from_slice(first).map_err(|_| {
        HelloRefusal::new(
            "the first line is no introduction of a bridge",
            "connect with `mainstay connect`",
        )
    })?;
    let other = || {
        let what = format!(
            "the bridge speaks protocol {}, and the daemon, version {VERSION}, speaks protocol {PROTOCOL}",
            number.mainstay
        );
        HelloRefusal::new(what, UPGRADE)
    };
    if number.mainstay != PROTOCOL {
        return match serde_json::from_slice(first) {
            Ok(EndOrder {
                ask: ask @ (Ask::Stop | Ask::Restart),
            }) => Ok(HelloRequest::Ask(ask)),
            Ok(EndOrder { ask: Ask::Status }) | Err(_) => Err(other()),
        };
    }
    let hello: Hello = serde_json::from_slice(first).map_err(|error| {
        // The error names members and types, and no values.
        let category = error.classify();
        HelloRefusal::new(
            format!("the daemon, version {VERSION}, does not understand the first line ({category:?})"),
            UPGRADE,
        )
    })?;
    match (hello.connect, hello.ask) {
        (Some(request), _) => Ok(HelloRequest::Connect(Box::new(request))),
        (None, Some(ask)) => Ok(HelloRequest::Ask(ask)),
        (None, None) => Err(HelloRefusal::new(
            format!("the daemon, version {VERSION}, does not know what the first line asks for"),
            UPGRADE,
        )),
    }
}

fn unknown(gateway: &Gateway, name: &str) -> HelloRefusal {
    let servers = gateway.fleet().servers();
    let known = || servers.iter().map(mainstay::Server::name);
    let what = format!("the daemon's configuration has no server {name:?}");
    match nearest(name, known()) {
        Some(meant) => HelloRefusal::new(what, format!("did you mean {meant:?}?")),
        None => {
            let known: Vec<_> = known().collect();
            HelloRefusal::new(what, format!("there is: {}", known.join(", ")))
        }
    }
}

/// Refuses a connection for which there is no room. A new socket has room for the line.
pub(super) fn refuse_for_room(stream: &UnixStream) {
    let refusal = HelloRefusal::new(
        format!(
            "the daemon has no room: {CONNECTION_LIMIT} connections are the most, and each server of each host takes one"
        ),
        "close hosts that you do not need, or give some of them a daemon of their own with MAINSTAY_RUNTIME",
    );
    let _ = stream.try_write(&line(&HelloReply::refused(refusal)));
}

async fn write(output: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) {
    let _ = timeout(WRITE_TIMEOUT, output.write_all(bytes)).await;
}
