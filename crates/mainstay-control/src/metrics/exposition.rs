//! Writes a snapshot in the format of OpenMetrics.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mainstay::StateKind;
use mainstay::server::DurationCounts;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};

use super::family::{self, MetricFamily};
use super::snapshot::{MetricsSnapshot, OperationLabels, ServerMetrics};

const STATES: [StateKind; 7] = [
    StateKind::Disabled,
    StateKind::Connecting,
    StateKind::Connected,
    StateKind::Reconnecting,
    StateKind::Disabling,
    StateKind::Disconnected,
    StateKind::PermanentlyFailed,
];

type Labels<'a> = Vec<(&'static str, &'a str)>;

impl Collector for MetricsSnapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = FamilyWriter(encoder);
        self.program(&mut families)?;
        self.requests(&mut families)?;
        self.server_states(&mut families)?;
        self.server_calls(&mut families)?;
        self.server_catalogs_and_processes(&mut families)
    }
}

impl MetricsSnapshot {
    fn program(&self, families: &mut FamilyWriter<'_>) -> fmt::Result {
        families.info(
            &family::BUILD,
            &vec![("version", env!("CARGO_PKG_VERSION")), ("role", self.role)],
        )?;
        families.gauges(&family::PROCESS_START, [(Vec::new(), unix_seconds(self.started))])?;
        let own = self.own_process.iter();
        families.counters(
            &family::PROCESS_CPU,
            own.clone().map(|own| (Vec::new(), own.cpu.as_secs_f64())),
        )?;
        let resident = own.clone().map(|own| (Vec::new(), own.resident_bytes));
        families.gauges(&family::PROCESS_RESIDENT, resident)?;
        families.gauges(&family::PROCESS_FDS, own.map(|own| (Vec::new(), own.descriptors)))?;
        families.counters(&family::EVENTS, [(Vec::new(), self.events)])
    }

    fn requests(&self, families: &mut FamilyWriter<'_>) -> fmt::Result {
        let operations = self.operations.iter();
        families.histograms(
            &family::SERVER_OPERATIONS,
            operations.map(|(labels, durations)| (operation(labels), durations)),
        )?;
        families.histograms(&family::SERVER_SESSIONS, [(Vec::new(), &self.sessions_ended)])?;
        let operations = self.servers.iter().flat_map(|server| &server.operations);
        families.histograms(
            &family::CLIENT_OPERATIONS,
            operations.map(|(labels, durations)| (operation(labels), durations)),
        )?;
        let sessions = |server: &ServerMetrics| server.lifecycle.sessions.clone();
        self.server_histograms(families, &family::CLIENT_SESSIONS, sessions)?;
        let sessions = self.sessions.iter();
        families.gauges(
            &family::SESSIONS,
            sessions.map(|(door, count)| (vec![("door", *door)], *count)),
        )?;
        let refused = self.refused.iter();
        families.counters(
            &family::REFUSED,
            refused.map(|(status, count)| (vec![("status", *status)], *count)),
        )?;
        families.counters(
            &family::DROPPED,
            [
                (vec![("reason", "unread")], self.unread),
                (vec![("reason", "no_client")], self.undelivered),
            ],
        )
    }

