//! Everything that an adapter takes from outside itself, apart from time: connections and random
//! bytes. Both come from the kernel, or from a simulation, in which a seed decides everything.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};

use iscsi::chap::Entropy;
use socket2::{Domain, Socket, Type};

use model::initiator::settings::{Bind, TcpOptions};
use net::entropy::KernelEntropy;

/// Source of connections and random bytes. It is asked for each connection and each login, never
/// for a command.
pub trait Outside: Send + Sync + fmt::Debug {
    /// Begins to connect to a portal. The socket never blocks. It becomes writable when it is
    /// connected, or when it cannot be.
    ///
    /// # Errors
    /// The connection cannot even be begun.
    fn connect(
        &self,
        address: SocketAddr,
        bind: Option<&Bind>,
        tcp: &TcpOptions,
    ) -> io::Result<TcpStream>;

    /// Fills `bytes` with random numbers.
    fn fill(&self, bytes: &mut [u8]);
}

impl Entropy for &dyn Outside {
    fn fill(&mut self, bytes: &mut [u8]) {
        Outside::fill(*self, bytes);
    }
}

/// The kernel: TCP connections, and its random numbers.
#[derive(Debug)]
pub(super) struct Kernel;

impl Outside for Kernel {
    fn connect(
        &self,
        address: SocketAddr,
        bind: Option<&Bind>,
        tcp: &TcpOptions,
    ) -> io::Result<TcpStream> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM.nonblocking(),
            None,
        )?;
        socket.set_cloexec(true)?;
        socket.set_tcp_nodelay(true)?;
        if let Some(window) = tcp.window {
            socket.set_send_buffer_size(window as usize)?;
            socket.set_recv_buffer_size(window as usize)?;
        }
        let (bound, through) = match bind {
            None => (Ok(()), String::new()),
            Some(Bind::Address(source)) => {
                let bound = socket.bind(&SocketAddr::new(*source, 0).into());
                (bound, source.to_string())
            }
            Some(Bind::Interface(name)) => {
                (socket.bind_device(Some(name.as_bytes())), name.clone())
            }
        };
        bound.map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("the connection cannot leave through {through}: {error}"),
            )
        })?;
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(error) => return Err(error),
        }
        Ok(socket.into())
    }

    fn fill(&self, bytes: &mut [u8]) {
        KernelEntropy.fill(bytes);
    }
}
