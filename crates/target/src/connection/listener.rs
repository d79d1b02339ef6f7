//! Portals: listening sockets, and the thread that accepts connections and deals them out to the
//! loops.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Waker};
use socket2::{Domain, Protocol, Socket, Type};

use super::dealer::Dealt;
use crate::message::Message;
use crate::shared::Shared;
use process::watchdog::Turn;

/// Most connections that may wait to be accepted: a login storm of a whole cluster.
const BACKLOG: i32 = 4096;
/// Number of tries for an address that is taken, with [`BIND_PAUSE`] between them.
const BIND_ATTEMPTS: u32 = 15;
const BIND_PAUSE: Duration = Duration::from_millis(20);
const WAKER: mio::Token = mio::Token(usize::MAX);

/// Connection that was accepted.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// Socket, which does not block.
    pub stream: std::net::TcpStream,
    /// Address of the peer.
    pub peer: SocketAddr,
    /// The portal it came to.
    pub local: SocketAddr,
    /// Loop that gets the connection.
    pub dealt: Dealt,
}

/// Opens a listening socket. An IPv6 portal takes IPv6 only, so that `[::]` and `0.0.0.0` can both
/// be portals. If the address is taken, tries again for a moment: a daemon that was told to stop
/// may be just letting go of it. May block; never called from an event loop.
///
/// # Errors
/// The address is taken or not this machine's.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    for _ in 0..BIND_ATTEMPTS {
        match bind_once(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                std::thread::sleep(BIND_PAUSE);
            }
            other => return other,
        }
    }
    bind_once(address)
}

/// Reports whether [`bind`] would succeed now. It may block as `bind` does.
///
/// # Errors
/// The address is taken or not this machine's.
pub fn try_listening(address: SocketAddr) -> io::Result<()> {
    bind(address).map(drop)
}

fn bind_once(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Control of the accepting thread.
#[derive(Debug)]
pub(crate) struct Acceptor {
    commands: Mutex<Sender<Command>>,
    waker: Waker,
}

enum Command {
    /// Order to listen on exactly these sockets, by the address that was configured.
    Listen(HashMap<SocketAddr, Arc<TcpListener>>),
    /// Question whether the thread still turns. It is answered by being dropped.
    Turn(Turn),
    Stop,
}

impl Acceptor {
    /// Starts the thread, which listens on nothing yet.
    ///
    /// # Errors
    /// The kernel refuses a poller or a thread.
    pub(crate) fn start(shared: Arc<Shared>) -> io::Result<(Self, std::thread::JoinHandle<()>)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("accept".into())
            .spawn(move || run(poll, &receiver, &shared))?;
        Ok((
            Self {
                commands: Mutex::new(sender),
                waker,
            },
            thread,
        ))
    }

    /// Replaces the listening sockets.
    pub(crate) fn listen(&self, listeners: HashMap<SocketAddr, Arc<TcpListener>>) {
        self.send(Command::Listen(listeners));
    }

    /// Asks the thread for a turn.
    pub(crate) fn ask(&self, turn: Turn) {
        self.send(Command::Turn(turn));
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.send(Command::Stop);
    }

    fn send(&self, command: Command) {
        // A thread that has ended needs no commands.
        let _ = self
            .commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(command);
        let _ = self.waker.wake();
    }
}

fn run(mut poll: Poll, commands: &Receiver<Command>, shared: &Shared) {
    let mut events = Events::with_capacity(64);
    let mut listeners: Vec<Arc<TcpListener>> = Vec::new();
    loop {
        if let Err(error) = poll.poll(&mut events, None)
            && error.kind() != io::ErrorKind::Interrupted
        {
            tracing::error!(%error, "the accepting thread cannot wait for connections");
            return;
        }
        while let Ok(command) = commands.try_recv() {
            let wanted = match command {
                Command::Listen(wanted) => wanted,
                Command::Turn(turn) => {
                    drop(turn);
                    continue;
                }
                Command::Stop => return,
            };
            for listener in listeners.drain(..) {
                let _ = poll
                    .registry()
                    .deregister(&mut SourceFd(&listener.as_raw_fd()));
            }
            listeners.extend(wanted.into_values());
            for (index, listener) in listeners.iter().enumerate() {
                let mut source = SourceFd(&listener.as_raw_fd());
                if let Err(error) =
                    poll.registry()
                        .register(&mut source, mio::Token(index), Interest::READABLE)
                {
                    tracing::error!(%error, "the accepting thread cannot watch a portal");
                }
            }
        }
        // Registration reports readiness again if connections wait, so nothing is missed here.
        for listener in &listeners {
            accept_all(listener, shared);
        }
    }
}

fn accept_all(listener: &TcpListener, shared: &Shared) {
    loop {
        match listener.accept() {
            Ok((stream, peer)) => {
                let Ok(local) = stream.local_addr() else {
                    continue;
                };
                if stream.set_nonblocking(true).is_ok() {
                    let dealt = shared.dealer.deal();
                    shared.send(
                        dealt.loop_index(),
                        Message::Accepted(Arrived {
                            stream,
                            peer,
                            local,
                            dealt,
                        }),
                    );
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                // The process is most likely out of descriptors: waiting connections are served
                // when others have gone.
                tracing::warn!(%error, "a connection could not be accepted");
                std::thread::sleep(Duration::from_millis(50));
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_just_let_go_is_had() {
        let first = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = first.local_addr().unwrap();
        let leaving = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(60));
            drop(first);
        });
        let second = bind(address).unwrap();
        leaving.join().unwrap();
        let taken = bind(address).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        drop(second);
    }
}
