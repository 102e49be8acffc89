//! How a browser is let in: with a link that works once.
//!
//! If a link is used again, another program may have had it first. So the second use ends what the first one opened.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom, SystemRandom};

use super::session::{KeyKind, PageKeys, PageSessions, hex};

/// How long a link can be used: a browser on a busy machine takes some seconds to start, and a person who copies it a few more.
pub const PAGE_CODE_LIFETIME: Duration = Duration::from_secs(60);

/// Links that are remembered, used ones included; the oldest gives way.
const LINKS_LIMIT: usize = 64;

/// The logins of pages.
pub struct PageLogins {
    sessions: PageSessions,
    links: Mutex<Links>,
}

#[derive(Default)]
struct Links {
    last: u64,
    issued: VecDeque<IssuedLink>,
}

struct IssuedLink {
    number: u64,
    code: String,
    at: Instant,
    /// The session that its first use began.
    opened: Option<String>,
}

/// What becomes of a code.
pub(super) enum Redeemed {
    /// It begins the session of a page.
    Opened { link: u64, keys: PageKeys },
    /// It was used before. The session of the first use is ended.
    Again { link: u64 },
    /// It is unknown or too old.
    Refused,
}

impl PageLogins {
    /// Logins for a program with this token. Pages come back after a restart if there is a file for a key; it is made if it is missing.
    ///
    /// Blocks the thread for as long as the file system takes.
    pub fn new(token: &str, key_file: Option<PathBuf>) -> Self {
        Self {
            sessions: PageSessions::new(token, key_file),
            links: Mutex::default(),
        }
    }

    /// The number and the code of a link that works once, within [`PAGE_CODE_LIFETIME`]; `None` if the system has no random numbers.
    pub(crate) fn issue_link(&self) -> Option<(u64, String)> {
        let mut bytes = [0; 24];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let code = hex(&bytes);
        let mut links = self.links();
        links
            .issued
            .retain(|link| link.opened.is_some() || link.at.elapsed() < PAGE_CODE_LIFETIME);
        if links.issued.len() >= LINKS_LIMIT {
            links.issued.pop_front();
        }
        links.last += 1;
        let number = links.last;
        links.issued.push_back(IssuedLink {
            number,
            code: code.clone(),
            at: Instant::now(),
            opened: None,
        });
        Some((number, code))
    }

    /// Uses a code for a page at this address.
    pub(super) fn redeem(&self, code: &str, address: SocketAddr) -> Redeemed {
        let mut links = self.links();
        // Codes are random and live for a minute: the time of a comparison tells nothing that helps.
        let Some(link) = links.issued.iter_mut().find(|link| link.code == code) else {
            return Redeemed::Refused;
        };
        let number = link.number;
        if let Some(session) = link.opened.clone() {
            drop(links);
            self.sessions.end(&session);
            return Redeemed::Again { link: number };
        }
        if link.at.elapsed() >= PAGE_CODE_LIFETIME {
            return Redeemed::Refused;
        }
        match self.sessions.begin(address) {
            Some(keys) => {
                link.opened = Some(keys.session.clone());
                Redeemed::Opened { link: number, keys }
            }
            None => Redeemed::Refused,
        }
    }

    /// The next token of a session, which only its page can read.
    pub(super) fn seal_token(
        &self,
        session: &str,
        kind: KeyKind,
        nonce: &str,
        address: SocketAddr,
    ) -> Option<String> {
        self.sessions.seal_token(session, kind, nonce, address)
    }

    /// Whether this token lets a page in.
    pub(crate) fn admits(&self, token: &str) -> bool {
        self.sessions.admit(token).is_some()
    }

    /// Completes when the session of this token is ended; `None` if it is no token of a page.
    pub(crate) fn end_of(&self, token: &str) -> Option<impl Future<Output = ()> + Send + use<>> {
        let session = self.sessions.admit(token)?;
        Some(self.sessions.end_of(session))
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PageLogins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageLogins").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7332);

    fn open(logins: &PageLogins, code: &str) -> Option<PageKeys> {
        match logins.redeem(code, HERE) {
            Redeemed::Opened { keys, .. } => Some(keys),
            Redeemed::Again { .. } | Redeemed::Refused => None,
        }
    }

    #[test]
    fn a_link_works_once_and_its_second_use_ends_the_page_that_it_opened() {
        let logins = PageLogins::new("secret", None);
        let (number, code) = logins.issue_link().unwrap();
        assert!(open(&logins, "another").is_none());
        let page = open(&logins, &code).expect("the link is new");
        let token = |session: &str| logins.seal_token(session, KeyKind::Run, "n", HERE);
        assert!(token(&page.session).is_some());
        let again = logins.redeem(&code, HERE);
        assert!(matches!(again, Redeemed::Again { link } if link == number));
        assert_eq!(token(&page.session), None);
    }

    #[test]
    fn a_link_that_is_a_minute_old_is_refused() {
        let logins = PageLogins::new("secret", None);
        let age = |code: &str, age: Duration| {
            let mut links = logins.links();
            let link = links.issued.iter_mut().find(|link| link.code == code).unwrap();
            link.at = link.at.checked_sub(age).expect("the machine runs for longer");
        };
        let [young, old] = [(); 2].map(|()| logins.issue_link().unwrap().1);
        age(&young, PAGE_CODE_LIFETIME - Duration::from_secs(5));
        age(&old, PAGE_CODE_LIFETIME);
        assert!(open(&logins, &old).is_none());
        assert!(open(&logins, &young).is_some());
    }

    #[test]
    fn many_links_push_out_the_oldest() {
        let logins = PageLogins::new("secret", None);
        let (_, first) = logins.issue_link().unwrap();
        for _ in 0..LINKS_LIMIT {
            logins.issue_link().unwrap();
        }
        assert!(open(&logins, &first).is_none());
    }
}
