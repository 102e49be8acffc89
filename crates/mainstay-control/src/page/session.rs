//! The keys and tokens of pages.
//!
//! A page that was let in has a session with two keys, and no token is kept anywhere. Before a page sends a token to a server that it has
//! just connected to, it asks for one: the answer is encrypted with a key of the session, so only the program that let the page in
//! can give one that the page can read. A page can therefore send no token to another program that took the port.
//!
//! - The *run key* is one of this run of the program. The browser stores it, so that a page can be loaded again. Another program that
//!   answers at the address can read it there, and it is worth nothing then: the run that had the port is over.
//! - The *lasting key* is valid for as long as the session, across restarts. Only the script of a loaded page holds it, as a key that
//!   cannot be read.
//!
//! Keys belong to the address where the program listens. So a program that took the port cannot pass the requests on to the real one, which
//! is elsewhere by then.

use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::token::token_from_file;

/// How long a page stays logged in.
const SESSION_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long a token works. A page asks for the next one after half of it.
const TOKEN_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Sessions that were ended by hand; the oldest is forgotten. There is one for each link that was used twice.
const ENDED_LIMIT: usize = 64;

/// The longest name of a session, and the longest text that a page sends to be authenticated with its token.
const NAME_LIMIT: usize = 128;

/// How a token of a page begins.
const PREFIX: &str = "page2";

/// Which of its keys a page asks with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum KeyKind {
    Run,
    Lasting,
}

/// What a page gets when it is let in. Has no `Debug`.
#[derive(Serialize)]
pub(super) struct PageKeys {
    pub(super) session: String,
    run_key: String,
    lasting_key: String,
}

/// What is encrypted for a page. Has no `Debug`.
#[derive(Serialize)]
struct PageGrant {
    token: String,
    lifetime_ms: u64,
    run_key: String,
    lasting_key: String,
}

/// The sessions of pages. None of them is stored: their keys are computed from their names.
pub(super) struct PageSessions {
    /// `None` if the system has no random numbers: then no page is let in.
    run: Option<hmac::Key>,
    token: hmac::Key,
    key_file: Option<PathBuf>,
    lasting: Mutex<hmac::Key>,
    ended: watch::Sender<VecDeque<String>>,
}

impl PageSessions {
    /// Sessions for a program with this token. The file holds what lasting keys are made from; without one they end with this run.
    pub(super) fn new(token: &str, key_file: Option<PathBuf>) -> Self {
        let root = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
        let token = hmac::sign(&root, b"mainstay page login");
        let token = hmac::Key::new(hmac::HMAC_SHA256, token.as_ref());
        Self {
            run: random_key(),
            lasting: Mutex::new(lasting_root(&token, key_file.as_ref())),
            token,
            key_file,
            ended: watch::Sender::default(),
        }
    }

    /// A new session of a page at this address.
    pub(super) fn begin(&self, address: SocketAddr) -> Option<PageKeys> {
        let mut random = [0; 16];
        SystemRandom::new().fill(&mut random).ok()?;
        let until = unix_seconds() + SESSION_LIFETIME.as_secs();
        let session = format!("{until}-{}", hex(&random));
        Some(PageKeys {
            run_key: hex(&self.key(KeyKind::Run, &session, address)?),
            lasting_key: hex(&self.key(KeyKind::Lasting, &session, address)?),
            session,
        })
    }

