//! Server processes, through the fleet: whatever ends a server, nothing of it is left; whatever a server does to its
//! streams or its configuration names, no other server notices.

mod cycles;
mod endings;
mod killed;
mod lacking;
mod misconfigured;
mod start_queue;
mod starting;
mod stderr;
