//! Durations as people write them: `30`, `0.5`, `"500ms"`, `"30s"`, `"5m"`, `"1h"`, `"2d"`.

use std::time::Duration;

/// The longest duration a setting may have: a year. A longer one is a slip, and could overflow a deadline.
pub(super) const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How a duration is written, for messages.
pub(super) const SPELLINGS: &str = r#"write a number of seconds, or "500ms", "30s", "5m", "1h""#;

/// Why a text or number is no duration.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DurationError {
    NotADuration,
    Negative,
    TooLong,
}

/// A text that is no duration, or none that a setting may have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a duration; {SPELLINGS}; longer than zero, and at most a year")]
pub struct InvalidDuration;

/// Reads a duration as configuration files spell it, for programs that take one by other ways: a number of seconds, or
/// `500ms`, `30s`, `5m`, `1h`, `2d`. It is longer than zero, and at most a year.
pub fn parse_duration(text: &str) -> Result<Duration, InvalidDuration> {
    let text = text.trim();
    let read = from_text(text).or_else(|_| from_seconds(text));
    read.ok()
        .filter(|duration| !duration.is_zero())
        .ok_or(InvalidDuration)
}

/// Reads a text with a unit.
pub(super) fn from_text(text: &str) -> Result<Duration, DurationError> {
    let text = text.trim();
    let unit_at = text
        .find(|c: char| c.is_ascii_alphabetic())
        .ok_or(DurationError::NotADuration)?;
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(DurationError::NotADuration),
    };
    scaled(number.trim_end(), seconds)
}

/// Reads a number of seconds, as its digits stand in the file.
pub(super) fn from_seconds(number: &str) -> Result<Duration, DurationError> {
    scaled(number, 1.0)
}

/// Reads a number of units of so many seconds.
pub(super) fn scaled(number: &str, unit: f64) -> Result<Duration, DurationError> {
    let number: f64 = number.parse().map_err(|_| DurationError::NotADuration)?;
    let seconds = number * unit;
    if seconds < 0.0 {
        return Err(DurationError::Negative);
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if duration <= LONGEST => Ok(duration),
        Ok(_) | Err(_) => Err(DurationError::TooLong),
    }
}

#[cfg(test)]
mod tests {
    use super::{DurationError, from_seconds, from_text, parse_duration};
    use std::time::Duration;

    #[test]
    fn each_unit_is_understood() {
        for (text, millis) in [
            ("500ms", 500),
            ("30s", 30_000),
            (" 5m ", 300_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
            ("1.5 s", 1500),
            ("0s", 0),
        ] {
            assert_eq!(from_text(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(from_seconds("0.25"), Ok(Duration::from_millis(250)));
    }

    #[test]
    fn what_is_no_duration_is_refused_with_its_reason() {
        for text in ["", "30", "s", "5 parsecs", "1h30m", "ms500", "1e", "٣s"] {
            assert_eq!(from_text(text), Err(DurationError::NotADuration), "{text}");
        }
        assert_eq!(from_text("-1s"), Err(DurationError::Negative));
        assert_eq!(from_text("366d"), Err(DurationError::TooLong));
        assert_eq!(from_seconds("1e400"), Err(DurationError::TooLong));
        assert_eq!(from_seconds("-0.5"), Err(DurationError::Negative));
    }

    #[test]
    fn a_program_spells_durations_as_files_do() {
        for (text, millis) in [("30", 30_000), ("0.5", 500), (" 5m", 300_000), ("500ms", 500)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "0", "0s", "-1", "soon", "366d", "inf", "NaN"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
