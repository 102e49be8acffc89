//! The tools: how they are listed, and what a call of each does.
//!
//! Arguments are read before a call starts, so a [`Call`] is always one that can run.

mod arguments;
mod definitions;
mod reporter;

use std::process;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Number, Value, json};

use super::clock;
use super::protocol::{DemoError, LOG_LEVELS};
use arguments::DemoArguments;
pub(super) use definitions::definitions;
pub(super) use reporter::Reporter;

const MAX_SLEEP_SECONDS: f64 = 3600.0;
const MAX_COUNT: u64 = 1000;
const MAX_INTERVAL_MS: u64 = 10_000;

/// A sleep reports at each tenth of its time, but not more often than this.
const MIN_REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// A call with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum DemoCall {
    Echo { text: String },
    Add { a: Number, b: Number },
    TimeNow,
    TextStats { text: String },
    Sleep { time: Duration },
    Count { to: u64, interval: Duration },
    Log { level: &'static str, message: String },
    Crash { code: i32 },
}

impl DemoCall {
    /// Reads the params of a `tools/call`.
    pub(super) fn read(params: &Map<String, Value>) -> Result<Self, DemoError> {
        let Some(name) = params.get("name").and_then(Value::as_str) else {
            return Err(DemoError::invalid_params("name must be a string"));
        };
        let arguments = DemoArguments::read(params.get("arguments"))?;
        Ok(match name {
            "echo" => Self::Echo {
                text: arguments.text("text")?,
            },
            "add" => Self::Add {
                a: arguments.number("a")?,
                b: arguments.number("b")?,
            },
            "time_now" => Self::TimeNow,
            "text_stats" => Self::TextStats {
                text: arguments.text("text")?,
            },
            "sleep" => Self::Sleep {
                time: arguments.seconds("seconds", MAX_SLEEP_SECONDS)?,
            },
            "count" => Self::Count {
                to: arguments.whole("to", 1..=MAX_COUNT, None)?,
                interval: Duration::from_millis(arguments.whole(
                    "interval_ms",
                    0..=MAX_INTERVAL_MS,
                    Some(100),
                )?),
            },
            "log" => Self::Log {
                level: arguments.choice("level", &LOG_LEVELS, "info")?,
                message: arguments.text("message")?,
            },
            "crash" => Self::Crash {
                code: i32::try_from(arguments.whole("code", 0..=255, Some(1))?).expect("at most 255"),
            },
            other => return Err(DemoError::invalid_params(format!("no such tool: {other}"))),
        })
    }

    /// Runs the call.
    ///
    /// # Cancel safety
    /// Safe: a call that is dropped leaves nothing behind.
    pub(super) async fn run(self, reporter: &Reporter) -> Result<Value, DemoError> {
        Ok(match self {
            Self::Echo { text } => said(&text),
            Self::Add { a, b } => {
                let sum = add(&a, &b).ok_or_else(|| DemoError::invalid_params("the sum is too large"))?;
                structured(&sum.to_string(), json!({ "sum": sum }))
            }
            Self::TimeNow => {
                let unix_seconds = clock::unix_seconds(SystemTime::now());
                let utc = clock::iso_8601(unix_seconds);
                structured(&utc, json!({ "utc": utc, "unix_seconds": unix_seconds }))
            }
            Self::TextStats { text } => {
                let (characters, words, lines) = (
                    text.chars().count(),
                    text.split_whitespace().count(),
                    text.lines().count(),
                );
                let summary = format!("{characters} characters, {words} words, {lines} lines");
                structured(
                    &summary,
                    json!({ "characters": characters, "words": words, "lines": lines }),
                )
            }
            Self::Sleep { time } => {
                sleep(time, reporter).await;
                said(&format!("slept {} s", time.as_secs_f64()))
            }
            Self::Count { to, interval } => {
                for number in 1..=to {
                    tokio::time::sleep(interval).await;
                    reporter.progress(number, to, &format!("{number} of {to}")).await;
                }
                said(&format!("counted to {to}"))
            }
            Self::Log { level, message } => {
                let sent = reporter.log(level, &message).await;
                said(if sent {
                    "logged"
                } else {
                    "not logged: the client asked for no messages of this level"
                })
            }
            Self::Crash { code } => {
                eprintln!("demo server: crashing with code {code}, as asked");
                process::exit(code)
            }
        })
    }
}

async fn sleep(time: Duration, reporter: &Reporter) {
    let step = (time / 10).max(MIN_REPORT_INTERVAL);
    let mut slept = Duration::ZERO;
    while slept < time {
        let nap = step.min(time - slept);
        tokio::time::sleep(nap).await;
        slept += nap;
        reporter
            .progress(slept.as_secs_f64(), time.as_secs_f64(), "sleeping")
            .await;
    }
}

/// Whole numbers stay whole while they fit; `None` when the sum is no finite number.
fn add(a: &Number, b: &Number) -> Option<Number> {
    let whole = a.as_i64().zip(b.as_i64()).and_then(|(a, b)| a.checked_add(b));
    whole
        .map(Number::from)
        .or_else(|| Number::from_f64(a.as_f64()? + b.as_f64()?))
}

fn said(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

fn structured(text: &str, content: Value) -> Value {
    let mut result = said(text);
    result["structuredContent"] = content;
    result
}

#[cfg(test)]
mod tests;
