//! What the gateway costs a client. Each figure is a ratio of two sides that are measured in turn in one run.
//!
//! `cargo bench -p mainstay-cli` prints a table, `-- --json` the same as JSON, and a word of a row's name measures that row
//! alone. Without `--bench` everything runs a few times only: enough to see that it works, no figures to quote.
//!
//! The gateway is the real program, a process of its own. The servers behind it are this program again, on standard input
//! and output or over HTTP: a server on rmcp as its users build one, for the figures with aims, and one that parses nothing,
//! beside which nearly all time is the gateway's. A loop without any supervision shows what is possible at all. Rivals run beside them where `cargo xtask rivals` has installed them.

mod bare_loop;
mod bridge;
mod calls;
mod client;
#[path = "../../../mainstay/benches/ratios/compare.rs"]
mod compare;
mod cost;
mod echo;
mod figure;
mod floods;
mod instructions;
mod large;
mod metrics;
mod program;
mod recovery;
mod resident;
mod rivals;
mod socket_flood;
mod starting;

use std::error::Error;

use figure::Figure;

/// Any error of a benchmark: it then has no figure.
type Fallible<T = ()> = Result<T, Box<dyn Error>>;

/// How much is measured.
#[derive(Clone, Copy)]
struct Effort {
    /// Whether the figures are meant to be quoted.
    full: bool,
}

impl Effort {
    fn rounds(self, full: usize) -> usize {
        if self.full { full } else { 2 }
    }
}

/// Measures some figures.
type Benchmark = fn(Effort) -> Fallible<Vec<Figure>>;

const BENCHMARKS: &[(&str, Benchmark)] = &[
    ("call", calls::measure),
    ("bare", calls::measure_bare),
    ("cost", cost::measure),
    ("instructions", instructions::measure),
    ("flood", floods::measure),
    ("large", large::measure),
    ("recovery", recovery::measure),
    ("start", starting::measure),
    ("bridge", bridge::measure),
    ("socket", socket_flood::measure),
    ("memory", resident::measure),
    ("metrics", metrics::measure),
    ("scrape", metrics::measure_scrape),
];

fn main() -> Fallible {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let Some(echo) = echo::Echo::from_arguments(&words) {
        return echo?.run();
    }
    if words == [floods::WORD] {
        return floods::run();
    }
    if let Some(relayed) = bridge::relay(&words) {
        return relayed;
    }
    if let Some(server) = bare_loop::from_arguments(&words) {
        return bare_loop::run(server?);
    }
    let (flags, wanted): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with("--"));
    let effort = Effort {
        full: flags.contains(&"--bench"),
    };
    let mut figures = Vec::new();
    for (name, measure) in BENCHMARKS {
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(word)) {
            figures.extend(measure(effort)?);
        }
    }
    if flags.contains(&"--json") {
        println!("{}", figure::json(&figures));
    } else {
        print!("{}", figure::table(&figures));
    }
    Ok(())
}

/// One thread: what is measured is a client that waits, not one that competes with what it waits for.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
