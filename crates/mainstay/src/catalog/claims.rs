//! Which offer a public name leads to, where several servers may claim the same name.
//!
//! A claim is added and removed without a look at the other names, so a change of one server costs what that server offers.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::name_index::NameIndex;
use super::names::{SEPARATOR, public_name};
use super::offer::Offer;

/// The claims of all servers to the names of one kind.
#[derive(Debug)]
pub(super) struct NameClaims<K> {
    /// The owner of each name.
    owners: Arc<NameIndex<K>>,
    /// All claims to names that several offers claim.
    contested: HashMap<Arc<str>, BTreeSet<Claim<K>>>,
}

/// The servers whose offers got or lost a name.
pub(super) type TouchedServers = BTreeSet<Arc<str>>;

impl<K> NameClaims<K> {
    /// The owner of each name, as it is now.
    pub(super) fn owners(&self) -> &Arc<NameIndex<K>> {
        &self.owners
    }

    pub(super) fn has_contested(&self) -> bool {
        !self.contested.is_empty()
    }

    pub(super) fn add(&mut self, offer: &Offer<K>, touched: &mut TouchedServers) {
        let owner = match self.owners.get(offer.name()) {
            None => offer.clone(),
            Some(owner) => {
                let name = Arc::clone(offer.shared_name());
                let claims = self.contested.entry(name).or_default();
                claims.insert(Claim(owner.clone()));
                claims.insert(Claim(offer.clone()));
                owner_of(claims).unwrap_or(offer).clone()
            }
        };
        self.give(owner, touched);
    }

    pub(super) fn remove(&mut self, offer: &Offer<K>, touched: &mut TouchedServers) {
        let Some(claims) = self.contested.get_mut(offer.name()) else {
            Arc::make_mut(&mut self.owners).remove(offer.name());
            return;
        };
        claims.remove(&Claim(offer.clone()));
        let owner = owner_of(claims).cloned();
        if claims.len() < 2 {
            self.contested.remove(offer.name());
        }
        if let Some(owner) = owner {
            self.give(owner, touched);
        }
    }

    fn give(&mut self, owner: Offer<K>, touched: &mut TouchedServers) {
        if self.owners.get(owner.name()).is_some_and(|last| last.is(&owner)) {
            return;
        }
        let next = Arc::clone(owner.shared_server());
        if let Some(last) = Arc::make_mut(&mut self.owners).insert(owner) {
            touched.insert(Arc::clone(last.shared_server()));
            touched.insert(next);
        }
    }
}

impl<K> Default for NameClaims<K> {
    fn default() -> Self {
        Self {
            owners: Arc::default(),
            contested: HashMap::new(),
        }
    }
}

/// The offer that a name leads to, which all of these claim: the first, or the first that is really called so if the name of the first
/// had to be changed. So an exact name leads to what has it, whichever of their servers is listed first.
fn owner_of<K>(claims: &BTreeSet<Claim<K>>) -> Option<&Offer<K>> {
    let mut claims = claims.iter().map(|Claim(offer)| offer);
    let first = claims.next()?;
    match is_changed(first) {
        true => Some(claims.find(|later| is_exact(later)).unwrap_or(first)),
        false => Some(first),
    }
}

/// Whether the owner of a name gives it to an offer that comes later.
pub(super) fn gives_way<K>(owner: &Offer<K>, later: &Offer<K>) -> bool {
    is_changed(owner) && is_exact(later)
}

/// Whether an offer's public name is made of the very names of its server and of itself.
fn is_exact<K>(offer: &Offer<K>) -> bool {
    let name = offer.name().strip_prefix(offer.server());
    let name = name.and_then(|rest| rest.strip_prefix(SEPARATOR));
    name == Some(offer.original())
}

/// Whether characters of these names had to be replaced. A name that the configuration gave is not changed.
fn is_changed<K>(offer: &Offer<K>) -> bool {
    !is_exact(offer) && public_name(offer.server(), offer.original()) == offer.name()
}

/// An offer among others of the same name, in the order of their places.
#[derive(Debug)]
struct Claim<K>(Offer<K>);

impl<K> Ord for Claim<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.place().cmp(&other.0.place())
    }
}

impl<K> PartialOrd for Claim<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> PartialEq for Claim<K> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<K> Eq for Claim<K> {}
