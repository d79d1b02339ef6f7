//! The order between clients that leave and clients that go on.
//!
//! A client that loses a connection repeats its unanswered requests. It uses a new connection or,
//! as Linux does with several, one of its other connections. Then it writes newer data. Of the
//! requests on the lost connection, some are at the device, some wait for memory, and some are
//! still unread in the socket. None of them may be performed after the newer data.
//!
//! The protocol promises nothing of the kind. With CAN_MULTI_CONN, a FLUSH covers answered requests
//! on any connection; about unanswered requests the protocol says nothing. But a client that
//! repeats requests can only trust that the last one wins.
//!
//! So the first request of a connection, and later each of its changes, waits at a fence. It waits
//! until nothing is left of the clients that had left when it was received. A client closes the
//! lost socket before it repeats a request. By then the kernel knows of the end, however late the
//! loop of the lost socket may be. One more poller watches all sockets for this event, and a loop
//! that has received data asks this poller. If nobody is leaving, this costs one system call,
//! without a lock, for everything that one read has brought. Reads of a connection that has passed
//! the fence go on: if a write was not answered, either content is right. If the network also lost
//! the end of a connection, nobody here can know of it.
//!
//! A client that has left waits only for clients that left before it, so there is no circle. A
//! waiting request waits only for clients that had left by then, so later departures cannot delay
//! it for ever.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Timeout of a look without waiting.
const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Fence that all loops share.
#[derive(Debug)]
pub(super) struct Fence {
    /// Poller that watches the sockets of all clients in the line for a closed end. It reports an
    /// end until nothing is left of the client, so no loop can miss it because another loop has
    /// seen it.
    closed: OwnedFd,
    line: Mutex<Line>,
    /// Copy of [`Line::departures`], readable without the lock.
    departures: AtomicU64,
    /// First departure after which something is left; `u64::MAX` if there is none.
    first: AtomicU64,
}

/// Line of all connections of which something may come.
#[derive(Debug, Default)]
struct Line {
    next: u64,
    /// Number of departures so far.
    departures: u64,
    /// Places by number, each with the number of its departure.
    places: BTreeMap<u64, Option<u64>>,
}

/// Place of a connection in the line, given up with the connection.
#[derive(Debug)]
pub(super) struct Place {
    fence: Arc<Fence>,
    number: u64,
    /// Whether the connection has reported its own end. It must not wait for itself.
    left: bool,
}

