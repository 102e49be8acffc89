//! Bytes that are held for clients: one budget for all of them, and a share of it for each principal.
//!
//! Clients without a token that come from one address share a part of the budget too, since one client can open many sessions and
//! connections. A client with a token has its share and no part in that.
//!
//! The gateway charges here whatever a client can make it hold for longer than a moment: requests that run, answers that wait to
//! be read, parked calls, and introductions of sessions. It refuses what does not fit, and says why.
//!
//! Invariant: dropping a [`HeldBytes`] gives its bytes back, so the budget is whole again when nothing is held. The bytes of a message
//! carry their charge along ([`Account::charge`]): they count as long as any part of them is kept.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use mainstay::gateway::message::RpcError;

use crate::principal::Principal;
use crate::protocol::SERVER_UNAVAILABLE;

/// How many bytes may be held for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BudgetLimits {
    /// For all of them together.
    pub(crate) all: usize,
    /// For one principal; by default a part of all, so that no client takes them all.
    pub(crate) share: Option<usize>,
}

/// The part of all bytes that may be held for one principal.
const SHARE: usize = 4;

/// The part of a share that a message may have to count as small.
const SMALL: usize = 1024;

impl BudgetLimits {
    fn share(self) -> usize {
        self.share.unwrap_or(self.all / SHARE).min(self.all)
    }

    /// For all clients of one address that show no token: all but a share, which is left for clients of other addresses.
    fn of_address(self) -> usize {
        self.all - self.share().min(self.all / SHARE)
    }
}

impl Default for BudgetLimits {
    /// As much as a workstation can spare. A share has room for two of the largest messages.
    fn default() -> Self {
        Self {
            all: 512 * MIB,
            share: None,
        }
    }
}

pub(crate) const MIB: usize = 1024 * 1024;

/// The bytes that are held for all clients.
#[derive(Default)]
pub(crate) struct Budget {
    limits: BudgetLimits,
    table: Mutex<BudgetTable>,
    /// Where unread answers are kept that can be dropped.
    reclaimers: Mutex<Vec<Weak<dyn Reclaim>>>,
}

/// Something that keeps bytes which it can drop.
pub(crate) trait Reclaim: Send + Sync {
    /// Drops so many bytes that are kept for these principals, if there are so many; the oldest first.
    fn reclaim(&self, of: &dyn Fn(Principal) -> bool, bytes: usize);
}

/// The bytes that are held for one principal.
#[derive(Clone)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    principal: Principal,
}

#[derive(Debug, Default)]
struct BudgetTable {
    held: usize,
    of: HashMap<Principal, usize>,
    of_address: HashMap<IpAddr, usize>,
    /// Payloads that several principals may hold at once, by their address: how often each principal holds them.
    shared: HashMap<usize, HashMap<Principal, usize>>,
}

/// Why bytes cannot be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Spent {
    #[error(
        "the gateway holds as much for this client as it may ({} MiB): read the answers that wait, or let running requests \
         end, and try again",
        .share / MIB
    )]
    Share { share: usize },
    #[error(
        "the gateway holds as much for the clients of this address as it may ({} MiB in all, and no more for one of them than \
         it leaves to the others): read the answers that wait, let running requests end, or try again later",
        .most / MIB
    )]
    Address { most: usize },
    #[error(
        "the gateway holds as much for its clients as it may ({} MiB): try again later, or let `mainstay serve` hold more \
         (--client-memory)",
        .all / MIB
    )]
    All { all: usize },
}

impl From<Spent> for RpcError {
    fn from(spent: Spent) -> Self {
        Self::new(SERVER_UNAVAILABLE, spent.to_string())
    }
}

impl Budget {
    pub(crate) fn new(limits: BudgetLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// The account of this principal.
    pub(crate) fn account(self: &Arc<Self>, principal: Principal) -> Account {
        Account {
            budget: self.clone(),
            principal,
        }
    }

    /// Drops bytes there from now on when nothing more fits.
    pub(crate) fn reclaim_from(&self, reclaimer: Weak<dyn Reclaim>) {
        let mut reclaimers = self.reclaimers.lock().unwrap_or_else(PoisonError::into_inner);
        reclaimers.retain(|reclaimer| reclaimer.strong_count() > 0);
        reclaimers.push(reclaimer);
    }

    /// The bytes that are held for all clients.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.table().held
    }

