//! Refuses servers that are reached by an address where the cargo feature `http` is off.

use std::time::Duration;

use crate::config::problem::{ProblemText, SettingProblem};
use crate::config::target::HttpTarget;
use crate::protocol::Era;
use crate::transport::http::HttpConfigError;

pub(super) fn check(_target: &HttpTarget, _era: Option<Era>, problems: &mut Vec<SettingProblem>) {
    let missing = HttpConfigError::MissingFeature { feature: "http" };
    problems.push(SettingProblem::error(
        "url",
        ProblemText::from(missing.to_string()),
    ));
}

pub(super) fn durations(_target: &HttpTarget) -> Vec<(&'static str, Duration)> {
    Vec::new()
}
