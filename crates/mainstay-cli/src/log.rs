//! Logs on stderr, for whoever asks for them.

use tracing_subscriber::EnvFilter;

use crate::output::{Screen, plain, text};

/// The variable that says what is logged. Commands report what happens themselves, so nothing is by default.
const VARIABLE: &str = "MAINSTAY_LOG";

/// Whether anybody asked for logs. They and a table that is redrawn in place would write over each other.
pub(crate) fn wanted() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|filter| !filter.is_empty())
}

/// Starts to log.
pub(crate) fn init(screen: &Screen) {
    if !wanted() {
        return;
    }
    let filter = match EnvFilter::try_from_env(VARIABLE) {
        Ok(filter) => filter,
        Err(error) => {
            return screen.warning(text!(
                "{} is not understood, nothing is logged: {}",
                VARIABLE,
                plain(&error.to_string())
            ));
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
}
