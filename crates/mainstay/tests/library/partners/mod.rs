//! Real servers, on the SDKs that most servers are built on. `cargo xtask partners` installs them.

mod http;
mod old_sdks;
mod stdio;
mod subscriptions;

use std::time::Duration;

/// Node and Python take seconds to start when the machine is busy.
const LONG: Duration = mainstay_testkit::poll::LIMIT;
