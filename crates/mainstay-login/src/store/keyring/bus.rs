//! A connection to the session bus. Each answer has to arrive before one deadline.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::wire::{HEAD_LENGTH, Malformed, MethodCall, MethodReply, WireWriter, message_length, reply};

/// The longest line of the authentication.
const LINE_LIMIT: usize = 1024;

/// The most messages that are passed over while an answer is awaited. A new connection gets two signals.
const PASSED_OVER_LIMIT: usize = 100;

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum BusError {
    /// The bus cannot be reached, or does not answer.
    Io(io::Error),
    /// The bus sends something else than D-Bus.
    Malformed,
    /// The call failed.
    Refused {
        /// The name of the error.
        name: String,
        /// What it says to a person.
        said: String,
    },
}

impl From<io::Error> for BusError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Malformed> for BusError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

impl std::fmt::Display for BusError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Malformed => f.write_str("the bus does not speak D-Bus"),
            Self::Refused { name, said } if said.is_empty() => f.write_str(name),
            Self::Refused { said, .. } => f.write_str(said),
        }
    }
}

/// The connection.
pub(super) struct SessionBus {
    stream: UnixStream,
    deadline: Instant,
    serial: u32,
}

impl SessionBus {
    /// Connects to the bus of this session.
    pub(super) fn connect(within: Duration) -> Result<Self, BusError> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let addresses = match variable("DBUS_SESSION_BUS_ADDRESS") {
            Some(addresses) => addresses,
            None => match variable("XDG_RUNTIME_DIR") {
                Some(directory) => format!("unix:path={directory}/bus"),
                None => return Err(io::Error::other("DBUS_SESSION_BUS_ADDRESS is not set").into()),
            },
        };
        Self::connect_to(&addresses, within)
    }

    /// Connects to the first of these addresses that is of a kind that is known.
    pub(super) fn connect_to(addresses: &str, within: Duration) -> Result<Self, BusError> {
        let known = addresses.split(';').find_map(socket);
        let stream = known.ok_or_else(|| io::Error::other("the bus is not at a Unix socket"))??;
        let deadline = Instant::now() + within;
        let mut bus = Self {
            stream,
            deadline,
            serial: 0,
        };
        bus.authenticate()?;
        bus.call(&MethodCall {
            destination: "org.freedesktop.DBus",
            path: "/org/freedesktop/DBus",
            interface: "org.freedesktop.DBus",
            member: "Hello",
            signature: "",
            body: WireWriter::default(),
        })?;
        Ok(bus)
    }

    /// The bus knows this user from the socket.
    fn authenticate(&mut self) -> Result<(), BusError> {
        let user = rustix::process::geteuid().as_raw().to_string();
        let hex: String = user.bytes().map(|byte| format!("{byte:02x}")).collect();
        self.write(format!("\0AUTH EXTERNAL {hex}\r\n").as_bytes())?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.read(&mut byte)?;
            line.push(byte[0]);
            if line.len() > LINE_LIMIT {
                return Err(BusError::Malformed);
            }
        }
        if !line.starts_with(b"OK ") {
            return Err(io::Error::other("the bus does not accept this user").into());
        }
        self.write(b"BEGIN\r\n")?;
        Ok(())
    }

    /// Calls a method and waits for its answer.
    pub(super) fn call(&mut self, call: &MethodCall<'_>) -> Result<MethodReply, BusError> {
        self.serial += 1;
        self.write(&call.bytes(self.serial))?;
        for _ in 0..PASSED_OVER_LIMIT {
            let mut head = [0; HEAD_LENGTH];
            self.read(&mut head)?;
            let mut message = head.to_vec();
            message.resize(message_length(&head)?, 0);
            self.read(&mut message[HEAD_LENGTH..])?;
            let Some(answer) = reply(&message)?.filter(|answer| answer.of == self.serial) else {
                continue;
            };
            return match &answer.error {
                None => Ok(answer),
                Some(name) => Err(BusError::Refused {
                    name: name.clone(),
                    said: answer.said().unwrap_or_default(),
                }),
            };
        }
        Err(BusError::Malformed)
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
        }
        Ok(left)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write_all(bytes)
    }

    /// Fills the buffer. A bus that sends byte by byte gets no more time.
    fn read(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            self.stream.set_read_timeout(Some(self.left()?))?;
            match self.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => buffer = &mut buffer[read..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Connects to an address such as `unix:path=/run/user/1000/bus,guid=…`; `None` if it is of another kind.
fn socket(address: &str) -> Option<io::Result<UnixStream>> {
    let pairs = address.trim().strip_prefix("unix:")?;
    pairs.split(',').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let value = unescaped(value)?;
        match name {
            "path" => {
                use std::os::unix::ffi::OsStringExt as _;
                let path = PathBuf::from(std::ffi::OsString::from_vec(value));
                Some(UnixStream::connect(path))
            }
            #[cfg(target_os = "linux")]
            "abstract" => {
                use std::os::linux::net::SocketAddrExt as _;
                let address = std::os::unix::net::SocketAddr::from_abstract_name(value);
                Some(address.and_then(|address| UnixStream::connect_addr(&address)))
            }
            _ => None,
        }
    })
}

