//! Everything that a view shows, in one stream: a snapshot first, then events as they happen, and once a second the figures that
//! have no events.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use hyper::Response;
use hyper::header::HeaderMap;
use mainstay_gateway::MountBody;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::answer::stream_answer;
use super::stream::{HEARTBEAT, HEARTBEAT_INTERVAL, Pieces, STREAM_START, lagged, write_event};
use super::{ControlService, ServiceParts};
use crate::api::{ApiProblem, now_ms};
use crate::control::Hub;
use crate::journal::{JournalReader, JournalReading};
use crate::status;

/// How often the figures are looked at while a view is open.
const FIGURES_INTERVAL: Duration = Duration::from_secs(1);

/// Events in a snapshot: enough for the last hour of most programs.
const SNAPSHOT_EVENTS: u64 = 2000;

/// The figures of one moment, written as JSON once for all views.
pub(crate) struct ServerFigures {
    at_ms: u64,
    /// The servers by name.
    servers: Vec<(String, Bytes)>,
    sessions: Bytes,
}

/// Makes the figures for all views: one generator works while there is a view, and ends with the last one.
#[derive(Default)]
pub(crate) struct FiguresFeed {
    latest: watch::Sender<Option<Arc<ServerFigures>>>,
    generator: Mutex<Generator>,
}

#[derive(Default)]
struct Generator {
    views: usize,
    task: Option<AbortHandle>,
}

impl FiguresFeed {
    fn generator(&self) -> MutexGuard<'_, Generator> {
        self.generator.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A view that learns each new figures.
struct FiguresView {
    shared: Arc<ServiceParts>,
    figures: watch::Receiver<Option<Arc<ServerFigures>>>,
}

impl FiguresView {
    /// The first view starts the generator.
    fn open(shared: &Arc<ServiceParts>) -> Self {
        let feed = &shared.figures;
        let mut generator = feed.generator();
        generator.views += 1;
        if generator.task.is_none() {
            generator.task = Some(tokio::spawn(make_figures(shared.clone())).abort_handle());
        }
        Self {
            shared: shared.clone(),
            figures: feed.latest.subscribe(),
        }
    }

    /// The next figures.
    async fn next(&mut self) -> Option<Arc<ServerFigures>> {
        // The sender lives as long as this view.
        let _ = self.figures.changed().await;
        self.figures.borrow_and_update().clone()
    }
}

impl Drop for FiguresView {
    fn drop(&mut self) {
        let mut generator = self.shared.figures.generator();
        generator.views -= 1;
        if generator.views == 0
            && let Some(task) = generator.task.take()
        {
            task.abort();
        }
    }
}

/// Looks at the figures until it is aborted.
async fn make_figures(shared: Arc<ServiceParts>) {
    let mut ticks = interval(FIGURES_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let figures = ServerFigures::of(&shared.hub).await;
        shared.figures.latest.send_replace(Some(Arc::new(figures)));
    }
}

impl ServerFigures {
    async fn of(hub: &Arc<Hub>) -> Self {
        let list = hub.server_list(true).await;
        let servers = list.servers.into_iter().map(|server| {
            let json = json(&server);
            (server.name, json)
        });
        Self {
            at_ms: list.at_ms,
            servers: servers.collect(),
            sessions: json(&status::session_list(hub)),
        }
    }
}

impl ControlService {
    pub(super) async fn watch(&self, headers: &HeaderMap) -> Result<Response<MountBody>, ApiProblem> {
        let hub = &self.0.hub;
        // Before the snapshot, so that nothing is missed between. What it brings twice has the same number.
        let last = hub.journal.last();
        let figures = FiguresView::open(&self.0);
        let snapshot = Snapshot::of(hub, last).await;
        let pieces = WatchPieces {
            sent: SentDigests::default(),
            first: Some(snapshot),
            reader: hub.journal.reader(last),
            instance: hub.instance.clone(),
            figures,
        };
        Ok(stream_answer(self.stream(pieces, headers)?))
    }
}

/// Everything at one moment.
struct Snapshot {
    at_ms: u64,
    program: Bytes,
    figures: ServerFigures,
    events: Vec<Bytes>,
}

impl Snapshot {
    async fn of(hub: &Arc<Hub>, last: u64) -> Self {
        let mut events = Vec::new();
        let mut reader = hub.journal.reader(last.saturating_sub(SNAPSHOT_EVENTS));
        while let Some(reading) = reader.read() {
            if let JournalReading::Entries(entries) = reading {
                let kept = entries.iter().filter(|entry| entry.sequence <= last);
                events.extend(kept.map(|entry| entry.json.clone()));
                if entries.iter().any(|entry| entry.sequence >= last) {
                    break;
                }
            }
        }
        Self {
            at_ms: now_ms(),
            program: json(&hub.program()),
            figures: ServerFigures::of(hub).await,
            events,
        }
    }

