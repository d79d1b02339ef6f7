//! Reports the daemon's state to a service manager (`sd_notify(3)`): ready, reloading, alive,
//! stopping.
//! Without a service manager (`NOTIFY_SOCKET`), nothing is sent.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};

/// Reports that the targets listen, or that a reload is complete.
pub fn ready(status: &str) {
    tell(&format!("READY=1\nSTATUS={status}"));
}

/// Reports that the daemon reloads.
pub fn reloading() {
    let now = clock_gettime(ClockId::Monotonic);
    let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
    tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
}

/// Reports that the daemon lives, which its watchdog waits for.
pub(super) fn alive() {
    tell("WATCHDOG=1");
}

/// Reports that the daemon stops, and why.
pub fn stopping(reason: &str) {
    tell(&format!("STOPPING=1\nSTATUS=stopping: {reason}"));
}

fn tell(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(socket = %socket.display(), %error, "the daemon's state could not be reported to the service manager");
    }
}

/// Sends a state to the socket. A leading `@` marks an abstract name.
fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    sender.send_to_addr(state.as_bytes(), &address).map(|_| ())
}
