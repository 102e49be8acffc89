//! The counts of held bytes: in all, for each principal, and for each address. It counts, and does not judge.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::net::IpAddr;

use bytes::Bytes;

use crate::principal::Principal;

#[derive(Debug, Default)]
pub(super) struct BudgetTable {
    held: usize,
    of: HashMap<Principal, usize>,
    of_address: HashMap<IpAddr, usize>,
    /// Payloads that several principals may hold at once, by where they lie in memory.
    shared: HashMap<usize, PayloadHolders>,
}

/// How often each principal holds a payload, and how many of its holders each address has.
#[derive(Debug, Default)]
struct PayloadHolders {
    times: HashMap<Principal, usize>,
    of_address: HashMap<IpAddr, usize>,
}

/// To whom a shared payload is new.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewTo {
    pub(super) to_all: bool,
    /// False for a principal without an address.
    pub(super) to_address: bool,
    pub(super) to_principal: bool,
}

/// The bytes that are held for a principal, for its address, and in all.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldFor {
    pub(super) all: usize,
    pub(super) principal: usize,
    /// Zero if the principal has no address.
    pub(super) address: usize,
}

impl BudgetTable {
    /// The bytes of all.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    pub(super) fn of(&self, principal: Principal) -> usize {
        self.of.get(&principal).copied().unwrap_or(0)
    }

    /// The bytes of all principals at the address of this one; none if it has no address.
    pub(super) fn of_address_of(&self, principal: Principal) -> usize {
        let address = principal.address();
        address
            .and_then(|address| self.of_address.get(&address).copied())
            .unwrap_or(0)
    }

    /// Adds so many bytes, and returns what is held with them.
    pub(super) fn add(&mut self, principal: Principal, bytes: usize) -> HeldFor {
        self.held += bytes;
        let of_principal = self.of.entry(principal).or_default();
        *of_principal += bytes;
        let of_address = principal.address().map(|address| {
            let of_address = self.of_address.entry(address).or_default();
            *of_address += bytes;
            *of_address
        });
        HeldFor {
            all: self.held,
            principal: *of_principal,
            address: of_address.unwrap_or(0),
        }
    }

    pub(super) fn give_back(&mut self, principal: Principal, bytes: usize) {
        self.held -= bytes;
        subtract(&mut self.of, principal, bytes);
        if let Some(address) = principal.address() {
            subtract(&mut self.of_address, address, bytes);
        }
    }

    pub(super) fn is_new(&self, principal: Principal, payload: &Bytes) -> NewTo {
        let holders = self.shared.get(&place(payload));
        let is_of =
            |address: &IpAddr| holders.is_some_and(|holders| holders.of_address.contains_key(address));
        NewTo {
            to_all: holders.is_none(),
            to_address: principal.address().is_some_and(|address| !is_of(&address)),
            to_principal: holders.is_none_or(|holders| !holders.times.contains_key(&principal)),
        }
    }

    /// Adds one hold on a payload, which counts for all, an address or a principal if it is new to them.
    pub(super) fn add_shared(&mut self, principal: Principal, payload: &Bytes, new: NewTo) {
        let bytes = payload.len();
        let holders = self.shared.entry(place(payload)).or_default();
        *holders.times.entry(principal).or_default() += 1;
        if new.to_principal {
            *self.of.entry(principal).or_default() += bytes;
            if let Some(address) = principal.address() {
                *holders.of_address.entry(address).or_default() += 1;
            }
        }
        if let Some(address) = principal.address().filter(|_| new.to_address) {
            *self.of_address.entry(address).or_default() += bytes;
        }
        if new.to_all {
            self.held += bytes;
        }
    }

    /// Gives one hold back. The last one of a principal, of an address and of all gives the bytes back.
    pub(super) fn give_back_shared(&mut self, principal: Principal, payload: &Bytes) {
        let bytes = payload.len();
        let Some(holders) = self.shared.get_mut(&place(payload)) else {
            return;
        };
        subtract(&mut holders.times, principal, 1);
        if holders.times.contains_key(&principal) {
            return;
        }
        subtract(&mut self.of, principal, bytes);
        if let Some(address) = principal.address() {
            subtract(&mut holders.of_address, address, 1);
            if !holders.of_address.contains_key(&address) {
                subtract(&mut self.of_address, address, bytes);
            }
        }
        if holders.times.is_empty() {
            self.shared.remove(&place(payload));
            self.held -= bytes;
        }
    }

    /// Whether nothing is held, and no principal, address or payload remembered.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.held == 0 && self.of.is_empty() && self.of_address.is_empty() && self.shared.is_empty()
    }
}

/// Where a payload lies. No two that are held lie in one place.
fn place(payload: &Bytes) -> usize {
    payload.as_ptr().addr()
}

/// Subtracts from a count, and forgets a count of zero.
fn subtract<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: K, less: usize) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= less;
        if *count.get() == 0 {
            count.remove();
        }
    }
}
