//! Whose a task is, and the id by which a client knows it.
//!
//! The gateway signs an id that it gives to a client for the client's principal. No other principal can use it, and the gateway
//! remembers nothing to check it. In the union the id also says which server has the task. A client without a token and a session
//! has no identity: every such client that shows the id can use it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mainstay::gateway::message::{Object, Params, RawJson, RpcError, process_payload};
use mainstay::handler::ServerNotification;
use ring::hmac;
use ring::rand::SystemRandom;

use crate::lock::lock;
use crate::principal::{Principal, TokenDigest};
use crate::protocol::{invalid_params, text};
use crate::router::resolve::unknown;
use crate::scope::Scope;

/// Tasks of one principal that are remembered. The oldest are forgotten: the client can use their ids, but the gateway does not list
/// them, and sends no notifications of them.
const TASK_LIMIT: usize = 1024;

/// Tasks whose owners are remembered, of all principals together. The oldest are forgotten: then the signature alone decides.
const OWNER_LIMIT: usize = 8 * 1024;

/// The longest id that is remembered, in bytes. Servers give ids of some tens.
const ID_LENGTH_LIMIT: usize = 1024;

/// Notifications of unknown tasks that are kept for one principal: the result that names the task may be on its way.
const EARLY_LIMIT: usize = 16;

/// The longest parameters of such a notification, in bytes: they hold a status and perhaps a sentence.
const EARLY_LENGTH_LIMIT: usize = 4096;

/// Stands between the id that a server gave and its signature.
const SIGNATURE_MARK: char = '~';

/// The key in `_meta` that names the task which a message belongs to.
pub(in crate::router) const RELATED: &str = "io.modelcontextprotocol/related-task";

/// The tasks of all principals.
pub(crate) struct ClientTasks {
    /// `None` where there is one client only, which knows tasks by the ids that their servers gave.
    key: Option<Arc<hmac::Key>>,
    /// As many as there are tokens at the doors.
    of_tokens: Mutex<HashMap<TokenDigest, Arc<TaskTable>>>,
    owners: Arc<Mutex<TaskOwners>>,
}

/// The tasks of one client's principal, and how this client knows them.
#[derive(Clone)]
pub(crate) struct OwnTasks {
    key: Option<Arc<hmac::Key>>,
    principal: Principal,
    scope: Scope,
    begun: Arc<TaskTable>,
    owners: Arc<Mutex<TaskOwners>>,
}

/// Who began a task last under its id. Servers use ids again, after a restart or once a task is forgotten: then the task of
/// that id is the later client's, and no longer that of the client which has the signed id from before.
#[derive(Default)]
struct TaskOwners {
    /// By server and id.
    owners: HashMap<(String, String), TaskOwner>,
    /// The same tasks, the oldest first.
    order: VecDeque<(String, String)>,
}

/// Who began a task.
struct TaskOwner {
    /// As it is signed.
    principal: Vec<u8>,
    /// The number of the client: of its sessions, this one began the task.
    session: u64,
}

/// A task that a server's message belongs to.
pub(in crate::router) struct RelatedTask {
    pub(in crate::router) id: String,
    /// The number of the session that began it, or of a request without a session.
    pub(in crate::router) session: u64,
}

impl TaskOwners {
    fn set(&mut self, server: &str, id: &str, owner: TaskOwner) {
        let task = (server.to_owned(), id.to_owned());
        if self.owners.insert(task.clone(), owner).is_some() {
            // The later task is as young as any other, and must be remembered as long: else the id from before would be valid again.
            self.order.retain(|known| *known != task);
        }
        self.order.push_back(task);
        if self.order.len() > OWNER_LIMIT
            && let Some(oldest) = self.order.pop_front()
        {
            self.owners.remove(&oldest);
        }
    }

    /// The client of this gateway that has begun this task.
    fn get(&self, server: &str, id: &str) -> Option<&TaskOwner> {
        self.owners.get(&(server.to_owned(), id.to_owned()))
    }

    /// Whether another principal has begun a task with this id since.
    fn is_of_another(&self, server: &str, id: &str, principal: &[u8]) -> bool {
        self.get(server, id)
            .is_some_and(|owner| owner.principal != principal)
    }
}

/// The tasks that a principal has begun.
type TaskTable = Mutex<BegunTasks>;