/// The bytes of a value in which `%2f` stands for `/`.
fn unescaped(value: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use mainstay_testkit::poll;

    use super::*;

    /// From one byte to the next of a bus that drips: often in the time that an answer may take.
    const DRIP_INTERVAL: Duration = Duration::from_millis(100);

    /// What becomes of a connection to a bus that sends these bytes, and then one more at a time for longer than any answer may
    /// take. One that sends nothing hangs up.
    fn connect_to_bus_that_sends(bytes: &'static [u8], drips: Option<u8>) -> BusError {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bus");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.write_all(bytes);
            if let Some(byte) = drips {
                let began = Instant::now();
                while began.elapsed() < poll::LIMIT && stream.write_all(&[byte]).is_ok() {
                    std::thread::sleep(DRIP_INTERVAL);
                }
                return;
            }
            if !bytes.is_empty() {
                let _ = stream.read_to_end(&mut Vec::new());
            }
        });
        let address = format!("tcp:host=localhost;unix:path={}", path.display());
        let error = SessionBus::connect_to(&address, Duration::from_millis(600)).err();
        error.expect("no bus")
    }

    #[test]
    fn a_bus_that_hangs_up_drips_or_speaks_something_else_is_an_error_in_time() {
        assert!(matches!(connect_to_bus_that_sends(b"", None), BusError::Io(_)));
        assert!(matches!(
            connect_to_bus_that_sends(b"REJECTED EXTERNAL\r\n", None),
            BusError::Io(_)
        ));
        // One deadline for all that it sends: a bus that stops dripping hangs up.
        let dripped = connect_to_bus_that_sends(b"O", Some(b'K'));
        assert!(
            matches!(&dripped, BusError::Io(error) if error.kind() == io::ErrorKind::TimedOut),
            "{dripped}"
        );
        let endless_line = connect_to_bus_that_sends(&[b'x'; 4096], None);
        assert!(matches!(endless_line, BusError::Malformed), "{endless_line}");
        let other = connect_to_bus_that_sends(b"OK 0\r\nHTTP/1.1 400 Bad Request\r\n", None);
        assert!(matches!(other, BusError::Malformed), "{other}");
        let huge = connect_to_bus_that_sends(
            b"OK 0\r\nl\x02\x00\x01\xff\xff\xff\x7f\x01\x00\x00\x00\x00\x00\x00\x00",
            None,
        );
        assert!(matches!(huge, BusError::Malformed), "{huge}");
    }

    #[test]
    fn addresses_have_escapes_and_other_kinds() {
        assert_eq!(unescaped("/run%2fbus").as_deref(), Some(&b"/run/bus"[..]));
        assert_eq!(unescaped("%2"), None);
        assert!(socket("tcp:host=localhost,port=1").is_none());
        assert!(socket("unix:path=/nowhere/at/all,guid=1").is_some_and(|made| made.is_err()));
    }
}
