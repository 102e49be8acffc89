//! Real processes: one for each session, and nothing left of any.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mainstay::config::Isolation;
use mainstay::{Fleet, ServerConfig};
use mainstay_gateway::{Gateway, Scope};
use mainstay_testkit::procfs::{ProcTree, is_alive};
use mainstay_testkit::{Child, Fault, FaultyServer, Ledger, Step, clock, poll};
use serde_json::json;

use crate::isolation::call;
use crate::router::client::{Client, LONG};

const MARK: &str = "MAINSTAY_ISOLATION_TEST";

/// A gateway in front of a program that each session has for itself, and the tree of all that it starts.
struct Stage {
    gateway: Gateway,
    tree: ProcTree,
    ledger: Ledger,
}

impl Stage {
    fn open(server: FaultyServer) -> Self {
        Self::with_room(server, 8)
    }

    fn with_room(server: FaultyServer, most: usize) -> Self {
        static STAGES: AtomicU32 = AtomicU32::new(0);
        let stage = STAGES.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}.{stage}", std::process::id());
        let ledger = Ledger::temporary();
        let server = server.ledger(&ledger);
        let config = ServerConfig::stdio("own", server.command())
            .args(server.args())
            .env(MARK, mark.as_str())
            .isolation(Isolation::Session);
        Self {
            gateway: Gateway::builder(Fleet::builder())
                .max_isolated(most)
                .start([config.build().unwrap()]),
            tree: ProcTree::marked(MARK, &mark),
            ledger,
        }
    }

    async fn client(&self) -> Client {
        let (client, _) = Client::initialized(&self.gateway, Scope::Server("own".into()), json!({})).await;
        client
    }

    /// Comes back when this many have been started.
    async fn started(&self, count: usize) {
        let started = |ledger: &Ledger| ledger.pids().len() >= count;
        assert!(self.ledger.wait_for_async(started, LONG).await, "started");
    }

    async fn is_gone(&self) -> bool {
        self.tree.wait_until_gone_async(LONG).await
    }
}

async fn pid(client: &mut Client) -> i32 {
    let done = client.ask("tools/call", call("pid", json!({}))).await;
    let pid = done["result"]["structuredContent"]["pid"].as_i64();
    i32::try_from(pid.unwrap_or_else(|| panic!("no pid in {done}"))).unwrap()
}

async fn gone(pid: i32) {
    let ended = poll::comes_true_async(LONG, || !is_alive(pid)).await;
    assert!(ended, "ended");
}

#[tokio::test]
async fn each_session_has_a_process_which_ends_with_it_and_with_all_that_it_started() {
    let fled = Child {
        daemon: true,
        ignores_term: true,
        ..Child::default()
    };
    let stage = Stage::open(FaultyServer::new().on(Step::Start, Fault::Spawn(fled)));
    let (mut one, mut two) = (stage.client().await, stage.client().await);
    let (first, second) = (pid(&mut one).await, pid(&mut two).await);
    assert_ne!(first, second);
    assert_eq!(
        pid(&mut one).await,
        first,
        "the same for as long as the session lasts"
    );
    let crashed = one
        .ask("tools/call", call("crash", json!({ "kill": true })))
        .await;
    assert!(crashed["result"]["isError"] == true, "{crashed}");
    let third = pid(&mut one).await;
    assert!(third != first && third != second, "a new one after a crash");
    assert_eq!(pid(&mut two).await, second, "and the other is as it was");
    one.leave().await;
    gone(third).await;
    assert_eq!(pid(&mut two).await, second);
    two.leave().await;
    gone(second).await;
    stage.gateway.close(LONG).await;
    assert!(stage.is_gone().await, "left: {:?}", stage.tree.pids());
}

#[tokio::test]
async fn a_session_that_ends_while_its_server_starts_leaves_nothing() {
    let slow = FaultyServer::new().on(Step::of("initialize"), Fault::Delay { ms: 600_000 });
    let stage = Stage::open(slow);
    stage.started(1).await;
    // It does not wait for an introduction, which would never come.
    let mut client = Client::connect(&stage.gateway, Scope::Server("own".into()));
    client.begin("tools/call", call("echo", json!({}))).await;
    stage.started(2).await;
    client.leave().await;
    let &[_template, own] = &stage.ledger.pids()[..] else {
        panic!("the template server and one more were started");
    };
    gone(own).await;
    stage.gateway.close(LONG).await;
    assert!(stage.is_gone().await);
}

#[tokio::test]
async fn a_server_takes_room_until_nothing_of_it_is_left() {
    let stubborn = FaultyServer::new().on(Step::Eof, Fault::Hang);
    let stage = Stage::with_room(stubborn, 1);
    let (mut one, mut two) = (stage.client().await, stage.client().await);
    let first = pid(&mut one).await;
    one.leave().await;
    let finds_room = poll::ask_for(LONG, async || {
        let was_alive = is_alive(first);
        let answer = two.ask("tools/call", call("pid", json!({}))).await;
        answer.get("error").is_none().then_some(was_alive)
    });
    let was_alive = finds_room.await.expect("room");
    assert!(!was_alive, "two ran where there was room for one");
    two.leave().await;
    stage.gateway.close(LONG).await;
    assert!(stage.is_gone().await);
}

#[tokio::test]
async fn closing_the_gateway_ends_every_session_s_server_however_stubborn() {
    let stubborn = FaultyServer::new().on(Step::Eof, Fault::Hang).ignores_term();
    let stage = Stage::open(stubborn);
    let mut clients = [stage.client().await, stage.client().await, stage.client().await];
    for client in &mut clients {
        pid(client).await;
    }
    assert!(stage.tree.pids().len() >= 3);
    stage.gateway.close(LONG).await;
    assert_eq!(stage.tree.pids(), Vec::<i32>::new(), "nothing when it comes back");
}

#[tokio::test]
async fn closing_the_gateway_hastens_every_session_s_server_one_whose_session_has_ended_too() {
    // Less than the 4 s until a server is killed where nothing presses: one that is not hastened is overdue.
    let (short, hastened) = (Duration::from_secs(3), Duration::from_millis(3800));
    let stage = Stage::open(FaultyServer::new().on(Step::Eof, Fault::Hang).notes_term());
    let (mut one, mut two) = (stage.client().await, stage.client().await);
    let _both_run = (pid(&mut one).await, pid(&mut two).await);
    one.leave().await;
    let received = |ledger: &Ledger| ledger.count("eof") == 1;
    assert!(stage.ledger.wait_for_async(received, LONG).await);
    let report = clock::within(hastened, stage.gateway.close(short)).await;
    assert!(report.servers.iter().all(|server| !server.overdue), "{report:?}");
    assert_eq!(stage.tree.pids(), Vec::<i32>::new(), "nothing when it comes back");
    let started = stage.ledger.pids().len();
    let shown = (stage.ledger.count("eof"), stage.ledger.count("term"));
    assert_eq!(
        shown,
        (started, started),
        "each got two signals to stop before it was killed"
    );
}