#[derive(Default)]
struct BegunTasks {
    /// Server and id, the latest last.
    tasks: VecDeque<(String, String)>,
    /// The same tasks: a server may list very many, and each is looked up.
    known: HashSet<(String, String)>,
    /// Notifications that came before the result that names their task, with the id of the task.
    early: VecDeque<(String, ServerNotification)>,
}

impl ClientTasks {
    /// For clients of any number, or for one alone.
    pub(crate) fn new(has_one_client: bool) -> Self {
        let random = SystemRandom::new();
        let key = || hmac::Key::generate(hmac::HMAC_SHA256, &random).expect("the system has random numbers");
        Self {
            key: (!has_one_client).then(|| Arc::new(key())),
            of_tokens: Mutex::default(),
            owners: Arc::default(),
        }
    }

    /// The task that a server's message with these parameters belongs to, if one of several clients has begun it.
    pub(in crate::router) fn related_to(
        &self,
        server: &str,
        params: Option<&RawJson>,
    ) -> Option<RelatedTask> {
        // Most servers have no tasks, and their messages need not be read.
        if self.key.is_none() || lock(&self.owners).owners.is_empty() {
            return None;
        }
        let RelatedMessage { id, .. } = RelatedMessage::read(params?)?;
        let session = lock(&self.owners).get(server, &id)?.session;
        Some(RelatedTask { id, session })
    }

    /// The tasks of this principal, as its client in this scope knows them.
    pub(crate) fn of(&self, principal: Principal, scope: Scope) -> OwnTasks {
        let begun = match principal {
            Principal::Token(token) => lock(&self.of_tokens).entry(token).or_default().clone(),
            Principal::Session { .. } | Principal::Connection { .. } => Arc::default(),
        };
        OwnTasks {
            key: self.key.clone(),
            principal,
            scope,
            begun,
            owners: self.owners.clone(),
        }
    }
}

/// For clients of any number.
impl Default for ClientTasks {
    fn default() -> Self {
        Self::new(false)
    }
}

impl OwnTasks {
    /// Notes a task that the client of this number has begun. Returns notifications of it that came too early.
    pub(in crate::router) fn began(&self, server: &str, id: &str, session: u64) -> Vec<ServerNotification> {
        if !self.are_all() && id.len() <= ID_LENGTH_LIMIT {
            let principal = self.principal();
            lock(&self.owners).set(server, id, TaskOwner { principal, session });
        }
        self.note(server, id)
    }

    /// Notes a task that is the client's own. Returns notifications of it that came too early.
    pub(in crate::router) fn note(&self, server: &str, id: &str) -> Vec<ServerNotification> {
        if id.len() > ID_LENGTH_LIMIT || self.has(server, id) {
            return Vec::new();
        }
        let mut table = lock(&self.begun);
        if table.tasks.len() >= TASK_LIMIT
            && let Some(oldest) = table.tasks.pop_front()
        {
            table.known.remove(&oldest);
        }
        let task = (server.to_owned(), id.to_owned());
        table.known.insert(task.clone());
        table.tasks.push_back(task);
        let is_of_it = |(of, early): &(String, ServerNotification)| of == id && *early.server == *server;
        let early = std::mem::take(&mut table.early);
        let (early, rest): (Vec<_>, _) = early.into_iter().partition(is_of_it);
        table.early = rest.into();
        early.into_iter().map(|(_, early)| early).collect()
    }

    /// Keeps a notification of a task until the result comes that names the task.
    pub(crate) fn keep(&self, id: String, mut early: ServerNotification) {
        let params = early.params.take();
        let Some(params) = params.filter(|params| params.as_bytes().len() <= EARLY_LENGTH_LIMIT) else {
            return;
        };
        // Copied, so that the whole message does not stay in memory.
        early.params = RawJson::from_text(params.as_str().to_owned()).ok();
        let mut table = lock(&self.begun);
        if table.early.len() >= EARLY_LIMIT {
            table.early.pop_front();
        }
        table.early.push_back((id, early));
    }

    /// Whether its principal has begun this task of this server.
    pub(crate) fn has(&self, server: &str, id: &str) -> bool {
        let task = (server.to_owned(), id.to_owned());
        lock(&self.begun).known.contains(&task) && !self.is_of_another(server, id)
    }

    /// Whether another principal has begun a task with this id since.
    fn is_of_another(&self, server: &str, id: &str) -> bool {
        lock(&self.owners).is_of_another(server, id, &self.principal())
    }