    fn try_add(&self, principal: Principal, bytes: usize) -> Result<(), Spent> {
        let mut table = self.table();
        let share = self.limits.share();
        if table.of(principal).saturating_add(bytes) > share {
            return Err(Spent::Share { share });
        }
        self.check_address(&table, principal, bytes)?;
        self.check_all(&table, bytes)?;
        table.add(principal, bytes);
        Ok(())
    }

    /// Checks that so many bytes more fit into the part of the principal's address, and that the principal leaves as many free
    /// there as it holds. Small messages need not leave any: a client can always cancel what runs for it.
    fn check_address(&self, table: &BudgetTable, principal: Principal, bytes: usize) -> Result<(), Spent> {
        let Some(address) = principal.address() else {
            return Ok(());
        };
        let most = self.limits.of_address();
        let of_address = table.of_address.get(&address).copied().unwrap_or(0);
        let of = table.of(principal);
        let free = most.checked_sub(of_address.saturating_add(bytes));
        let is_small = bytes <= self.limits.share() / SMALL;
        match free {
            Some(free) if is_small || of.saturating_add(bytes) <= free => Ok(()),
            Some(_) | None => Err(Spent::Address { most }),
        }
    }

    /// Adds a payload that others may hold too: it counts once for all of them, and once for each.
    fn try_add_shared(&self, principal: Principal, payload: &Bytes) -> Result<(), Spent> {
        let (address, bytes) = (payload.as_ptr().addr(), payload.len());
        let mut table = self.table();
        let holders = table.shared.get(&address);
        let is_new = holders.is_none();
        let is_new_to_it = holders.is_none_or(|holders| !holders.contains_key(&principal));
        // A list may be larger than a share, and must still reach a client that holds little else.
        let (share, of) = (self.limits.share(), table.of(principal));
        if is_new_to_it && of > share / 2 && of.saturating_add(bytes) > share {
            return Err(Spent::Share { share });
        }
        if is_new {
            self.check_all(&table, bytes)?;
            table.held += bytes;
        }
        if is_new_to_it {
            *table.of.entry(principal).or_default() += bytes;
        }
        *table
            .shared
            .entry(address)
            .or_default()
            .entry(principal)
            .or_default() += 1;
        Ok(())
    }

    fn check_all(&self, table: &BudgetTable, bytes: usize) -> Result<(), Spent> {
        let BudgetLimits { all, .. } = self.limits;
        match table.held.saturating_add(bytes) > all {
            true => Err(Spent::All { all }),
            false => Ok(()),
        }
    }

    /// Adds bytes if they fit, or fit once older ones were dropped.
    fn add(&self, principal: Principal, bytes: usize) -> Result<(), Spent> {
        self.add_by(principal, bytes, || self.try_add(principal, bytes))
    }

    fn add_by(
        &self,
        principal: Principal,
        bytes: usize,
        try_add: impl Fn() -> Result<(), Spent>,
    ) -> Result<(), Spent> {
        let spent = match try_add() {
            Ok(()) => return Ok(()),
            Err(spent) => spent,
        };
        let of = |kept: Principal| match spent {
            Spent::Share { .. } => kept == principal,
            Spent::Address { .. } => kept.address() == principal.address(),
            Spent::All { .. } => true,
        };
        let reclaimers = self
            .reclaimers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for reclaimer in reclaimers.iter().filter_map(Weak::upgrade) {
            reclaimer.reclaim(&of, bytes);
        }
        try_add()
    }

    fn table(&self) -> MutexGuard<'_, BudgetTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    /// Holds so many bytes, if they fit, or fit once older ones were dropped. The caller holds no lock that [`Reclaim`] may need.
    pub(crate) fn hold(&self, bytes: usize) -> Result<HeldBytes, Spent> {
        self.budget.add(self.principal, bytes)?;
        Ok(self.held(bytes))
    }

    /// So many bytes, which have been added.
    fn held(&self, bytes: usize) -> HeldBytes {
        HeldBytes {
            account: self.clone(),
            bytes,
        }
    }

    /// Holds these bytes, if they fit, as long as any part of them is kept anywhere.
    pub(crate) fn charge(&self, bytes: Bytes) -> Result<Bytes, Spent> {
        let held = self.hold(bytes.len())?;
        Ok(held.attach(bytes))
    }

