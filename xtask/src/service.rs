//! A program that runs beside xtask for as long as it is needed, and says when it is ready.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::child;

/// A running program; it is ended with all its descendants when this is dropped.
pub(crate) struct Service {
    child: Child,
}

/// Where a program says that it is ready.
#[derive(Clone, Copy)]
pub(crate) enum Says {
    OnStdout,
    OnStderr,
}

impl Service {
    /// Starts a program, and waits until a line of what it says is understood. All its output goes to `log`.
    pub(crate) fn start<T: Send + 'static>(
        command: &mut Command,
        says: Says,
        log: &Path,
        within: Duration,
        understood: impl Fn(&str) -> Option<T> + Send + 'static,
    ) -> Result<(Self, T)> {
        let program = command.get_program().to_string_lossy().into_owned();
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let other = file.try_clone().context("cannot share a log")?;
        command.stdin(Stdio::null());
        match says {
            Says::OnStdout => command.stdout(Stdio::piped()).stderr(other),
            Says::OnStderr => command.stderr(Stdio::piped()).stdout(other),
        };
        let mut child = child::spawn(command)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let service = Self { child };
        let (sender, ready) = mpsc::channel();
        match (stdout, stderr) {
            (Some(output), _) => follow(output, file, understood, sender),
            (None, Some(output)) => follow(output, file, understood, sender),
            (None, None) => {}
        }
        let ready = ready.recv_timeout(within);
        let ready = ready.with_context(|| format!("{program} did not get ready; see {}", log.display()))?;
        Ok((service, ready))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Err(error) = child::end(&mut self.child) {
            eprintln!("{error:#}");
        }
    }
}

/// Writes what a program says into its log until it ends, and hands over the first that is understood.
fn follow<T: Send + 'static>(
    output: impl Read + Send + 'static,
    mut log: File,
    understood: impl Fn(&str) -> Option<T> + Send + 'static,
    ready: mpsc::Sender<T>,
) {
    thread::spawn(move || {
        let mut ready = Some(ready);
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // A log that cannot be written is no reason to let the program block.
            let _ = writeln!(log, "{line}");
            if let Some(sign) = understood(&line) {
                ready.take().map(|ready| ready.send(sign));
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::{Command, Duration, Says, Service};

    fn started(script: &str, says: Says) -> anyhow::Result<(Service, u16)> {
        let log = std::env::temp_dir().join(format!("xtask-service-{}-{}", std::process::id(), script.len()));
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        let started = Service::start(&mut shell, says, &log, Duration::from_secs(10), |line| {
            line.parse().ok()
        });
        std::fs::remove_file(&log).unwrap();
        started
    }

    #[test]
    fn a_service_is_ready_when_it_says_so_and_ends_with_its_guard() {
        let script = "echo starting; echo 7332; exec sleep 600";
        let (service, port) = started(script, Says::OnStdout).unwrap();
        assert_eq!(port, 7332);
        let process = format!("/proc/{}", service.child.id());
        drop(service);
        assert!(!std::path::Path::new(&process).exists());
        assert_eq!(
            started("echo 80 >&2; exec sleep 600", Says::OnStderr).unwrap().1,
            80
        );
    }

    #[test]
    fn a_service_that_ends_before_it_is_ready_is_an_error() {
        let error = started("echo never; exit 1", Says::OnStdout)
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("did not get ready"), "{error}");
    }
}
