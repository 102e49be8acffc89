//! The daemon: accepts bridges on its socket, and keeps the servers that they share.
//!
//! `page` opens the dashboard, `place` makes it the only one, `connection` serves one connection, `pool` holds the servers that bridges asked for, `users` decides when
//! the daemon is idle. The end is always the same: no new connections, running calls finish within the drain time, each bridge gets a
//! last line, the servers stop, the lock is released.

mod connection;
mod halves;
mod listed;
mod page;
mod place;
mod pool;
mod socket_watch;
mod stream;
mod users;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mainstay::Fleet;
use mainstay::config::Secret;
use mainstay::recorder::RecorderOptions;
use mainstay::transport::http::CredentialSource;
use mainstay_control::{Control, ControlService, Role};
use mainstay_gateway::Gateway;
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{OnceCell, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::live::{LiveConfiguration, LiveEvent, LiveReport, LiveStart, ReloadJournal};
use listed::ServerListing;
use mainstay_bridge::hello::{BridgeStatus, DaemonStatus, EndReason, Share, SharedServerStatus, VERSION};
use mainstay_bridge::{StartReport, bound_log};
use page::PagePlace;
pub use place::{Place, PlaceError};
use pool::{HostGateways, ServerPool, state_of};
use socket_watch::SocketWatch;
use users::Users;

/// Connections at once. Each is a process of this user.
const CONNECTION_LIMIT: usize = 4096;
/// The pause after a connection could not be accepted, for lack of descriptors for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How much longer than the drain time the connections may take to end.
const DRAIN_GRACE: Duration = Duration::from_secs(3);

/// What a daemon is made with.
pub struct DaemonSettings {
    /// Its configuration.
    pub configuration: DaemonConfiguration,
    /// Whether the servers of the configuration start with the daemon. Otherwise they start when the first bridge wants one of them.
    pub starts_configured: bool,
    /// Where catalogs are stored.
    pub store: Option<PathBuf>,
    /// Where servers get their credentials from whose configuration has none.
    pub credential_source: Option<Arc<dyn CredentialSource>>,
    /// Names the command that logs in to a server, by the server's name or its address.
    pub login_command: Option<LoginCommand>,
    /// The daemon ends when it was not used for this long; `None`: never.
    pub idle: Option<Duration>,
    /// How long a server runs after the last bridge that asked for it has left.
    pub linger: Duration,
    /// How long running calls may take when the daemon ends.
    pub drain: Duration,
    /// How long the servers may take to stop when the daemon ends.
    pub stop_within: Duration,
    /// What is recorded of the messages of each server.
    pub recorder: RecorderOptions,
    /// The token that the dashboard's logins are made from; `None`: no dashboard.
    pub page_token: Option<Secret>,
    /// Where the commands of people are kept; `None`: they are not.
    pub audit: Option<PathBuf>,
}

/// Names the command that logs in to the server of a name, or at an address.
pub type LoginCommand = fn(&str) -> String;

/// The servers of the daemon's own.
pub struct DaemonConfiguration {
    /// The servers, and the file that they follow.
    pub live: LiveStart,
    /// Takes the reports about changes of the file.
    pub report: LiveReport,
}

/// A daemon that runs.
struct Daemon {
    settings: RunSettings,
    since: SystemTime,
    /// Whether a service manager made the socket.
    is_inherited: bool,
    pool: Arc<ServerPool>,
    live: LiveConfiguration,
    control: ControlService,
    page: Option<PagePlace>,
    listing: Arc<ServerListing>,
    /// The servers of the configuration.
    configured: Gateway,
    /// Set when the servers of the configuration were started.
    configured_started: OnceCell<()>,
    users: Users,
    bridges: Mutex<Bridges>,
    /// The servers that bridges have for themselves, by the names under which they are listed.
    own: Mutex<BTreeMap<Arc<str>, Gateway>>,
    /// Why the daemon ends, once it does.
    ending: watch::Sender<Option<EndReason>>,
    /// Set when the daemon is asked to end.
    asked: watch::Sender<Option<EndReason>>,
    /// The commands that wait for the end of the process.
    waiting: Mutex<Vec<UnixStream>>,
}

/// What is left of the settings when the daemon runs.
struct RunSettings {
    starts_configured: bool,
    idle: Option<Duration>,
    drain: Duration,
    stop_within: Duration,
    /// How the gateway of a bridge with a server of its own is made.
    gateways: HostGateways,
}

#[derive(Default)]
struct Bridges {
    last: u64,
    connected: BTreeMap<u64, BridgeStatus>,
}

/// Runs the daemon until it is stopped, replaced or idle.
///
/// Cancel safety: dropped, the connections end at once, and the servers are killed.
pub async fn run(place: Place, settings: DaemonSettings, report: StartReport) -> io::Result<EndReason> {
    let Place {
        directory, listener, ..
    } = &place;
    let listener = UnixListener::from_std(listener.try_clone()?)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // A terminal that the daemon was started in may close: that ends nothing.
    let hangup = signal(SignalKind::hangup())?;
    let log = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let daemon = Daemon::new(settings, &place, hangup);
    daemon.reopen_page().await;
    if daemon.settings.starts_configured {
        daemon.configured().await;
    }
    report.ready();
    tracing::info!(socket = %directory.socket().display(), "the daemon accepts connections");

    let socket = SocketWatch::new(directory.socket());
    let free_places = Arc::new(Semaphore::new(CONNECTION_LIMIT));
    let mut connections = JoinSet::new();
    let mut asked = daemon.asked.subscribe();
    let reason = {
        let idle = daemon.users.wait_idle(daemon.settings.idle);
        tokio::pin!(idle);
        loop {
            tokio::select! {
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let _ = bound_log(&log);
                        let Ok(place) = free_places.clone().try_acquire_owned() else {
                            tracing::warn!(limit = CONNECTION_LIMIT, "a connection is refused: there are too many");
                            connection::refuse_for_room(&stream);
                            continue;
                        };
                        let (daemon, in_use) = (daemon.clone(), daemon.users.enter());
                        connections.spawn(async move {
                            daemon.serve(stream).await;
                            drop((place, in_use));
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection cannot be accepted");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                () = &mut idle => break EndReason::Idle,
                () = socket.lost() => {
                    tracing::warn!("the socket was removed: no bridge can find this daemon");
                    break EndReason::Stop;
                }
                _ = terminate.recv() => break EndReason::Stop,
                _ = interrupt.recv() => break EndReason::Stop,
                Ok(asked) = asked.wait_for(Option::is_some) => break asked.unwrap_or(EndReason::Stop),
            }
        }
    };
    // No bridge finds it from here on. One that is connecting gets the end of the connection, and finds or starts the next daemon.
    // A service manager keeps its own socket: connections wait there until it starts the next daemon.
    if !place.is_inherited && socket.is_there() {
        let _ = fs::remove_file(directory.socket());
    }
    drop(listener);
    tracing::info!(?reason, "the daemon ends");
    let ordered_again = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    daemon.end(reason, connections, ordered_again).await;
    drop(place);
    Ok(reason)
}

impl Daemon {
    fn new(settings: DaemonSettings, place: &Place, hangup: Signal) -> Arc<Self> {
        let DaemonSettings {
            configuration,
            starts_configured,
            store,
            credential_source,
            login_command,
            idle,
            linger,
            drain,
            stop_within,
            recorder,
            page_token,
            audit,
        } = settings;
        let users = Users::new();
        let fleets = Fleet::builder().measured().recorder(recorder);
        let fleets = match &store {
            Some(store) => fleets.store(store),
            None => fleets,
        };
        let fleets = match credential_source {
            Some(source) => fleets.credential_source(source),
            None => fleets,
        };
        let configured = match login_command {
            Some(command) => Gateway::builder(fleets.clone()).login_command(command),
            None => Gateway::builder(fleets.clone()),
        };
        let configured = configured.start([]);
        let gateways = HostGateways {
            fleets,
            login_command,
        };
        let journal = ReloadJournal::default();
        let DaemonConfiguration { live, report } = configuration;
        let report = {
            let journal = journal.clone();
            move |event: LiveEvent<'_>| {
                journal.record(&event);
                report(event);
            }
        };
        let live = live.dormant();
        // The demo server, which stands in for a missing file, starts when a host wants it.
        let (starts_configured, live) = match starts_configured && live.stands_in() {
            true => (false, live.waking_with_file()),
            false => (starts_configured, live),
        };
        let live = live.follow(configured.clone(), Some(hangup), report);
        let control = Control::builder(Role::Daemon).audit(audit);
        let control = control.controlled(Arc::new(live.clone())).build();
        journal.bind(&control);
        let listing = ServerListing::new(control.clone(), configured.clone());
        let pool = ServerPool::new(
            gateways.clone(),
            linger,
            users.clone(),
            listing.clone(),
            live.host_switches().clone(),
        );
        let page = page_token.map(|token| PagePlace::new(token, &place.directory));
        Arc::new_cyclic(|daemon| Self {
            settings: RunSettings {
                starts_configured,
                idle,
                drain,
                stop_within,
                gateways,
            },
            since: SystemTime::now(),
            is_inherited: place.is_inherited,
            pool,
            live,
            control: match &page {
                Some(page) => page.service(&control, daemon.clone()),
                None => ControlService::new(&control),
            },
            page,
            listing,
            configured,
            configured_started: OnceCell::new(),
            users,
            bridges: Mutex::default(),
            own: Mutex::default(),
            ending: watch::Sender::new(None),
            asked: watch::Sender::new(None),
            waiting: Mutex::default(),
        })
    }

    /// The gateway of the configured servers, which are started if they are not yet.
    async fn configured(&self) -> &Gateway {
        self.configured_started.get_or_init(|| self.live.start()).await;
        &self.configured
    }

    /// Lets calls finish, unless it is `ordered_again` to end, and stops the servers.
    async fn end(
        &self,
        reason: EndReason,
        mut connections: JoinSet<()>,
        ordered_again: impl Future<Output = ()>,
    ) {
        self.ending.send_replace(Some(reason));
        let ended = async { while connections.join_next().await.is_some() {} };
        let limit = self.settings.drain.saturating_add(DRAIN_GRACE);
        tokio::select! {
            _ = timeout(limit, ended) => {}
            () = ordered_again => tracing::warn!("a second signal: calls that run are cut"),
        }
        connections.shutdown().await;
        let within = self.settings.stop_within;
        tokio::join!(self.pool.close(within), self.configured.close(within));
    }

    fn status(&self) -> DaemonStatus {
        let bridges: Vec<BridgeStatus> = lock(&self.bridges).connected.values().cloned().collect();
        let mut servers = self.pool.status();
        let configured = self.configured.fleet().servers();
        servers.extend(configured.iter().map(|server| SharedServerStatus {
            name: server.name().to_owned(),
            state: server.status().state.to_string(),
            configured: true,
            share: Share::Yes,
            bridges: 0,
        }));
        servers.extend(lock(&self.own).iter().map(|(name, gateway)| SharedServerStatus {
            name: name.to_string(),
            state: state_of(gateway),
            configured: false,
            share: Share::Never,
            bridges: 1,
        }));
        servers.sort_by(|one, other| one.name.cmp(&other.name));
        DaemonStatus {
            pid: std::process::id(),
            version: VERSION.to_owned(),
            since: seconds(self.since),
            inherited: self.is_inherited,
            config: self.live.file().map(|path| path.display().to_string()),
            config_missing: self.live.is_missing(),
            config_problem: self.live.problem().map(|problem| problem.to_string()),
            bridges,
            servers,
        }
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
