//! The hub: which groups of servers there are, and what they do. `group` is one gateway with its servers, `commands` is what
//! people ask of them.

mod commands;
mod group;
mod refresh;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use mainstay::config::nearest;
use mainstay::gateway::PlainText;
use ring::rand::{SecureRandom, SystemRandom};

use crate::api::{
    Actor, ApiProblem, DesiredState, EventDetail, ProblemKind, ProgramStatus, RefreshReport, ReloadReport,
    ServerList, ServerOrigin, ServerStatus, SessionList, now_ms, unix_ms,
};
use crate::audit::AuditLog;
use crate::catalog_changes;
use crate::controlled::Controlled;
use crate::journal::{DEFAULT_EVENTS_LIMIT, Journal};
use crate::logins::PersonLogins;
use crate::recording;
use crate::status::{self, UsageByPid};
pub(crate) use commands::{ConfigCommand, PersonCommand};
pub use group::ServerGroup;
pub(crate) use group::{AttachedGroup, Named};
pub(crate) use refresh::REFRESH_TIMEOUT;

/// What the program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `mainstay serve`.
    Serve,
    /// The daemon of a user. Its clients on streams are bridges.
    Daemon,
}

impl Role {
    /// The role as one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Daemon => "daemon",
        }
    }
}

/// Controls the servers of a program. Clones are handles of the same hub.
#[derive(Clone)]
pub struct Control(pub(crate) Arc<Hub>);

pub(crate) struct Hub {
    controlled: Arc<dyn Controlled>,
    pub(crate) role: Role,
    pub(crate) node: Option<String>,
    pub(crate) instance: String,
    started: SystemTime,
    pub(crate) journal: Arc<Journal>,
    pub(crate) logins: PersonLogins,
    groups: Mutex<Groups>,
}

#[derive(Default)]
struct Groups {
    last: u64,
    by_number: BTreeMap<u64, Arc<AttachedGroup>>,
}

/// How a [`Control`] is made.
#[must_use = "a builder does nothing until `build`"]
pub struct ControlBuilder {
    controlled: Arc<dyn Controlled>,
    role: Role,
    node: Option<String>,
    events_limit: usize,
    audit: Option<PathBuf>,
}

impl ControlBuilder {
    /// How many events are kept for those who ask later, or read slowly; 8192 by default, and never more than 8 MiB.
    pub fn keep_events(mut self, limit: usize) -> Self {
        self.events_limit = limit;
        self
    }

    /// Keeps the commands of people in files in this directory, for [`read_audit`](crate::read_audit). A thread of its own writes them: a
    /// disk that is full or slow delays no command. `None`, the default: they are not kept.
    pub fn audit(mut self, directory: Option<PathBuf>) -> Self {
        self.audit = directory;
        self
    }

    /// What the program itself can do; nothing by default.
    pub fn controlled(mut self, controlled: Arc<dyn Controlled>) -> Self {
        self.controlled = controlled;
        self
    }

    /// The name of this machine, for those who watch several.
    pub fn node(mut self, node: impl Into<String>) -> Self {
        self.node = Some(node.into());
        self
    }

    /// The hub, without any server yet.
    pub fn build(self) -> Control {
        let instance = new_instance();
        let audit = self
            .audit
            .and_then(|directory| AuditLog::start(&directory, &instance));
        let journal = Journal::new(self.node.clone(), self.events_limit).kept_by(audit);
        Control(Arc::new(Hub {
            controlled: self.controlled,
            role: self.role,
            journal: Arc::new(journal),
            node: self.node,
            instance,
            started: SystemTime::now(),
            logins: PersonLogins::default(),
            groups: Mutex::default(),
        }))
    }
}

/// A group that is controlled, until this is dropped.
#[must_use = "the group is detached when this is dropped"]
pub struct Attached {
    hub: Arc<Hub>,
    number: u64,
}

