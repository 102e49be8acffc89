//! The document of `mainstay replay --json`.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::DocumentVersion;
use crate::replay::{DifferentAnswer, PlayReport};

#[derive(Serialize, ToSchema)]
pub(crate) struct ReplayDocument<'a> {
    version: DocumentVersion,
    compared: usize,
    equal: usize,
    cancelled: usize,
    different: Vec<DifferentDocument<'a>>,
    unanswered: Vec<UnansweredDocument<'a>>,
}

#[derive(Serialize, ToSchema)]
struct DifferentDocument<'a> {
    line: usize,
    request: &'a str,
    count: usize,
    differences: Vec<DifferenceDocument<'a>>,
}

#[derive(Serialize, ToSchema)]
struct DifferenceDocument<'a> {
    place: &'a str,
    /// Absent if the recorded answer has nothing there.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<&'a Value>,
    /// Absent if the answer has nothing there now.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<&'a Value>,
}

#[derive(Serialize, ToSchema)]
struct UnansweredDocument<'a> {
    line: usize,
    request: &'a str,
    now: &'a str,
}

impl<'a> ReplayDocument<'a> {
    pub(crate) fn of(report: &'a PlayReport) -> Self {
        let different = |different: &'a DifferentAnswer| DifferentDocument {
            line: different.line,
            request: &different.request,
            count: different.count,
            differences: different
                .differences
                .iter()
                .map(|difference| DifferenceDocument {
                    place: &difference.place,
                    recorded: difference.recorded.as_ref(),
                    now: difference.now.as_ref(),
                })
                .collect(),
        };
        let unanswered = report.unanswered.iter();
        let unanswered = unanswered.map(|(line, request, now)| UnansweredDocument {
            line: *line,
            request,
            now,
        });
        Self {
            version: DocumentVersion,
            compared: report.compared,
            equal: report.compared - report.different.len(),
            cancelled: report.cancelled,
            different: report.different.iter().map(different).collect(),
            unanswered: unanswered.collect(),
        }
    }
}
