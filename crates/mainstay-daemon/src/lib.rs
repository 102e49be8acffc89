//! One daemon of a user that all hosts share, and the thin bridge that connects a host to it.

pub mod live;