impl Fence {
    /// Creates a fence without clients.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(super) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            closed: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            line: Mutex::default(),
            departures: AtomicU64::new(0),
            first: AtomicU64::new(u64::MAX),
        }))
    }

    /// Gives a place to a new client.
    ///
    /// # Errors
    /// The system cannot watch more sockets.
    pub(super) fn enter(self: &Arc<Self>, socket: impl AsFd) -> io::Result<Place> {
        let mut line = self.line();
        let number = line.next;
        line.next += 1;
        let data = EventData::new_u64(number);
        // HUP and ERR are always reported.
        epoll::add(&self.closed, socket, data, EventFlags::RDHUP)?;
        line.places.insert(number, None);
        Ok(Place {
            fence: Arc::clone(self),
            number,
            left: false,
        })
    }

    /// Reports whether nothing is left of the first `behind` departures.
    pub(super) fn is_open(&self, behind: u64) -> bool {
        self.first.load(Ordering::Acquire) > behind
    }

    /// Reports whether some client has closed its end. This only looks: an event that is taken out
    /// goes to the end of the queue, whose order is the order of closing.
    fn has_somebody_closed(&self) -> bool {
        let mut watched = [PollFd::new(&self.closed, PollFlags::IN)];
        // In doubt, the full look finds out.
        poll(&mut watched, Some(&AT_ONCE)) != Ok(0)
    }

    /// Notes all clients that have closed their end, in the order of closing.
    fn note_who_closed(&self, line: &mut Line) {
        // Every watched client has a place: all are reported at once, and stay in order.
        let mut events: Vec<epoll::Event> = Vec::with_capacity(line.places.len());
        let waited = rustix::io::retry_on_intr(|| {
            epoll::wait(&self.closed, spare_capacity(&mut events), Some(&AT_ONCE))
        });
        debug_assert!(waited.is_ok(), "it fails only for a wrong argument");
        for event in events {
            let data = event.data;
            self.depart(line, data.u64());
        }
    }

    /// Makes others wait for this client from now on. Repeated calls have no effect.
    fn depart(&self, line: &mut Line, number: u64) {
        if let Some(place @ None) = line.places.get_mut(&number) {
            line.departures += 1;
            *place = Some(line.departures);
            self.publish(line);
        }
    }

    /// Publishes `first` before `departures`, so that a reader that knows of a departure waits for
    /// it.
    fn publish(&self, line: &Line) {
        let first = line.places.values().flatten().min();
        let first = first.copied().unwrap_or(u64::MAX);
        self.first.store(first, Ordering::Release);
        self.departures.store(line.departures, Ordering::Release);
    }

    /// Locks the line. Each change is a single step, so the line is consistent even after a panic
    /// elsewhere.
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Looks for departures; to be called after data was received. Returns the number of departures
    /// that the data comes behind: the argument of [`Fence::is_open`].
    pub(super) fn look(&self) -> u64 {
        let fence = &*self.fence;
        if !self.left && !fence.has_somebody_closed() {
            return fence.departures.load(Ordering::Acquire);
        }
        let mut line = fence.line();
        fence.note_who_closed(&mut line);
        let own = line.places.get(&self.number).copied().flatten();
        own.map_or(line.departures, |own| own - 1)
    }

    /// Reports whether nothing is left of the first `behind` departures.
    pub(super) fn is_open(&self, behind: u64) -> bool {
        self.fence.is_open(behind)
    }

    /// Notes that the client of this place sends nothing more.
    pub(super) fn leave(&mut self) {
        self.left = true;
        self.fence.depart(&mut self.fence.line(), self.number);
    }

    /// Notes that nothing of this place will change a block any more. A socket that is still open
    /// is not watched from now on.
    pub(super) fn is_over(&self, socket: Option<impl AsFd>) {
        if let Some(socket) = socket {
            // The socket may have been removed before.
            let _ = epoll::delete(&self.fence.closed, socket);
        }
        let mut line = self.fence.line();
        if line.places.remove(&self.number).is_some() {
            self.fence.publish(&line);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.is_over(None::<&OwnedFd>);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Returns the client's end, the server's end, and the place.
    fn client(fence: &Arc<Fence>) -> (UnixStream, UnixStream, Place) {
        let (client, server) = UnixStream::pair().expect("two sockets");
        let place = fence.enter(&server).expect("a place");
        (client, server, place)
    }

    #[test]
    fn who_closed_is_seen_at_once_and_by_all() {
        let fence = Fence::new().expect("a fence");
        let (lost, lost_end, lost_place) = client(&fence);
        let (_one, _one_end, one) = client(&fence);
        let (_two, _two_end, two) = client(&fence);
        let before = one.look();
        assert!(one.is_open(before));
        lost.shutdown(Shutdown::Write).expect("half closed");
        for place in [&one, &two, &one] {
            assert!(!place.is_open(place.look()));
        }
        assert!(one.is_open(before), "what came before waits for nobody");
        // The client does not wait for itself.
        assert!(lost_place.is_open(lost_place.look()));
        lost_place.is_over(Some(&lost_end));
        assert!(one.is_open(one.look()) && two.is_open(two.look()));
        drop(lost);
        assert!(one.is_open(one.look()), "once over it is of no interest");
    }

    #[test]
    fn the_end_of_a_tcp_connection_is_seen_too() {
        use std::io::Read as _;
        let fence = Fence::new().expect("a fence");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let lost = std::net::TcpStream::connect(address).expect("a connection");
        let (mut lost_end, _) = listener.accept().expect("a client");
        let _lost_place = fence.enter(&lost_end).expect("a place");
        let (_staying, _staying_end, staying) = client(&fence);
        assert!(staying.is_open(staying.look()));
        drop(lost);
        // The end must have arrived.
        assert_eq!(lost_end.read(&mut [0; 1]).expect("the end"), 0);
        assert!(!staying.is_open(staying.look()));
    }

    #[test]
    fn those_who_left_go_in_the_order_in_which_they_left() {
        let fence = Fence::new().expect("a fence");
        let (first, _first_end, first_place) = client(&fence);
        let (_staying, _staying_end, staying) = client(&fence);
        let (second, _second_end, second_place) = client(&fence);
        // The clients leave in a different order than they came.
        drop(second);
        drop(first);
        let behind = staying.look();
        assert!(second_place.is_open(second_place.look()));
        let after_second = first_place.look();
        assert!(!first_place.is_open(after_second) && !staying.is_open(behind));
        drop(second_place);
        assert!(first_place.is_open(after_second) && !staying.is_open(behind));
        // A later departure delays nobody.
        let (_third, _third_end, mut third) = client(&fence);
        third.leave();
        let after_first = third.look();
        assert!(!third.is_open(after_first));
        drop(first_place);
        assert!(third.is_open(after_first) && third.is_open(third.look()));
        assert!(staying.is_open(behind) && !staying.is_open(staying.look()));
    }
}
