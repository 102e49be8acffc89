//! The door over HTTP: clients of both eras, what they may do, and what they may not.

pub(crate) mod support;

mod batches;
mod bounds;
mod closing;
mod disturbing;
mod first_run;
mod flood;
mod guarding;
mod holding;
mod large;
mod logging;
mod old_sse;
mod outliving;
mod principals;
mod probing;
mod refusing;
mod revoking;
mod sessions;
mod slow;
mod stateless;
mod streams;
mod timing;
mod tls;
