//! How long the control API takes: the status of a thousand servers, events to ten watchers, and a scrape of 200 servers.
//!
//! `cargo bench -p mainstay-control`, or with `-- status`, `-- events` or `-- scrape` one of them. The servers are in memory and have
//! no processes.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Empty};
use hyper::Request;
use mainstay::transport::{Connecting, Connector, Limits, Lines, Transport};
use mainstay::{Fleet, ServerConfig};
use mainstay_control::api::{Actor, ActorKind, DesiredState, EventMessage};
use mainstay_control::{Control, ControlClient, ControlService, Role, ServerGroup};
use mainstay_gateway::Gateway;
use mainstay_testkit::Script;
use mainstay_testkit::memory::MemoryServer;
use tokio::net::UnixListener;

const SERVERS: usize = 1_000;
const ROUNDS: usize = 50;
const WATCHERS: usize = 10;
/// How often events are sent to the watchers, without and with one that reads nothing.
const EVENT_RUNS: usize = 3;
/// How many servers are switched in a run.
const EVENT_SERVERS: usize = 100;
/// How often each of them is disabled and enabled.
const EVENT_ROUNDS: usize = 20;
const WAIT: Duration = Duration::from_secs(120);

/// A server in memory.
struct InMemory;

impl Connector for InMemory {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async {
            let (near, remote) = tokio::io::duplex(64 * 1024);
            MemoryServer::spawn(remote, Script::new());
            let (reader, writer) = tokio::io::split(near);
            let lines: Box<dyn Transport> = Box::new(Lines::new(reader, writer, Limits::default()));
            Ok::<_, io::Error>(lines)
        })
    }
}

#[tokio::main]
async fn main() {
    let connector: Arc<dyn Connector> = Arc::new(InMemory);
    let names: Vec<String> = (0..SERVERS).map(|number| format!("server-{number:04}")).collect();
    let configs = names.iter().map(|name| {
        let config = ServerConfig::custom(name.as_str(), name.as_str(), connector.clone());
        config.build().expect("valid")
    });
    let gateway = Gateway::start(Fleet::builder(), configs);
    let settled = gateway.fleet().wait_settled(WAIT).await;
    assert_eq!(settled.up.len(), SERVERS);
    let control = Control::builder(Role::Serve).build();
    let _attached = control.attach(ServerGroup::configured(gateway.clone()));
    let service = ControlService::new(&control);
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let is_wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    if is_wanted("status") {
        status(&service).await;
    }
    if is_wanted("events") {
        events(&control, &service, &names).await;
    }
    gateway.close(Duration::from_secs(10)).await;
    if is_wanted("scrape") {
        scrape(&connector).await;
    }
}

const SCRAPED_SERVERS: usize = 200;
const SCRAPED_TOOLS: usize = 5;
const SCRAPE_LIMIT: Duration = Duration::from_millis(20);

/// A scrape of servers whose tools were called, from the request to the last byte, in the format that Prometheus asks for.
async fn scrape(connector: &Arc<dyn Connector>) {
    let names: Vec<String> = (0..SCRAPED_SERVERS)
        .map(|number| format!("server-{number:04}"))
        .collect();
    let configs = names.iter().map(|name| {
        let config = ServerConfig::custom(name.as_str(), name.as_str(), connector.clone());
        config.build().expect("valid")
    });
    let gateway = Gateway::start(Fleet::builder().measured(), configs);
    let settled = gateway.fleet().wait_settled(WAIT).await;
    assert_eq!(settled.up.len(), SCRAPED_SERVERS);
    for name in &names {
        let server = gateway.fleet().server(name).expect("configured");
        let catalog = server.catalog().expect("listed");
        for tool in catalog
            .items(mainstay::catalog::Kind::Tool)
            .iter()
            .take(SCRAPED_TOOLS)
        {
            // Some of the tools refuse such arguments, and count all the same.
            let call = server
                .call(tool.key(), &serde_json::json!({}))
                .timeout(Duration::from_millis(50));
            let _answered_or_not = call.await;
        }
    }
    let control = Control::builder(Role::Serve).build();
    let _attached = control.attach(ServerGroup::configured(gateway.clone()));
    let service = ControlService::new(&control);
    let (mut times, mut length) = (Vec::new(), 0);
    for _ in 0..ROUNDS {
        let request = Request::get("/metrics").header("accept", "application/openmetrics-text");
        let request = request.body(Empty::new()).expect("a request");
        let began = Instant::now();
        let answer = service.respond(request).await;
        assert_eq!(answer.status(), 200);
        length = answer
            .into_body()
            .collect()
            .await
            .expect("a body")
            .to_bytes()
            .len();
        times.push(began.elapsed());
    }
    times.sort_unstable();
    let (half, most) = (times[ROUNDS / 2], times[ROUNDS - 1]);
    println!(
        "scrape of {SCRAPED_SERVERS} servers: p50 {half:.1?}, longest {most:.1?}, {} KB",
        length / 1024
    );
    assert!(half <= SCRAPE_LIMIT, "a scrape takes {half:?}");
    gateway.close(Duration::from_secs(10)).await;
}

