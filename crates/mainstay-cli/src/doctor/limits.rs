//! Limits of the system: open files, and watches of files.

use rustix::process::{Resource, getrlimit};

use super::examination::Examination;

/// The descriptors of a server: three pipes, a process handle, and one to spare.
const DESCRIPTORS_PER_SERVER: usize = 5;

/// The descriptors of the program itself, with a few dozen clients.
const DESCRIPTORS_OF_PROGRAM: usize = 128;

/// Whether the program may open enough files for so many servers. It raises its soft limit by itself, so the hard one counts.
pub(super) fn descriptors(servers: usize) -> Examination {
    let needed = DESCRIPTORS_OF_PROGRAM + servers * DESCRIPTORS_PER_SERVER;
    let mut found = Examination::new("open files", "no limit");
    let Some(limit) = getrlimit(Resource::Nofile).maximum else {
        return found;
    };
    found.summary = format!("{limit} allowed, about {needed} needed");
    if limit < needed as u64 {
        found.problem(
            "open files",
            format!("the hard limit is {limit}; the program and its servers need about {needed}"),
            "raise it: `ulimit -Hn` in the shell, LimitNOFILE= in a systemd unit, nofile in /etc/security/limits.conf",
        );
    }
    found
}

/// Whether the program can watch its configuration. It tries, and closes the watch again.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn file_watches() -> Examination {
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    use rustix::io::Errno;

    let mut found = Examination::new("file watches", "available");
    let watch = inotify::init(CreateFlags::CLOEXEC)
        .and_then(|instance| inotify::add_watch(&instance, "/", WatchFlags::ONLYDIR | WatchFlags::ATTRIB));
    let Err(error) = watch else {
        return found;
    };
    "not available".clone_into(&mut found.summary);
    let (problem, remedy) = match error {
        Errno::MFILE => (
            "this user has no inotify instance left, so changes of the configuration are not noticed"
                .to_owned(),
            "end programs that watch files, or run `sysctl fs.inotify.max_user_instances=1024` as root",
        ),
        Errno::NOSPC => (
            "this user has no inotify watch left, so changes of the configuration are not noticed".to_owned(),
            "end programs that watch files, or run `sysctl fs.inotify.max_user_watches=524288` as root",
        ),
        other => (
            format!("files cannot be watched ({other}), so changes of the configuration are not noticed"),
            "run `mainstay reload` after each change",
        ),
    };
    found.problem("inotify", problem, remedy);
    found
}

/// Other systems have no such limit.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn file_watches() -> Examination {
    Examination::new("file watches", "without a limit here")
}