    /// The principal as it is signed.
    fn principal(&self) -> Vec<u8> {
        let mut principal = Vec::new();
        self.principal.write_to(&mut principal);
        principal
    }

    /// Whether its principal has begun any task at this server.
    pub(super) fn any_at(&self, server: &str) -> bool {
        let table = lock(&self.begun);
        table.tasks.iter().any(|(at, _)| at == server)
    }

    /// Whether no other client can have tasks at the shared servers.
    pub(crate) fn are_all(&self) -> bool {
        self.key.is_none()
    }

    /// Whether the client knows tasks by the ids that their server gave.
    pub(in crate::router) fn have_server_ids(&self) -> bool {
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
                let signature = hmac::sign(key, &self.signed(server, id));
                format!("{named}{SIGNATURE_MARK}{}", URL_SAFE_NO_PAD.encode(signature))
            }
            None => named,
        }
    }

    /// The server and the id that it gave, of an id that this client was given.
    pub(crate) fn known(&self, public: &str) -> Option<(String, String)> {
        let (named, signature) = match &self.key {
            Some(_) => public.rsplit_once(SIGNATURE_MARK)?,
            None => (public, ""),
        };
        let (server, id) = match &self.scope {
            Scope::Union => split_server(named)?,
            Scope::Server(name) => (name.to_string(), named),
        };
        if let Some(key) = &self.key {
            let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
            hmac::verify(key, &self.signed(&server, id), &signature).ok()?;
        }
        (!self.is_of_another(&server, id)).then(|| (server, id.to_owned()))
    }

    /// What a signature covers. The length of the server's name keeps any two tasks apart.
    fn signed(&self, server: &str, id: &str) -> Vec<u8> {
        let mut signed = self.principal();
        signed.extend_from_slice(&(server.len() as u64).to_be_bytes());
        signed.extend_from_slice(server.as_bytes());
        signed.extend_from_slice(id.as_bytes());
        signed
    }

    /// The parameters of a server's request or notification, as the client is to see them. `None` where they belong to a task of
    /// another client, or may do so.
    pub(crate) fn shown(&self, server: &str, params: RawJson) -> Option<RawJson> {
        if self.have_server_ids() || !params.may_hold(RELATED) {
            return Some(params);
        }
        let Some(related) = RelatedMessage::read(&params) else {
            // What cannot be parsed may name the task of another client.
            return (self.are_all() || RelatedMessage::is_none(&params)).then_some(params);
        };
        let is_own = self.are_all() || self.has(server, &related.id);
        let id = is_own.then(|| self.public_id(server, &related.id))?;
        Some(related.renamed(&id))
    }

    /// The parameters of a server's request, as the client is to see them. A request for the task of another client is declined.
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

    /// Parameters of the client with the id by which the server knows the task that they belong to. Fails where the client has no such
    /// task at this server.
    ///
    /// Cancel safety: dropping it loses the parameters.
    pub(in crate::router) async fn related_params(
        &self,
        server: &str,
        params: Params,
    ) -> Result<Params, RpcError> {
        let related = params.meta().and_then(|meta| meta.get(RELATED));
        let Some(related) = related.filter(|_| !self.have_server_ids()) else {
            return Ok(params);
        };
        let id: Option<String> =
            Object::parse(related).and_then(|related| related.get("taskId")?.parse().ok());
        let id = id.ok_or_else(|| invalid_params(format!("`{RELATED}` in `_meta` names no task")))?;
        let known = self.known(&id).filter(|(at, _)| at == server);
        let (_, known) = known.ok_or_else(|| unknown("task", &id))?;
        let raw = params.to_raw();
        let length = raw.as_ref().map_or(0, |raw| raw.as_bytes().len());
        let renamed = move || Some(RelatedMessage::read(&raw?)?.renamed(&known));
        Ok(Params::read(process_payload(length, renamed).await).await)
    }

    /// An answer of the client with the id by which the server knows the task that it belongs to. The name of a task that is not the
    /// client's is left out: the server knows which question it asked.
    pub(crate) fn as_known(&self, answer: RawJson) -> RawJson {
        if self.have_server_ids() || !answer.may_hold(RELATED) {
            return answer;
        }
        let own = RelatedMessage::read(&answer).and_then(|related| {
            let (_, id) = self.known(&related.id)?;
            Some(related.renamed(&id))
        });
        own.unwrap_or_else(|| RelatedMessage::without_task(answer))
    }

    /// The status of a task, with the id by which the client knows it.
    pub(crate) fn with_public_id(&self, server: &str, task: &RawJson) -> Option<RawJson> {
        if self.have_server_ids() {
            return Some(task.clone());
        }
        let mut object = Object::parse(task)?;
        let id: String = object.get("taskId")?.parse().ok()?;
        object.set("taskId", text(&self.public_id(server, &id)));
        Some(object.to_raw())
    }
}

