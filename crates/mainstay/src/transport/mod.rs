//! (transport)
