//! Which user serves a connection on this machine. A token must not reach another user's program that took the port.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The states of a socket that listens, and of one that is connected, in the tables of the kernel.
const LISTENING: &str = "0A";
const CONNECTED: &str = "01";

/// The other user who serves the connection between these addresses, if one does. `None` also if that cannot be known: on a system without these
/// tables, and for a port that the kernel forwards elsewhere, which only root can set up.
pub(super) fn foreign_server(client: SocketAddr, server: SocketAddr) -> Option<u32> {
    if !server.ip().is_loopback() {
        return None;
    }
    // Each lists listeners before connections: one that was closed meanwhile has accepted this connection, which is listed then.
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let tables = tables
        .map(|table| fs::read_to_string(table).unwrap_or_default())
        .concat();
    let own = rustix::process::geteuid().as_raw();
    let served_by = [
        find_listener(&tables, server),
        find_acceptor(&tables, client, server),
    ];
    // Root can read the token anyhow, and forwards the ports of containers. A connection that is not accepted yet is listed as root's.
    served_by
        .into_iter()
        .flatten()
        .find(|user| *user != own && *user != 0)
}

/// Who listens at this address: at exactly this one, or else at all addresses.
fn find_listener(tables: &str, address: SocketAddr) -> Option<u32> {
    let rows = tables.lines().filter_map(SocketRow::read);
    let at_port = rows.filter(|row| row.state == LISTENING && row.local.port() == address.port());
    let ranked = at_port.filter_map(|row| {
        let rank = match row.local.ip() {
            ip if ip.to_canonical() == address.ip().to_canonical() => 0,
            IpAddr::V4(ip) if ip.is_unspecified() => 1,
            IpAddr::V6(ip) if ip.is_unspecified() => 2,
            IpAddr::V4(_) | IpAddr::V6(_) => return None,
        };
        Some((rank, row.user))
    });
    ranked.min_by_key(|(rank, _)| *rank).map(|(_, user)| user)
}

/// Who has accepted this connection.
fn find_acceptor(tables: &str, client: SocketAddr, server: SocketAddr) -> Option<u32> {
    let mut rows = tables.lines().filter_map(SocketRow::read);
    let is_same = |one: SocketAddr, other: SocketAddr| {
        one.port() == other.port() && one.ip().to_canonical() == other.ip().to_canonical()
    };
    rows.find(|row| row.state == CONNECTED && is_same(row.local, server) && is_same(row.remote, client))
        .map(|row| row.user)
}

struct SocketRow<'t> {
    local: SocketAddr,
    remote: SocketAddr,
    state: &'t str,
    user: u32,
}

impl<'t> SocketRow<'t> {
    fn read(line: &'t str) -> Option<Self> {
        let fields: Vec<&str> = line.split_ascii_whitespace().take(8).collect();
        let [_number, local, remote, state, _queues, _timer, _retransmits, user] = fields.try_into().ok()?;
        Some(Self {
            local: address_of(local)?,
            remote: address_of(remote)?,
            state,
            user: user.parse().ok()?,
        })
    }
}

fn address_of(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    Some(SocketAddr::new(ip_of(ip)?, u16::from_str_radix(port, 16).ok()?))
}

/// The kernel writes an address as words of 32 bits, each a number in the order of this machine.
fn ip_of(hex: &str) -> Option<IpAddr> {
    let words = hex.as_bytes().chunks(8).map(|word| {
        let word = std::str::from_utf8(word).ok()?;
        u32::from_str_radix(word, 16).ok().map(u32::to_ne_bytes)
    });
    let words: Option<Vec<[u8; 4]>> = words.collect();
    match words?.as_slice() {
        [word] => Some(Ipv4Addr::from(*word).into()),
        words @ [_, _, _, _] => {
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Some(Ipv6Addr::from(bytes).into())
        }
        _other => None,
    }
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    const TABLES: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1CA4 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 1649 1 0
   1: 0100007F:1CA5 0100007F:03E7 01 00000000:00000000 00:00000000 00000000  1002        0 1650 1 0
   2: 00000000:1CA6 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1003        0 1651 1 0
   3: 00000000000000000000000000000000:1CA4 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1004 0 1652 1
   4: 00000000000000000000000001000000:1CA7 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1005 0 1653 1
   5: 0000000000000000FFFF00000100007F:1CA8 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1006 0 1654 1
";

    #[test]
    fn the_listener_at_the_very_address_counts_before_one_at_all_addresses() {
        for (address, user) in [
            ("127.0.0.1:7332", Some(1001)),
            ("[::1]:7332", Some(1004)),
            // A connection is no listener.
            ("127.0.0.1:7333", None),
            ("127.0.0.1:7334", Some(1003)),
            ("[::1]:7335", Some(1005)),
            ("127.0.0.1:7335", None),
            ("127.0.0.1:7336", Some(1006)),
        ] {
            let found = find_listener(TABLES, address.parse().expect("an address"));
            assert_eq!(found, user, "{address}");
        }
    }

    #[test]
    fn who_accepted_a_connection_is_known_when_nobody_listens_any_more() {
        let [client, server] =
            ["127.0.0.1:999", "127.0.0.1:7333"].map(|text| text.parse().expect("an address"));
        assert_eq!(find_acceptor(TABLES, client, server), Some(1002));
        assert_eq!(find_acceptor(TABLES, server, client), None);
    }

    #[test]
    fn the_own_listener_is_not_foreign() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let server = listener.local_addr().expect("an address");
        let stream = std::net::TcpStream::connect(server).expect("a connection");
        let _accepted = listener.accept().expect("accepted");
        let client = stream.local_addr().expect("an address");
        assert_eq!(foreign_server(client, server), None);
    }
}
