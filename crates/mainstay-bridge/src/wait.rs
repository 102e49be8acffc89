//! Blocking waits on descriptors, with a deadline.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Waits until there is something to read, or the end of it; `false` if the time is over first.
pub(crate) fn wait_readable(fd: &impl AsFd, within: Duration) -> io::Result<bool> {
    wait(fd, PollFlags::IN, Some(within))
}

/// Waits for as long as it takes.
pub(crate) fn wait_for(fd: &impl AsFd, flags: PollFlags) -> io::Result<()> {
    wait(fd, flags, None).map(drop)
}

fn wait(fd: &impl AsFd, flags: PollFlags, within: Option<Duration>) -> io::Result<bool> {
    let deadline = within.map(|within| Instant::now() + within);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut [PollFd::new(fd, flags)], left.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
