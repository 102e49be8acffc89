//! Whose a task is, and the id by which a client knows it.
//!
//! An id that a client is given is sealed for its principal: nobody else can use it, and nothing has to be remembered to
//! check it. In the union it also says which server has the task. A client without a token and a session has no identity: its
//! id is sealed for whoever shows it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mainstay::ServerNotification;
use mainstay::message::{Object, RawJson, RpcError};
use ring::hmac;
use ring::rand::SystemRandom;

use super::relation::Relation;
use crate::principal::{Principal, TokenDigest};
use crate::protocol::text;
use crate::scope::Scope;

/// Tasks of one principal that are remembered. The oldest are forgotten: the client can use their ids, but they are not
/// listed, and it hears no news of them.
const MAX_TASKS: usize = 1024;

/// The longest id that is remembered: those that servers give have some tens of bytes.
const MAX_ID_LENGTH: usize = 1024;

/// News of unknown tasks that is kept for one principal: the answer that tells of the task may be on its way.
const MAX_EARLY: usize = 16;

/// The longest of such news that is kept: it is a status and perhaps a sentence.
const MAX_NEWS_LENGTH: usize = 4096;

/// What stands between the id that a server gave and its seal.
const SEAL: char = '~';

/// The tasks of all principals.
pub(crate) struct Tasks {
    /// None where there is one client only, which knows tasks by the ids that their servers gave.
    key: Option<Arc<hmac::Key>>,
    /// As many as there are tokens at the doors.
    of_tokens: Mutex<HashMap<TokenDigest, Arc<Begun>>>,
}

/// The tasks of one client's principal, and how this client knows them.
#[derive(Clone)]
pub(crate) struct OwnTasks {
    key: Option<Arc<hmac::Key>>,
    principal: Principal,
    scope: Scope,
    begun: Arc<Begun>,
}

/// The tasks that a principal has begun.
#[derive(Default)]
struct Begun(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// Server and id, the latest last.
    tasks: VecDeque<(String, String)>,
    /// News that came before the answer by which the task is known.
    early: VecDeque<(String, ServerNotification)>,
}

impl Tasks {
    /// For clients of any number, or for one alone.
    pub(crate) fn new(has_one_client: bool) -> Self {
        let random = SystemRandom::new();
        let key = || hmac::Key::generate(hmac::HMAC_SHA256, &random).expect("the system has random numbers");
        Self {
            key: (!has_one_client).then(|| Arc::new(key())),
            of_tokens: Mutex::default(),
        }
    }

    /// The tasks of this principal, as its client in this scope knows them.
    pub(crate) fn of(&self, principal: Principal, scope: Scope) -> OwnTasks {
        let begun = match principal {
            Principal::Token(token) => lock(&self.of_tokens).entry(token).or_default().clone(),
            Principal::Session(_) | Principal::Address(_) => Arc::default(),
        };
        OwnTasks {
            key: self.key.clone(),
            principal,
            scope,
            begun,
        }
    }
}

impl OwnTasks {
    /// Notes a task that the client has begun, or has shown to be its own; news of it that came too early.
    pub(super) fn note(&self, server: &str, id: &str) -> Vec<ServerNotification> {
        if id.len() > MAX_ID_LENGTH || self.has(server, id) {
            return Vec::new();
        }
        let mut table = lock(&self.begun.0);
        if table.tasks.len() >= MAX_TASKS {
            table.tasks.pop_front();
        }
        table.tasks.push_back((server.to_owned(), id.to_owned()));
        let is_of_it = |(of, news): &(String, ServerNotification)| of == id && *news.server == *server;
        let early = std::mem::take(&mut table.early);
        let (early, rest): (Vec<_>, _) = early.into_iter().partition(is_of_it);
        table.early = rest.into();
        early.into_iter().map(|(_, news)| news).collect()
    }

    /// Keeps news of a task for the answer that may be on its way.
    pub(crate) fn keep(&self, id: String, mut news: ServerNotification) {
        let params = news.params.take().map(|params| params.as_str().to_owned());
        let Some(params) = params.filter(|params| params.len() <= MAX_NEWS_LENGTH) else {
            return;
        };
        // Copied: the message is not kept for it.
        news.params = RawJson::from_text(params).ok();
        let mut table = lock(&self.begun.0);
        if table.early.len() >= MAX_EARLY {
            table.early.pop_front();
        }
        table.early.push_back((id, news));
    }

