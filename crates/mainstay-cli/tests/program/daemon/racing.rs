use std::thread;

use mainstay_testkit::Ledger;
use serde_json::json;

use super::{Shared, noting, wait_until};

#[test]
fn ten_bridges_that_race_to_start_the_daemon_end_with_one_daemon_and_one_server() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    let server = noting(&ledger);
    thread::scope(|scope| {
        let hosts: Vec<_> = (0..10)
            .map(|n| {
                let (shared, server) = (&shared, &server);
                scope.spawn(move || {
                    let mut host = shared.host(&[], server);
                    let result = host.call("append", &json!({ "key": format!("k{n}") }));
                    assert_ne!(result["isError"], true, "{result}");
                    host
                })
            })
            .collect();
        let hosts: Vec<_> = hosts.into_iter().map(|host| host.join().unwrap()).collect();
        wait_until("one daemon is left", || shared.daemons().len() == 1);
        assert_eq!(ledger.pids().len(), 1);
        assert_eq!(ledger.count("call append"), 10);
        let status = shared.status().expect("it runs");
        assert_eq!(status["bridges"].as_array().unwrap().len(), 10);
        drop(hosts);
    });
}
