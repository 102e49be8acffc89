//! The copy of a large request that its server is sent, charged to the client beside what came of it.

use std::sync::Mutex;

use bytes::Bytes;
use mainstay::gateway::message::Params;

use crate::budget::{Account, HeldBytes, MESSAGE_COST, Spent};
use crate::lock::lock;

/// Parameters up to this length are copied at no charge: each request is charged that much beside its body.
const SMALL_REQUEST: usize = 8 * 1024;

/// What is held for the copy.
pub(super) struct LineCopy {
    account: Account,
    held: HeldBytes,
}

impl LineCopy {
    /// Holds bytes for the line of a request with these parameters, if it is large.
    pub(super) fn hold(account: &Account, params: &Params) -> Result<Option<Self>, Spent> {
        let length = params.as_raw().map_or(0, |params| params.as_bytes().len());
        if length <= SMALL_REQUEST {
            return Ok(None);
        }
        Ok(Some(Self {
            held: account.hold(length + MESSAGE_COST)?,
            account: account.clone(),
        }))
    }

    /// Attaches what is held to the line, and charges further ones: of a call that is made again.
    pub(super) fn keeper(self) -> impl Fn(Bytes) -> Bytes + Send + Sync + 'static {
        let Self { account, held } = self;
        let held = Mutex::new(Some(held));
        move |line| match lock(&held).take() {
            Some(held) => held.attach(line),
            None => account.charge_in_any_case(line),
        }
    }
}
