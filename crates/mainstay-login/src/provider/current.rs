//! The login that requests use now.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderValue;

use crate::store::ReadLogin;

/// The longest time before the expiry at which a token is renewed.
const RENEWAL_MARGIN: Duration = Duration::from_secs(5 * 60);

/// A token that the server refuses although it is younger than this is not renewed again.
const NEW_TOKEN_AGE: Duration = Duration::from_secs(5);

/// How late the timer of a renewal may be.
const TIMER_TOLERANCE: Duration = Duration::from_secs(2);

/// An immutable view of the stored login.
pub(super) struct CurrentLogin {
    /// Whether the store was read at all.
    pub(super) is_read: bool,
    read: Option<ReadLogin>,
    value: Option<HeaderValue>,
}

impl CurrentLogin {
    pub(super) fn unread() -> Self {
        Self {
            is_read: false,
            read: None,
            value: None,
        }
    }

    pub(super) fn read(read: Option<ReadLogin>) -> Self {
        let usable = read.as_ref().filter(|read| read.login.ended.is_none());
        let value = usable.and_then(|read| {
            let mut value = HeaderValue::from_str(read.login.record.authorization().expose()).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        Self {
            is_read: true,
            read,
            value,
        }
    }

    pub(super) fn login(&self) -> Option<&ReadLogin> {
        self.read.as_ref()
    }

    /// The value of `Authorization`. There is none if the login has ended.
    pub(super) fn value(&self) -> Option<&HeaderValue> {
        self.value.as_ref()
    }

    /// The value, unless the token has expired.
    pub(super) fn usable(&self, now: SystemTime) -> Option<&HeaderValue> {
        let value = self.value.as_ref()?;
        match self.expires_at() {
            Some(at) if at <= now => None,
            Some(_) | None => Some(value),
        }
    }

    pub(super) fn owner(&self) -> Option<String> {
        self.read.as_ref().map(|read| read.login.id.clone())
    }

    pub(super) fn is_renewable(&self) -> bool {
        let login = self.read.as_ref().map(|read| &read.login);
        login.is_some_and(|login| login.ended.is_none() && login.record.refresh_token.is_some())
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        let version = |current: &Self| current.read.as_ref().map(|read| read.version.clone());
        version(self) == version(other)
    }

    pub(super) fn expires_at(&self) -> Option<SystemTime> {
        self.read.as_ref()?.login.record.expires_at()
    }

    /// When the token is renewed: after two thirds of its life, and at most five minutes before its end.
    pub(super) fn renews_at(&self) -> Option<SystemTime> {
        let expires = self.expires_at()?;
        let life = expires.duration_since(self.obtained_at()?).unwrap_or_default();
        expires.checked_sub((life / 3).min(RENEWAL_MARGIN))
    }

    /// Whether the timer should have renewed the token. It counts no time in which the machine slept.
    pub(super) fn is_overdue(&self, now: SystemTime) -> bool {
        let at = self.renews_at().filter(|_| self.is_renewable());
        at.and_then(|at| at.checked_add(TIMER_TOLERANCE))
            .is_some_and(|at| at <= now)
    }

    /// Whether the token was issued a moment ago, in terms of its life.
    pub(super) fn is_new(&self, now: SystemTime) -> bool {
        let Some(obtained) = self.obtained_at() else {
            return false;
        };
        let life = self.expires_at().and_then(|at| at.duration_since(obtained).ok());
        let limit = life.map_or(NEW_TOKEN_AGE, |life| (life / 2).min(NEW_TOKEN_AGE));
        now.duration_since(obtained).is_ok_and(|age| age < limit)
    }

    fn obtained_at(&self) -> Option<SystemTime> {
        let millis = self.read.as_ref()?.login.obtained_at;
        UNIX_EPOCH.checked_add(Duration::from_millis(millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{StoreVersion, StoredLogin};

    const HOUR: Duration = Duration::from_secs(3600);

    /// A login whose token was obtained at this time, and lives for an hour.
    fn obtained_at(at: SystemTime) -> CurrentLogin {
        let millis = at.duration_since(UNIX_EPOCH).unwrap().as_millis();
        let record = serde_json::json!({
            "version": 1,
            "server": "https://mcp.example/mcp",
            "issuer": "https://as.example",
            "token_endpoint": "https://as.example/token",
            "access_token": "token",
            "method": "none",
            "refresh_token": "again",
            "expires_at": (at + HOUR).duration_since(UNIX_EPOCH).unwrap().as_secs(),
        });
        let login = serde_json::json!({
            "version": 1, "id": "one", "record": record, "logged_in_at": millis, "obtained_at": millis
        });
        let login: StoredLogin = serde_json::from_value(login).expect("a login");
        let version = StoreVersion([0; 32]);
        CurrentLogin::read(Some(ReadLogin { login, version }))
    }

    #[test]
    fn a_clock_that_jumps_costs_a_renewal_at_most() {
        let noon = UNIX_EPOCH + HOUR * 500_000;
        let current = obtained_at(noon);
        let usable = |at| current.usable(at).is_some();
        assert!(usable(noon) && current.is_new(noon) && !current.is_overdue(noon));
        // Forward, over the expiry: the token is renewed before it is used again.
        let later = noon + HOUR * 24;
        assert!(!usable(later) && current.is_overdue(later) && !current.is_new(later));
        // Back, before the token was obtained: the token is used, and is not taken for a new one that the server refuses.
        let earlier = noon - HOUR * 24;
        assert!(usable(earlier) && !current.is_overdue(earlier) && !current.is_new(earlier));
    }
}
