//! The pure lifecycle machine of Mainstay.

mod policy;

pub use policy::{Backoff, Bucket, Limits, Policy, Probe, WhenSpent};
