//! The hash by which catalogs are compared.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// The SHA-256 of a catalog's content: equal content, equal hash, on every machine and in every run.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CatalogHash([u8; 32]);

impl fmt::Display for CatalogHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CatalogHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CatalogHash({self})")
    }
}

impl CatalogHash {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Feeds a hash with parts, each prefixed with its length: no two different sequences of parts read the same.
#[derive(Default)]
pub(super) struct Hasher(Sha256);

impl Hasher {
    pub(super) fn part(&mut self, bytes: &[u8]) -> &mut Self {
        self.count(bytes.len());
        self.0.update(bytes);
        self
    }

    /// A part that may be absent; an absent part differs from an empty one.
    pub(super) fn optional(&mut self, bytes: Option<&[u8]>) -> &mut Self {
        self.count(usize::from(bytes.is_some()));
        self.part(bytes.unwrap_or_default())
    }

    pub(super) fn count(&mut self, n: usize) -> &mut Self {
        self.0.update((n as u64).to_be_bytes());
        self
    }

    pub(super) fn finish(self) -> CatalogHash {
        CatalogHash(self.0.finalize().into())
    }
}
