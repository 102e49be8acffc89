//! The document of `mainstay ping --json`.

use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use super::{DocumentVersion, ServerDocument};
use crate::check::ServerReport;
use crate::ping::Measured;

#[derive(Serialize, ToSchema)]
pub(crate) struct PingDocument {
    version: DocumentVersion,
    ok: bool,
    #[serde(flatten)]
    server: ServerDocument,
    address: Option<String>,
    connect_ms: Option<f64>,
    asked: u32,
    answered: usize,
    min_ms: Option<f64>,
    median_ms: Option<f64>,
    max_ms: Option<f64>,
    pings: Vec<PingResult>,
    fix: Option<String>,
}

/// One question: how long its answer took, or why there is none.
#[derive(Serialize, ToSchema)]
struct PingResult {
    round_trip_ms: Option<f64>,
    error: Option<String>,
}

impl PingDocument {
    pub(crate) fn of(report: &ServerReport, measured: &Measured) -> Self {
        let figures = measured.figures();
        Self {
            version: DocumentVersion,
            ok: measured.is_alive(),
            server: ServerDocument::of(&report.status),
            address: report.address.clone(),
            connect_ms: measured.connected.map(fine_ms),
            asked: measured.asked,
            answered: measured.answered(),
            min_ms: figures.map(|figures| fine_ms(figures.min)),
            median_ms: figures.map(|figures| fine_ms(figures.median)),
            max_ms: figures.map(|figures| fine_ms(figures.max)),
            pings: measured.pings.iter().map(PingResult::of).collect(),
            fix: report.fix.as_ref().map(ToString::to_string),
        }
    }
}

impl PingResult {
    fn of(ping: &Result<Duration, String>) -> Self {
        Self {
            round_trip_ms: ping.as_ref().ok().copied().map(fine_ms),
            error: ping.as_ref().err().cloned(),
        }
    }
}

/// Milliseconds to the microsecond.
fn fine_ms(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}
