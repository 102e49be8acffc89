//! Ten hosts on three servers, real clients among them, while the daemon is killed, replaced, stopped and frozen at random, and its
//! servers are killed. Whatever happens:
//!
//! - after each fault, every host calls again with success;
//! - no call runs twice, and none runs that is said not to have run;
//! - a fault costs a host at most the call in flight, and a replaced or stopped daemon costs none;
//! - in the end one daemon runs, and when it is stopped nothing is left.
//!
//! `MAINSTAY_CHAOS_SECONDS` and `MAINSTAY_CHAOS_SEED` ask for another run.

mod faults;
mod load;

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use mainstay_testkit::chaos::{Dice, setting};
use mainstay_testkit::{FaultyServer, Ledger, poll};

use super::outcomes::{Calls, Ended, check};
use super::{SOON, Shared, noting, wait_until};
use faults::{Fault, Faults};
use load::{ClientKind, Load};

const SECONDS: u64 = 10;
const SEED: u64 = 1;

/// One host: how its client is made, with which server, and whether it shares that one.
struct Guest {
    kind: ClientKind,
    server: usize,
    is_shared: bool,
}

/// The ten. The first seven share a server, the next two another one, and the last has one of its own.
fn guests() -> Vec<Guest> {
    let guest = |kind, server, is_shared| Guest {
        kind,
        server,
        is_shared,
    };
    let mut guests: Vec<_> = ClientKind::REAL
        .into_iter()
        .map(|kind| guest(kind, 0, true))
        .collect();
    guests.extend((0..3).map(|_| guest(ClientKind::Scripted, 0, true)));
    guests.extend((0..2).map(|_| guest(ClientKind::Scripted, 1, true)));
    guests.push(guest(ClientKind::Scripted, 2, false));
    guests
}

#[test]
fn ten_hosts_keep_their_sessions_in_chaos() {
    let seed = setting("MAINSTAY_CHAOS_SEED", SEED);
    let lasts = Duration::from_secs(setting("MAINSTAY_CHAOS_SECONDS", SECONDS));
    println!("chaos for {lasts:?} with seed {seed}");
    let shared = Shared::new();
    let ledgers: Vec<Ledger> = (0..3).map(|_| Ledger::temporary()).collect();
    let servers: Vec<FaultyServer> = ledgers.iter().map(noting).collect();
    // It may have to be built: no time counts yet.
    let _built = servers[0].command();
    let guests = guests();
    let load = Load::new(&shared);
    let mut faults = Faults::new(&shared, &ledgers, Dice::new(seed, 0));

    let calls: Vec<Calls> = thread::scope(|scope| {
        let hosts: Vec<_> = guests
            .iter()
            .enumerate()
            .map(|(n, guest)| {
                let (load, servers) = (&load, &servers);
                scope.spawn(move || load.run(guest.kind, &mark(n), &servers[guest.server], guest.is_shared))
            })
            .collect();
        // A panic of this thread ends the load of the others first.
        let over = load.over();
        every_guest_calls_again(&ledgers, guests.len());
        let end = Instant::now() + lasts;
        while Instant::now() < end {
            let fault = faults.next();
            if fault.is_followed_by_calm {
                every_guest_calls_again(&ledgers, guests.len());
            }
        }
        every_guest_calls_again(&ledgers, guests.len());
        wait_until("one daemon runs", || shared.daemons().len() == 1);
        drop(over);
        let hosts = hosts.into_iter().map(|host| host.join().expect("a host"));
        hosts.collect()
    });

    println!("faults: {:?}", faults.done);
    let costly = faults.count(Fault::KillDaemon) + faults.count(Fault::KillServer);
    for (n, calls) in calls.iter().enumerate() {
        let lost = calls.values().filter(|ended| **ended != Ended::Answered).count();
        println!(
            "{} {:?}: {} calls, {lost} lost",
            mark(n),
            guests[n].kind,
            calls.len()
        );
        assert!(lost <= costly, "{} lost {lost} calls by {costly} faults", mark(n));
    }
    let calls: Calls = calls.into_iter().flatten().collect();
    check(&calls, &ledgers.iter().collect::<Vec<_>>());
    assert_eq!(shared.daemons().len(), 1, "one daemon runs");
    shared.sandbox.run(&["daemon", "stop"]).exits(0);
    shared.assert_nothing_is_left();
}

/// What the keys of this host begin with.
fn mark(guest: usize) -> String {
    format!("h{guest}")
}

/// Waits until a call of each host has begun that was not there before.
#[track_caller]
fn every_guest_calls_again(ledgers: &[Ledger], guests: usize) {
    let runs = || {
        let keys = ledgers.iter().flat_map(|ledger| ledger.after("call append"));
        let mut runs: BTreeMap<String, usize> = BTreeMap::new();
        for key in keys {
            let (mark, _) = key.split_once('n').expect("a key with a number");
            *runs.entry(mark.to_owned()).or_default() += 1;
        }
        runs
    };
    let before = runs();
    // One may have been on its way to the server when the fault happened: the one after it is answered in a calm daemon.
    let again = |n| before.get(&mark(n)).copied().unwrap_or(0) + 2;
    let silent = || -> Vec<_> {
        let now = runs();
        let is_silent = |n: &usize| now.get(&mark(*n)).copied().unwrap_or(0) < again(*n);
        (0..guests).filter(is_silent).collect()
    };
    let all_call = poll::comes_true(SOON, || silent().is_empty());
    assert!(all_call, "hosts {:?} do not call again", silent());
}
