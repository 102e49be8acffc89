//! What the machine does, told through its public face: inputs and time go in, effects come out.

mod lacking;
mod listing;
mod losing;
mod resting;
mod returning;
mod server;
mod spreading;
mod watching;
mod wishes;
mod words;
