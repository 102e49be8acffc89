//! What a fleet owes its callers in any chaos, held against what happened:
//!
//! - every call ends by its deadline;
//! - no call that may have run is run again, and one that is said not to have run did not;
//! - an answer comes from the connection that it says, and no connection is two processes, where it has one;
//! - the generations of a server only grow; events have no gaps, and follow on from each other.
//!
//! That the catalog never has a gap, that all servers come back by themselves and that nothing is left behind is seen
//! elsewhere, as it happens.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use mainstay::lifecycle::Cause;
use mainstay::{Event, Generation, Outcome, StateKind};
use mainstay_testkit::chaos::{ChaosServerKind, DEADLINE, Deed, Runs};

use crate::chaos::callers::{CallEnd, Made};

/// How much later than the machine itself a call may be.
const SLACK: Duration = Duration::from_secs(1);

/// How often a task is woken on the way of a call and its answer, each as late as the machine is: the caller and the connection when
/// they write and when they read, and the call at its deadline.
const WAKES: u32 = 5;

pub(crate) struct Evidence {
    pub(crate) calls: Vec<Made>,
    pub(crate) events: Vec<Event>,
    /// What each server's processes did.
    pub(crate) ledgers: Vec<Vec<String>>,
    pub(crate) deeds: BTreeMap<Deed, usize>,
    pub(crate) catalogs_read: usize,
    /// How late a task that only sleeps was woken at worst.
    pub(crate) machine_late: Duration,
    pub(crate) healed: Duration,
}

impl Evidence {
    pub(crate) fn judge(&self) {
        self.print();
        self.every_call_ended_by_its_deadline();
        self.no_call_ran_more_often_than_its_caller_may_believe();
        self.no_connection_was_two_processes();
        self.events_follow_on_from_each_other();
        self.generations_only_grow();
        assert!(
            self.calls
                .iter()
                .any(|call| matches!(call.end, CallEnd::Result { .. }))
        );
        assert!(!self.recoveries().is_empty());
    }

    fn every_call_ended_by_its_deadline(&self) {
        let limit = DEADLINE + WAKES * self.machine_late + SLACK;
        let late: Vec<_> = self.calls.iter().filter(|call| call.took > limit).collect();
        assert!(late.is_empty(), "{late:#?}");
    }

    fn no_call_ran_more_often_than_its_caller_may_believe(&self) {
        let runs = Runs::of(&self.ledgers);
        for call in &self.calls {
            let ran = runs.count(call.server, call.tool, &call.key);
            let most = if call.repeatable { 2 } else { 1 };
            let allowed = match &call.end {
                CallEnd::Result { .. } => 1..=most,
                CallEnd::Dropped => 0..=most,
                CallEnd::Failed { outcome, .. } => match outcome {
                    Outcome::NotSent | Outcome::Refused => 0..=0,
                    Outcome::Answered => 1..=most,
                    _ => 0..=most,
                },
            };
            assert!(allowed.contains(&ran), "ran {ran} times: {call:?}");
        }
    }

    fn no_connection_was_two_processes(&self) {
        let mut processes: HashMap<Generation, (usize, u64)> = HashMap::new();
        let mut connections: HashMap<(usize, u64), Generation> = HashMap::new();
        for call in &self.calls {
            let CallEnd::Result {
                generation,
                pid: Some(pid),
            } = call.end
            else {
                continue;
            };
            let process = (call.server, pid);
            let (one_process, one_connection) = match ChaosServerKind::of(call.server) {
                ChaosServerKind::Stdio => (true, self.starts_as(call.server, pid) == 1),
                ChaosServerKind::Session | ChaosServerKind::Sse => (true, false),
                ChaosServerKind::Stateless => (false, false),
            };
            if one_process {
                let same = *processes.entry(generation).or_insert(process);
                assert_eq!(same, process, "{generation} answered from two processes");
            }
            if one_connection {
                let same = *connections.entry(process).or_insert(generation);
                assert_eq!(same, generation, "process {pid} answered on two connections");
            }
        }
    }

    fn starts(&self) -> usize {
        let lines = self.ledgers.iter().flatten();
        lines.filter(|line| line.starts_with("start ")).count()
    }

