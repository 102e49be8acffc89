//! Finds offers by their public names. A changed copy shares with the original what the change did not touch, so a published catalog
//! keeps its index while the next one is made of it.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::offer::Offer;

/// How many offers a shard has on average before the number of shards is doubled. A change copies each shard that it touches, and a
/// search looks through one.
const SHARD_LENGTH: usize = 16;

/// Offers by public name, in shards by the hash of the name.
pub(super) struct NameIndex<K> {
    /// As many as a power of two.
    shards: Vec<Arc<Shard<K>>>,
    length: usize,
    hasher: RandomState,
}

/// The hash of each name, and the offer.
type Shard<K> = Vec<(u64, Offer<K>)>;

impl<K> NameIndex<K> {
    pub(super) fn get(&self, name: &str) -> Option<&Offer<K>> {
        let hash = self.hasher.hash_one(name);
        let shard = &self.shards[self.shard_of(hash)];
        place_in(shard, hash, name).map(|at| &shard[at].1)
    }

    /// The offer that its name leads to from now on. Returns the one that the name led to before.
    pub(super) fn insert(&mut self, offer: Offer<K>) -> Option<Offer<K>> {
        let hash = self.hasher.hash_one(offer.name());
        let at = self.shard_of(hash);
        let shard = Arc::make_mut(&mut self.shards[at]);
        if let Some(at) = place_in(shard, hash, offer.name()) {
            return Some(std::mem::replace(&mut shard[at].1, offer));
        }
        shard.push((hash, offer));
        self.length += 1;
        if self.length > self.shards.len() * SHARD_LENGTH {
            self.double();
        }
        None
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Offer<K>> {
        let hash = self.hasher.hash_one(name);
        let at = self.shard_of(hash);
        let at_in_shard = place_in(&self.shards[at], hash, name)?;
        self.length -= 1;
        let (_, removed) = Arc::make_mut(&mut self.shards[at]).swap_remove(at_in_shard);
        Some(removed)
    }

    fn shard_of(&self, hash: u64) -> usize {
        // The number of shards is a power of two. The bits that do not fit a `usize` are not needed.
        (hash as usize) & (self.shards.len() - 1)
    }

    fn double(&mut self) {
        let mut doubled: Vec<Shard<K>> = Vec::new();
        doubled.resize_with(self.shards.len() * 2, Vec::new);
        for (hash, offer) in self.shards.iter().flat_map(|shard| &**shard) {
            let at = (*hash as usize) & (doubled.len() - 1);
            doubled[at].push((*hash, offer.clone()));
        }
        self.shards = doubled.into_iter().map(Arc::new).collect();
    }
}

fn place_in<K>(shard: &[(u64, Offer<K>)], hash: u64, name: &str) -> Option<usize> {
    shard
        .iter()
        .position(|(its, offer)| *its == hash && offer.name() == name)
}

impl<K> Default for NameIndex<K> {
    fn default() -> Self {
        Self {
            shards: vec![Arc::default()],
            length: 0,
            hasher: RandomState::new(),
        }
    }
}

impl<K> Clone for NameIndex<K> {
    fn clone(&self) -> Self {
        Self {
            shards: self.shards.clone(),
            length: self.length,
            hasher: self.hasher.clone(),
        }
    }
}

impl<K> std::fmt::Debug for NameIndex<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NameIndex")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}
