//! `mainstay serve`: all servers as one MCP server, over HTTP or on standard input and output.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context as _, anyhow};
use mainstay::config::Target;
use mainstay::fleet::StartupError;
use mainstay::gateway::{Introduction, introduced_as};
use mainstay::recorder::RecorderOptions;
use mainstay::{CallError, Fleet};
use mainstay_gateway::{ClientInput, Gateway, GatewayBuilder, HttpDoor, Scope};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::admin::Admin;
use crate::args::{Common, ServeArgs};
use crate::exit::{CommandFailure, Done, Exit};
use crate::live::FollowedConfig;
use crate::load::{Setup, load};
use crate::login;
use crate::logins;
use crate::otlp;
use crate::output::{Screen, count, text};
use crate::run::{Signals, say_late};
use crate::server_stderr::Passing;
use crate::standard::{self, EndsEarly, StandardInput};
use crate::tokens::{FollowedTokens, tokens};
use crate::watchdog;

/// Threads that serve. Payloads are not parsed, so a few carry more than a network does.
const MAX_WORKERS: usize = 8;

/// How long a shutdown by a signal may take on stdin and stdout before the program reports it: longer than the last answers and the
/// servers take by default.
const SILENT_END_LIMIT: Duration = Duration::from_secs(2);

pub(crate) fn run(arguments: &ServeArgs, common: &Common, screen: &Screen) -> Done {
    if arguments.stdio {
        let setup = load(common)?;
        setup.announce(screen);
        let meets = Meets::Gateway {
            required_within: arguments.required_within,
        };
        return serve_stdio(&setup, Scope::Union, meets, arguments.max_isolated, screen);
    }
    // Before anything is started: a mistake at the door must not cost the servers a start.
    let door = door(arguments, screen)?;
    door.check(arguments.listen).map_err(|error| {
        CommandFailure::usage(anyhow!(
            "{error}: give one with --token-file or --token-env, or listen on 127.0.0.1"
        ))
    })?;
    let (door, admin) = Admin::open(arguments, door)?;
    let setup = load(common)?;
    setup.announce(screen);
    let runtime = serving_runtime()?;
    let done = runtime.block_on(serve_http(&setup, arguments, door, admin.as_ref(), screen));
    runtime.block_on(otlp::finish());
    runtime.block_on(logins::finish());
    runtime.shutdown_background();
    done
}

/// Which client the servers see.
#[derive(Clone, Copy)]
pub(crate) enum Meets {
    /// The gateway: they are started at once, and shared by all clients.
    Gateway {
        /// How long required servers may take to come up.
        required_within: Duration,
    },
    /// The one client on stdin: they are started when it has said who it is.
    Client(PassesStderr),
}

/// What becomes of what a wrapped server writes to stderr, beside being kept for messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PassesStderr {
    No,
    Yes,
    /// With the server's name before each line.
    Prefixed,
}

/// Serves one client on stdin and stdout, and closes the servers when it is gone.
pub(crate) fn serve_stdio(
    setup: &Setup,
    scope: Scope,
    meets: Meets,
    max_isolated: usize,
    screen: &Screen,
) -> Done {
    // One thread: with one client, several would mostly wake each other.
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CommandFailure::failed)?;
    let done = runtime.block_on(serve_host(setup, scope, meets, max_isolated, screen));
    runtime.block_on(otlp::finish());
    runtime.block_on(logins::finish());
    runtime.shutdown_background();
    done
}

/// A signal is the end of the input: what runs has as long as when the host closes it, and nothing new begins.
async fn serve_host(setup: &Setup, scope: Scope, meets: Meets, max_isolated: usize, screen: &Screen) -> Done {
    let mut signals = Signals::listen()?;
    otlp::start();
    // A host that is gone needs no wrapped server.
    let live = match meets {
        Meets::Gateway { .. } => Some(FollowedConfig::prepare(setup, screen)?),
        Meets::Client(_) => None,
    };
    let arrived = tokio::select! {
        arrived = arrived(meets) => arrived,
        exit = signals.next() => return Ok(exit),
    };
    let Some((input, introduction)) = arrived else {
        return Ok(Exit::Success);
    };
    // There is no control API here that could return a recording.
    let gateway = gateway(setup, max_isolated, introduction, RecorderOptions::off()).for_one_client();
    let servers = live
        .as_ref()
        .map_or_else(|| setup.servers.clone(), FollowedConfig::servers);
    let gateway = gateway.start(servers);
    let passing = pass_stderr(&gateway, &scope, meets);
    if let Meets::Gateway { required_within } = meets {
        let waited = required_are_up(&gateway, required_within, &mut signals).await;
        if let Some(done) = waited {
            say_late(&gateway.close(setup.stop_within).await, screen);
            return done;
        }
    }
    let _live = live.map(|live| live.follow(&gateway, None, None, screen));
    let (end_input, end) = oneshot::channel();
    let input = EndsEarly::new(input, end);
    let mut served = pin!(gateway.serve_stdio(scope, input, standard::output()));
    let exit = tokio::select! {
        () = &mut served => None,
        exit = signals.next() => Some(exit),
    };
    let closing = async {
        if exit.is_some() {
            let _ = end_input.send(());
            served.await;
        }
        let report = gateway.close(setup.stop_within).await;
        if let Some(passing) = passing {
            passing.finish().await;
        }
        say_late(&report, screen);
    };
    let mut closing = pin!(closing);
    // Hosts end their servers so, and put what those say into their logs as errors: only an end that takes long is worth a word.
    let closed = tokio::select! {
        () = &mut closing => true,
        () = sleep(SILENT_END_LIMIT), if exit.is_some() => false,
        exit = signals.next() => return Ok(exit),
    };
    if !closed {
        screen.note("stopping the servers; interrupt once more to force");
        tokio::select! {
            () = closing => {}
            exit = signals.next() => return Ok(exit),
        }
    }
    Ok(exit.unwrap_or(Exit::Success))
}

