//! The time and the random numbers that the protocol crate is given.

use std::sync::LazyLock;
use std::time::SystemTime;

use mainstay_oauth::Context;
use ring::rand::SystemRandom;

/// The context of this moment.
pub(crate) fn context() -> Context<'static> {
    static RANDOM: LazyLock<SystemRandom> = LazyLock::new(SystemRandom::new);
    Context::new(SystemTime::now(), &*RANDOM)
}
