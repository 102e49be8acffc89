//! A person logs in through the API: begin, open the address, be connected.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use mainstay::ServerConfig;
use mainstay::transport::http::{
    Authorizing, BeginningLogin, Credentials, FinishingLogin, LoginSummary, PastingAddress, PendingLogin,
    ServerLoginError,
};
use mainstay_control::api::{ActorKind, EventDetail, LoginState, ProblemKind};
use mainstay_control::{Control, ControlBuilder, EventStream, Role, read_audit};
use mainstay_testkit::fleet::LONG;
use mainstay_testkit::poll;
use tokio::sync::oneshot;

use crate::support::{World, record_with};

type Ending = Result<LoginSummary, ServerLoginError>;

/// A provider whose logins end when the test says so.
#[derive(Clone, Default)]
struct ScriptedLogins(Arc<ScriptedState>);

#[derive(Default)]
struct ScriptedState {
    begun: AtomicU32,
    end: Mutex<Option<oneshot::Sender<Ending>>>,
}

struct ScriptedLogin {
    address: String,
    reuses_registration: bool,
    logins: ScriptedLogins,
    end: oneshot::Receiver<Ending>,
}

impl Credentials for ScriptedLogins {
    fn authorization(&self) -> Authorizing<'_> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn login(&self) -> Option<BeginningLogin<'_>> {
        self.begin(true)
    }

    fn login_as_new_client(&self) -> Option<BeginningLogin<'_>> {
        self.begin(false)
    }
}

impl ScriptedLogins {
    fn begin(&self, reuses_registration: bool) -> Option<BeginningLogin<'static>> {
        let number = self.0.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, end) = oneshot::channel();
        *self.0.end.lock().unwrap() = Some(sender);
        let address = format!("https://login.example/{number}");
        let login: Box<dyn PendingLogin> = Box::new(ScriptedLogin {
            address,
            reuses_registration,
            logins: self.clone(),
            end,
        });
        Some(Box::pin(async move {
            // Both requests of a test that begins twice are under way before one is answered.
            tokio::task::yield_now().await;
            Ok(login)
        }))
    }
}

impl PendingLogin for ScriptedLogin {
    fn address(&self) -> Option<&str> {
        Some(&self.address)
    }

    fn reuses_registration(&self) -> bool {
        self.reuses_registration
    }

    fn paste<'a>(&'a self, address: &'a str) -> PastingAddress<'a> {
        if !address.ends_with("code=right") {
            return Box::pin(std::future::ready(Err("another state".to_owned())));
        }
        self.logins.end(Ok(LoginSummary::new("https://login.example")));
        Box::pin(std::future::ready(Ok(())))
    }

    fn finished(&mut self) -> FinishingLogin<'_> {
        Box::pin(async { (&mut self.end).await.expect("the test ends it") })
    }
}

impl fmt::Debug for ScriptedLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

impl ScriptedLogins {
    fn world(&self) -> World {
        self.world_of(Control::builder(Role::Serve))
    }

    fn world_of(&self, control: ControlBuilder) -> World {
        // Nothing listens there, and nothing has to: a login concerns the provider alone.
        let config = ServerConfig::http("one", "http://127.0.0.1:9/mcp").credentials(Arc::new(self.clone()));
        World::with(control, [config.build().expect("valid")])
    }

    fn end(&self, ending: Ending) {
        let end = self.0.end.lock().unwrap().take().expect("a login waits");
        end.send(ending).expect("it still waits");
    }
}

