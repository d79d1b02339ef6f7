//! Path between initiator and portal that can be cut, silenced and restored.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};

/// State of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Weather {
    /// The path passes everything.
    Fair = 0,
    /// The path passes nothing and says nothing. Data under way arrives when the path is fair
    /// again.
    Silent = 1,
    /// The path closes its connections and takes no new ones.
    Cut = 2,
}

/// Proxy that is one path.
#[derive(Debug)]
pub(crate) struct PathProxy {
    /// Address that the initiator takes for the portal.
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    portal: String,
    weather: AtomicU8,
    over: AtomicBool,
    /// Number of bytes from the initiator.
    bytes: AtomicU64,
    connections: Mutex<Vec<TcpStream>>,
}

impl Shared {
    fn is(&self, weather: Weather) -> bool {
        self.weather.load(Ordering::Relaxed) == weather as u8
    }
}

impl PathProxy {
    /// Starts a path to a portal, `host:port`.
    ///
    /// # Errors
    /// There is no free port.
    pub(crate) fn start(portal: String) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("a port for a path")?;
        let address = listener.local_addr().context("a port for a path")?;
        let shared = Arc::new(Shared {
            portal,
            weather: AtomicU8::new(0),
            over: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            connections: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.over.load(Ordering::Relaxed) {
                    return;
                }
                // If the path is cut, or the target is down, the client sees its connection closed.
                if !accepting.is(Weather::Cut)
                    && let Ok(server) = TcpStream::connect(&accepting.portal)
                {
                    let _ = join(&accepting, client, server);
                }
            }
        });
        Ok(Self { address, shared })
    }

    /// Changes the state of the path.
    pub(crate) fn set(&self, weather: Weather) {
        self.shared.weather.store(weather as u8, Ordering::Relaxed);
        if weather == Weather::Cut {
            let connections = self.shared.connections.lock();
            let mut connections = connections.unwrap_or_else(PoisonError::into_inner);
            for stream in connections.drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    /// Returns the number of bytes that came from the initiator.
    pub(crate) fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for PathProxy {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.set(Weather::Cut);
        let _ = TcpStream::connect(self.address);
    }
}

fn join(shared: &Arc<Shared>, client: TcpStream, server: TcpStream) -> std::io::Result<()> {
    for (from, to, counts) in [(&client, &server, true), (&server, &client, false)] {
        from.set_nodelay(true)?;
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        let shared = Arc::clone(shared);
        std::thread::spawn(move || pump(&shared, from, to, counts));
    }
    let connections = shared.connections.lock();
    let mut connections = connections.unwrap_or_else(PoisonError::into_inner);
    connections.extend([client, server]);
    Ok(())
}

fn pump(shared: &Shared, mut from: TcpStream, mut to: TcpStream, counts: bool) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut buffer).unwrap_or(0);
        while shared.is(Weather::Silent) && !shared.over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if counts {
            shared.bytes.fetch_add(count as u64, Ordering::Relaxed);
        }
        if count == 0 || shared.is(Weather::Cut) || to.write_all(&buffer[..count]).is_err() {
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
            return;
        }
    }
}
