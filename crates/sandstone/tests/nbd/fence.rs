//! Order between clients that leave and clients that go on.
//!
//! Requests of a lost connection never land over later requests.

use std::io::Write as _;
use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use block::delay::DelayDevice;
use block::{BlockDevice, BlockError, Geometry, Lane, Request, Submitted, Ticket, Usage};
use nbd::wire::command;
use testing::wait;

use crate::client::{Client, request};
use crate::server::{Running, SIZE, memory, slow};

/// Sends a write of one block filled with this byte.
fn send_write(client: &mut Client, at: u64, byte: u8) {
    client.send(0, command::WRITE, 1, at, 512);
    client.stream.write_all(&[byte; 512]).unwrap();
}

/// A client whose connection breaks sends the unanswered requests again.
///
/// Its first writes must not land over its second ones.
#[test]
fn writes_of_a_lost_connection_are_over_before_a_newer_one_is_served() {
    for threads in [1, 2] {
        let server = Running::start(slow(300), threads, 64 << 20);
        let mut lost = server.client();
        let begin = Instant::now();
        lost.send(0, command::WRITE, 1, 0, 512);
        lost.stream.write_all(&[1; 512]).unwrap();
        server.wait_for_requests(1);
        drop(lost);
        // The server may see the end before it sees the newer one; nothing shows that.
        std::thread::sleep(Duration::from_millis(50));
        let mut newer = server.client();
        assert_eq!(newer.write(0, &[2; 512], 0), 0);
        // Its own 300 ms begin only after those of the lost write.
        let took = begin.elapsed();
        assert!(took >= Duration::from_millis(600), "{took:?}");
        assert_eq!(newer.read(0, 512).unwrap(), [2; 512]);
    }
}

/// A client sends more than may be at the device at once: the rest waits in the server and in the
/// socket.
///
/// The end of the connection is not seen there.
#[test]
fn what_a_lost_connection_left_unread_is_not_performed_after_a_newer_one_begins() {
    for half in [true, false] {
        let server = Running::start(slow(300), 2, 64 << 20);
        let mut lost = server.client();
        let begin = Instant::now();
        for cookie in 0..700 {
            lost.send(0, command::WRITE, cookie, 0, 512);
            lost.stream.write_all(&[1; 512]).unwrap();
        }
        // The device has its share of the requests by now. The rest stays unread, and no counter
        // shows that.
        std::thread::sleep(Duration::from_millis(50));
        // A half closed connection still takes its answers, and every request is performed. On a
        // closed one, the rest may be dropped.
        lost.stream.shutdown(Shutdown::Write).unwrap();
        let lost = half.then_some(lost);
        let mut newer = server.client();
        assert_eq!(newer.write(0, &[2; 512], 0), 0);
        let took = begin.elapsed();
        let least = if half { 900 } else { 600 };
        assert!(took >= Duration::from_millis(least), "{took:?}");
        wait::throughout(Duration::from_millis(700), || {
            assert_eq!(newer.read(0, 512).unwrap(), [2; 512]);
        });
        drop(lost);
    }
}

/// Clients go away one after the other before the fence lets them pass.
///
/// They do not wait for each other, and the last one stays the last.
#[test]
fn clients_that_leave_while_they_wait_are_served_in_order() {
    let server = Running::start(slow(200), 2, 64 << 20);
    for byte in 1..=3 {
        let mut leaving = server.client();
        leaving.send(0, command::WRITE, 1, 0, 512);
        leaving.stream.write_all(&[byte; 512]).unwrap();
        leaving.send(0, command::DISC, 2, 0, 0);
    }
    let mut last = server.client();
    assert_eq!(last.read(0, 512).unwrap(), [3; 512]);
    assert_eq!(last.write(0, &[4; 512], 0), 0);
    wait::throughout(Duration::from_millis(600), || {
        assert_eq!(last.read(0, 512).unwrap(), [4; 512]);
    });
}

/// Device that holds writes to its last block until the gate is opened.
#[derive(Debug)]
struct Gate {
    inner: Arc<dyn BlockDevice>,
    closed: Mutex<bool>,
    opened: Condvar,
}

impl BlockDevice for Gate {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        if matches!(&request, Request::Write { offset, .. } if *offset == SIZE - 512) {
            let closed = self.closed.lock().unwrap();
            drop(self.opened.wait_while(closed, |closed| *closed).unwrap());
        }
        self.inner.submit(request, ticket, lane)
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.inner.usage()
    }
}

