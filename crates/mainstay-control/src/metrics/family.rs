//! All families of metrics, in the order in which they are exported. `docs/metrics.md` lists the same, and a test compares both.

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// Metrics of one name.
#[derive(Debug)]
pub(crate) struct MetricFamily {
    /// Without the unit, and without the suffix that its type adds.
    pub(crate) name: &'static str,
    pub(crate) kind: FamilyKind,
    pub(crate) unit: Option<Unit>,
    pub(crate) help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FamilyKind {
    Gauge,
    Counter,
    Histogram,
    Info,
}

impl FamilyKind {
    pub(crate) const fn metric_type(self) -> MetricType {
        match self {
            Self::Gauge => MetricType::Gauge,
            Self::Counter => MetricType::Counter,
            Self::Histogram => MetricType::Histogram,
            Self::Info => MetricType::Info,
        }
    }
}

macro_rules! families {
    ($($constant:ident: $kind:ident $name:literal $(in $unit:ident)?, $help:literal;)*) => {
        $(pub(crate) const $constant: MetricFamily = MetricFamily {
            name: $name,
            kind: FamilyKind::$kind,
            unit: families!(@unit $($unit)?),
            help: $help,
        };)*

        /// All of them.
        #[cfg(test)]
        pub(crate) const ALL: &[MetricFamily] = &[$($constant),*];
    };
    (@unit) => { None };
    (@unit $unit:ident) => { Some(Unit::$unit) };
}

families! {
    BUILD: Info "mainstay_build", "The program that runs";
    PROCESS_START: Gauge "process_start_time" in Seconds, "When the program started, in seconds since 1970";
    PROCESS_CPU: Counter "process_cpu" in Seconds, "Processor time that the program itself has used";
    PROCESS_RESIDENT: Gauge "process_resident_memory" in Bytes, "Resident memory of the program itself";
    PROCESS_FDS: Gauge "process_open_fds", "Open file descriptors of the program itself";
    EVENTS: Counter "mainstay_events", "Events that the control API has recorded";

    SERVER_OPERATIONS: Histogram "mcp_server_operation_duration" in Seconds,
        "How long requests of clients took, waiting for a server included";
    SERVER_SESSIONS: Histogram "mcp_server_session_duration" in Seconds, "How long the ended sessions of clients lasted";
    CLIENT_OPERATIONS: Histogram "mcp_client_operation_duration" in Seconds,
        "How long requests ran on a connection to their server";
    CLIENT_SESSIONS: Histogram "mcp_client_session_duration" in Seconds, "How long the ended connections to a server lasted";

    SESSIONS: Gauge "mainstay_sessions", "Clients that have a session now";
    REFUSED: Counter "mainstay_requests_refused", "HTTP requests that were refused, by status";
    DROPPED: Counter "mainstay_notifications_dropped",
        "Notifications that were dropped: unread ones of a client that does not read, and those outside of calls that were for no client";

    UP: Gauge "mainstay_server_up", "Whether calls to the server are expected to work: it is connected, or stopped for idleness";
    ENABLED: Gauge "mainstay_server_enabled", "Whether the server is wanted";
    STATE: Gauge "mainstay_server_state", "The state of the server: 1 for the state that it is in, 0 for all others";
    STATE_SINCE: Gauge "mainstay_server_state_since_timestamp" in Seconds,
        "When the server entered its state, in seconds since 1970";
    TRANSITIONS: Counter "mainstay_server_transitions", "Changes of the server's state, by new state and cause";
    STARTS: Counter "mainstay_server_starts", "Attempts to open a connection; each one after the first is a restart";
    FAILURES: Gauge "mainstay_server_consecutive_failures", "Failures in a row so far";
    BUDGET: Gauge "mainstay_server_failure_budget", "Failures in a row that are answered with backoff";
    NEXT_RETRY: Gauge "mainstay_server_next_retry_timestamp" in Seconds,
        "When the next attempt starts, in seconds since 1970; absent while none is planned";
    TOKENS: Gauge "mainstay_server_start_tokens", "Starts that the token bucket allows now without a pause";
    TOKENS_LIMIT: Gauge "mainstay_server_start_tokens_limit", "Starts that the full token bucket allows without a pause";
    RECOVERY: Histogram "mainstay_server_recovery_duration" in Seconds,
        "How long the server was gone after each loss of its connection";
    CALLS: Counter "mainstay_server_calls", "Calls that were begun";
    CALLS_FAILED: Counter "mainstay_server_calls_failed", "Calls that failed, by what is known of them";
    WAITING: Gauge "mainstay_server_calls_waiting", "Calls that wait for a connection now";
    RUNNING: Gauge "mainstay_server_calls_running", "Calls that run on a connection now";
    STALE: Counter "mainstay_server_stale_reports", "Reports of old connections that came late and changed nothing";
    KEEPER_FAILURES: Counter "mainstay_server_keeper_failures", "Failures of the task that owns the server";
    CATALOG_ITEMS: Gauge "mainstay_server_catalog_items", "What the server offers, as last listed";
    CATALOG_LISTED: Gauge "mainstay_server_catalog_listed_timestamp" in Seconds,
        "When the server was last listed with success, in seconds since 1970";
    CATALOG_STALE: Gauge "mainstay_server_catalog_stale", "Whether the catalog is that of an earlier connection";
    CATALOG_CHANGES: Counter "mainstay_server_catalog_changes", "Listings that changed the catalog";
    PROCESSES: Gauge "mainstay_server_processes", "Processes of the server";
    RESIDENT: Gauge "mainstay_server_resident_memory" in Bytes, "Resident memory of the server's processes";
    CPU: Counter "mainstay_server_cpu" in Seconds, "Processor time that the server's processes have used";
}

#[cfg(test)]
impl MetricFamily {
    /// The name of its samples, without the suffixes of a histogram.
    pub(crate) fn full_name(&self) -> String {
        let unit = self
            .unit
            .as_ref()
            .map_or_else(String::new, |unit| format!("_{}", unit.as_str()));
        let suffix = match self.kind {
            FamilyKind::Counter => "_total",
            FamilyKind::Info => "_info",
            FamilyKind::Gauge | FamilyKind::Histogram => "",
        };
        format!("{}{unit}{suffix}", self.name)
    }
}