    /// Charges a payload of which others may hold the very same bytes, such as a list. It counts once against the whole, and once against
    /// the share of each principal that holds it.
    pub(crate) fn charge_shared(&self, payload: Bytes) -> Result<Bytes, Spent> {
        let Self { budget, principal } = self;
        let try_add = || budget.try_add_shared(*principal, &payload);
        budget.add_by(*principal, payload.len(), try_add)?;
        Ok(Bytes::from_owner(SharedCharge {
            account: self.clone(),
            payload,
        }))
    }

    /// Charges a message that a client can miss: drops nothing else for it, and takes no other lock.
    pub(crate) fn charge_if_room(&self, bytes: Bytes) -> Result<Bytes, Spent> {
        self.budget.try_add(self.principal, bytes.len())?;
        Ok(self.held(bytes.len()).attach(bytes))
    }

    /// Charges few bytes that must not be refused, such as a refusal itself.
    pub(crate) fn charge_in_any_case(&self, bytes: Bytes) -> Bytes {
        self.budget.table().add(self.principal, bytes.len());
        self.held(bytes.len()).attach(bytes)
    }

    pub(crate) fn principal(&self) -> Principal {
        self.principal
    }
}

impl BudgetTable {
    fn of(&self, principal: Principal) -> usize {
        self.of.get(&principal).copied().unwrap_or(0)
    }

    fn add(&mut self, principal: Principal, bytes: usize) {
        self.held += bytes;
        *self.of.entry(principal).or_default() += bytes;
        if let Some(address) = principal.address() {
            *self.of_address.entry(address).or_default() += bytes;
        }
    }

    fn give_back(&mut self, principal: Principal, bytes: usize) {
        self.held -= bytes;
        self.give_back_share(principal, bytes);
        if let Some(address) = principal.address() {
            subtract(&mut self.of_address, &address, bytes);
        }
    }

    fn give_back_share(&mut self, principal: Principal, bytes: usize) {
        subtract(&mut self.of, &principal, bytes);
    }

    fn give_back_shared(&mut self, principal: Principal, payload: &Bytes) {
        let address = payload.as_ptr().addr();
        let Some(holders) = self.shared.get_mut(&address) else {
            return;
        };
        let times = holders.entry(principal).or_default();
        *times -= 1;
        if *times > 0 {
            return;
        }
        holders.remove(&principal);
        if holders.is_empty() {
            self.shared.remove(&address);
            self.held -= payload.len();
        }
        self.give_back_share(principal, payload.len());
    }
}

/// Subtracts from a count, and forgets a count of zero.
fn subtract<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K, bytes: usize) {
    if let Some(count) = counts.get_mut(key) {
        *count -= bytes;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// Bytes that are held for a principal, until this is dropped.
pub(crate) struct HeldBytes {
    account: Account,
    bytes: usize,
}

impl HeldBytes {
    /// Holds so many more bytes, if they fit.
    pub(crate) fn grow(&mut self, more: usize) -> Result<(), Spent> {
        if more == 0 {
            return Ok(());
        }
        self.account.budget.add(self.account.principal, more)?;
        self.bytes += more;
        Ok(())
    }

    /// Lives as long as any part of these bytes is kept anywhere.
    pub(crate) fn attach(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Charged { bytes, _held: self })
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        let Account { budget, principal } = &self.account;
        budget.table().give_back(*principal, self.bytes);
    }
}

/// A payload that several principals may hold, held for one of them.
struct SharedCharge {
    account: Account,
    payload: Bytes,
}

impl AsRef<[u8]> for SharedCharge {
    fn as_ref(&self) -> &[u8] {
        &self.payload
    }
}

impl Drop for SharedCharge {
    /// The payload is still there, so that no other can have its address.
    fn drop(&mut self) {
        let Account { budget, principal } = &self.account;
        budget.table().give_back_shared(*principal, &self.payload);
    }
}

/// Bytes, and what is held for them.
struct Charged {
    bytes: Bytes,
    _held: HeldBytes,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
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
        assert!(budget.table().of.is_empty(), "no principal is remembered");
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
        assert!(budget.table().of_address.is_empty(), "no address is remembered");
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
        let table = budget.table();
        assert!(table.of.is_empty() && table.shared.is_empty(), "nothing is left");
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
        assert!(one.charge_if_room(bytes(1)).is_err());
        let weak = Arc::downgrade(&keeps);
        budget.reclaim_from(weak);
        assert!(
            one.charge_if_room(bytes(1)).is_err(),
            "not for what can be missed"
        );
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
}
