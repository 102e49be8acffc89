//! What systemd is told, through the socket that it names.

use std::os::unix::net::UnixDatagram;

use serde_json::json;

use crate::sandbox::{Sandbox, good};
use crate::serving::{LONG, Serving};

#[test]
fn systemd_hears_that_the_program_is_ready_and_then_that_it_is_alive() {
    let sandbox = Sandbox::with(&json!({ "one": good() }));
    let path = sandbox.path("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(LONG)).expect("a socket");
    let address = path.display().to_string();
    let variables = [("NOTIFY_SOCKET", address.as_str()), ("WATCHDOG_USEC", "100000")];
    let _serving = Serving::start_with(&sandbox, &[], &variables);
    let hear = || {
        let mut said = [0; 64];
        let length = socket.recv(&mut said).expect("a message in time");
        String::from_utf8_lossy(&said[..length]).into_owned()
    };
    assert_eq!(hear(), "READY=1");
    assert_eq!([hear(), hear()], ["WATCHDOG=1", "WATCHDOG=1"]);
}

#[test]
fn a_manager_that_is_gone_keeps_nothing_from_starting() {
    let sandbox = Sandbox::with(&json!({ "one": good() }));
    let variables = [("NOTIFY_SOCKET", "/no/such/socket"), ("WATCHDOG_USEC", "100000")];
    let serving = Serving::start_with(&sandbox, &[], &variables);
    serving.hears("cannot be notified that the program is ready");
    serving.hears("one: connected");
}
