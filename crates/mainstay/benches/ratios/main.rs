//! What supervision costs: each figure is a ratio, both sides of it measured in turn in one run.
//!
//! `cargo bench -p mainstay` prints a table, `cargo bench -p mainstay -- --json` the same as JSON, and a word of a
//! row's name measures that row alone. Without `--bench`, as in `cargo test --benches`, everything runs a few times
//! only: enough to see that it works, no figures to quote.
//!
//! The program is also the server: it starts itself as the server at the other end of the pipes, and as the
//! fresh process whose memory is read.

mod answers;
mod bare;
mod calls;
mod catalog;
mod compare;
mod floods;
mod large;
mod memory;
mod pinned;
mod recovery;
mod report;
mod server;
mod web;

use std::error::Error;

use report::RatioRow;

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
type Benchmark = fn(Effort) -> Fallible<Vec<RatioRow>>;

const BENCHMARKS: &[(&str, Benchmark)] = &[
    ("call", calls::measure),
    ("recorder", calls::measure_recorder),
    ("http-call", web::calls::measure),
    ("http-death", web::outage::death),
    ("http-return", web::outage::come_back),
    ("catalog", catalog::measure),
    ("large", large::measure),
    ("recovery", recovery::measure),
    ("memory", memory::measure),
    ("flood", floods::measure),
];

fn main() -> Fallible {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [server::SERVE, ref settings @ ..] => return server::serve(settings),
        [server::PIPE, length] => return server::pipe(length.parse()?),
        [web::server::SERVE_HTTP, port, era] => return web::server::serve(port.parse()?, era),
        [floods::FLOOD, kind] => return floods::serve(kind),
        [memory::FRESH, side, count] => return memory::fresh(side, count.parse()?),
        _ => {}
    }
    let (flags, wanted): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with("--"));
    let effort = Effort {
        full: flags.contains(&"--bench"),
    };
    let mut rows = Vec::new();
    for (name, measure) in BENCHMARKS {
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(word)) {
            rows.extend(measure(effort)?);
        }
    }
    if flags.contains(&"--json") {
        println!("{}", report::json(&rows));
    } else {
        print!("{}", report::table(&rows));
    }
    Ok(())
}

/// One thread for everything, so that a figure is the cost of the code and not of waking a thread.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