async fn reaches(world: &World, state: LoginState) -> mainstay_control::api::LoginProgress {
    loop {
        let now = world.client.login_progress("one").await.expect("an answer");
        if now.state == state {
            return now;
        }
        assert_eq!(now.state, LoginState::Waiting);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn two_requests_share_one_login_and_its_end_is_seen() {
    let logins = ScriptedLogins::default();
    let world = logins.world();
    let mut events = world.client.events(Some("one"), 0).await.expect("a stream");
    assert_eq!(
        world.client.login_progress("one").await.unwrap().state,
        LoginState::None
    );
    let (one, other) = tokio::join!(world.client.begin_login("one"), world.client.begin_login("one"));
    let (one, other) = (one.expect("begun"), other.expect("found"));
    assert_eq!(one, other);
    assert_eq!(one.address.as_deref(), Some("https://login.example/1"));
    assert_eq!(one.state, LoginState::Waiting);
    let command = record_with(&mut events, |detail| {
        matches!(detail, EventDetail::Command { .. })
    })
    .await;
    let EventDetail::Command { command, refused, .. } = command.detail else {
        unreachable!("filtered");
    };
    assert_eq!((command.as_str(), refused), ("login", None));
    logins.end(Ok(LoginSummary::new("https://login.example")));
    let done = reaches(&world, LoginState::LoggedIn).await;
    assert_eq!(done.address, None);

    // The next one is another login; its failure is told.
    let next = world.client.begin_login("one").await.expect("begun");
    assert_eq!(next.address.as_deref(), Some("https://login.example/2"));
    logins.end(Err(ServerLoginError::Failed("the person refused".into())));
    let failed = reaches(&world, LoginState::Failed).await;
    assert_eq!(failed.error.as_deref(), Some("the person refused"));
}

/// The outcome of the next command, and why it failed.
async fn next_login(events: &mut EventStream) -> (Option<String>, Option<String>) {
    let is_command = |detail: &EventDetail| matches!(detail, EventDetail::Command { .. });
    let record = record_with(events, is_command).await;
    assert_eq!(record.server.as_deref(), Some("one"));
    let EventDetail::Command {
        command,
        by,
        refused,
        outcome,
    } = record.detail
    else {
        unreachable!("filtered");
    };
    assert_eq!((command.as_str(), by.via), ("login", ActorKind::Dashboard));
    (outcome, refused)
}

#[tokio::test]
async fn the_end_of_a_login_is_an_event_that_is_kept() {
    let logins = ScriptedLogins::default();
    let directory = tempfile::tempdir().expect("a directory");
    let audit = Some(directory.path().to_owned());
    let world = logins.world_of(Control::builder(Role::Serve).audit(audit));
    let mut events = world.client.events(Some("one"), 0).await.expect("a stream");
    let client = world.client.clone().via(ActorKind::Dashboard);
    let text = |text: &str| Some(text.to_owned());
    for (ending, outcome, why) in [
        (
            Err(ServerLoginError::Failed("the person refused".into())),
            "failed",
            text("the person refused"),
        ),
        (Ok(LoginSummary::new("https://login.example")), "logged_in", None),
    ] {
        client.begin_login("one").await.expect("begun");
        assert_eq!(next_login(&mut events).await, (None, None), "as it begins");
        logins.end(ending);
        assert_eq!(next_login(&mut events).await, (text(outcome), why), "as it ends");
    }
    let kept = || read_audit(directory.path()).expect("readable").records;
    assert!(
        poll::comes_true_async(LONG, || kept().len() == 4).await,
        "{:?}",
        kept()
    );
    let outcomes: Vec<_> = kept()
        .into_iter()
        .map(|record| match record.event.detail {
            EventDetail::Command { outcome, .. } => outcome,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(outcomes, [None, text("failed"), None, text("logged_in")]);
}

#[tokio::test]
async fn a_login_that_registers_the_client_again_takes_the_place_of_the_one_that_waits() {
    let logins = ScriptedLogins::default();
    let world = logins.world();
    let mut events = world.client.events(Some("one"), 0).await.expect("a stream");
    let client = world.client.clone().via(ActorKind::Dashboard);
    let begun = client.begin_login("one").await.expect("begun");
    assert!(begun.reuses_registration, "{begun:?}");
    let again = client.begin_login_as_new_client("one").await.expect("begun");
    assert_eq!(again.address.as_deref(), Some("https://login.example/2"));
    assert!(!again.reuses_registration, "{again:?}");
    let found = client.begin_login("one").await.expect("found");
    assert_eq!(found, again, "it waits for its person");
    let mut recorded = Vec::new();
    for _ in 0..4 {
        recorded.push(next_login(&mut events).await.0);
    }
    let begun = recorded.iter().filter(|outcome| outcome.is_none()).count();
    assert_eq!(begun, 3, "{recorded:?}");
    assert!(
        recorded.contains(&Some("given_up".to_owned())),
        "the first one ended: {recorded:?}"
    );
    logins.end(Ok(LoginSummary::new("https://login.example")));
    reaches(&world, LoginState::LoggedIn).await;
}

#[tokio::test]
async fn an_address_of_another_machine_is_checked_and_taken() {
    let logins = ScriptedLogins::default();
    let world = logins.world();
    let early = world
        .client
        .paste_login_address("one", "http://127.0.0.1:1/?code=right")
        .await;
    let early = early.expect_err("no login waits");
    assert_eq!(
        early.problem().map(|problem| problem.kind),
        Some(ProblemKind::Conflict)
    );
    world.client.begin_login("one").await.expect("begun");
    let wrong = world
        .client
        .paste_login_address("one", "http://127.0.0.1:1/?code=wrong")
        .await;
    let wrong = wrong.expect_err("another login's");
    let problem = wrong.problem().expect("a problem");
    assert_eq!(
        (problem.kind, problem.title.as_str()),
        (ProblemKind::BadRequest, "another state")
    );
    assert_eq!(
        world.client.login_progress("one").await.unwrap().state,
        LoginState::Waiting
    );
    let done = world
        .client
        .paste_login_address("one", "http://127.0.0.1:1/?code=right")
        .await;
    assert_eq!(done.expect("taken").state, LoginState::LoggedIn);
}

#[tokio::test]
async fn a_server_without_logins_says_so() {
    let world = World::one().await;
    let refused = world
        .client
        .begin_login("one")
        .await
        .expect_err("a server in memory");
    let problem = refused.problem().expect("a problem");
    assert_eq!(problem.kind, ProblemKind::Conflict);
    assert!(problem.title.contains("no logins"), "{}", problem.title);
    let unknown = world.client.begin_login("two").await.expect_err("there is none");
    assert_eq!(
        unknown.problem().map(|problem| problem.kind),
        Some(ProblemKind::UnknownServer)
    );
}
