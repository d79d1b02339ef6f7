//! Link between initiator and portal that can be cut, reset, silenced and slowed down.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use socket2::SockRef;
use testing::wait;

/// State of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Weather {
    /// Passes everything.
    Fair = 0,
    /// Passes nothing and says nothing; bytes under way arrive when the link is fair again.
    Silent = 1,
    /// Resets connections and refuses new ones.
    Cut = 2,
}

/// Link between initiator and portal.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    portal: SocketAddr,
    weather: AtomicU8,
    over: AtomicBool,
    /// Number of bytes from the initiator.
    bytes: AtomicU64,
    /// Number of bytes from the portal.
    from_portal: AtomicU64,
    /// Bytes per second that come from the portal on each connection; 0 means no limit.
    pace: AtomicU64,
    connections: Mutex<Vec<TcpStream>>,
}

impl Shared {
    fn weather(&self) -> Weather {
        match self.weather.load(Ordering::Relaxed) {
            0 => Weather::Fair,
            1 => Weather::Silent,
            _ => Weather::Cut,
        }
    }
}

impl Proxy {
    pub(crate) fn start(portal: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Arc::new(Shared {
            portal,
            weather: AtomicU8::new(0),
            over: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            from_portal: AtomicU64::new(0),
            pace: AtomicU64::new(0),
            connections: Mutex::new(Vec::new()),
        });
        let address = listener.local_addr().unwrap();
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                if accepting.over.load(Ordering::Relaxed) {
                    return;
                }
                match TcpStream::connect(accepting.portal) {
                    Ok(server) if accepting.weather() != Weather::Cut => {
                        join(&accepting, client, server)
                    }
                    // Nobody is there: as if nobody listened.
                    _ => reset(&client),
                }
            }
        });
        Self { address, shared }
    }

    pub(crate) fn set(&self, weather: Weather) {
        self.shared.weather.store(weather as u8, Ordering::Relaxed);
        if weather == Weather::Cut {
            for stream in self.shared.connections.lock().unwrap().drain(..) {
                reset(&stream);
            }
        }
    }

    /// Limits the bytes per second that come from the portal on each connection; 0 means no limit.
    pub(crate) fn set_pace(&self, bytes: u64) {
        self.shared.pace.store(bytes, Ordering::Relaxed);
    }

    /// Returns the number of bytes that came from the portal.
    pub(crate) fn bytes_from_portal(&self) -> u64 {
        self.shared.from_portal.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that came from the initiator.
    pub(crate) fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.set(Weather::Cut);
        let _ = TcpStream::connect(self.address);
    }
}

fn reset(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

fn join(shared: &Arc<Shared>, client: TcpStream, server: TcpStream) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let ends = [(&client, &server, true), (&server, &client, false)];
    for (from, to, is_from_initiator) in ends {
        let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        let shared = Arc::clone(shared);
        std::thread::spawn(move || pump(&shared, from, to, is_from_initiator));
    }
    shared.connections.lock().unwrap().extend([client, server]);
}

fn pump(shared: &Shared, mut from: TcpStream, mut to: TcpStream, is_from_initiator: bool) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut buffer).unwrap_or(0);
        // A silence lasts as long as its test wants.
        wait::at_most(Duration::MAX).until("the silence ends", || {
            shared.weather() != Weather::Silent || shared.over.load(Ordering::Relaxed)
        });
        if is_from_initiator {
            shared.bytes.fetch_add(count as u64, Ordering::Relaxed);
        } else {
            shared
                .from_portal
                .fetch_add(count as u64, Ordering::Relaxed);
            let pace = shared.pace.load(Ordering::Relaxed);
            if pace > 0 {
                // The link is as slow as its test wants.
                std::thread::sleep(Duration::from_secs_f64(count as f64 / pace as f64));
            }
        }
        if count == 0 || shared.weather() == Weather::Cut || to.write_all(&buffer[..count]).is_err()
        {
            let _ = to.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}
