//! Shares, addresses, shared payloads, and what gives way to what.

use std::net::IpAddr;

use super::*;

const ONE: Principal = Principal::session(1);
const TWO: Principal = Principal::session(2);
const THREE: Principal = Principal::session(3);

/// A session without a token, of a client at this address.
fn session_at(number: u64, address: u8) -> Principal {
    let address = Some(IpAddr::from([10, 0, 0, address]));
    Principal::Session { number, address }
}

fn budget(all: usize, share: usize) -> Arc<Budget> {
    let share = Some(share);
    Arc::new(Budget::new(BudgetLimits { all, share }))
}

fn bytes(count: usize) -> Bytes {
    vec![b'x'; count].into()
}

#[test]
fn a_refusal_says_to_programs_that_the_request_did_not_run() {
    for spent in [
        Spent::Share { share: 6 },
        Spent::Address { most: 6 },
        Spent::All { all: 10 },
    ] {
        let refused = RpcError::from(spent);
        let data = refused.data().map(ToString::to_string);
        assert_eq!(data.as_deref(), Some(r#"{"mainstay":{"outcome":"not_sent"}}"#));
    }
}

#[test]
fn one_client_cannot_take_more_than_its_share_and_all_not_more_than_all() {
    let budget = budget(10, 6);
    let [one, two, three] = [ONE, TWO, THREE].map(|principal| budget.account(principal));
    let mut first = one.hold(4).unwrap();
    let more = one.hold(2).unwrap();
    assert_eq!(one.hold(1).err(), Some(Spent::Share { share: 6 }));
    assert_eq!(first.grow(1), Err(Spent::Share { share: 6 }));
    let second = two.hold(4).unwrap();
    assert_eq!(three.hold(1).err(), Some(Spent::All { all: 10 }));
    drop(more);
    let third = three.hold(1).unwrap();
    first.grow(1).unwrap();
    assert_eq!(budget.held(), 10);
    drop((first, second, third));
    assert_eq!(budget.held(), 0);
    assert!(lock(&budget.table).is_empty(), "no principal is remembered");
}

#[test]
fn many_sessions_of_one_client_leave_room_for_the_other_clients_of_its_address() {
    let budget = budget(16 * SMALL, 4 * SMALL);
    // The same client again and again, until nothing more than a small message fits.
    let mut held = Vec::new();
    for number in 0..5 {
        let account = budget.account(session_at(number, 1));
        while let Ok(more) = account.hold(SMALL / 4) {
            held.push(more);
        }
    }
    let neighbour = budget.account(session_at(99, 1));
    let own = neighbour.hold(SMALL / 4).expect("a neighbour finds room");
    let most = 12 * SMALL;
    assert_eq!(neighbour.hold(SMALL).err(), Some(Spent::Address { most }));
    let elsewhere = budget.account(session_at(100, 2));
    let whole_share = elsewhere
        .hold(4 * SMALL)
        .expect("another address has a whole share");
    let with_token = Principal::Token(crate::principal::TokenDigest::of("t"));
    drop(whole_share);
    assert!(
        budget.account(with_token).hold(4 * SMALL).is_ok(),
        "so has a token"
    );
    drop((held, own));
    assert_eq!(budget.held(), 0);
    assert!(lock(&budget.table).is_empty(), "no address is remembered");
}

#[test]
fn a_client_that_holds_more_than_it_leaves_can_still_send_small_messages() {
    let budget = budget(16 * SMALL, 4 * SMALL);
    let one = budget.account(session_at(1, 1));
    let _held = one.hold(4 * SMALL - 100).unwrap();
    let others = [(2, 4 * SMALL), (3, 2 * SMALL)];
    let others = others.map(|(number, bytes)| budget.account(session_at(number, 1)).hold(bytes).unwrap());
    assert!(one.hold(3).is_ok());
    assert!(one.hold(5).is_err(), "it leaves less than it holds");
    drop(others);
}

#[test]
fn bytes_are_held_as_long_as_any_part_of_them_is_kept() {
    let budget = budget(10, 10);
    let charged = budget.account(ONE).charge(bytes(8)).unwrap();
    assert_eq!(charged, bytes(8));
    let part = charged.slice(7..);
    drop(charged);
    assert_eq!(budget.held(), 8, "the part keeps the whole");
    drop(part);
    assert_eq!(budget.held(), 0);
}

#[test]
fn a_payload_of_several_holders_counts_once_for_all_and_once_for_each() {
    let budget = budget(10, 6);
    let [one, two, three] = [ONE, TWO, THREE].map(|principal| budget.account(principal));
    let list = bytes(5);
    let held = [&one, &one, &two].map(|account| account.charge_shared(list.clone()).unwrap());
    assert!(held.iter().all(|held| held.as_ptr() == list.as_ptr()));
    assert_eq!(budget.held(), 5, "there is one copy");
    assert_eq!(one.hold(2).err(), Some(Spent::Share { share: 6 }));
    // The list changes, and its first version is still unread: now there are two copies.
    let changed = bytes(5);
    assert_eq!(
        one.charge_shared(changed.clone()).err(),
        Some(Spent::Share { share: 6 })
    );
    let another = three.charge_shared(changed.clone()).unwrap();
    assert_eq!(budget.held(), 10);
    let again = bytes(1);
    assert_eq!(
        two.charge_shared(again).err(),
        Some(Spent::All { all: 10 }),
        "of a third version nothing fits"
    );
    let [first, second, of_two] = held;
    drop(first);
    assert_eq!(
        one.hold(2).err(),
        Some(Spent::Share { share: 6 }),
        "it holds the other"
    );
    drop(second);
    assert_eq!(budget.held(), 10, "another holds the same");
    drop(of_two);
    assert_eq!(budget.held(), 5);
    drop(another);
    assert_eq!(budget.held(), 0);
    assert!(lock(&budget.table).is_empty(), "nothing is left");
}

#[test]
fn a_payload_of_several_holders_counts_once_for_each_address() {
    // Six for an address, two for a principal.
    let budget = budget(8, 2);
    let at = |number, address| budget.account(session_at(number, address));
    let list = bytes(4);
    let first = at(1, 1).charge_shared(list.clone()).unwrap();
    let second = at(2, 1).charge_shared(list.clone()).unwrap();
    let most = 6;
    assert_eq!(
        at(3, 1).charge_shared(bytes(3)).err(),
        Some(Spent::Address { most }),
        "four of six are taken, and not eight"
    );
    let third = at(3, 1).charge_shared(bytes(2)).unwrap();
    assert_eq!(at(4, 1).hold(1).err(), Some(Spent::Address { most }));
    let elsewhere = at(5, 2).charge_shared(list.clone()).unwrap();
    assert_eq!(
        at(6, 2).charge_shared(bytes(3)).err(),
        Some(Spent::Address { most })
    );
    drop(first);
    assert!(
        at(4, 1).hold(1).is_err(),
        "another of this address holds the list"
    );
    drop(second);
    assert_eq!(budget.held(), 6, "another address holds the list");
    assert!(at(4, 1).hold(1).is_ok());
    drop((third, elsewhere));
    assert!(lock(&budget.table).is_empty(), "nothing is left");
}

#[test]
fn a_few_bytes_that_must_not_be_refused_count_all_the_same() {
    let budget = budget(10, 10);
    let account = budget.account(ONE);
    let held = [
        account.charge(bytes(10)).unwrap(),
        account.charge_in_any_case(bytes(2)),
    ];
    assert_eq!(budget.held(), 12);
    assert!(budget.account(TWO).hold(1).is_err());
    drop(held);
    assert_eq!(budget.held(), 0);
}

/// Keeps bytes, and gives up one of each principal when it is asked to.
#[derive(Default)]
struct Keeps(Mutex<Vec<(Principal, Bytes)>>);

impl Reclaim for Keeps {
    fn reclaim(&self, of: &dyn Fn(Principal) -> bool, _bytes: usize) {
        let mut kept = self.0.lock().unwrap();
        if let Some(at) = kept.iter().position(|(whose, _)| of(*whose)) {
            kept.remove(at);
        }
    }
}

#[test]
fn kept_bytes_of_an_address_give_way_to_its_clients_and_to_no_others() {
    let budget = budget(8, 4);
    let keeps = Arc::new(Keeps::default());
    for (number, address) in [(1, 1), (2, 2)] {
        let account = budget.account(session_at(number, address));
        let charged = account.charge(bytes(2)).unwrap();
        keeps.0.lock().unwrap().push((account.principal, charged));
    }
    let reclaimer = Arc::downgrade(&keeps);
    budget.reclaim_from(reclaimer);
    let held = budget.account(session_at(3, 1)).hold(3);
    assert!(
        held.is_ok(),
        "three of six are left free once the two are given up"
    );
    let kept = keeps.0.lock().unwrap();
    assert!(kept.len() == 1 && kept[0].0 == session_at(2, 2));
}

#[test]
fn what_is_only_kept_gives_way_to_what_is_wanted_now() {
    let budget = budget(10, 6);
    let [one, two] = [ONE, TWO].map(|principal| budget.account(principal));
    let keeps = Arc::new(Keeps::default());
    let keep = |account: &Account, count| {
        let charged = account.charge(bytes(count)).unwrap();
        keeps.0.lock().unwrap().push((account.principal, charged));
    };
    keep(&two, 4);
    keep(&one, 6);
    assert!(one.hold_if_room(1).is_err());
    let weak = Arc::downgrade(&keeps);
    budget.reclaim_from(weak);
    assert!(one.hold_if_room(1).is_err(), "not for what can be missed");
    let now = one.hold(6).expect("its own was given up, and not another's");
    assert_eq!(keeps.0.lock().unwrap().len(), 1);
    let other = two.hold(2).expect("its own, too");
    assert!(keeps.0.lock().unwrap().is_empty());
    assert_eq!(two.hold(3).err(), Some(Spent::All { all: 10 }));
    drop((now, other));
}

#[test]
fn a_share_is_a_quarter_of_all_by_default_and_never_more_than_all() {
    let limits = |share| BudgetLimits { all: 100, share };
    assert_eq!(limits(None).share(), 25);
    assert_eq!(limits(Some(60)).share(), 60);
    assert_eq!(limits(Some(600)).share(), 100);
}
