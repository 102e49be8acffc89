use std::collections::BTreeMap;
use std::time::Duration;

use mainstay_testkit::poll;
use mainstay_testkit::procfs::ProcTree;

use super::{HttpPartner, TcpListener, free_port};
use crate::Partner;

/// Longer than anything takes on a busy machine; reached only by a test that fails.
const LONG: Duration = poll::LIMIT;

#[test]
fn a_partner_takes_its_children_with_it() {
    let mark = std::process::id().to_string();
    let partner = Partner {
        command: "/bin/sh".into(),
        args: vec!["-c".to_owned(), "sleep 1000 & wait".to_owned()],
        env: BTreeMap::from([("MAINSTAY_TEST_PARTNER".to_owned(), mark.clone())]),
    };
    let tree = ProcTree::marked("MAINSTAY_TEST_PARTNER", &mark);
    let running = HttpPartner::new(&partner, &[], "/").start(1);
    let are_there = poll::comes_true(LONG, || tree.pids().len() >= 2);
    assert!(are_there, "{:?}", tree.pids());
    drop(running);
    assert!(tree.wait_until_gone(LONG), "{:?}", tree.pids());
}

#[test]
fn a_free_port_is_given_out_once_and_can_be_listened_on() {
    let (one, other) = (free_port(), free_port());
    assert_ne!(one, other);
    for port in [one, other] {
        assert!(TcpListener::bind(("127.0.0.1", port)).is_ok(), "{port}");
    }
}