    /// How often a server was a process of this number, which the system may give out again.
    fn starts_as(&self, server: usize, pid: u64) -> usize {
        let start = format!("start {pid}");
        self.ledgers[server].iter().filter(|line| **line == start).count()
    }

    fn events_follow_on_from_each_other(&self) {
        for (one, next) in self.events.iter().zip(&self.events[1..]) {
            assert_eq!(one.sequence + 1, next.sequence, "{one:?}, then {next:?}");
        }
        let mut states: BTreeMap<&str, StateKind> = BTreeMap::new();
        for event in &self.events {
            if let Some(before) = states.insert(&event.server, event.to) {
                assert_eq!(before, event.from, "{event:?}");
            }
            let of = event.error.as_ref().map(|error| error.generation);
            assert_eq!(of, failed(event.cause).then_some(event.generation), "{event:?}");
        }
    }

    fn generations_only_grow(&self) {
        let mut last: BTreeMap<&str, Generation> = BTreeMap::new();
        for event in self
            .events
            .iter()
            .filter(|event| event.to == StateKind::Connected)
        {
            let generation = event.generation.expect("a connection has its generation");
            let before = last.insert(&event.server, generation);
            assert!(before < Some(generation), "{before:?}, then {event:?}");
        }
    }

    /// From each loss of a server that was connected until it was connected again; not while it was disabled.
    fn recoveries(&self) -> Vec<Duration> {
        let mut lost: BTreeMap<&str, _> = BTreeMap::new();
        let mut took = Vec::new();
        for event in &self.events {
            match (event.from, event.to) {
                (_, StateKind::Connected) => {
                    if let Some(at) = lost.remove(&*event.server) {
                        took.push(event.at.duration_since(at).unwrap_or_default());
                    }
                }
                (_, StateKind::Disabling) => drop(lost.remove(&*event.server)),
                (StateKind::Connected, _) => drop(lost.insert(&event.server, event.at)),
                _ => {}
            }
        }
        took.sort_unstable();
        took
    }

    fn print(&self) {
        let mut ends: BTreeMap<String, usize> = BTreeMap::new();
        for call in &self.calls {
            let word = match &call.end {
                CallEnd::Result { .. } => "succeeded".to_owned(),
                CallEnd::Dropped => "dropped by their callers".to_owned(),
                CallEnd::Failed { outcome, how } => format!("{how}, {outcome:?}"),
            };
            *ends.entry(word).or_default() += 1;
        }
        println!("{} calls", self.calls.len());
        for (word, count) in &ends {
            println!("  {count:6} {word}");
        }
        if let Some(latest) = self.calls.iter().max_by_key(|call| call.took) {
            println!(
                "latest end of a call: {:?} after its deadline, on a machine {:?} late: {latest:?}",
                latest.took.saturating_sub(DEADLINE),
                self.machine_late
            );
        }
        println!(
            "deeds: {:?}; {} starts of {} servers",
            self.deeds,
            self.starts(),
            self.ledgers.len()
        );
        let recoveries = self.recoveries();
        let at = |share: usize| {
            recoveries.get((recoveries.len() * share / 100).min(recoveries.len().saturating_sub(1)))
        };
        println!(
            "{} recoveries: median {:?}, 99th of a hundred {:?}, longest {:?}",
            recoveries.len(),
            at(50).copied().unwrap_or_default(),
            at(99).copied().unwrap_or_default(),
            recoveries.last().copied().unwrap_or_default()
        );
        let mut causes: BTreeMap<Cause, usize> = BTreeMap::new();
        for event in self
            .events
            .iter()
            .filter(|event| event.from == StateKind::Connected)
        {
            *causes.entry(event.cause).or_default() += 1;
        }
        println!("left `connected` because: {causes:?}");
        println!(
            "{} events; {} looks at the catalog; all servers back {:?} after the end",
            self.events.len(),
            self.catalogs_read,
            self.healed
        );
    }
}

/// Whether a change of this cause means that something went wrong with a connection.
fn failed(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::OpenFailed
            | Cause::OpenTimedOut
            | Cause::ListingFailed
            | Cause::Lost
            | Cause::CallsFailed
            | Cause::ProbesMissed
    )
}