    /// Whether its principal has begun this task of this server.
    pub(crate) fn has(&self, server: &str, id: &str) -> bool {
        let table = lock(&self.begun.0);
        let mut tasks = table.tasks.iter();
        tasks.any(|(at, task)| at == server && task == id)
    }

    /// Whether its principal has begun any task at this server.
    pub(super) fn any_at(&self, server: &str) -> bool {
        let table = lock(&self.begun.0);
        table.tasks.iter().any(|(at, _)| at == server)
    }

    /// Whether nobody else can have tasks at the servers that all clients share.
    pub(crate) fn are_all(&self) -> bool {
        self.key.is_none()
    }

    /// Whether the client knows tasks by the ids that their server gave.
    pub(super) fn have_their_own_ids(&self) -> bool {
        self.are_all() && matches!(self.scope, Scope::Server(_))
    }

    /// The id by which the client knows this task of this server.
    pub(crate) fn public_id(&self, server: &str, id: &str) -> String {
        let named = match self.scope {
            Scope::Union => at_server(server, id),
            Scope::Server(_) => id.to_owned(),
        };
        match &self.key {
            Some(key) => {
                let tag = hmac::sign(key, &self.sealed(server, id));
                format!("{named}{SEAL}{}", URL_SAFE_NO_PAD.encode(tag))
            }
            None => named,
        }
    }

    /// The server and the id that it gave, of an id that this client was given.
    pub(crate) fn known(&self, public: &str) -> Option<(String, String)> {
        let (named, seal) = match &self.key {
            Some(_) => public.rsplit_once(SEAL)?,
            None => (public, ""),
        };
        let (server, id) = match &self.scope {
            Scope::Union => parted(named)?,
            Scope::Server(name) => (name.to_string(), named),
        };
        if let Some(key) = &self.key {
            let seal = URL_SAFE_NO_PAD.decode(seal).ok()?;
            hmac::verify(key, &self.sealed(&server, id), &seal).ok()?;
        }
        Some((server, id.to_owned()))
    }

    /// What a seal covers: each part with its length, so that no two tasks have the same.
    fn sealed(&self, server: &str, id: &str) -> Vec<u8> {
        let mut sealed = Vec::new();
        self.principal.write_to(&mut sealed);
        sealed.extend_from_slice(&(server.len() as u64).to_be_bytes());
        sealed.extend_from_slice(server.as_bytes());
        sealed.extend_from_slice(id.as_bytes());
        sealed
    }

    /// What a server asks or tells, as the client is to see it. None where it belongs to a task that is not the client's, or may do so.
    pub(crate) fn shown(&self, server: &str, params: RawJson) -> Option<RawJson> {
        if self.have_their_own_ids() {
            return Some(params);
        }
        match Relation::read(&params).ok()? {
            Some(relation) if self.are_all() || self.has(server, relation.id()) => {
                let id = self.public_id(server, relation.id());
                Some(relation.renamed(&id))
            }
            Some(_) => None,
            None => Some(params),
        }
    }

    /// The same for what a server asks: what is for another's task is declined.
    pub(crate) fn asked(
        &self,
        server: &str,
        method: &str,
        params: Option<RawJson>,
    ) -> Result<Option<RawJson>, RpcError> {
        let Some(params) = params else { return Ok(None) };
        let what = || format!("{method} declined: the client whose call runs did not begin this task");
        let declined = || RpcError::new(RpcError::INVALID_REQUEST, what());
        self.shown(server, params).map(Some).ok_or_else(declined)
    }

    /// What a client says of a task, as the server knows it.
    pub(crate) fn as_known(&self, message: RawJson) -> RawJson {
        let relation = (!self.have_their_own_ids()).then(|| Relation::read(&message).ok().flatten());
        let known = relation.flatten().and_then(|relation| {
            let (_, id) = self.known(relation.id())?;
            Some(relation.renamed(&id))
        });
        known.unwrap_or(message)
    }