/// The loop of the lost connection is late: it has neither read its last write nor seen that it is
/// gone.
#[test]
fn a_newer_connection_waits_for_a_loop_that_has_not_seen_the_older_one_leave() {
    let gate = Arc::new(Gate {
        inner: memory(),
        closed: Mutex::new(true),
        opened: Condvar::new(),
    });
    let device: Arc<dyn BlockDevice> = Arc::clone(&gate) as _;
    let server = Running::start(device, 2, 64 << 20);
    // Clients are dealt out in turn.
    let _first_loop = server.client();
    let mut lost = server.client();
    let mut newer = server.client();
    lost.send(0, command::WRITE, 1, SIZE - 512, 512);
    lost.stream.write_all(&[1; 512]).unwrap();
    server.wait_for_requests(1);
    lost.send(0, command::WRITE, 2, 0, 512);
    lost.stream.write_all(&[1; 512]).unwrap();
    drop(lost);
    newer.send(0, command::WRITE, 1, 0, 512);
    newer.stream.write_all(&[2; 512]).unwrap();
    // The other loop has the newer write, which waits; nothing shows that.
    std::thread::sleep(Duration::from_millis(100));
    *gate.closed.lock().unwrap() = false;
    gate.opened.notify_all();
    assert_eq!(newer.receive().error, 0);
    wait::throughout(Duration::from_millis(200), || {
        assert_eq!(newer.read(0, 512).unwrap(), [2; 512]);
    });
}

/// The lost connection's write is already read by its own loop, or still unread.
///
/// A connection that was there all the time writes after it, too.
#[test]
fn a_living_connection_waits_for_a_loop_that_has_not_seen_its_sibling_leave() {
    let gate = Arc::new(Gate {
        inner: memory(),
        closed: Mutex::new(true),
        opened: Condvar::new(),
    });
    let device: Arc<dyn BlockDevice> = Arc::clone(&gate) as _;
    let server = Running::start(device, 2, 64 << 20);
    let (mut sibling, mut lost, mut reader) = (server.client(), server.client(), server.client());
    for client in [&mut sibling, &mut reader] {
        assert_eq!(client.read(0, 512).unwrap(), [0; 512]);
    }
    send_write(&mut lost, SIZE - 512, 1);
    send_write(&mut lost, 0, 1);
    drop(lost);
    send_write(&mut sibling, 0, 2);
    // Reads go on; once this one is answered, its loop has seen the sibling's write.
    let meanwhile = reader.read(0, 512).unwrap();
    *gate.closed.lock().unwrap() = false;
    gate.opened.notify_all();
    assert_eq!(meanwhile, [0; 512]);
    assert_eq!(sibling.receive().error, 0);
    assert_eq!(server.client().read(0, 512).unwrap(), [2; 512]);
}

/// Device on which writes of ones take long, and all others no time.
#[derive(Debug)]
struct OnesLast {
    slow: DelayDevice,
    fast: Arc<dyn BlockDevice>,
}

impl OnesLast {
    fn over(fast: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        let latency = Duration::from_millis(700);
        let slow = DelayDevice::new(Arc::clone(&fast), latency, None);
        Arc::new(Self { slow, fast })
    }
}

impl BlockDevice for OnesLast {
    fn geometry(&self) -> Geometry {
        self.fast.geometry()
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        match &request {
            Request::Write { data, .. } if data.chunks().any(|chunk| chunk[0] == 1) => {
                self.slow.submit(request, ticket, lane)
            }
            _ => self.fast.submit(request, ticket, lane),
        }
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.fast.usage()
    }
}

/// Linux's client repeats the unanswered requests of a dead connection on a living one.
#[test]
fn what_is_sent_again_on_a_living_connection_lands_last() {
    for threads in [1, 2] {
        let server = Running::start(OnesLast::over(memory()), threads, 64 << 20);
        let (mut lost, mut sibling) = (server.client(), server.client());
        assert_eq!(sibling.read(0, 512).unwrap(), [0; 512]);
        assert_eq!(lost.read(0, 512).unwrap(), [0; 512]);
        send_write(&mut lost, 0, 1);
        drop(lost);
        // The old write again, and then newer data.
        assert_eq!(sibling.write(0, &[3; 512], 0), 0);
        assert_eq!(sibling.write(0, &[2; 512], 0), 0);
        // A new client comes after all of it.
        assert_eq!(server.client().read(0, 512).unwrap(), [2; 512]);
    }
}

