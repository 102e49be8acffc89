//! Calls, through the fleet: each is made once, is answered or fails in time, and says whether it may have run; what a
//! server asks meanwhile reaches whom it concerns.

mod asking;
mod boundless;
mod causes;
mod declared;
mod embedding;
mod fidelity;
mod health;
mod hostile;
mod large;
mod losing;
mod mirrors;
mod names;
mod notifications;
mod operator;
mod person;
mod ping;
mod repeated;
mod rounds;
mod timeouts;
mod waiting;
