//! A runtime whose one blocking thread a test can keep busy, to see which work runs there.

use std::sync::mpsc;

/// Runs a test on a runtime with one thread for blocking work.
///
/// # Panics
/// When the runtime cannot be built.
pub fn with_one_blocking_thread(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .expect("a runtime can be built");
    runtime.block_on(test);
}

/// Keeps the one blocking thread busy until it is dropped.
#[derive(Debug)]
pub struct BusyThread {
    _release: mpsc::Sender<()>,
}

impl BusyThread {
    /// Starts to block; called inside the runtime.
    #[must_use]
    pub fn start() -> Self {
        let (release, released) = mpsc::channel();
        tokio::task::spawn_blocking(move || {
            let _ = released.recv();
        });
        Self { _release: release }
    }
}
