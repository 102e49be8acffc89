//! The life of a server, as seen through the public face of the library: what ends it, what brings it back, and what
//! can be seen of it meanwhile. About processes where it is about processes; in memory and paused time where it is
//! about time.

mod support;

mod applying;
mod budget;
mod closing;
mod commands;
mod crash;
mod dropping;
mod eras;
mod events;
mod hanging_close;
mod lazy;
mod panicking;
mod probing;
mod refused_listings;
mod restart;
mod resting;
mod slow_start;
mod startup;
mod status;
mod stop_race;
