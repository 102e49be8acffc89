//! A point in time as people write it.

use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_PER_DAY: u64 = 86_400;

/// Seconds since the start of 1970, in UTC.
pub(super) fn unix_seconds(now: SystemTime) -> u64 {
    // A clock set before 1970 is read as 1970.
    now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// ISO 8601 in UTC, to the second: `2026-07-28T09:05:00Z`.
pub(super) fn iso_8601(unix_seconds: u64) -> String {
    let (year, month, day) = date(unix_seconds / SECONDS_PER_DAY);
    let second = unix_seconds % SECONDS_PER_DAY;
    let (hours, minutes, seconds) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}Z")
}

/// Year, month and day of the `days`-th day after the first of 1970.
fn date(days: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    let mut left = days;
    while left >= days_of_year(year) {
        left -= days_of_year(year);
        year += 1;
    }
    let february = days_of_year(year) - 337;
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

fn days_of_year(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    if leap { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_written_as_the_calendar_has_them() {
        assert_eq!(iso_8601(0), "1970-01-01T00:00:00Z");
        assert_eq!(iso_8601(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(iso_8601(951_868_800), "2000-03-01T00:00:00Z");
        assert_eq!(iso_8601(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(iso_8601(1_767_225_599), "2025-12-31T23:59:59Z");
        assert_eq!(iso_8601(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
