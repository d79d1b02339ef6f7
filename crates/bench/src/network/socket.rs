//! TCP sockets with the requested source and buffer sizes, and with limits on all waits.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use model::initiator::settings::Bind;

/// Longest time for making a connection.
pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Settings for making connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Dial {
    /// Source address or interface.
    pub(super) bind: Option<Bind>,
    /// Size of the buffers in bytes; `None` leaves it to the kernel.
    pub(super) window: Option<u32>,
}

impl Dial {
    /// Connects to `address`.
    ///
    /// # Errors
    /// The error comes from the system.
    pub(super) fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        bind(&socket, self.bind.as_ref())?;
        // The buffers are set before connecting, because the window's scale is settled then.
        set_window(&socket, self.window.unwrap_or(0))?;
        socket.connect_timeout(&address.into(), CONNECT_LIMIT)?;
        Ok(socket.into())
    }
}

/// Ties a socket to a source address or an interface.
pub(super) fn bind(socket: &Socket, bind: Option<&Bind>) -> io::Result<()> {
    match bind {
        None => Ok(()),
        Some(Bind::Address(address)) => socket.bind(&SocketAddr::new(*address, 0).into()),
        Some(Bind::Interface(name)) => socket.bind_device(Some(name.as_bytes())),
    }
}

/// Sets both buffers; 0 leaves them unchanged.
pub(super) fn set_window(socket: &Socket, bytes: u32) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    socket.set_send_buffer_size(bytes as usize)?;
    socket.set_recv_buffer_size(bytes as usize)
}
