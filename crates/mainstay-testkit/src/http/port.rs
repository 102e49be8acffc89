//! A loopback port that stays reserved for a test while no process listens on it.
//!
//! A port that is bound, closed and bound again may be given to any other test meanwhile: its client would then be answered
//! by a stranger, or its server find no place. So a socket is bound to it that never listens: connecting is refused as
//! at any closed port, the system gives the number to no other process, and a server that names it can listen there.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// A port of 127.0.0.1, held until it is dropped.
#[derive(Debug)]
pub struct Port {
    address: SocketAddr,
    _socket: TcpSocket,
}

impl Port {
    /// Reserves a free port.
    ///
    /// # Errors
    /// When there is none.
    pub fn free() -> io::Result<Self> {
        Self::hold(0)
    }

    /// Holds this port; 0 is any free one. Others may hold it, too.
    ///
    /// # Errors
    /// When another process listens there.
    pub fn hold(port: u16) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        // What lets others listen on it all the same.
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
        Ok(Self {
            address: socket.local_addr()?,
            _socket: socket,
        })
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.address.port()
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_held_port_is_closed_until_somebody_listens_there_and_closed_again_after() {
        let port = Port::free().unwrap();
        for _ in 0..2 {
            let refused = TcpStream::connect(port.address()).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            let again = Port::hold(port.number()).unwrap();
            assert_eq!(again.address(), port.address());
            let listener = TcpListener::bind(port.address()).unwrap();
            TcpStream::connect(port.address()).unwrap();
            assert!(Port::hold(port.number()).is_err(), "somebody listens");
            drop(listener);
        }
    }

    #[test]
    fn a_held_port_is_given_to_nobody_else() {
        let held: Vec<_> = (0..400).map(|_| Port::free().unwrap()).collect();
        let mut numbers: Vec<_> = held.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), held.len());
    }
}
