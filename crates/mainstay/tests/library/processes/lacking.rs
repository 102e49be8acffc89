//! What this machine lacks is said as such, costs the server nothing, and is tried again.

use std::fs::File;
use std::time::Duration;

use mainstay::{Fleet, Policy, Server, ServerConfig, StateKind, Status};
use mainstay_testkit::FaultyServer;
use mainstay_testkit::http::Port;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use mainstay_testkit::fleet::{LONG, Stage, is_alone};

/// So many that the test has all it needs, and few enough to take them all.
const DESCRIPTORS: u64 = 128;

/// Takes every descriptor that is left.
fn take_all() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

async fn failed_for_lack(server: &Server, starts: u64) -> Status {
    let failed = server
        .wait_until(LONG, |status| {
            status.starts >= starts && status.state == StateKind::Reconnecting && status.last_error.is_some()
        })
        .await;
    failed.unwrap_or_else(|| panic!("{:?}", server.status()))
}

#[test]
fn a_lack_of_descriptors_costs_no_budget_and_ends_by_itself() {
    if !is_alone("processes::lacking::a_lack_of_descriptors_costs_no_budget_and_ends_by_itself") {
        return;
    }
    let limit = Rlimit {
        current: Some(DESCRIPTORS),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(async {
        let stage = Stage::new();
        let policy = Policy {
            budget: 1.try_into().unwrap(),
            lack_pause: Duration::from_millis(50),
            ..Policy::default()
        };
        let program = stage
            .server("program", FaultyServer::new())
            .policy(policy.clone());
        let port = Port::free().unwrap();
        let closed = format!("http://{}/mcp", port.address());
        let address = ServerConfig::http("address", closed).policy(policy);

        let taken = take_all();
        let fleet = Fleet::builder().start([program.build().unwrap(), address.build().unwrap()]);
        let (program, address) = (fleet.server("program").unwrap(), fleet.server("address").unwrap());
        for server in [&program, &address] {
            let status = failed_for_lack(server, 3).await;
            assert_eq!(status.attempt, 0, "{status:?}");
            let message = &status.last_error.as_ref().unwrap().message;
            assert!(
                message.contains("this machine lets mainstay open no more files than 128"),
                "{message}"
            );
        }
        drop(taken);
        let up = program.wait_connected(LONG).await.unwrap();
        assert_eq!(up.attempt, 0);
        // What is wrong with the other one is its own.
        let down = address
            .wait_until(LONG, |status| status.attempt == 1)
            .await
            .unwrap();
        let message = &down.last_error.as_ref().unwrap().message;
        assert!(message.contains("connection refused"), "{message}");
        fleet.close(LONG).await;
        assert!(stage.tree().wait_until_gone_async(LONG).await);
    });
}
