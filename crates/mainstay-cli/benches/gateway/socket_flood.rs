//! A host's calls through the daemon while another program of the same user floods the daemon's socket.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use mainstay_bridge::{RuntimeDirectory, status};

use crate::bridge::{BenchHost, BenchPlace};
use crate::compare::{RatioPair, nanoseconds};
use crate::echo::{Echo, EchoKind, EchoTransport};
use crate::figure::{Amount, Figure};
use crate::{Effort, Fallible};

const RESULT: usize = 100;

/// Calls from which one p99 is read.
const CALLS: usize = 500;

/// How much longer the slowest of a hundred calls may take, in nanoseconds.
const MORE_AIM: f64 = 20e6;

/// What is done again and again with the socket.
type OneOfFlood = fn(&RuntimeDirectory) -> Fallible;

const FLOODS: [(&str, OneOfFlood); 2] = [
    ("connections that are opened and closed", open_and_close),
    ("requests for the status", ask_for_status),
];

fn open_and_close(directory: &RuntimeDirectory) -> Fallible {
    drop(UnixStream::connect(directory.socket())?);
    Ok(())
}

fn ask_for_status(directory: &RuntimeDirectory) -> Fallible {
    status(directory)?.ok_or("a daemon runs")?;
    Ok(())
}

pub(crate) fn measure(effort: Effort) -> Fallible<Vec<Figure>> {
    let place = BenchPlace::new()?;
    let server = Echo::new(EchoKind::Bare, EchoTransport::Stdio, RESULT);
    let mut host = BenchHost::start(&place, "connect", server)?;
    let mut figures = Vec::new();
    for (name, one) in FLOODS {
        let mut pair = RatioPair::new();
        let (mut done, mut seconds) = (0, 0.0);
        for _ in 0..effort.rounds(20) {
            let before = p99(&mut host)?;
            let flood = Flood::start(&place.runtime(), one)?;
            let began = Instant::now();
            let during = p99(&mut host)?;
            seconds += began.elapsed().as_secs_f64();
            done += flood.stop()?;
            pair.push(before, during);
        }
        let row = format!("p99 of a call through connect during a flood of {name} (direct: before it)");
        figures.push(Figure::more(row, &pair, Some(MORE_AIM)));
        let rate = f64::from(done) / seconds;
        figures.push(Figure::amount(
            format!("{name}, in a second"),
            Amount::Times(rate),
            None,
        ));
    }
    Ok(figures)
}

fn p99(host: &mut BenchHost) -> Fallible<f64> {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let began = Instant::now();
        host.call()?;
        times.push(nanoseconds(began.elapsed()));
    }
    times.sort_by(f64::total_cmp);
    Ok(times[CALLS * 99 / 100])
}

/// A thread that does one thing until it is stopped.
struct Flood {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Result<u32, String>>,
}

impl Flood {
    fn start(runtime: &Path, one: OneOfFlood) -> Fallible<Self> {
        let runtime: PathBuf = runtime.to_owned();
        let directory = RuntimeDirectory::find(|name| {
            (name == "MAINSTAY_RUNTIME").then(|| runtime.clone().into_os_string())
        })?;
        let ends = Arc::<AtomicBool>::default();
        let thread = std::thread::spawn({
            let ends = ends.clone();
            move || {
                let mut done = 0;
                while !ends.load(Ordering::Relaxed) {
                    one(&directory).map_err(|error| error.to_string())?;
                    done += 1;
                }
                Ok(done)
            }
        });
        Ok(Self { ends, thread })
    }

    /// How often it was done.
    fn stop(self) -> Fallible<u32> {
        self.ends.store(true, Ordering::Relaxed);
        Ok(self.thread.join().map_err(|_| "the flood panicked")??)
    }
}
