//! Tests of the iSNS client against a server of the test's own.
//!
//! The client registers, follows changes, and deregisters. It survives a server that goes away,
//! forgets or says nothing.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use iscsi::isns::{Assembler, Attributes, Flags, Function, Message, Tag};
use isns::{AnnouncedTarget, Announcement, Registrar, Timing};
use testing::wait;

const PATIENCE: Duration = Duration::from_secs(10);

fn timing() -> Timing {
    Timing {
        period_s: 600,
        refresh: Duration::from_millis(50),
        retry_min: Duration::from_millis(10),
        retry_max: Duration::from_millis(100),
        exchange: Duration::from_millis(500),
    }
}

/// Content and behaviour of the server.
#[derive(Debug, Default)]
struct Database {
    nodes: BTreeSet<String>,
    /// Whether the server answers nothing at all.
    silent: bool,
    /// Whether the server answers queries with "no such entry", as servers do to nodes in no
    /// discovery domain.
    hidden: bool,
}

/// Server that understands as much as a test needs.
///
/// It reports every request by its function and by whether the request replaces.
struct Server {
    address: SocketAddr,
    database: Arc<Mutex<Database>>,
    requests: Receiver<(Function, bool)>,
}

impl Server {
    fn start(at: &str) -> Self {
        let listener = TcpListener::bind(at).unwrap();
        let address = listener.local_addr().unwrap();
        let database = Arc::<Mutex<Database>>::default();
        let (sender, requests) = channel();
        let shared = database.clone();
        std::thread::spawn(move || serve(&listener, &shared, &sender));
        Self {
            address,
            database,
            requests,
        }
    }

    fn expect(&self, function: Function, replace: bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        while let Ok(request) = self
            .requests
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            if request == (function, replace) {
                return;
            }
            seen.push(request);
        }
        panic!("no {function:?} (replace {replace}); came {seen:?}");
    }

    fn expect_nodes(&self, names: &[&str]) {
        let wanted: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let nodes = || self.database.lock().unwrap().nodes.clone();
        wait::until_seen(&format!("{wanted:?}"), nodes, |nodes| *nodes == wanted);
    }
}

fn serve(listener: &TcpListener, database: &Mutex<Database>, requests: &Sender<(Function, bool)>) {
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let mut assembler = Assembler::default();
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            assembler.push(&buffer[..count]);
            while let Some(request) = assembler.next_message().unwrap() {
                let mut database = database.lock().unwrap();
                if !database.silent {
                    let payload = answer(&request, &mut database);
                    let response = Message {
                        function: request.function.response(),
                        flags: Flags::SERVER,
                        transaction_id: request.transaction_id,
                        payload,
                    };
                    let _ = stream.write_all(&response.encode());
                }
                let replace = request.flags.0 & Flags::REPLACE.0 != 0;
                let _ = requests.send((request.function, replace));
            }
        }
    }
}

fn answer(request: &Message, database: &mut Database) -> Vec<u8> {
    let mut payload = vec![0; 4];
    let attributes: Vec<_> = Attributes::new(&request.payload)
        .map(|attribute| attribute.unwrap())
        .collect();
    let operating = attributes
        .iter()
        .skip_while(|attribute| attribute.tag != Tag::DELIMITER)
        .skip(1);
    let operating: Vec<_> = operating.collect();
    let names = operating
        .iter()
        .filter(|attribute| attribute.tag == Tag::ISCSI_NAME && !attribute.value.is_empty())
        .map(|attribute| attribute.text().unwrap().to_owned());
    match request.function {
        Function::DEV_ATTR_REG => {
            if request.flags.0 & Flags::REPLACE.0 != 0 {
                database.nodes.clear();
            }
            database.nodes.extend(names);
            // The server keeps another period than it was asked for.
            payload.extend([0, 0, 0, 6, 0, 0, 0, 4, 0, 0, 0, 3]);
        }
        Function::DEV_DEREG => {
            if operating.iter().any(|a| a.tag == Tag::ENTITY_IDENTIFIER) {
                database.nodes.clear();
            }
            database
                .nodes
                .retain(|node| !names.clone().any(|name| name == *node));
        }
        Function::DEV_ATTR_QRY if database.hidden => payload[3] = 9,
        Function::DEV_ATTR_QRY => {
            for name in &database.nodes {
                let mut value = name.as_bytes().to_vec();
                value.resize((value.len() + 1).next_multiple_of(4), 0);
                payload.extend([0, 0, 0, 32]);
                payload.extend((value.len() as u32).to_be_bytes());
                payload.extend(value);
            }
            payload.extend([0, 0, 0, 16, 0, 0, 0, 16]);
            payload.extend([0; 10]);
            payload.extend([0xff, 0xff, 127, 0, 0, 1]);
            payload.extend([0, 0, 0, 17, 0, 0, 0, 4, 0, 0, 0x0c, 0xbc]);
        }
        other => panic!("{other:?}"),
    }
    payload
}

