//! What a process holds, and whether a fleet gives it back.

use std::time::{Duration, Instant};

use mainstay::{Fleet, ServerConfig};
use mainstay_testkit::http::{FaultyHttpServer, HttpScript};
use mainstay_testkit::{FaultyServer, Script, procfs};
use tokio::runtime::Handle;

use crate::support::{LONG, Stage};

#[derive(Debug)]
pub(crate) struct Held {
    descriptors: usize,
    tasks: usize,
}

impl Held {
    fn now() -> Self {
        Self {
            descriptors: procfs::open_descriptors(),
            tasks: Handle::current().metrics().num_alive_tasks(),
        }
    }

    /// A first fleet comes and goes, and leaves what every later one finds there: the guardian, the signal handler.
    pub(crate) async fn after_a_first_fleet(stage: &Stage) -> Self {
        let far = FaultyHttpServer::start(Script::new(), HttpScript::new())
            .await
            .unwrap();
        let fleet = Fleet::builder().start([
            stage.server("first", FaultyServer::new()).build().unwrap(),
            ServerConfig::http("web", far.url("/mcp")).build().unwrap(),
        ]);
        for server in fleet.servers() {
            server.wait_connected(LONG).await.unwrap();
        }
        fleet.close(LONG).await;
        drop((fleet, far));
        tokio::time::sleep(Duration::from_millis(300)).await;
        Self::now()
    }

    pub(crate) async fn is_held_again(&self) {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let now = Self::now();
            if now.descriptors <= self.descriptors && now.tasks <= self.tasks {
                return;
            }
            assert!(Instant::now() < deadline, "{self:?} before, {now:?} after");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