/// Passes the wrapped server's stderr on. It subscribes before the first await, so that no line is missed.
fn pass_stderr(gateway: &Gateway, scope: &Scope, meets: Meets) -> Option<Passing> {
    let (Scope::Server(name), Meets::Client(passes)) = (scope, meets) else {
        return None;
    };
    let prefixed = match passes {
        PassesStderr::No => return None,
        PassesStderr::Yes => false,
        PassesStderr::Prefixed => true,
    };
    Passing::start(&gateway.fleet().server(name)?, prefixed)
}

/// The input of the client, and its introduction to the servers; `None` if it left before its first request.
async fn arrived(meets: Meets) -> Option<(StandardInput, Option<Introduction>)> {
    let input = standard::input();
    match meets {
        Meets::Gateway { .. } => Some((input, None)),
        Meets::Client(_) => {
            let client = ClientInput::wait_for_request(input).await?;
            let introduction = client.introduction().cloned();
            Some((Box::new(client), introduction))
        }
    }
}

/// Serves clients over HTTP until a signal comes; lets running calls finish then, unless a second one comes.
async fn serve_http(
    setup: &Setup,
    arguments: &ServeArgs,
    door: HttpDoor,
    admin: Option<&Admin>,
    screen: &Screen,
) -> Done {
    let mut signals = Signals::listen()?;
    otlp::start();
    let live = FollowedConfig::prepare(setup, screen)?;
    let listener = TcpListener::bind(arguments.listen).await;
    let listener = listener.map_err(|error| cannot_listen(arguments.listen, &error))?;
    let address = listener.local_addr().map_err(CommandFailure::failed)?;
    let scheme = if arguments.tls_cert.is_some() {
        "https"
    } else {
        "http"
    };
    let mut gateway = gateway(setup, arguments.max_isolated, None, recorder(arguments.record));
    if admin.is_some() {
        gateway = gateway.measured();
    }
    if arguments.log_payloads {
        gateway = gateway.log_payloads();
    }
    if let Some(most) = arguments.max_isolated_per_client {
        gateway = gateway.max_isolated_per_client(most);
    }
    gateway = gateway.max_held(bytes(arguments.client_memory));
    if let Some(most) = arguments.client_memory_per_client {
        gateway = gateway.max_held_per_client(bytes(most));
    }
    let servers = live.servers();
    let server_count = servers.len();
    let events = gateway.events();
    let gateway = gateway.start(servers);
    let _attached = admin.map(|admin| admin.attach(&gateway, events));
    let waited = required_are_up(&gateway, arguments.required_within, &mut signals).await;
    if let Some(done) = waited {
        say_late(&gateway.close(setup.stop_within).await, screen);
        return done;
    }
    screen.note(text!(
        "serving {} at {}://{}/mcp",
        count(server_count, "server"),
        scheme,
        address
    ));
    if let Some(admin) = admin {
        let notes = admin.announcements(&format!("{scheme}://{address}"));
        notes.into_iter().for_each(|note| screen.note(note));
    }
    watchdog::ready();
    let tokens = arguments.token_file.as_deref();
    let tokens = tokens.map(|file| FollowedTokens::follow(file, door.tokens(), screen));
    let live = live.follow(&gateway, admin.map(Admin::control), tokens, screen);
    if let Some(admin) = admin {
        admin.follows(&live);
    }
    let (begin_shutdown, shutdown) = oneshot::channel::<()>();
    let mut served = pin!(gateway.serve_http(listener, door, async {
        let _ = shutdown.await;
    }));
    let exit = tokio::select! {
        served = &mut served => return served.map(|()| Exit::Success).map_err(CommandFailure::failed),
        exit = signals.next() => exit,
    };
    screen.note("finishing what runs; interrupt once more to force");
    let _ = begin_shutdown.send(());
    let closing = async {
        let _ = served.await;
        say_late(&gateway.close(setup.stop_within).await, screen);
    };
    tokio::select! {
        () = closing => {}
        _ = signals.next() => {}
    }
    Ok(exit)
}

