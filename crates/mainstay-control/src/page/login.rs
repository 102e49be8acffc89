//! How a browser is let in: a code that works once becomes a token for the page.
//!
//! The token is signed with a key that comes from the program's own token, so that a page survives a restart of the program. A new
//! token of the program ends all pages.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// How long a code can be used: a browser opens at once.
pub const PAGE_CODE_LIFETIME: Duration = Duration::from_secs(60);

/// How long a page stays logged in.
const PAGE_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// Codes that are not used yet; the oldest gives way.
const CODES_LIMIT: usize = 16;

/// How a token of a page begins.
const PREFIX: &str = "page1";

/// The logins of pages.
pub struct PageLogins {
    key: hmac::Key,
    codes: Mutex<VecDeque<(String, Instant)>>,
}

impl PageLogins {
    /// Logins for a program with this token.
    pub fn new(token: &str) -> Self {
        let root = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
        let key = hmac::sign(&root, b"mainstay page login");
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()),
            codes: Mutex::default(),
        }
    }

    /// A code that works once, within [`PAGE_CODE_LIFETIME`]; `None` if the system has no random numbers.
    pub fn issue_code(&self) -> Option<String> {
        let mut bytes = [0; 24];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let code = hex(&bytes);
        let mut codes = self.codes();
        codes.retain(|(_, issued)| issued.elapsed() < PAGE_CODE_LIFETIME);
        if codes.len() >= CODES_LIMIT {
            codes.pop_front();
        }
        codes.push_back((code.clone(), Instant::now()));
        Some(code)
    }

    /// The token of a page for a code.
    pub(crate) fn redeem(&self, code: &str) -> Option<String> {
        let mut codes = self.codes();
        // Codes are random and live for a minute: the time of a comparison tells nothing that helps.
        let at = codes.iter().position(|(issued, _)| issued == code)?;
        let (_, issued) = codes.remove(at)?;
        drop(codes);
        if issued.elapsed() >= PAGE_CODE_LIFETIME {
            return None;
        }
        Some(self.token(unix_seconds() + PAGE_LIFETIME.as_secs()))
    }

    fn token(&self, until: u64) -> String {
        let signed = format!("{PREFIX}.{until}");
        let tag = hmac::sign(&self.key, signed.as_bytes());
        format!("{signed}.{}", hex(tag.as_ref()))
    }

    /// Whether this token lets a page in.
    pub(crate) fn admits(&self, token: &str) -> bool {
        let Some((signed, tag)) = token.rsplit_once('.') else {
            return false;
        };
        let (Some(tag), Some(until)) = (
            unhex(tag),
            signed
                .strip_prefix(PREFIX)
                .and_then(|rest| rest.strip_prefix('.')),
        ) else {
            return false;
        };
        let is_signed = hmac::verify(&self.key, signed.as_bytes(), &tag).is_ok();
        is_signed && until.parse::<u64>().is_ok_and(|until| unix_seconds() < until)
    }

    fn codes(&self) -> std::sync::MutexGuard<'_, VecDeque<(String, Instant)>> {
        self.codes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PageLogins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageLogins").finish_non_exhaustive()
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let is_hex = text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex {
        return None;
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_works_once_and_its_token_until_it_expires() {
        let logins = PageLogins::new("secret");
        let code = logins.issue_code().unwrap();
        assert_eq!(logins.redeem("another"), None);
        let token = logins.redeem(&code).expect("the code is new");
        assert_eq!(logins.redeem(&code), None);
        assert!(logins.admits(&token));
        assert!(!logins.admits(&logins.token(unix_seconds() - 1)), "expired");
    }

    #[test]
    fn a_code_that_is_a_minute_old_is_refused() {
        let logins = PageLogins::new("secret");
        let age = |code: &str, age: Duration| {
            let mut codes = logins.codes();
            let (_, issued) = codes.iter_mut().find(|(issued, _)| issued == code).unwrap();
            *issued = issued.checked_sub(age).expect("the machine runs for longer");
        };
        let [young, old] = [(); 2].map(|()| logins.issue_code().unwrap());
        age(&young, PAGE_CODE_LIFETIME - Duration::from_secs(5));
        age(&old, PAGE_CODE_LIFETIME);
        assert_eq!(logins.redeem(&old), None);
        assert!(logins.redeem(&young).is_some());
    }

    #[test]
    fn a_token_outlives_the_program_and_not_its_token() {
        let logins = PageLogins::new("secret");
        let token = logins.redeem(&logins.issue_code().unwrap()).unwrap();
        assert!(PageLogins::new("secret").admits(&token), "after a restart");
        assert!(!PageLogins::new("another").admits(&token));
        let later = token.replacen(PREFIX, "page2", 1);
        let longer = {
            let (signed, tag) = token.rsplit_once('.').unwrap();
            format!("{signed}0.{tag}")
        };
        for forged in [
            "",
            "page1",
            "page1.1",
            "page1.99999999999.00",
            "page1..é0",
            &later,
            &longer,
        ] {
            assert!(!logins.admits(forged), "{forged}");
        }
    }

    #[test]
    fn many_codes_push_out_the_oldest() {
        let logins = PageLogins::new("secret");
        let first = logins.issue_code().unwrap();
        for _ in 0..CODES_LIMIT {
            logins.issue_code().unwrap();
        }
        assert_eq!(logins.redeem(&first), None);
    }
}
