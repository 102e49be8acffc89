//! Whether a child has read what was written to its input.

use std::os::fd::{AsFd, OwnedFd};

use tokio::process::ChildStdin;

/// A look at the pipe that is a child's input.
///
/// It holds the writing end open, so the child sees the end of its input only after this is dropped, too.
pub(crate) struct InputGauge(Option<OwnedFd>);

impl InputGauge {
    /// A look at this input. Without a descriptor to spare, nothing is ever seen to be unread.
    pub(crate) fn of(input: &ChildStdin) -> Self {
        Self(input.as_fd().try_clone_to_owned().ok())
    }

    /// Whether bytes that were written lie in the pipe. Linux tells that at the writing end too; elsewhere the answer is
    /// `false`.
    pub(crate) fn has_unread(&self) -> bool {
        if !cfg!(target_os = "linux") {
            return false;
        }
        let unread = self.0.as_ref().map(rustix::io::ioctl_fionread);
        matches!(unread, Some(Ok(bytes)) if bytes > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::process::Command;

    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_line_is_unread_until_the_child_has_read_it() {
        let mut child = Command::new("sh")
            .args(["-c", "read go; read line; echo \"$line\"; read end"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a shell");
        let mut stdin = child.stdin.take().expect("piped");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let gauge = InputGauge::of(&stdin);
        // A stopped child reads nothing.
        let pid = rustix::process::Pid::from_raw(child.id().expect("it runs").cast_signed()).expect("an id");
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("it runs");
        stdin.write_all(b"go\nline\n").await.expect("there is room");
        assert!(gauge.has_unread());

        rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("it runs");
        let line = lines.next_line().await.expect("readable");
        assert_eq!(line.as_deref(), Some("line"));
        assert!(!gauge.has_unread(), "it has read both lines");
    }
}