/// A client asks for more than may be at the device at once, and disconnects without reading the
/// answers.
///
/// The rest of its requests waits in the server when the first answer meets a closed socket. A
/// client that says that it leaves has promised nothing more, and its requests are due.
#[test]
fn all_before_a_disconnect_is_performed_though_nobody_takes_the_answers() {
    const COUNT: u64 = 1500;
    let server = Running::start(slow(50), 2, 64 << 20);
    let mut leaving = server.client();
    let len = COUNT * 512;
    assert_eq!(leaving.write(0, &vec![1; len as usize], 0), 0);
    let requests: Vec<u8> = (0..COUNT)
        .flat_map(|index| {
            let zeroes = request(0, command::WRITE_ZEROES, index, index * 512, 512);
            [zeroes, request(0, command::READ, COUNT, 0, 512)].concat()
        })
        .chain(request(0, command::DISC, 0, 0, 0))
        .collect();
    leaving.stream.write_all(&requests).unwrap();
    drop(leaving);
    let left = server.client().read(0, len as u32).unwrap();
    assert_eq!(left.iter().position(|byte| *byte != 0), None);
}

/// The client's answers take more memory than there is, and it does not take them.
///
/// Newer clients wait for its write behind them, not for the answers.
#[test]
fn a_newer_connection_does_not_wait_for_answers_that_nobody_takes() {
    let server = Running::start(memory(), 1, 4 << 20);
    let mut half = server.client();
    for cookie in 0..16 {
        half.send(0, command::READ, cookie, cookie << 20, 1 << 20);
    }
    send_write(&mut half, 32 << 20, 1);
    half.stream.shutdown(Shutdown::Write).unwrap();
    let mut newer = server.client();
    assert_eq!(newer.write(32 << 20, &[2; 512], 0), 0);
    // All of them are kept for it, nevertheless.
    let mut answers: Vec<_> = (0..17)
        .map(|_| half.receive())
        .map(|reply| (reply.error, reply.payload.len()))
        .collect();
    answers.sort_unstable();
    assert_eq!(answers[0], (0, 0));
    assert!(answers[1..].iter().all(|answer| *answer == (0, 1 << 20)));
    assert!(half.is_closed());
    assert_eq!(newer.read(32 << 20, 512).unwrap(), [2; 512]);
}

/// The client's write does not fit into memory beside the answers that it does not take.
///
/// After a while these answers are dropped.
#[test]
fn answers_that_nobody_takes_do_not_keep_memory_from_writes_for_ever() {
    let server = Running::start(memory(), 1, 1 << 20);
    let mut half = server.client();
    for cookie in 0..16 {
        half.send(0, command::READ, cookie, 0, 64 << 10);
    }
    // Now the server has read them.
    assert_eq!(half.receive().error, 0);
    half.send(0, command::WRITE, 16, 32 << 20, 64 << 10);
    half.stream.write_all(&[1; 64 << 10]).unwrap();
    half.stream.shutdown(Shutdown::Write).unwrap();
    let mut newer = server.client();
    assert_eq!(newer.write(32 << 20, &[2; 512], 0), 0);
    let end = (32 << 20) + (64 << 10) - 512;
    assert_eq!(newer.read(end, 512).unwrap(), [1; 512]);
    drop(half);
}

/// Device that panics if its last block is written.
#[derive(Debug)]
struct Trap(Arc<dyn BlockDevice>);

impl BlockDevice for Trap {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        if let Request::Write { offset, .. } = &request {
            assert_ne!(*offset, SIZE - 512, "the trap");
        }
        self.0.submit(request, ticket, lane)
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.0.usage()
    }
}

/// Log of the server.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Log;

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A loop panics, and other clients are still served.
///
/// A new client is dealt to a loop that lives. Requests at the device are over before the others
/// write.
#[test]
fn a_loop_that_panics_holds_nobody_up() {
    let log = tracing_subscriber::fmt().with_ansi(false);
    log.with_writer(|| Log).init();
    let device = Arc::new(Trap(OnesLast::over(memory())));
    let server = Running::start(device, 2, 64 << 20);
    let mut sibling = server.client();
    let mut lost = server.client();
    assert_eq!(sibling.read(0, 512).unwrap(), [0; 512]);
    send_write(&mut lost, 0, 1);
    send_write(&mut lost, SIZE - 512, 1);
    assert!(lost.is_closed());
    let said = String::from_utf8(LOG.lock().unwrap().clone()).unwrap();
    assert!(said.contains("a thread panicked"), "{said}");
    assert_eq!(sibling.write(0, &[2; 512], 0), 0);
    // As many as are allowed: the clients of the lost loop are not counted any more.
    let mut newer: Vec<Client> = (0..7).map(|_| server.client()).collect();
    for client in &mut newer {
        assert_eq!(client.read(0, 512).unwrap(), [2; 512]);
    }
}
