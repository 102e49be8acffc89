//! What the core may not fetch by itself: the time and random numbers.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SecureRandom;

/// The time and the random numbers of one call. The caller hands them in, so that the core reads no clock.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The time of the call.
    pub now: SystemTime,
    /// The source of random numbers, `ring::rand::SystemRandom` in production.
    pub random: &'a dyn SecureRandom,
}

impl<'a> Context<'a> {
    /// Joins a time and a source of random numbers.
    pub fn new(now: SystemTime, random: &'a dyn SecureRandom) -> Self {
        Self { now, random }
    }

    /// `N` random bytes as base64url without padding.
    pub(crate) fn random_text<const N: usize>(&self) -> Result<String, NoRandomness> {
        let mut bytes = [0; N];
        self.random
            .fill(&mut bytes)
            .map_err(|_unspecified| NoRandomness)?;
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// The system gave no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gave no random numbers, which a login needs; try again later")]
pub struct NoRandomness;

/// Seconds since 1970, as JWTs and stored records count them. A clock before 1970 counts as 1970.
pub(crate) fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The time of a number of seconds since 1970, if the system can express it.
pub(crate) fn from_unix_seconds(seconds: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}
