//! How long a connection waits for its next request.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

/// Where the server does not say how long it keeps a connection. Node and uvicorn close after 5 s.
pub(super) const USUALLY: Duration = Duration::from_secs(4);

/// The longest, whatever the server says: balancers on the way may close sooner.
const LONGEST: Duration = Duration::from_secs(45);

/// How much sooner than the server this side closes, so that a request seldom meets a connection that is just being closed.
const MARGIN: Duration = Duration::from_secs(1);

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// How long the connection that an answer with these headers came on may be kept.
pub(super) fn kept(headers: &HeaderMap) -> Duration {
    let Some(timeout) = headers
        .get(KEEP_ALIVE)
        .and_then(|value| timeout(value.to_str().ok()?))
    else {
        return USUALLY;
    };
    // Of a short time a share is kept: a margin would leave nothing of it.
    timeout
        .saturating_sub(MARGIN)
        .max(timeout.min(MARGIN) / 2)
        .min(LONGEST)
}

/// The `timeout` of a `Keep-Alive`.
fn timeout(value: &str) -> Option<Duration> {
    let mut parameters = value.split(',').filter_map(|parameter| parameter.split_once('='));
    let (_, seconds) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("timeout"))?;
    seconds
        .trim()
        .trim_matches('"')
        .parse()
        .ok()
        .map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_kept_a_little_shorter_than_its_server_says_it_does() {
        let millis = Duration::from_millis;
        for (said, expected) in [
            (None, USUALLY),
            (Some("timeout=5"), millis(4000)),
            (Some("timeout=5, max=1000"), millis(4000)),
            (Some("max=100, Timeout = \"20\""), millis(19_000)),
            (Some("timeout=3600"), LONGEST),
            (Some("timeout=2"), millis(1000)),
            (Some("timeout=1"), millis(500)),
            (Some("timeout=0"), Duration::ZERO),
            (Some("timeout=soon"), USUALLY),
            (Some("max=5"), USUALLY),
            (Some(""), USUALLY),
        ] {
            let headers = said.map(|said| (KEEP_ALIVE, said.parse().unwrap()));
            assert_eq!(kept(&headers.into_iter().collect()), expected, "{said:?}");
        }
    }
}