impl Drop for Attached {
    fn drop(&mut self) {
        // The gateway is dropped outside of the lock: it may be the last handle of its fleet.
        let group = self.hub.groups().by_number.remove(&self.number);
        if let Some(group) = group
            && group.origin == ServerOrigin::AdHoc
        {
            let names = group.servers().map(|named| named.name);
            names.for_each(|name| self.hub.journal.write(Some(name), EventDetail::Removed));
        }
    }
}

impl Control {
    /// A hub for a program of this role.
    pub fn builder(role: Role) -> ControlBuilder {
        ControlBuilder {
            controlled: Arc::new(()),
            role,
            node: None,
            events_limit: DEFAULT_EVENTS_LIMIT,
            audit: None,
        }
    }

    /// Controls the servers of this gateway, until the result is dropped. Their changes of state are recorded.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn attach(&self, group: ServerGroup) -> Attached {
        let ServerGroup {
            origin,
            gateway,
            events,
            shown_as,
            remembered_as,
        } = group;
        let mut groups = self.0.groups();
        groups.last += 1;
        let number = groups.last;
        let group = Arc::new(AttachedGroup {
            number,
            origin,
            gateway,
            shown_as,
            remembered_as,
        });
        groups.by_number.insert(number, group.clone());
        drop(groups);
        if origin == ServerOrigin::AdHoc {
            let names = group.servers().map(|named| named.name);
            names.for_each(|name| self.0.journal.write(Some(name), EventDetail::Added));
        }
        recording::start(events, group.shown_as.clone(), &self.0.journal);
        let catalogs = group.gateway.fleet().catalog_reader();
        catalog_changes::start(catalogs, group.shown_as.clone(), &self.0.journal);
        Attached {
            hub: self.0.clone(),
            number,
        }
    }

    /// Records a configuration that was applied without a command of the API: the file changed, or a signal came.
    pub fn record_reload(&self, by: Actor, outcome: &Result<ReloadReport, ApiProblem>) {
        self.0.record_reload(by, outcome);
    }

    /// The program as a whole.
    pub fn program(&self) -> ProgramStatus {
        self.0.program()
    }

    /// All servers. The processes are looked at only if that is wanted: see [`mainstay::process::tree_usage`].
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn servers(&self, with_processes: bool) -> ServerList {
        self.0.server_list(with_processes).await
    }

    /// All sessions of clients.
    pub fn sessions(&self) -> SessionList {
        status::session_list(&self.0)
    }

    /// Restarts a server on behalf of a person.
    ///
    /// Cancel safety: dropped, the command is either taken whole or not at all.
    pub async fn restart(&self, server: &str, by: Actor) -> Result<(), ApiProblem> {
        self.0.command(PersonCommand::Restart, server, by).await
    }

    /// Lists again on behalf of a person what a server offers, and returns when the listing has ended.
    ///
    /// Cancel safety: dropped, the listing may still take place, and the command may not be recorded.
    pub async fn refresh(&self, server: &str, by: Actor) -> Result<RefreshReport, ApiProblem> {
        self.0.refresh(server, by).await
    }

    /// Enables or disables a server on behalf of a person.
    ///
    /// Cancel safety: dropped, the choice may be remembered for the next start and not yet be in force.
    pub async fn set_desired(
        &self,
        server: &str,
        desired: DesiredState,
        by: Actor,
    ) -> Result<(), ApiProblem> {
        let command = match desired {
            DesiredState::Enabled => PersonCommand::Enable,
            DesiredState::Disabled => PersonCommand::Disable,
        };
        self.0.command(command, server, by).await
    }
}

