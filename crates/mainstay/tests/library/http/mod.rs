//! Servers over HTTP, through the fleet: what ends a connection that is none, what brings it back, and what becomes of
//! calls and subscriptions meanwhile. Everything is on the loopback, and times are kept short by the policy.

mod support;

mod asking;
mod beside;
mod closing;
mod credentials;
mod dialects;
mod fidelity;
mod hostile;
mod login;
mod losing;
mod probing;
mod replacing;
mod returning;
mod sessions;
mod sse;
mod starting;
mod subscriptions;
mod throttling;
mod timing;
