//! The loop that takes connections, each with a place.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::UCred;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Bounds;
use super::places::{Origin, Place, Places};

/// Pause after a connection that could not be taken, as when descriptors are short.
const PAUSE: Duration = Duration::from_millis(100);

/// Listener that connections come from.
pub trait Incoming {
    /// A connection, with what the listener knows of its peer.
    type Connection: Send + 'static;

    /// Waits for the next connection.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Connection, Origin)>> + Send;
}

impl Incoming for TcpListener {
    type Connection = (TcpStream, SocketAddr);

    async fn next(&self) -> io::Result<(Self::Connection, Origin)> {
        let (stream, from) = self.accept().await?;
        Ok(((stream, from), Origin::Address(from.ip())))
    }
}

impl Incoming for UnixListener {
    /// The kernel may not tell the user at the other end.
    type Connection = (UnixStream, Option<UCred>);

    async fn next(&self) -> io::Result<(Self::Connection, Origin)> {
        let (stream, _) = self.accept().await?;
        let user = stream.peer_cred().ok();
        let origin = user.map_or(Origin::Unknown, |user| Origin::User(user.uid()));
        Ok(((stream, user), origin))
    }
}

/// Takes connections until the listener is stopped, and serves each by `serve`. Returns when all
/// have ended, or their time is over.
pub async fn accept<L, S, F>(
    listener: L,
    bounds: Bounds,
    mut stopped: watch::Receiver<bool>,
    serve: S,
) where
    L: Incoming,
    S: Fn(L::Connection, Arc<Place>) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let places = Places::new(bounds);
    let mut connections = JoinSet::new();
    loop {
        let taken = tokio::select! {
            taken = listener.next() => taken,
            Some(_) = connections.join_next() => continue,
            _ = stopped.changed() => break,
        };
        let Ok((connection, origin)) = taken else {
            // Out of descriptors, most likely: others may end meanwhile.
            sleep(PAUSE).await;
            continue;
        };
        // A connection without a place ends at once.
        let Some(place) = places.take(origin) else {
            continue;
        };
        let place = Arc::new(place);
        let served = serve(connection, Arc::clone(&place));
        connections.spawn(async move {
            tokio::select! {
                () = served => {}
                () = place.taken_back() => {}
            }
        });
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(bounds.last_answers, ended).await;
}
