//! The socket options of each connection.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// Buffer for data-out that arrives while the loop is busy, in bytes. Without it, 256 KiB writes
/// reach half their speed on a fast link.
const RECEIVE_BUFFER: usize = 2 << 20;
/// Buffer for answers, in bytes: one large read fits whole.
const SEND_BUFFER: usize = 512 << 10;

/// Sets the options: no Nagle, large buffers, keep-alive for peers that vanish without a word.
///
/// # Errors
/// The kernel refused an option. The connection works all the same.
pub(crate) fn apply(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(30))
        .with_interval(Duration::from_secs(10));
    socket.set_tcp_keepalive(&keepalive)
}