/// The id of a task of this server, where there are several servers.
pub(in crate::router) fn at_server(server: &str, id: &str) -> String {
    let server = server.replace('%', "%25").replace('/', "%2F");
    format!("{server}/{id}")
}

/// A message that belongs to a task, and names it in its `_meta`.
pub(super) struct RelatedMessage {
    message: Object,
    meta: Object,
    related: Object,
    id: String,
}

impl RelatedMessage {
    /// Reads a message; `None` when it names no task, or cannot be parsed.
    pub(super) fn read(message: &RawJson) -> Option<Self> {
        let message = Object::parse(Some(message).filter(|message| message.may_hold(RELATED))?)?;
        let meta = Object::parse(message.get("_meta")?)?;
        let related = Object::parse(meta.get(RELATED)?)?;
        let id = related.get("taskId")?.parse().ok()?;
        Some(Self {
            message,
            meta,
            related,
            id,
        })
    }

    /// Whether a message certainly names no task: it has too many members to be edited, and none of them is such a name.
    fn is_none(message: &RawJson) -> bool {
        let meta = Object::find(message, ["_meta"]).and_then(|[meta]| meta);
        let related = meta.and_then(|meta| Object::find(&meta, [RELATED])?.into_iter().next()?);
        related.is_none()
    }

    /// The message without the name of a task, wherever a reader may look for it.
    fn without_task(message: RawJson) -> RawJson {
        let mut object = match Object::read(&message) {
            Ok(Some(object)) => object,
            Ok(None) => return message,
            // No answer of the protocol has so many members.
            Err(_too_many) => return RawJson::EMPTY_OBJECT,
        };
        let Some(meta) = object.get("_meta") else {
            return message;
        };
        let meta = match Object::parse(meta) {
            Some(mut meta) => {
                meta.remove(RELATED);
                meta.to_raw()
            }
            None => RawJson::EMPTY_OBJECT,
        };
        // There is one afterwards.
        object.set("_meta", meta);
        object.to_raw()
    }

    /// The message with another id of the task.
    pub(super) fn renamed(mut self, id: &str) -> RawJson {
        self.related.set("taskId", text(id));
        self.meta.set(RELATED, self.related.to_raw());
        self.message.set("_meta", self.meta.to_raw());
        self.message.to_raw()
    }
}

