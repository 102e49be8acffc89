//! What is logged on stderr: each change of a server's state, refused requests, and whatever `MAINSTAY_LOG` asks for.
//!
//! The library and the gateway write events; one subscriber makes a line of each, as text or as JSON. All text in them is
//! cleaned on the way. `state` words the changes of state, `repeats` keeps lines that repeat themselves few, `writer`
//! writes without blocking, `time` writes times down.

mod record;
mod repeats;
mod state;
mod time;
mod writer;

use std::sync::{Arc, OnceLock};

use tracing::{Event, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::otlp::{self, OtlpSettings};
use crate::output::{Screen, Text, plain, text};
use record::Record;
use repeats::Repeats;
use writer::Writer;

pub(crate) use time::stamp;

/// The variable that says what is logged, in place of what a command logs by itself.
const VARIABLE: &str = "MAINSTAY_LOG";

/// What a command logs by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logged {
    /// That the cache cannot be used, once, at the end: the command reports everything else itself.
    Cache,
    /// Why the server cannot be had. A host reads it among what the server writes itself.
    GivenUp,
    /// What is wrong.
    Problems,
    /// What is wrong, every change of a server's state, and every request that was refused.
    Changes,
}

impl Logged {
    fn filter(self) -> &'static str {
        match self {
            Self::Cache => "off,mainstay::store=warn",
            Self::GivenUp => "off,mainstay::state=warn",
            Self::Problems => "warn",
            Self::Changes => "warn,mainstay=info,mainstay_gateway=info",
        }
    }
}

/// The thread that writes to stderr, where one does.
static WRITER: OnceLock<Arc<Writer>> = OnceLock::new();

/// Hands a line to the thread that writes to stderr; back it comes where there is none.
pub(crate) fn queue(line: Text) -> Option<Text> {
    match WRITER.get() {
        Some(writer) => {
            writer.queue(line);
            None
        }
        None => Some(line),
    }
}

/// Writes what is left to write when it is dropped.
#[must_use]
pub(crate) struct Log(Option<Arc<Repeats>>);

impl Drop for Log {
    fn drop(&mut self) {
        if let Some(repeats) = &self.0 {
            repeats.flush();
        }
    }
}

/// Whether `MAINSTAY_LOG` asks for logs. They and a table that is redrawn in place would write over each other.
pub(crate) fn wanted() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|filter| !filter.is_empty())
}

/// Starts to log, and to take spans for a receiver of traces if there is one.
pub(crate) fn init(screen: &Screen, logged: Logged, traces: Option<OtlpSettings>) -> Log {
    let requested = std::env::var(VARIABLE).ok().filter(|_| wanted());
    let filter = match requested.as_deref().unwrap_or(logged.filter()).parse::<Targets>() {
        Ok(filter) => filter,
        Err(error) => {
            screen.warning(text!(
                "{} is not understood, nothing is logged: {}",
                VARIABLE,
                plain(&error.to_string())
            ));
            return Log(None);
        }
    };
    let is_deferred = logged == Logged::Cache && !wanted();
    let repeats = Repeats::start(*screen, is_deferred);
    let lines = LogLines {
        repeats: repeats.clone(),
        only_given_up: logged == Logged::GivenUp && !wanted(),
    };
    // It fails only where another subscriber is there already, and there is none.
    let _ = match traces {
        None => Registry::default().with(filter).with(lines).try_init(),
        // What is exported does not depend on what is logged.
        Some(traces) => Registry::default()
            .with(otlp::layer(traces))
            .with(lines.with_filter(filter))
            .try_init(),
    };
    Log(Some(repeats))
}

/// Makes a line of each event.
struct LogLines {
    repeats: Arc<Repeats>,
    /// Whether a server that is being restarted is none of the reader's concern.
    only_given_up: bool,
}

impl<S: Subscriber> Layer<S> for LogLines {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let record = Record::of(event);
        if !self.only_given_up || state::is_given_up(&record) {
            self.repeats.offer(record);
        }
    }
}