    fn server_states(&self, families: &mut FamilyWriter<'_>) -> fmt::Result {
        self.server_gauges(families, &family::UP, |server| Some(u32::from(server.is_up)))?;
        self.server_gauges(families, &family::ENABLED, |server| {
            Some(u32::from(server.is_enabled()))
        })?;
        let states = self.servers.iter().flat_map(|server| {
            let is_in = |state: StateKind| u32::from(server.status.state == state);
            STATES.map(|state| {
                (
                    vec![("server", &*server.name), ("state", state.as_str())],
                    is_in(state),
                )
            })
        });
        families.gauges(&family::STATE, states)?;
        let since = |server: &ServerMetrics| Some(unix_seconds(server.status.since));
        self.server_gauges(families, &family::STATE_SINCE, since)?;
        let transitions = self.servers.iter().flat_map(|server| {
            server.lifecycle.transitions.iter().map(|(to, cause, count)| {
                let labels = vec![
                    ("server", &*server.name),
                    ("to", to.as_str()),
                    ("cause", cause.as_str()),
                ];
                (labels, *count)
            })
        });
        families.counters(&family::TRANSITIONS, transitions)?;
        self.server_counters(families, &family::STARTS, |server| Some(server.status.starts))?;
        self.server_gauges(families, &family::FAILURES, |server| Some(server.status.attempt))?;
        self.server_gauges(families, &family::BUDGET, |server| Some(server.status.budget))?;
        let next_retry = |server: &ServerMetrics| server.status.next_retry.map(unix_seconds);
        self.server_gauges(families, &family::NEXT_RETRY, next_retry)?;
        self.server_gauges(families, &family::TOKENS, |server| {
            Some(server.status.start_tokens())
        })?;
        let limit = |server: &ServerMetrics| Some(server.status.start_tokens_limit());
        self.server_gauges(families, &family::TOKENS_LIMIT, limit)?;
        self.server_histograms(families, &family::RECOVERY, |server| {
            server.lifecycle.recoveries.clone()
        })
    }

    fn server_calls(&self, families: &mut FamilyWriter<'_>) -> fmt::Result {
        self.server_counters(families, &family::CALLS, |server| Some(server.calls.begun))?;
        let failed = self.servers.iter().flat_map(|server| {
            let calls = &server.calls;
            [
                ("answered", calls.errors),
                ("not_sent", calls.not_sent),
                ("refused", calls.refused),
                ("unknown", calls.unknown),
                ("cancelled", calls.cancelled),
            ]
            .map(|(outcome, count)| (vec![("server", &*server.name), ("outcome", outcome)], count))
        });
        families.counters(&family::CALLS_FAILED, failed)?;
        self.server_gauges(families, &family::WAITING, |server| Some(server.calls.waiting))?;
        self.server_gauges(families, &family::RUNNING, |server| Some(server.calls.in_flight))?;
        self.server_counters(families, &family::STALE, |server| {
            Some(server.status.stale_reports)
        })?;
        self.server_counters(families, &family::KEEPER_FAILURES, |server| {
            Some(server.status.keeper_failures)
        })
    }

    fn server_catalogs_and_processes(&self, families: &mut FamilyWriter<'_>) -> fmt::Result {
        let items = self.servers.iter().flat_map(|server| {
            let items = server.items.into_iter().flatten();
            items.map(|(kind, count)| (vec![("server", &*server.name), ("kind", kind)], count))
        });
        families.gauges(&family::CATALOG_ITEMS, items)?;
        let listed = |server: &ServerMetrics| server.status.listed_at.map(unix_seconds);
        self.server_gauges(families, &family::CATALOG_LISTED, listed)?;
        let stale = |server: &ServerMetrics| Some(u32::from(server.status.stale_since.is_some()));
        self.server_gauges(families, &family::CATALOG_STALE, stale)?;
        let changes = |server: &ServerMetrics| Some(server.lifecycle.catalog_changes);
        self.server_counters(families, &family::CATALOG_CHANGES, changes)?;
        self.server_gauges(families, &family::PROCESSES, |server| {
            Some(server.usage?.processes)
        })?;
        self.server_gauges(families, &family::RESIDENT, |server| {
            Some(server.usage?.resident_bytes)
        })?;
        self.server_counters(families, &family::CPU, |server| {
            Some(server.usage?.cpu_time.as_secs_f64())
        })
    }

    /// A gauge of each server that has a value.
    fn server_gauges<V: EncodeGaugeValue>(
        &self,
        families: &mut FamilyWriter<'_>,
        family: &MetricFamily,
        value: impl Fn(&ServerMetrics) -> Option<V>,
    ) -> fmt::Result {
        let values = self
            .servers
            .iter()
            .filter_map(|server| Some((of(server), value(server)?)));
        families.gauges(family, values)
    }