fn announcement(names: &[&str]) -> Announcement {
    let target = |name: &&str| AnnouncedTarget {
        iqn: (*name).to_owned(),
        alias: String::new(),
        portals: vec![("127.0.0.1:3260".parse().unwrap(), 1)],
    };
    Announcement {
        entity: "sandstone-test".into(),
        targets: names.iter().map(target).collect(),
    }
}

const A: &str = "iqn.2026-01.x:a";
const B: &str = "iqn.2026-01.x:b";
const C: &str = "iqn.2026-01.x:c";

#[test]
fn targets_are_registered_refreshed_changed_and_taken_back() {
    let server = Server::start("127.0.0.1:0");
    // These entries were left behind by a daemon that was killed.
    server.database.lock().unwrap().nodes.insert(C.into());
    let registrar = Registrar::new(timing());
    registrar.announce(&[server.address], announcement(&[A, B]));
    server.expect(Function::DEV_ATTR_REG, true);
    server.expect_nodes(&[A, B]);
    server.expect(Function::DEV_ATTR_QRY, false);
    server.expect(Function::DEV_ATTR_QRY, false);
    // Entries that stay are not taken away even for a moment.
    registrar.announce(&[server.address], announcement(&[B, C]));
    server.expect(Function::DEV_ATTR_REG, false);
    server.expect(Function::DEV_DEREG, false);
    server.expect_nodes(&[B, C]);
    // The last target goes, and comes back.
    registrar.announce(&[server.address], announcement(&[]));
    server.expect_nodes(&[]);
    registrar.announce(&[server.address], announcement(&[A]));
    server.expect_nodes(&[A]);
    registrar.join();
    server.expect_nodes(&[]);
}

#[test]
fn a_server_that_is_no_longer_configured_is_told_so() {
    let (first, second) = (Server::start("127.0.0.1:0"), Server::start("127.0.0.1:0"));
    let registrar = Registrar::new(timing());
    registrar.announce(&[first.address, second.address], announcement(&[A]));
    first.expect_nodes(&[A]);
    second.expect_nodes(&[A]);
    registrar.announce(&[second.address], announcement(&[A]));
    first.expect_nodes(&[]);
    second.expect_nodes(&[A]);
    registrar.join();
}

#[test]
fn a_server_that_comes_later_or_forgets_is_told_again() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let registrar = Registrar::new(timing());
    registrar.announce(&[address], announcement(&[A]));
    // Some attempts fail first; nothing shows them.
    std::thread::sleep(Duration::from_millis(100));
    let server = Server::start(&address.to_string());
    server.expect_nodes(&[A]);
    server.database.lock().unwrap().nodes.clear();
    // The client adds to the entries and does not replace them: the entries may only be out of its
    // sight.
    server.expect(Function::DEV_ATTR_REG, true);
    server.expect(Function::DEV_ATTR_REG, false);
    server.expect_nodes(&[A]);
    server.database.lock().unwrap().hidden = true;
    server.expect(Function::DEV_ATTR_REG, false);
    registrar.join();
    server.expect_nodes(&[]);
}

#[test]
fn a_silent_server_delays_nothing_beyond_its_time() {
    let server = Server::start("127.0.0.1:0");
    server.database.lock().unwrap().silent = true;
    let registrar = Registrar::new(timing());
    registrar.announce(&[server.address], announcement(&[A]));
    server.expect(Function::DEV_ATTR_REG, true);
    let begun = Instant::now();
    registrar.announce(&[server.address], announcement(&[A, B]));
    assert!(
        begun.elapsed() < Duration::from_millis(100),
        "announcing waits"
    );
    server.expect(Function::DEV_ATTR_REG, true);
    let begun = Instant::now();
    registrar.join();
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
    // The server speaks again to the next daemon.
    server.database.lock().unwrap().silent = false;
    let registrar = Registrar::new(timing());
    registrar.announce(&[server.address], announcement(&[B]));
    server.expect_nodes(&[B]);
    registrar.join();
}
