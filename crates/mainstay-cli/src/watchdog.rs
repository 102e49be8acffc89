//! Tells systemd that the program is ready and alive, if systemd asks for it (`Type=notify`, `WatchdogSec=`).
//!
//! A task of the runtime sends the signs of life: if the runtime hangs, they stop, and systemd restarts the program.

use std::env;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

/// The socket of the service manager, if there is one.
struct NotifySocket(UnixDatagram);

impl NotifySocket {
    fn connect(address: &str) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not hold the runtime up.
        socket.set_nonblocking(true)?;
        match address.strip_prefix('@') {
            #[cfg(target_os = "linux")]
            Some(name) => {
                use std::os::linux::net::SocketAddrExt as _;
                let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
                socket.connect_addr(&address)?;
            }
            #[cfg(not(target_os = "linux"))]
            Some(_) => return Err(io::ErrorKind::Unsupported.into()),
            None => socket.connect(address)?,
        }
        Ok(Self(socket))
    }

    fn notify(&self, state: &str) {
        if let Err(error) = self.0.send(state.as_bytes()) {
            tracing::debug!(%error, state, "the service manager could not be notified");
        }
    }
}

/// How often systemd wants a sign of life: twice in the time after which it gives up.
fn sign_interval(micros: &str, wanted_of: Option<&str>) -> Option<Duration> {
    let is_for_this = wanted_of.is_none_or(|pid| pid == std::process::id().to_string());
    let micros = micros
        .parse::<u64>()
        .ok()
        .filter(|micros| *micros > 1 && is_for_this)?;
    Some(Duration::from_micros(micros / 2))
}

/// Says that the program is ready, and from now on that it is alive. Has no effect without systemd.
///
/// # Panics
/// Outside of a tokio runtime.
pub(crate) fn ready() {
    let Ok(address) = env::var("NOTIFY_SOCKET") else {
        return;
    };
    let manager = match NotifySocket::connect(&address) {
        Ok(manager) => manager,
        Err(error) => {
            tracing::warn!(%error, "the service manager cannot be notified that the program is ready");
            return;
        }
    };
    manager.notify("READY=1");
    let micros = env::var("WATCHDOG_USEC").unwrap_or_default();
    let Some(every) = sign_interval(&micros, env::var("WATCHDOG_PID").ok().as_deref()) else {
        return;
    };
    tokio::spawn(async move {
        let mut signs = interval(every);
        signs.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            signs.tick().await;
            manager.notify("WATCHDOG=1");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::sign_interval;
    use std::time::Duration;

    #[test]
    fn signs_of_life_come_twice_as_often_as_systemd_wants_them_of_this_process() {
        let own = std::process::id().to_string();
        assert_eq!(sign_interval("30000000", None), Some(Duration::from_secs(15)));
        assert_eq!(
            sign_interval("30000000", Some(&own)),
            Some(Duration::from_secs(15))
        );
        assert_eq!(sign_interval("30000000", Some("1")), None);
        for wrong in ["", "0", "1", "-5", "soon"] {
            assert_eq!(sign_interval(wrong, None), None, "{wrong}");
        }
    }
}