    /// A counter of each server that has a value.
    fn server_counters<V: EncodeCounterValue>(
        &self,
        families: &mut FamilyWriter<'_>,
        family: &MetricFamily,
        value: impl Fn(&ServerMetrics) -> Option<V>,
    ) -> fmt::Result {
        let values = self
            .servers
            .iter()
            .filter_map(|server| Some((of(server), value(server)?)));
        families.counters(family, values)
    }

    fn server_histograms(
        &self,
        families: &mut FamilyWriter<'_>,
        family: &MetricFamily,
        durations: impl Fn(&ServerMetrics) -> DurationCounts,
    ) -> fmt::Result {
        let counted = self.servers.iter().map(|server| (of(server), durations(server)));
        let counted: Vec<_> = counted.collect();
        families.histograms(
            family,
            counted
                .iter()
                .map(|(labels, durations)| (labels.clone(), durations)),
        )
    }
}

fn of(server: &ServerMetrics) -> Labels<'_> {
    vec![("server", &*server.name)]
}

fn operation(labels: &OperationLabels) -> Labels<'_> {
    let mut written = vec![("mcp_method_name", labels.method)];
    written.extend(labels.server.as_deref().map(|server| ("server", server)));
    written.extend(labels.tool.as_deref().map(|tool| ("gen_ai_tool_name", tool)));
    written.extend(labels.error.map(|error| ("error_type", error)));
    written
}

fn unix_seconds(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Writes families one after the other. A family without samples is written too, so that each scrape names all of them.
struct FamilyWriter<'a>(DescriptorEncoder<'a>);

impl FamilyWriter<'_> {
    fn info(&mut self, family: &MetricFamily, labels: &Labels<'_>) -> fmt::Result {
        self.descriptor(family)?.encode_info(labels)
    }

    fn gauges<'l, V: EncodeGaugeValue>(
        &mut self,
        family: &MetricFamily,
        values: impl IntoIterator<Item = (Labels<'l>, V)>,
    ) -> fmt::Result {
        let mut encoder = self.descriptor(family)?;
        for (labels, value) in values {
            labelled(&mut encoder, &labels, |metric| metric.encode_gauge(&value))?;
        }
        Ok(())
    }

    fn counters<'l, V: EncodeCounterValue>(
        &mut self,
        family: &MetricFamily,
        values: impl IntoIterator<Item = (Labels<'l>, V)>,
    ) -> fmt::Result {
        let mut encoder = self.descriptor(family)?;
        for (labels, value) in values {
            labelled(&mut encoder, &labels, |metric| {
                metric.encode_counter::<NoLabelSet, V, u64>(&value, None)
            })?;
        }
        Ok(())
    }

    fn histograms<'l>(
        &mut self,
        family: &MetricFamily,
        values: impl IntoIterator<Item = (Labels<'l>, &'l DurationCounts)>,
    ) -> fmt::Result {
        let mut encoder = self.descriptor(family)?;
        for (labels, durations) in values {
            let bound = |bound: Option<Duration>| bound.map_or(f64::INFINITY, |bound| bound.as_secs_f64());
            let buckets = durations.buckets().map(|(upper, count)| (bound(upper), count));
            let buckets: Vec<(f64, u64)> = buckets.collect();
            let (total, count) = (durations.total().as_secs_f64(), durations.count());
            labelled(&mut encoder, &labels, |metric| {
                metric.encode_histogram::<NoLabelSet>(total, count, &buckets, None)
            })?;
        }
        Ok(())
    }

    fn descriptor<'s>(&'s mut self, family: &'s MetricFamily) -> Result<MetricEncoder<'s>, fmt::Error> {
        let kind = family.kind.metric_type();
        self.0
            .encode_descriptor(family.name, family.help, family.unit.as_ref(), kind)
    }
}

/// Writes a sample with these labels. Without any, no empty braces are written.
fn labelled(
    encoder: &mut MetricEncoder<'_>,
    labels: &Labels<'_>,
    write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    match labels.is_empty() {
        true => write(encoder),
        false => write(&mut encoder.encode_family(labels)?),
    }
}