impl Hub {
    fn groups(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All groups, those of the configuration first.
    pub(crate) fn all_groups(&self) -> Vec<Arc<AttachedGroup>> {
        let mut groups: Vec<_> = self.groups().by_number.values().cloned().collect();
        groups.sort_by_key(|group| (group.origin != ServerOrigin::Configured, group.number));
        groups
    }

    /// All servers, by name.
    pub(crate) fn all_servers(&self) -> Vec<Named> {
        let groups = self.all_groups();
        let mut servers: Vec<_> = groups.iter().flat_map(AttachedGroup::servers).collect();
        servers.sort_by(|one, other| one.name.cmp(&other.name));
        servers
    }

    /// The server of this name.
    pub(crate) fn server(&self, name: &str) -> Result<Named, ApiProblem> {
        let groups = self.all_groups();
        let found = groups.iter().find_map(|group| {
            let server = match &group.shown_as {
                None => group.gateway.fleet().server(name)?,
                Some(shown) if **shown == *name => group.gateway.fleet().servers().into_iter().next()?,
                Some(_) => return None,
            };
            Some(Named {
                name: name.into(),
                server,
                group: group.clone(),
            })
        });
        found.ok_or_else(|| self.unknown_server(name))
    }

    fn unknown_server(&self, name: &str) -> ApiProblem {
        let name = &*PlainText::line(name).cut(NAME_CHARS_LIMIT).into_string();
        let servers = self.all_servers();
        let names: Vec<&str> = servers.iter().map(|named| &*named.name).collect();
        let mut problem =
            ApiProblem::new(ProblemKind::UnknownServer, format!("there is no server {name}")).at(name);
        let near = nearest(name, names.iter().copied());
        problem.nearest = near.into_iter().map(str::to_owned).collect();
        problem.remedy(match (near, names.as_slice()) {
            (Some(near), _) => format!("did you mean {near}?"),
            (None, []) => "there is no other either".to_owned(),
            (None, names) => format!("there are: {}", listed(names)),
        })
    }

    pub(crate) fn started(&self) -> SystemTime {
        self.started
    }

    pub(crate) fn program(&self) -> ProgramStatus {
        let servers = self.all_servers();
        let is_connected =
            |named: &&Named| named.server.watch().borrow().state == mainstay::StateKind::Connected;
        ProgramStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role: self.role.as_str().to_owned(),
            node: self.node.clone(),
            instance: self.instance.clone(),
            pid: std::process::id(),
            started_ms: unix_ms(self.started),
            configuration: self.controlled.configuration(),
            configuration_missing: self.controlled.configuration_missing(),
            configuration_problem: self.controlled.configuration_problem(),
            connected: servers.iter().filter(is_connected).count(),
            servers: servers.len(),
            sessions: self
                .all_groups()
                .iter()
                .map(|group| group.gateway.sessions().len())
                .sum(),
            last_event: self.journal.last(),
        }
    }

    pub(crate) async fn server_list(&self, with_processes: bool) -> ServerList {
        let servers = self.all_servers();
        let usage = if with_processes {
            UsageByPid::read(&servers).await
        } else {
            UsageByPid::default()
        };
        let users = status::SessionUsers::of(self);
        let set_aside = status::SetAsideOffers::of(self);
        ServerList {
            at_ms: now_ms(),
            servers: servers
                .iter()
                .map(|named| status::server_status(self, named, &usage, &users, &set_aside))
                .collect(),
        }
    }

    pub(crate) async fn server_status(&self, named: &Named) -> ServerStatus {
        let usage = UsageByPid::read(std::slice::from_ref(named)).await;
        let users = status::SessionUsers::of(self);
        let set_aside = status::SetAsideOffers::of(self);
        status::server_status(self, named, &usage, &users, &set_aside)
    }
}

/// Characters of an unknown name that a message shows.
const NAME_CHARS_LIMIT: usize = 100;

/// How many names a message lists.
const LISTED_LIMIT: usize = 20;

fn listed(names: &[&str]) -> String {
    let shown = names
        .iter()
        .take(LISTED_LIMIT)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(LISTED_LIMIT) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A name for this run of the program: eight hexadecimal digits.
pub(crate) fn new_instance() -> String {
    let mut bytes = [0; 4];
    if SystemRandom::new().fill(&mut bytes).is_err() {
        // Two runs still differ in their start.
        let nanos = SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default()
            .subsec_nanos();
        bytes = (nanos ^ std::process::id()).to_be_bytes();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