    /// The next token of a session, encrypted with one of its keys together with the text that the page chose. `None` if the session is
    /// over.
    pub(super) fn seal_token(
        &self,
        session: &str,
        kind: KeyKind,
        nonce: &str,
        address: SocketAddr,
    ) -> Option<String> {
        let is_too_long = session.len() > NAME_LIMIT || nonce.len() > NAME_LIMIT;
        if is_too_long || !self.is_live(session) {
            return None;
        }
        let grant = PageGrant {
            token: self.token(session, unix_seconds() + TOKEN_LIFETIME.as_secs())?,
            lifetime_ms: crate::api::ms(TOKEN_LIFETIME),
            run_key: hex(&self.key(KeyKind::Run, session, address)?),
            lasting_key: hex(&self.key(KeyKind::Lasting, session, address)?),
        };
        let key = UnboundKey::new(&AES_256_GCM, &self.key(kind, session, address)?).ok()?;
        let mut start = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut start).ok()?;
        let mut sealed = serde_json::to_vec(&grant).ok()?;
        let aad = Aad::from(nonce.as_bytes());
        let start_nonce = Nonce::assume_unique_for_key(start);
        LessSafeKey::new(key)
            .seal_in_place_append_tag(start_nonce, aad, &mut sealed)
            .ok()?;
        Some(hex(&start) + &hex(&sealed))
    }

    /// The session of a token that lets a page in.
    pub(super) fn admit<'t>(&self, token: &'t str) -> Option<&'t str> {
        let (signed, tag) = token.rsplit_once('.')?;
        let (session, until) = signed.strip_prefix(PREFIX)?.strip_prefix('.')?.rsplit_once('.')?;
        hmac::verify(self.run.as_ref()?, signed.as_bytes(), &unhex(tag)?).ok()?;
        let is_current = unix_seconds() < until.parse().ok()?;
        (is_current && self.is_live(session)).then_some(session)
    }

    /// Completes when the session is ended.
    pub(super) fn end_of(&self, session: &str) -> impl Future<Output = ()> + Send + use<> {
        let (mut ended, session) = (self.ended.subscribe(), session.to_owned());
        async move {
            if ended.wait_for(|ended| ended.contains(&session)).await.is_err() {
                // The program ends, and its connections with it.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Ends a session at once, and all lasting keys: this run forgets which session it was. Other pages get new ones with their next token.
    ///
    /// Blocks the thread for as long as the file system takes.
    pub(super) fn end(&self, session: &str) {
        self.ended.send_modify(|ended| {
            if ended.len() >= ENDED_LIMIT {
                ended.pop_front();
            }
            ended.push_back(session.to_owned());
        });
        if let Some(file) = &self.key_file
            && let Err(error) = std::fs::remove_file(file)
        {
            tracing::warn!(%error, file = %file.display(), "the key of pages cannot be removed: remove it by hand");
        }
        *self.lasting() = lasting_root(&self.token, self.key_file.as_ref());
    }

    fn is_live(&self, session: &str) -> bool {
        let until = session.split_once('-').and_then(|(until, _)| until.parse().ok());
        until.is_some_and(|until: u64| unix_seconds() < until)
            && !self.ended.borrow().iter().any(|ended| ended == session)
    }

    fn token(&self, session: &str, until: u64) -> Option<String> {
        let signed = format!("{PREFIX}.{session}.{until}");
        let tag = hmac::sign(self.run.as_ref()?, signed.as_bytes());
        Some(format!("{signed}.{}", hex(tag.as_ref())))
    }

    fn key(&self, kind: KeyKind, session: &str, address: SocketAddr) -> Option<[u8; 32]> {
        let text = format!("key of {session} at {address}");
        let key = match kind {
            KeyKind::Run => hmac::sign(self.run.as_ref()?, text.as_bytes()),
            KeyKind::Lasting => hmac::sign(&self.lasting(), text.as_bytes()),
        };
        key.as_ref().try_into().ok()
    }

    fn lasting(&self) -> MutexGuard<'_, hmac::Key> {
        self.lasting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn random_key() -> Option<hmac::Key> {
    hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok()
}

/// What lasting keys are made from: the program's token and the secret in the file. A new one of either ends all of them.
fn lasting_root(token: &hmac::Key, file: Option<&PathBuf>) -> hmac::Key {
    let secret = file.and_then(|file| {
        let secret = token_from_file(file);
        secret
            .inspect_err(|error| tracing::warn!(%error, "pages do not come back after a restart"))
            .ok()
    });
    match secret {
        Some(secret) => {
            let key = hmac::sign(token, secret.expose().as_bytes());
            hmac::Key::new(hmac::HMAC_SHA256, key.as_ref())
        }
        // Without random numbers no page is let in, and nothing is made from this.
        None => random_key().unwrap_or_else(|| token.clone()),
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

pub(super) fn hex(bytes: &[u8]) -> String {
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
    use serde_json::Value;

    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn sessions(directory: &tempfile::TempDir, token: &str) -> PageSessions {
        PageSessions::new(token, Some(directory.path().join("page-key")))
    }

    /// What a page with this key reads.
    fn unseal(sealed: &str, key: &str, nonce: &str) -> Option<Value> {
        let mut sealed = unhex(sealed).expect("hex");
        let key = UnboundKey::new(&AES_256_GCM, &unhex(key).expect("hex")).expect("a key");
        let (start, text) = sealed.split_at_mut(NONCE_LEN);
        let start = Nonce::try_assume_unique_for_key(start).expect("twelve bytes");
        let opened = LessSafeKey::new(key).open_in_place(start, Aad::from(nonce.as_bytes()), text);
        Some(serde_json::from_slice(opened.ok()?).expect("JSON"))
    }

    fn token(sessions: &PageSessions, page: &PageKeys, kind: KeyKind, port: u16) -> Option<String> {
        let sealed = sessions.seal_token(&page.session, kind, "n", at(port))?;
        let key = match kind {
            KeyKind::Run => &page.run_key,
            KeyKind::Lasting => &page.lasting_key,
        };
        let grant = unseal(&sealed, key, "n")?;
        Some(grant["token"].as_str().expect("a token").to_owned())
    }

    #[test]
    fn a_page_gets_a_token_with_either_key_until_it_expires() {
        let directory = tempfile::tempdir().unwrap();
        let sessions = sessions(&directory, "secret");
        let page = sessions.begin(at(1)).unwrap();
        for kind in [KeyKind::Run, KeyKind::Lasting] {
            let token = token(&sessions, &page, kind, 1).expect("a token that the page can read");
            assert_eq!(sessions.admit(&token), Some(page.session.as_str()));
        }
        let expired = sessions.token(&page.session, unix_seconds() - 1).unwrap();
        assert_eq!(sessions.admit(&expired), None);
        let over = format!("{}-00", unix_seconds() - 1);
        assert_eq!(sessions.seal_token(&over, KeyKind::Run, "n", at(1)), None);
        let unlimited = "x".repeat(NAME_LIMIT + 1);
        assert_eq!(
            sessions.seal_token(&page.session, KeyKind::Run, &unlimited, at(1)),
            None
        );
    }

    #[test]
    fn an_answer_to_another_question_or_from_another_program_cannot_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let sessions = sessions(&directory, "secret");
        let page = sessions.begin(at(1)).unwrap();
        let sealed = sessions
            .seal_token(&page.session, KeyKind::Run, "asked", at(1))
            .unwrap();
        assert!(unseal(&sealed, &page.run_key, "asked").is_some());
        assert!(
            unseal(&sealed, &page.run_key, "asked later").is_none(),
            "an earlier answer"
        );
        assert!(unseal(&sealed, &page.lasting_key, "asked").is_none());
        // Another program passes the question on to the real one, which has another port by now.
        assert_eq!(token(&sessions, &page, KeyKind::Run, 2), None);
        assert_eq!(token(&sessions, &page, KeyKind::Lasting, 2), None);
    }

    #[test]
    fn only_the_lasting_key_outlives_the_program_and_not_its_token() {
        let directory = tempfile::tempdir().unwrap();
        let first = sessions(&directory, "secret");
        let page = first.begin(at(1)).unwrap();
        let earlier = token(&first, &page, KeyKind::Run, 1).unwrap();
        let next = sessions(&directory, "secret");
        assert_eq!(next.admit(&earlier), None, "a token of an earlier run");
        assert_eq!(token(&next, &page, KeyKind::Run, 1), None);
        assert!(token(&next, &page, KeyKind::Lasting, 1).is_some());
        let other = sessions(&directory, "another");
        assert_eq!(token(&other, &page, KeyKind::Lasting, 1), None);
    }

    #[test]
    fn forged_tokens_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let sessions = sessions(&directory, "secret");
        let page = sessions.begin(at(1)).unwrap();
        let token = token(&sessions, &page, KeyKind::Run, 1).unwrap();
        let later = token.replacen(PREFIX, "page3", 1);
        let (signed, tag) = token.rsplit_once('.').unwrap();
        let longer = format!("{signed}0.{tag}");
        for forged in [
            "",
            "page2",
            "page2.1",
            "page2.s.99999999999.00",
            "page2..é0",
            &later,
            &longer,
        ] {
            assert_eq!(sessions.admit(forged), None, "{forged}");
        }
    }

    #[tokio::test]
    async fn an_ended_session_gets_nothing_in_this_run_and_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let first = sessions(&directory, "secret");
        let [page, other] = [(); 2].map(|()| first.begin(at(1)).unwrap());
        let held = token(&first, &page, KeyKind::Run, 1).unwrap();
        let (end, end_of_other) = (first.end_of(&page.session), first.end_of(&other.session));
        first.end(&page.session);
        end.await;
        assert_eq!(first.admit(&held), None);
        assert_eq!(token(&first, &page, KeyKind::Run, 1), None);
        let next = sessions(&directory, "secret");
        assert_eq!(token(&next, &page, KeyKind::Lasting, 1), None);
        assert!(
            token(&first, &other, KeyKind::Run, 1).is_some(),
            "another page goes on"
        );
        let waited = tokio::time::timeout(Duration::ZERO, end_of_other).await;
        assert!(waited.is_err(), "its streams too");
    }
}
