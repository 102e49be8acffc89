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

mod table;

use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use mainstay::Outcome;
use mainstay::gateway::message::RpcError;

use crate::lock::lock;
use crate::principal::Principal;
use crate::protocol::limit_error;
use table::{BudgetTable, HeldFor};

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

/// Charged for a message beside its bytes: for the owner of the bytes, its place in a queue, and the ends of its buffers.
pub(crate) const MESSAGE_COST: usize = 256;

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
    /// As much as a workstation can spare. A share has room for a call of 63 MiB and the copy of it that
    /// its server is sent.
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

/// Why bytes cannot be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spent {
    Share { share: usize },
    Address { most: usize },
    All { all: usize },
}

impl Spent {
    /// What is full.
    pub(crate) fn fact(self) -> String {
        match self {
            Self::Share { share } => {
                format!(
                    "the gateway holds as much for this client as it may ({} MiB)",
                    share / MIB
                )
            }
            Self::Address { most } => format!(
                "the gateway holds as much for the clients of this address as it may ({} MiB in all, and no more for one of them \
                 than it leaves to the others)",
                most / MIB
            ),
            Self::All { all } => {
                format!(
                    "the gateway holds as much for its clients as it may ({} MiB)",
                    all / MIB
                )
            }
        }
    }
}

impl std::error::Error for Spent {}

/// What is full, and what to do to be served.
impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedy = match self {
            Self::Share { .. } => "read the answers that wait, or let running requests end, and try again",
            Self::Address { .. } => {
                "read the answers that wait, let running requests end, or try again later"
            }
            Self::All { .. } => "try again later, or let `mainstay serve` hold more (--client-memory)",
        };
        write!(f, "{}: {remedy}", self.fact())
    }
}

impl From<Spent> for RpcError {
    fn from(spent: Spent) -> Self {
        limit_error(Outcome::NotSent, spent.to_string())
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
        let mut reclaimers = lock(&self.reclaimers);
        reclaimers.retain(|reclaimer| reclaimer.strong_count() > 0);
        reclaimers.push(reclaimer);
    }

    /// The bytes that are held for all clients.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        lock(&self.table).held()
    }

    fn try_add(&self, principal: Principal, bytes: usize) -> Result<(), Spent> {
        let mut table = lock(&self.table);
        let held = table.add(principal, bytes);
        let fits = self.check(principal, held, bytes);
        if fits.is_err() {
            table.give_back(principal, bytes);
        }
        fits
    }

    /// Checks that what is held fits, with so many bytes that were just added for this principal.
    fn check(&self, principal: Principal, held: HeldFor, bytes: usize) -> Result<(), Spent> {
        let share = self.limits.share();
        if held.principal > share {
            return Err(Spent::Share { share });
        }
        if principal.address().is_some() {
            self.check_address(held, bytes)?;
        }
        self.check_all(held.all)
    }

    /// Checks that the bytes fit into the part of the principal's address, and that the principal leaves as many free there as it
    /// holds. Small messages need not leave any: a client can always cancel what runs for it.
    fn check_address(&self, held: HeldFor, bytes: usize) -> Result<(), Spent> {
        let most = self.limits.of_address();
        let is_small = bytes <= self.limits.share() / SMALL;
        match most.checked_sub(held.address) {
            Some(free) if is_small || held.principal <= free => Ok(()),
            Some(_) | None => Err(Spent::Address { most }),
        }
    }

    /// Adds a payload that others may hold too: it counts once for all of them, once for each address and once for each principal.
    fn try_add_shared(&self, principal: Principal, payload: &Bytes) -> Result<(), Spent> {
        let bytes = payload.len();
        let mut table = lock(&self.table);
        let new = table.is_new(principal, payload);
        // A list may be larger than a share, and must still reach a client that holds little else.
        let (share, of) = (self.limits.share(), table.of(principal));
        if new.to_principal && of > share / 2 && of.saturating_add(bytes) > share {
            return Err(Spent::Share { share });
        }
        let most = self.limits.of_address();
        if new.to_address && table.of_address_of(principal).saturating_add(bytes) > most {
            return Err(Spent::Address { most });
        }
        if new.to_all {
            self.check_all(table.held().saturating_add(bytes))?;
        }
        table.add_shared(principal, payload, new);
        Ok(())
    }

    fn check_all(&self, held: usize) -> Result<(), Spent> {
        let BudgetLimits { all, .. } = self.limits;
        match held > all {
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
        let reclaimers = lock(&self.reclaimers).clone();
        for reclaimer in reclaimers.iter().filter_map(Weak::upgrade) {
            reclaimer.reclaim(&of, bytes);
        }
        try_add()
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

    /// Charges a payload of which others may hold the very same bytes, such as a list. It counts once against the whole, once against
    /// the part of each address, and once against the share of each principal that holds it.
    pub(crate) fn charge_shared(&self, payload: Bytes) -> Result<Bytes, Spent> {
        let Self { budget, principal } = self;
        let try_add = || budget.try_add_shared(*principal, &payload);
        budget.add_by(*principal, payload.len(), try_add)?;
        Ok(Bytes::from_owner(SharedCharge {
            account: self.clone(),
            payload,
        }))
    }

    /// Charges a message that is queued for the client, with what it takes beside its bytes.
    pub(crate) fn charge_message(&self, message: Bytes) -> Result<Bytes, Spent> {
        let held = self.hold(message.len() + MESSAGE_COST)?;
        Ok(held.attach(message))
    }

    /// The same for a message that the client can miss: drops nothing else for it, and takes no other lock.
    pub(crate) fn charge_message_if_room(&self, message: Bytes) -> Result<Bytes, Spent> {
        let held = self.hold_if_room(message.len() + MESSAGE_COST)?;
        Ok(held.attach(message))
    }

    /// Holds so many bytes, if they fit now: drops nothing else for them, and takes no other lock.
    pub(crate) fn hold_if_room(&self, bytes: usize) -> Result<HeldBytes, Spent> {
        self.budget.try_add(self.principal, bytes)?;
        Ok(self.held(bytes))
    }

    /// Charges few bytes that must not be refused, such as a refusal itself.
    pub(crate) fn charge_in_any_case(&self, bytes: Bytes) -> Bytes {
        lock(&self.budget.table).add(self.principal, bytes.len());
        self.held(bytes.len()).attach(bytes)
    }

    pub(crate) fn principal(&self) -> Principal {
        self.principal
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

    /// Holds so many bytes in all, if they fit.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), Spent> {
        self.grow(bytes.saturating_sub(self.bytes))
    }

    /// Lives as long as any part of these bytes is kept anywhere.
    pub(crate) fn attach(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Charged { bytes, _held: self })
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        let Account { budget, principal } = &self.account;
        lock(&budget.table).give_back(*principal, self.bytes);
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
        lock(&budget.table).give_back_shared(*principal, &self.payload);
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
mod tests;