    fn write(&self, sent: &mut SentDigests) -> Bytes {
        let mut body = BytesMut::new();
        body.put_slice(format!(r#"{{"at_ms":{},"program":"#, self.at_ms).as_bytes());
        body.put_slice(&self.program);
        body.put_slice(b",\"servers\":");
        write_list(&mut body, self.figures.servers.iter().map(|(_, json)| json));
        body.put_slice(b",\"sessions\":");
        body.put_slice(&self.figures.sessions);
        body.put_slice(b",\"events\":");
        write_list(&mut body, self.events.iter());
        body.put_u8(b'}');
        sent.note(&self.figures);
        let mut out = BytesMut::from(STREAM_START);
        write_event(&mut out, "snapshot", None, &body);
        out.freeze()
    }
}

/// What a view has got, as digests: only what differs is sent again.
#[derive(Default)]
struct SentDigests {
    servers: HashMap<String, u64>,
    sessions: u64,
}

impl SentDigests {
    /// The servers that the view has not got in this form; they count as sent from now on.
    fn note<'f>(&mut self, figures: &'f ServerFigures) -> Vec<&'f Bytes> {
        let digests = figures
            .servers
            .iter()
            .map(|(name, json)| (name.clone(), digest(json)));
        let digests: HashMap<String, u64> = digests.collect();
        let changed = figures
            .servers
            .iter()
            .filter(|(name, _)| self.servers.get(name) != digests.get(name))
            .map(|(_, json)| json)
            .collect();
        self.servers = digests;
        changed
    }

    fn note_sessions(&mut self, figures: &ServerFigures) -> bool {
        let digest = digest(&figures.sessions);
        std::mem::replace(&mut self.sessions, digest) != digest
    }
}

/// The pieces of the stream.
struct WatchPieces {
    first: Option<Snapshot>,
    reader: JournalReader,
    instance: String,
    figures: FiguresView,
    sent: SentDigests,
}

impl Pieces for WatchPieces {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(snapshot) = self.first.take() {
            return Some(snapshot.write(&mut self.sent));
        }
        let next = async {
            tokio::select! {
                biased;
                reading = self.reader.next() => WatchNext::Events(reading),
                figures = self.figures.next() => WatchNext::Figures(figures),
            }
        };
        let Ok(next) = timeout(HEARTBEAT_INTERVAL, next).await else {
            return Some(HEARTBEAT);
        };
        match next {
            WatchNext::Events(JournalReading::Lagged(marker)) => Some(lagged(&marker)),
            WatchNext::Events(JournalReading::Entries(entries)) => {
                let mut out = BytesMut::new();
                for entry in entries {
                    let id = format!("{}.{}", self.instance, entry.sequence);
                    write_event(&mut out, "record", Some(&id), &entry.json);
                }
                Some(out.freeze())
            }
            WatchNext::Figures(figures) => Some(match figures {
                Some(figures) => self.write_figures(&figures),
                None => HEARTBEAT,
            }),
        }
    }
}

enum WatchNext {
    Events(JournalReading),
    Figures(Option<Arc<ServerFigures>>),
}

impl WatchPieces {
    /// The time always goes out: a view computes rates from it, and a server that is not named has not changed.
    fn write_figures(&mut self, figures: &ServerFigures) -> Bytes {
        let mut body = BytesMut::new();
        body.put_slice(format!(r#"{{"at_ms":{},"servers":"#, figures.at_ms).as_bytes());
        write_list(&mut body, self.sent.note(figures).into_iter());
        body.put_u8(b'}');
        let mut out = BytesMut::new();
        write_event(&mut out, "figures", None, &body);
        if self.sent.note_sessions(figures) {
            write_event(&mut out, "sessions", None, &figures.sessions);
        }
        out.freeze()
    }
}

fn write_list<'b>(out: &mut BytesMut, items: impl Iterator<Item = &'b Bytes>) {
    out.put_u8(b'[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.put_u8(b',');
        }
        out.put_slice(item);
    }
    out.put_u8(b']');
}

fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}

/// Within this process: a digest is never compared with one of another.
fn digest(json: &Bytes) -> u64 {
    let mut hasher = DefaultHasher::new();
    json.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::api::EventDetail;
    use crate::control::{Control, Role};
    use crate::journal::Journal;

    fn service() -> ControlService {
        ControlService::new(&Control::builder(Role::Serve).build())
    }

    #[tokio::test(start_paused = true)]
    async fn views_that_come_and_go_leave_one_generator_of_figures_and_the_last_one_none() {
        let ControlService(shared) = service();
        let mut view = FiguresView::open(&shared);
        for _ in 0..10 {
            view.next().await;
            // A page that is loaded again: the old view is gone before the new one comes.
            drop(view);
            view = FiguresView::open(&shared);
        }
        view.next().await;
        let mut count = 0;
        tokio::select! {
            () = async { loop { view.next().await; count += 1; } } => {}
            () = sleep(FIGURES_INTERVAL * 6 + FIGURES_INTERVAL / 2) => {}
        }
        assert_eq!(count, 6);
        let task = shared.figures.generator().task.clone().expect("it works");
        drop(view);
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(task.is_finished(), "the generator ends with its last view");
        assert_eq!(shared.figures.generator().views, 0);
    }

    #[tokio::test]
    async fn a_view_that_falls_behind_learns_how_many_events_it_missed() {
        let journal = Arc::new(Journal::new(None, 2));
        for _ in 0..5 {
            journal.write(None, EventDetail::Added);
        }
        let figures = FiguresView::open(&service().0);
        let mut pieces = WatchPieces {
            first: None,
            reader: journal.reader(0),
            instance: "run".to_owned(),
            figures,
            sent: SentDigests::default(),
        };
        let mut text = async || String::from_utf8(pieces.next().await.unwrap().to_vec()).unwrap();
        let marker = text().await;
        assert!(marker.starts_with("event: lagged\ndata: {\"lost\":3"), "{marker}");
        let records = text().await;
        assert!(records.starts_with("id: run.4\nevent: record\n"), "{records}");
    }
}