    /// News of a task, with the id by which the client knows it.
    pub(crate) fn with_public_id(&self, server: &str, task: &RawJson) -> Option<RawJson> {
        if self.have_their_own_ids() {
            return Some(task.clone());
        }
        let mut object = Object::parse(task)?;
        let id: String = object.get("taskId")?.parse().ok()?;
        object.set("taskId", text(&self.public_id(server, &id)));
        Some(object.to_raw())
    }
}

/// The id of a task of this server, where there are several servers.
pub(super) fn at_server(server: &str, id: &str) -> String {
    let server = server.replace('%', "%25").replace('/', "%2F");
    format!("{server}/{id}")
}

/// The server of such an id, and the id that it gave.
pub(super) fn parted(public: &str) -> Option<(String, &str)> {
    let (server, id) = public.split_once('/')?;
    Some((server.replace("%2F", "/").replace("%25", "%"), id))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const ONE: Principal = Principal::Session(1);

    fn at(name: &str) -> Scope {
        Scope::Server(name.into())
    }

    #[test]
    fn an_id_leads_its_client_back_to_the_server_and_the_id_that_it_gave() {
        for tasks in [Tasks::new(false), Tasks::new(true)] {
            for (server, id) in [
                ("a", "1"),
                ("a/b", "x/y~z"),
                ("100%", ""),
                ("a%2Fb", "%2F"),
                ("é", "a b~"),
            ] {
                for scope in [Scope::Union, at(server)] {
                    let own = tasks.of(ONE, scope);
                    let public = own.public_id(server, id);
                    let known = Some((server.to_owned(), id.to_owned()));
                    assert_eq!(own.known(&public), known, "{public}");
                    assert_eq!(own.public_id(server, id), public, "it stays the same");
                }
            }
        }
        assert_eq!(parted("no-server"), None);
        assert_ne!(at_server("a/b", "c"), at_server("a", "b/c"));
    }

    #[test]
    fn nobody_uses_an_id_but_the_principal_that_it_was_given_to() {
        let tasks = Tasks::new(false);
        let token = |token| Principal::Token(TokenDigest::of(token));
        let address = |last| Principal::Address(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
        let principals = [ONE, Principal::Session(2), token("a"), token("b"), address(1)];
        for scope in [Scope::Union, at("a")] {
            for owner in principals {
                let public = tasks.of(owner, scope.clone()).public_id("a", "t");
                for other in principals {
                    let own = tasks.of(other, scope.clone());
                    assert_eq!(
                        own.known(&public).is_some(),
                        owner == other,
                        "{owner:?} {other:?}"
                    );
                }
                let another = tasks.of(owner, at("b"));
                assert_eq!(another.known(&public), None, "it is of another server");
                assert_eq!(Tasks::new(false).of(owner, scope.clone()).known(&public), None);
            }
            let public = tasks.of(address(1), scope.clone()).public_id("a", "t");
            let moved = tasks.of(address(2), scope.clone());
            assert!(
                moved.known(&public).is_some(),
                "without an identity the id is the key"
            );
            for forged in ["t", "a/t", "t~", "a/t~AAAAAAAAAAAAAAAAAAAAAA", "~", ""] {
                assert_eq!(moved.known(forged), None, "{forged}");
            }
        }
    }

    #[test]
    fn of_the_tasks_of_a_principal_the_latest_are_remembered() {
        let own = Tasks::new(false).of(ONE, Scope::Union);
        for n in 0..=MAX_TASKS {
            own.note("a", &n.to_string());
        }
        assert!(!own.has("a", "0"));
        assert!(own.has("a", "1") && own.has("a", &MAX_TASKS.to_string()));
        assert!(!own.has("b", "1") && own.any_at("a") && !own.any_at("b"));
        own.note("a", &"x".repeat(MAX_ID_LENGTH + 1));
        assert!(own.has("a", "1"), "one that is too long takes no place");
    }

    #[test]
    fn a_token_has_its_tasks_in_every_session() {
        let tasks = Tasks::new(false);
        let token = |token| Principal::Token(TokenDigest::of(token));
        tasks.of(token("a"), Scope::Union).note("s", "t");
        assert!(tasks.of(token("a"), at("s")).has("s", "t"));
        assert!(!tasks.of(token("b"), Scope::Union).has("s", "t"));
    }
}
