//! What a scrape shows, read once from what the fleets and gateways publish. Nothing is polled between two scrapes.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mainstay::Status;
use mainstay::catalog::Kind;
use mainstay::lifecycle::Desired;
use mainstay::process::TreeUsage;
use mainstay::server::{CallCounts, DurationCounts, LifecycleCounts, OperationCounts};
use mainstay_gateway::DoorKind;

use crate::control::{AttachedGroup, Hub, Named};
use crate::status::UsageByPid;

/// All that a scrape shows.
#[derive(Debug)]
pub(super) struct MetricsSnapshot {
    pub(super) role: &'static str,
    pub(super) started: SystemTime,
    pub(super) own_process: Option<OwnProcess>,
    pub(super) events: u64,
    pub(super) sessions: BTreeMap<&'static str, usize>,
    pub(super) sessions_ended: DurationCounts,
    pub(super) refused: BTreeMap<&'static str, u64>,
    pub(super) unread: u64,
    pub(super) undelivered: u64,
    /// Requests of clients.
    pub(super) operations: OperationsByLabels,
    pub(super) servers: Vec<ServerMetrics>,
}

/// Durations by everything that tells requests apart. In a map, since two gateways may count requests that are alike.
pub(super) type OperationsByLabels = BTreeMap<OperationLabels, DurationCounts>;

/// What tells requests apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OperationLabels {
    pub(super) server: Option<Arc<str>>,
    pub(super) method: &'static str,
    pub(super) tool: Option<Box<str>>,
    pub(super) error: Option<&'static str>,
}

/// One server.
#[derive(Debug)]
pub(super) struct ServerMetrics {
    pub(super) name: Arc<str>,
    pub(super) status: Status,
    pub(super) is_up: bool,
    pub(super) calls: CallCounts,
    pub(super) lifecycle: LifecycleCounts,
    pub(super) items: Option<[(&'static str, usize); 4]>,
    pub(super) usage: Option<TreeUsage>,
    /// Requests to the server.
    pub(super) operations: OperationsByLabels,
}

/// What the program itself uses.
#[derive(Debug)]
pub(super) struct OwnProcess {
    pub(super) cpu: Duration,
    pub(super) resident_bytes: u64,
    pub(super) descriptors: usize,
}

impl MetricsSnapshot {
    /// Reads everything. The processes are looked at off the runtime's threads.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub(super) async fn read(hub: &Hub) -> Self {
        let servers = hub.all_servers();
        let usage = UsageByPid::read(&servers).await;
        let own_process = tokio::task::spawn_blocking(OwnProcess::read).await.ok().flatten();
        let mut snapshot = Self {
            role: hub.role.as_str(),
            started: hub.started(),
            own_process,
            events: hub.journal.last(),
            sessions: BTreeMap::from([("stdio", 0), ("http", 0), ("sse", 0)]),
            sessions_ended: DurationCounts::default(),
            refused: BTreeMap::new(),
            unread: 0,
            undelivered: 0,
            operations: BTreeMap::new(),
            servers: servers
                .iter()
                .map(|named| ServerMetrics::read(named, &usage))
                .collect(),
        };
        for group in hub.all_groups() {
            snapshot.add(&group);
        }
        snapshot
    }

    /// Adds what a gateway has counted.
    fn add(&mut self, group: &Arc<AttachedGroup>) {
        for session in group.gateway.sessions() {
            *self.sessions.entry(door(session.door)).or_default() += 1;
        }
        let counts = group.gateway.counts();
        self.sessions_ended.add(&counts.sessions);
        for (status, count) in counts.refused {
            *self.refused.entry(status).or_default() += count;
        }
        self.unread += counts.unread_notifications;
        self.undelivered += counts.undelivered_notifications;
        // The gateway of one server answers for that server, whatever it answers by itself.
        insert(&mut self.operations, group.shown_as.as_ref(), counts.own);
        for (server, counts) in counts.of_servers {
            insert(&mut self.operations, Some(&group.shown(&server)), counts);
        }
    }
}

fn insert(operations: &mut OperationsByLabels, server: Option<&Arc<str>>, counts: Vec<OperationCounts>) {
    for count in counts {
        let labels = OperationLabels {
            server: server.cloned(),
            method: count.method,
            tool: count.tool,
            error: count.error,
        };
        operations.entry(labels).or_default().add(&count.durations);
    }
}

impl ServerMetrics {
    fn read(named: &Named, usage: &UsageByPid) -> Self {
        let server = &named.server;
        let status = server.status();
        let kinds = [
            ("tool", Kind::Tool),
            ("prompt", Kind::Prompt),
            ("resource", Kind::Resource),
            ("template", Kind::Template),
        ];
        let mut operations = BTreeMap::new();
        insert(&mut operations, Some(&named.name), server.operations());
        Self {
            name: named.name.clone(),
            is_up: status.is_up(),
            calls: server.call_counts(),
            lifecycle: server.lifecycle_counts(),
            items: server
                .catalog()
                .map(|catalog| kinds.map(|(word, kind)| (word, catalog.items(kind).len()))),
            usage: status.pid.and_then(|pid| usage.of(pid)),
            operations,
            status,
        }
    }

    pub(super) fn is_enabled(&self) -> bool {
        match self.status.desired {
            Desired::Enabled => true,
            Desired::Disabled => false,
        }
    }
}

fn door(door: DoorKind) -> &'static str {
    match door {
        DoorKind::Stdio => "stdio",
        DoorKind::Http => "http",
        DoorKind::Sse => "sse",
    }
}

impl OwnProcess {
    /// What `/proc` says; `None` on systems without it.
    fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The name of the program may hold spaces and brackets.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let ticks = number(11)? + number(12)?;
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Some(Self {
            cpu: Duration::from_millis(ticks.saturating_mul(1_000) / per_second),
            resident_bytes: number(21)?.saturating_mul(rustix::param::page_size() as u64),
            descriptors: fs::read_dir("/proc/self/fd").ok()?.count(),
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::{Duration, Instant};

    use super::OwnProcess;

    #[test]
    fn the_programs_own_usage_is_plausible() {
        let began = Instant::now();
        // On a busy machine it takes a while until the program has had a tick of processor time.
        let own = loop {
            let own = OwnProcess::read().expect("there is /proc");
            if own.cpu.as_millis() >= 10 || began.elapsed() > Duration::from_secs(60) {
                break own;
            }
        };
        assert!(own.cpu.as_millis() >= 10, "{own:?}");
        assert!((1 << 20..1 << 40).contains(&own.resident_bytes), "{own:?}");
        assert!(own.descriptors >= 3, "{own:?}");
    }
}
