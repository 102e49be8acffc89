//! The address of `serve`: whether it is free, and which process has it.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use super::examination::Examination;

pub(super) fn examine(address: SocketAddr) -> Examination {
    let mut found = Examination::new("port", format!("{address} is free"));
    // The listener is closed at once. No connection was accepted, so nothing of it stays.
    let Err(error) = TcpListener::bind(address) else {
        return found;
    };
    found.summary = format!("{address} cannot be used");
    let subject = address.to_string();
    match error.kind() {
        ErrorKind::AddrInUse => match holder::of(address.port()) {
            Some(holder) if holder.name == "mainstay" => {
                found.summary = format!("{address} is served by process {}", holder.pid);
                found.hint(
                    subject,
                    format!("mainstay runs there already (process {})", holder.pid),
                    "use it, or give another `mainstay serve` another address with --listen",
                );
            }
            Some(holder) => found.problem(
                subject,
                format!("the port is taken by {:?} (process {})", holder.name, holder.pid),
                "end that program, or choose another address with `mainstay serve --listen`",
            ),
            None => found.problem(
                subject,
                "the port is taken by a process of another user or namespace",
                format!(
                    "see `ss -ltnp sport = {}` as root; choose another address with `mainstay serve --listen`",
                    address.port()
                ),
            ),
        },
        ErrorKind::AddrNotAvailable => found.problem(
            subject,
            "this machine does not have that address",
            "choose another address with --listen",
        ),
        ErrorKind::PermissionDenied => found.problem(
            subject,
            "this user may not listen on that port",
            "choose a port above 1023",
        ),
        _ => found.problem(subject, error.to_string(), "choose another address with --listen"),
    }
    found
}

/// The process that listens on a port, as Linux knows it.
mod holder {
    use std::collections::HashSet;
    use std::fs;

    pub(super) struct Holder {
        pub(super) pid: u32,
        pub(super) name: String,
    }

    /// The process that listens on this port of any address, if this user may see it.
    pub(super) fn of(port: u16) -> Option<Holder> {
        let sockets: HashSet<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .filter_map(|table| fs::read_to_string(table).ok())
            .flat_map(|table| listening(&table, port))
            .map(|inode| format!("socket:[{inode}]"))
            .collect();
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let pid = pids.find(|pid| {
            let files = fs::read_dir(format!("/proc/{pid}/fd"));
            let mut files = files.into_iter().flatten().flatten();
            files.any(|file| {
                let target = fs::read_link(file.path()).unwrap_or_default();
                target.to_str().is_some_and(|target| sockets.contains(target))
            })
        })?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Some(Holder {
            pid,
            name: name.trim_end().to_owned(),
        })
    }

    /// The inodes of the sockets in a table that listen on a port.
    fn listening(table: &str, port: u16) -> Vec<String> {
        const LISTEN: &str = "0A";
        let lines = table.lines().skip(1).map(|line| line.split_whitespace());
        let found = lines.filter_map(|mut fields| {
            let local = fields.nth(1)?;
            let state = fields.nth(1)?;
            let inode = fields.nth(5)?;
            let (_, digits) = local.rsplit_once(':')?;
            (state == LISTEN && u16::from_str_radix(digits, 16) == Ok(port)).then(|| inode.to_owned())
        });
        found.collect()
    }

    #[cfg(test)]
    mod tests {
        #[test]
        fn only_sockets_that_listen_on_the_port_count() {
            let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                 0: 0100007F:1CA4 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n   \
                 1: 0100007F:1CA4 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 20 4 30 10 -1\n   \
                 2: 0100007F:1CA5 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0 100 0 0 10 0\n";
            assert_eq!(super::listening(table, 7332), ["4711"]);
        }
    }
}
