//! The same questions over HTTP: what a supervised call costs there, how soon the death of a server is known, and how
//! soon its return.

mod bare;
pub(crate) mod calls;
pub(crate) mod outage;
pub(crate) mod server;
