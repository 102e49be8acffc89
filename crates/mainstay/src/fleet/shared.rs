//! What all keepers of a fleet share.

use std::sync::{Arc, Mutex};

use crate::catalog::{Publisher, Store};
use crate::event::EventLog;
use crate::handler::ClientHandler;
use crate::process::Curfew;
use crate::protocol::Introduction;

pub(crate) struct Shared {
    pub(crate) handler: Arc<dyn ClientHandler>,
    pub(crate) introduction: Introduction,
    pub(crate) events: EventLog,
    /// Writers of the published catalog take turns; readers never come here.
    pub(crate) publisher: Mutex<Publisher>,
    pub(crate) store: Option<Arc<Store>>,
    /// Called when the fleet is closed.
    pub(crate) curfew: Curfew,
}
