//! The control API of a running Mainstay: its types, its HTTP service under `/api/v1`, and a client for it.