/// Waits for required servers; how the program ends, if they do not come up or a signal comes first.
async fn required_are_up(gateway: &Gateway, within: Duration, signals: &mut Signals) -> Option<Done> {
    tokio::select! {
        waited = gateway.fleet().wait_required(within) => waited.err().map(|error| Err(not_up(&error))),
        exit = signals.next() => Some(Ok(exit)),
    }
}

/// All required servers that did not come up, each with its reason on a line of its own.
fn not_up(error: &StartupError) -> CommandFailure {
    let count = error.0.len();
    let servers = if count == 1 { "server" } else { "servers" };
    let mut said = format!("{count} required {servers} did not come up");
    for (name, error) in &error.0 {
        said.push_str(&format!("\n  {name}: {}", reason(error)));
    }
    CommandFailure::failed(anyhow!(said))
}

/// Why a server did not come up. The wait for it is no news.
fn reason(error: &CallError) -> String {
    match error.not_connected() {
        Some(now) => match &now.last_error {
            Some(failure) => failure.to_string(),
            None => format!("still {} when the time was over", now.state),
        },
        None => error.to_string(),
    }
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> CommandFailure {
    let remedy = match error.kind() {
        io::ErrorKind::AddrInUse => {
            ": another program, perhaps another mainstay, uses this port; name another one with --listen"
        }
        io::ErrorKind::PermissionDenied => ": choose a port above 1023 with --listen",
        io::ErrorKind::AddrNotAvailable => {
            ": this machine has no such address; name one of its own with --listen"
        }
        _ => "",
    };
    CommandFailure::failed(anyhow!("cannot listen on {address}: {}{remedy}", error.kind()))
}

/// What is recorded, as `--record` says.
pub(crate) fn recorder(is_asked: bool) -> RecorderOptions {
    match is_asked {
        true => RecorderOptions::payloads(),
        false => RecorderOptions::heads(),
    }
}

/// So many MiB.
fn bytes(mib: NonZeroUsize) -> usize {
    mib.get().saturating_mul(1024 * 1024)
}

fn gateway(
    setup: &Setup,
    max_isolated: usize,
    introduction: Option<Introduction>,
    recorder: RecorderOptions,
) -> GatewayBuilder {
    let mut builder = Fleet::builder()
        .credential_source(logins::source())
        .recorder(recorder);
    if let Some(introduction) = introduction {
        builder = introduced_as(builder, introduction);
    }
    if let Some(store) = &setup.store {
        builder = builder.store(store);
    }
    let gateway = Gateway::builder(builder).max_isolated(max_isolated);
    match (setup.file(), &setup.servers[..]) {
        // No configuration has the server's name.
        (None, [server]) => match server.target() {
            Target::Http(target) => {
                let command = login::command(target.url().shown());
                gateway.login_command(move |_name| command.clone())
            }
            _ => gateway,
        },
        (_, _) => gateway.login_command(setup.login_command()),
    }
}

fn door(arguments: &ServeArgs, screen: &Screen) -> Result<HttpDoor, CommandFailure> {
    let connections = arguments.max_connections.get();
    let of_address = arguments.max_connections_per_address.map(NonZeroUsize::get);
    let sessions = arguments.max_sessions.get();
    let of_client = arguments.max_sessions_per_client.map(NonZeroUsize::get);
    let mut door = HttpDoor::new()
        .max_connections(connections, of_address.unwrap_or_else(|| connections.div_ceil(2)))
        .max_sessions(sessions, of_client.unwrap_or_else(|| share(sessions)))
        .access_log(arguments.access_log)
        .drain_within(arguments.drain);
    for token in tokens(arguments, screen).map_err(CommandFailure::usage)? {
        door = door.token(token);
    }
    if let Some(rate) = arguments.rate {
        door = door.rate(rate.get(), rate.get());
    }
    for host in &arguments.allow_host {
        door = door.allowed_host(host);
    }
    for origin in &arguments.allow_origin {
        door = door.allowed_origin(origin);
    }
    if let (Some(certificate), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) {
        door = door
            .tls(&read(certificate)?, &read(key)?)
            .map_err(CommandFailure::usage)?;
    }
    Ok(door)
}

/// How many of all sessions one client may have: so many that the others still find room when one takes all it may.
fn share(sessions: usize) -> usize {
    sessions.saturating_mul(2).div_ceil(5)
}

fn read(file: &Path) -> Result<Vec<u8>, CommandFailure> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()));
    bytes.map_err(CommandFailure::usage)
}

/// The runtime of a program that serves many clients.
pub(crate) fn serving_runtime() -> Result<Runtime, CommandFailure> {
    let runtime = match workers() {
        1 => Builder::new_current_thread().enable_all().build(),
        workers => Builder::new_multi_thread()
            .worker_threads(workers)
            .enable_all()
            .build(),
    };
    runtime.map_err(CommandFailure::failed)
}

/// Half of the processors, and no more than a few: a call through the gateway is a chain of wake-ups, and each that
/// crosses to another processor costs more than the work it wakes.
fn workers() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (processors / 2).clamp(1, MAX_WORKERS)
}