/// The server of such an id, and the id that it gave.
pub(super) fn split_server(public: &str) -> Option<(String, &str)> {
    let (server, id) = public.split_once('/')?;
    Some((server.replace("%2F", "/").replace("%25", "%"), id))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const ONE: Principal = Principal::session(1);

    fn at(name: &str) -> Scope {
        Scope::Server(name.into())
    }

    #[test]
    fn an_id_leads_its_client_back_to_the_server_and_the_id_that_it_gave() {
        for tasks in [ClientTasks::new(false), ClientTasks::new(true)] {
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
        assert_eq!(split_server("no-server"), None);
        assert_ne!(at_server("a/b", "c"), at_server("a", "b/c"));
    }

    #[test]
    fn only_the_principal_that_an_id_was_given_to_can_use_it() {
        let tasks = ClientTasks::new(false);
        let token = |token| Principal::Token(TokenDigest::of(token));
        let connection = |number| Principal::Connection {
            number,
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let principals = [ONE, Principal::session(2), token("a"), token("b"), connection(1)];
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
                assert_eq!(
                    ClientTasks::new(false).of(owner, scope.clone()).known(&public),
                    None
                );
            }
            let public = tasks.of(connection(1), scope.clone()).public_id("a", "t");
            let moved = tasks.of(connection(2), scope.clone());
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
    fn a_task_whose_id_the_server_gives_again_is_that_of_the_later_client() {
        let tasks = ClientTasks::new(false);
        let token = |token| Principal::Token(TokenDigest::of(token));
        let (ann, bob) = (token("ann"), token("bob"));
        let of = |principal| tasks.of(principal, at("s"));
        of(ann).began("s", "1", 1);
        let public = of(ann).public_id("s", "1");
        assert!(of(ann).known(&public).is_some() && of(ann).has("s", "1"));
        of(bob).began("s", "1", 1);
        assert_eq!(of(ann).known(&public), None);
        assert!(!of(ann).has("s", "1") && of(bob).has("s", "1"));
        // The later client is remembered as long as if its task were the first with this id.
        for n in 1..OWNER_LIMIT {
            of(bob).began("s", &format!("other {n}"), 1);
        }
        assert_eq!(of(ann).known(&public), None);
        of(bob).began("s", "1", 1);
        for n in 1..OWNER_LIMIT {
            of(bob).began("s", &format!("another {n}"), 1);
            assert_eq!(of(ann).known(&public), None, "after {n} others");
        }
        let owners = lock(&tasks.owners);
        assert_eq!(
            (owners.owners.len(), owners.order.len()),
            (OWNER_LIMIT, OWNER_LIMIT)
        );
    }

    #[test]
    fn of_the_tasks_of_a_principal_the_latest_are_remembered() {
        let own = ClientTasks::new(false).of(ONE, Scope::Union);
        for n in 0..=TASK_LIMIT {
            own.note("a", &n.to_string());
        }
        assert!(!own.has("a", "0"));
        assert!(own.has("a", "1") && own.has("a", &TASK_LIMIT.to_string()));
        assert!(!own.has("b", "1") && own.any_at("a") && !own.any_at("b"));
        own.note("a", &"x".repeat(ID_LENGTH_LIMIT + 1));
        assert!(own.has("a", "1"), "one that is too long takes no place");
    }

    #[test]
    fn a_message_of_another_s_task_is_not_shown_however_many_members_it_has() {
        let own = ClientTasks::new(false).of(ONE, Scope::Union);
        own.note("s", "mine");
        let message = |task: &str, members: usize| {
            let members: String = (0..members).map(|n| format!("\"m{n}\":0,")).collect();
            let text = format!(r#"{{{members}"_meta":{{"{RELATED}":{{"taskId":"{task}"}}}}}}"#);
            RawJson::from_text(text).unwrap()
        };
        assert!(own.shown("s", message("mine", 1)).is_some());
        for members in [1, 2 * mainstay::gateway::message::MAX_MEMBERS] {
            assert!(own.shown("s", message("theirs", members)).is_none(), "{members}");
        }
        let quoted = RawJson::from_text(format!(r#"{{"data":"{RELATED}"}}"#)).unwrap();
        assert!(own.shown("s", quoted).is_some());
    }

    #[test]
    fn an_answer_names_no_task_but_one_of_its_client() {
        let own = ClientTasks::new(false).of(ONE, at("s"));
        let mine = own.public_id("s", "1");
        let answered = |meta: &str| {
            let answer = format!(r#"{{"action":"accept",{meta}}}"#);
            own.as_known(RawJson::from_text(answer).unwrap()).to_string()
        };
        let meta = |id: &str| format!(r#""_meta":{{"a":1,"{RELATED}":{{"taskId":"{id}"}}}}"#);
        assert_eq!(
            answered(&meta(&mine)),
            format!(r#"{{"action":"accept",{}}}"#, meta("1"))
        );
        let without = r#"{"action":"accept","_meta":{"a":1}}"#;
        assert_eq!(answered(&meta("1")), without);
        assert_eq!(answered(&format!(r#"{},"_meta":{{"a":1}}"#, meta("1"))), without);
        let members: String = (0..mainstay::gateway::message::MAX_MEMBERS)
            .map(|n| format!("\"m{n}\":0,"))
            .collect();
        assert_eq!(answered(&format!("{members}{}", meta("1"))), "{}");
        let quoted = format!(r#""content":"{RELATED}""#);
        assert_eq!(answered(&quoted), format!(r#"{{"action":"accept",{quoted}}}"#));
    }

    #[test]
    fn a_token_has_its_tasks_in_every_session() {
        let tasks = ClientTasks::new(false);
        let token = |token| Principal::Token(TokenDigest::of(token));
        tasks.of(token("a"), Scope::Union).note("s", "t");
        assert!(tasks.of(token("a"), at("s")).has("s", "t"));
        assert!(!tasks.of(token("b"), Scope::Union).has("s", "t"));
    }
}
