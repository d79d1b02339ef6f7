//! NBD server in this process, over devices that are slow, broken or short of memory.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::delay::DelayDevice;
use block::fault::{Fault, FaultDevice, Rule, When};
use block::memory::MemoryDevice;
use block::statistics::RequestKind;
use block::{BlockDevice, BlockErrorKind};
use nbd::wire::{command, command_flag, transmission_flag};
use nbd_server::{Endpoint, Loops, Server, ServerOptions};
use testing::wait;
use unit::unit::Unit;

use crate::client::Client;

pub(crate) const SIZE: u64 = 64 << 20;

/// Server and its socket.
pub(crate) struct Running {
    server: Option<Server>,
    unit: Arc<Unit>,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Running {
    pub(crate) fn start(device: Arc<dyn BlockDevice>, threads: usize, memory_cap: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("nbd");
        let loops = Loops::prepare(threads, true).unwrap();
        let options = ServerOptions {
            name: String::new(),
            description: String::new(),
            read_only: false,
            endpoints: vec![Endpoint::Unix(socket.clone())],
            tls: None,
            memory_cap,
            max_connections: 8,
        };
        let unit = Unit::alone("lu".into(), device);
        Self {
            server: Some(Server::start(loops, Arc::clone(&unit), &options).unwrap()),
            unit,
            socket,
            _folder: folder,
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.socket)
    }

    /// Waits until this many requests have begun, over all clients. Some may have ended.
    pub(crate) fn wait_for_requests(&self, count: u64) {
        let begun = || {
            let ended = self.unit.tally.totals();
            let ended = ended.iter().map(|kind| kind.commands).sum::<u64>();
            ended + u64::from(self.unit.under_way().active)
        };
        wait::until_seen("requests have begun", begun, |begun| *begun >= count);
    }

    fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(crate) fn memory() -> Arc<dyn BlockDevice> {
    Arc::new(MemoryDevice::new(SIZE, 512, SIZE).unwrap())
}

pub(crate) fn slow(latency: u64) -> Arc<dyn BlockDevice> {
    let latency = Duration::from_millis(latency);
    Arc::new(DelayDevice::new(memory(), latency, None))
}

#[test]
fn what_one_connection_writes_the_others_read() {
    for threads in [1, 3] {
        let server = Running::start(memory(), threads, 64 << 20);
        let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
        assert_eq!(clients[0].size, SIZE);
        assert_ne!(clients[0].flags & transmission_flag::CAN_MULTI_CONN, 0);
        for (index, client) in clients.iter_mut().enumerate() {
            let data = vec![index as u8 + 1; 200_000 / 512 * 512];
            assert_eq!(client.write((index as u64) << 20, &data, 0), 0);
        }
        assert_eq!(clients[3].ask(0, command::FLUSH, 0, 0), 0);
        for index in 0..4u8 {
            let reader = &mut clients[usize::from(3 - index)];
            let data = reader.read(u64::from(index) << 20, 4096).unwrap();
            assert!(data.iter().all(|byte| *byte == index + 1));
        }
        assert_eq!(clients[1].ask(0, command::TRIM, 0, 4096), 0);
        assert_eq!(clients[2].read(0, 512).unwrap(), [0; 512]);
    }
}

#[test]
fn failures_are_told_as_what_they_are() {
    for (kind, failure, command, error) in [
        (
            RequestKind::Write,
            BlockErrorKind::NoSpace,
            command::WRITE_ZEROES,
            28,
        ),
        (
            RequestKind::Write,
            BlockErrorKind::Write,
            command::WRITE_ZEROES,
            5,
        ),
        (RequestKind::Read, BlockErrorKind::Medium, command::READ, 5),
        (RequestKind::Read, BlockErrorKind::Gone, command::READ, 5),
        (RequestKind::Flush, BlockErrorKind::Write, command::FLUSH, 5),
    ] {
        let device = FaultDevice::new(memory(), 1);
        device.add(Rule {
            kind: Some(kind),
            range: None,
            when: When::Always,
            fault: Fault::Fail(failure),
        });
        let server = Running::start(Arc::new(device), 1, 64 << 20);
        let mut client = server.client();
        let found = match (kind, command) {
            (RequestKind::Write, _) => client.write(0, &[1; 512], 0),
            (_, command::FLUSH) => client.ask(0, command, 0, 0),
            _ => client.ask(0, command, 0, 512),
        };
        assert_eq!(found, error, "{failure:?}");
    }
}

/// The requests are longer than one request to the device.
#[test]
fn long_trims_and_zeros_are_done_whole_and_others_served_meanwhile() {
    let len: u64 = 3 << 30;
    let device = MemoryDevice::new(len, 4096, 64 << 20).unwrap();
    let server = Running::start(Arc::new(device), 1, 64 << 20);
    let (mut one, mut other) = (server.client(), server.client());
    for (flags, kind) in [
        (0, command::TRIM),
        (command_flag::FUA, command::TRIM),
        (0, command::WRITE_ZEROES),
        (command_flag::FUA, command::WRITE_ZEROES),
    ] {
        for at in [0, 300 << 20, len - 4096] {
            assert_eq!(one.write(at, &[1; 4096], 0), 0);
        }
        one.send(flags, kind, 5, 0, len as u32);
        assert_eq!(other.ask(0, command::FLUSH, 0, 0), 0);
        let reply = one.receive();
        assert_eq!((reply.cookie, reply.error), (5, 0));
        for at in [0, 300 << 20, len - 4096] {
            assert_eq!(other.read(at, 4096).unwrap(), [0; 4096]);
        }
    }
}

#[test]
fn a_trim_that_must_be_durable_is_flushed() {
    let device = FaultDevice::new(memory(), 1);
    device.add(Rule {
        kind: Some(RequestKind::Flush),
        range: None,
        when: When::Always,
        fault: Fault::Fail(BlockErrorKind::Write),
    });
    let server = Running::start(Arc::new(device), 1, 64 << 20);
    let mut client = server.client();
    assert_eq!(client.ask(0, command::TRIM, 0, 4096), 0);
    assert_eq!(client.ask(command_flag::FUA, command::TRIM, 0, 4096), 5);
}

#[test]
fn a_disconnect_and_the_end_of_the_server_wait_for_what_is_under_way() {
    let mut server = Running::start(slow(200), 2, 64 << 20);
    let mut leaving = server.client();
    leaving.send(0, command::READ, 7, 0, 512);
    leaving.send(0, command::DISC, 8, 0, 0);
    assert_eq!(leaving.receive().cookie, 7);
    assert!(leaving.is_closed());
    let mut staying = server.client();
    staying.send(0, command::WRITE, 9, 0, 512);
    staying.stream.write_all(&[1; 512]).unwrap();
    server.wait_for_requests(2);
    let begin = Instant::now();
    server.stop();
    assert!(begin.elapsed() < Duration::from_secs(5));
    let reply = staying.receive();
    assert_eq!((reply.cookie, reply.error), (9, 0));
    assert!(staying.is_closed());
    assert!(!server.socket.exists());
}

#[test]
fn a_write_that_was_cut_off_is_no_write() {
    let server = Running::start(memory(), 1, 64 << 20);
    let mut lost = server.client();
    lost.send(0, command::WRITE, 1, 0, 1 << 20);
    lost.stream.write_all(&vec![1; 600_000]).unwrap();
    drop(lost);
    let mut client = server.client();
    assert!(
        client
            .read(0, 1 << 20)
            .unwrap()
            .iter()
            .all(|byte| *byte == 0)
    );
}

/// Far more data is asked for at once than the memory cap has; all requests are answered in time.
#[test]
fn more_than_the_memory_cap_is_served_bit_by_bit() {
    let server = Running::start(slow(1), 1, 4 << 20);
    let mut one = server.client();
    let mut other = server.client();
    for cookie in 0..40 {
        one.send(0, command::READ, cookie, cookie << 20, 1 << 20);
        other.send(0, command::READ, cookie, cookie << 20, 1 << 20);
    }
    for client in [&mut one, &mut other] {
        let mut cookies: Vec<u64> = (0..40)
            .map(|_| {
                let reply = client.receive();
                assert_eq!((reply.error, reply.payload.len()), (0, 1 << 20));
                reply.cookie
            })
            .collect();
        cookies.sort_unstable();
        assert_eq!(cookies, (0..40).collect::<Vec<_>>());
    }
    // A write whose payload never comes holds memory; others go on.
    one.send(0, command::WRITE, 1, 0, 1 << 20);
    for at in 0..8 {
        assert_eq!(other.write(at << 20, &vec![5; 1 << 20], 0), 0);
    }
}

#[test]
fn thousands_of_requests_at_once_are_all_answered() {
    let server = Running::start(slow(1), 1, 64 << 20);
    let mut client = server.client();
    let mut sender = client.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        for cookie in 0..5000u64 {
            let mut head = nbd::wire::REQUEST_MAGIC.to_be_bytes().to_vec();
            head.extend([0, 0, 0, 0]);
            head.extend(cookie.to_be_bytes());
            head.extend((cookie % 1000 * 512).to_be_bytes());
            head.extend(512u32.to_be_bytes());
            sender.write_all(&head).unwrap();
        }
    });
    let mut seen = vec![false; 5000];
    for _ in 0..5000 {
        let reply = client.receive();
        assert_eq!(reply.error, 0);
        assert!(!std::mem::replace(&mut seen[reply.cookie as usize], true));
    }
    writing.join().unwrap();
}

#[test]
fn clients_beyond_the_limit_are_turned_away_and_garbage_harms_nobody() {
    let server = Running::start(memory(), 3, 64 << 20);
    let mut good = server.client();
    let mut garbage = server.client();
    garbage.stream.write_all(&[0xff; 100]).unwrap();
    assert!(garbage.is_closed());
    let rest: Vec<Client> = (0..7).map(|_| server.client()).collect();
    let mut ninth = std::os::unix::net::UnixStream::connect(&server.socket).unwrap();
    let mut byte = [0; 1];
    assert!(matches!(
        std::io::Read::read(&mut ninth, &mut byte),
        Ok(0) | Err(_)
    ));
    assert_eq!(good.read(0, 512).unwrap(), [0; 512]);
    drop(rest);
}
