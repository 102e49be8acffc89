//! The gateway as its clients see it, through each of its doors.

mod chaos;
mod fidelity;
mod http;
mod isolation;
mod router;