/// The answer to `GET /api/v1/servers`, from the request to the last byte.
async fn status(service: &ControlService) {
    let mut times = Vec::new();
    let mut length = 0;
    for _ in 0..ROUNDS {
        let request = Request::get("/api/v1/servers")
            .body(Empty::new())
            .expect("a request");
        let began = Instant::now();
        let answer = service.respond(request).await;
        assert_eq!(answer.status(), 200);
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        times.push(began.elapsed());
        length = body.len();
    }
    times.sort_unstable();
    let (half, most) = (times[ROUNDS / 2], times[ROUNDS - 1]);
    println!(
        "status of {SERVERS} servers: p50 {half:.1?}, longest {most:.1?}, {} KB",
        length / 1024
    );
    assert!(half <= Duration::from_millis(10), "the status takes {half:?}");
}

/// Events to ten watchers, without and with one more that reads nothing. It must slow no other: the ratio of the two rates says whether
/// it does. The runs alternate, so that a machine that grows slower shows in both, and each has servers of its own, since starts in a
/// row are limited.
async fn events(control: &Control, service: &ControlService, names: &[String]) {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let mut servers = names.chunks(EVENT_SERVERS);
    for _ in 0..EVENT_RUNS {
        for (rates, with_silent) in [(&mut without, false), (&mut with, true)] {
            let servers = servers.next().expect("enough servers");
            rates.push(events_run(control, service, servers, with_silent).await);
        }
    }
    let (without, with) = (middle(without), middle(with));
    println!(
        "{WATCHERS} watchers beside one that reads nothing: {with:.0} events a second; without it {without:.0}; ratio {:.2}",
        with / without
    );
}

fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Transitions of servers that are enabled and disabled, to ten watchers on a unix socket, each of which counts them. Returns the events
/// in a second.
async fn events_run(control: &Control, service: &ControlService, names: &[String], with_silent: bool) -> f64 {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let serving = service.clone();
    let accepting = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let serving = serving.clone();
            tokio::spawn(async move { serving.serve_connection(stream).await });
        }
    });
    let client = ControlClient::unix(&socket);
    let first = control.program().last_event;
    // The last event that the watchers are to see. Servers whose starts are limited go on changing for minutes, so there is no end to
    // wait for.
    let (end, until) = tokio::sync::watch::channel(u64::MAX);
    let mut watchers = Vec::new();
    for _ in 0..WATCHERS {
        let mut events = client.events(None, 0).await.expect("a stream");
        let mut until = until.clone();
        watchers.push(tokio::spawn(async move {
            // The stream begins with the next event, whichever that is: some may come between `first` and its opening.
            let (mut last_seen, mut read, mut lost) = (None, 0_u64, 0_u64);
            while last_seen.unwrap_or(first) < *until.borrow_and_update() {
                let message = tokio::select! {
                    message = events.next() => message.expect("open").expect("readable"),
                    _ = until.changed() => continue,
                };
                match message {
                    EventMessage::Event(record) => {
                        let expected = last_seen.map_or(record.sequence, |last| last + 1);
                        assert_eq!(record.sequence, expected, "an event is missing without a marker");
                        last_seen = Some(record.sequence);
                        read += 1;
                    }
                    EventMessage::Lagged(marker) => {
                        let missed = marker.lost.expect("the same run of the program");
                        last_seen = Some(last_seen.unwrap_or(first) + missed);
                        lost += missed;
                    }
                }
            }
            (read, lost, Instant::now())
        }));
    }
    let silent = match with_silent {
        true => Some(client.events(None, 0).await.expect("a stream")),
        false => None,
    };
    let began = Instant::now();
    for _ in 0..EVENT_ROUNDS {
        for name in names {
            for desired in [DesiredState::Disabled, DesiredState::Enabled] {
                let by = Actor::via(ActorKind::Api);
                control.set_desired(name, desired, by).await.expect("taken");
            }
        }
    }
    let took = began.elapsed();
    let last = control.program().last_event;
    end.send_replace(last);
    let sent = Instant::now();
    let (mut lost, mut latest) = (0, sent);
    for watcher in watchers {
        let (_, missed, at) = tokio::time::timeout(WAIT, watcher)
            .await
            .expect("every watcher gets the last event")
            .expect("no panic");
        lost += missed;
        latest = latest.max(at);
    }
    drop(silent);
    accepting.abort();
    let all = last - first;
    let rate = all as f64 / took.as_secs_f64();
    let beside = if with_silent {
        ", beside one that reads nothing"
    } else {
        ""
    };
    println!(
        "{all} events to {WATCHERS} watchers{beside}: {rate:.0} a second, the last watcher {:.1?} behind, {lost} reported as missed, none missing without a marker",
        latest - sent
    );
    rate
}
