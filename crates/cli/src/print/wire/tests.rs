//! Tests of the wire: its two ends, and an attacker between them.

use std::thread;

use super::*;

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    (listener, address)
}

#[test]
fn what_is_sent_arrives_and_is_answered() {
    let (listener, address) = listener();
    let key = Key::random();
    let own: Key = key.to_string().parse().expect("as printed");
    let receiver = thread::spawn(move || {
        let mut wire = Wire::accept(&listener, &own).expect("a sender");
        let mut all = Vec::new();
        wire.read_to_end(&mut all).expect("all of it");
        wire.write_all(b"thanks").expect("answered");
        wire.end().expect("ended");
        all
    });
    let mut wire = Wire::connect(&address, &key).expect("connects");
    let sent: Vec<u8> = (0..3_000_000_u32).map(|at| at as u8).collect();
    wire.write_all(&sent).expect("sent");
    wire.end().expect("ended");
    let mut answer = String::new();
    wire.read_to_string(&mut answer).expect("an answer");
    assert_eq!(answer, "thanks");
    assert_eq!(receiver.join().expect("the receiver"), sent);
}

#[test]
fn who_does_not_know_the_key_gets_nothing_and_delays_nobody() {
    let (listener, address) = listener();
    let key = Key::random();
    let own = key.clone();
    let receiver = thread::spawn(move || {
        let mut all = Vec::new();
        let mut wire = Wire::accept(&listener, &own).expect("a sender");
        wire.read_to_end(&mut all).expect("all of it");
        all
    });
    Wire::connect(&address, &Key::random()).expect_err("another key");
    let mut garbage = TcpStream::connect(&address).expect("connects");
    garbage.write_all(&[7; 4096]).expect("sent");
    drop(garbage);
    let mut wire = Wire::connect(&address, &key).expect("connects");
    wire.write_all(b"mine").expect("sent");
    wire.end().expect("ended");
    assert_eq!(receiver.join().expect("the receiver"), b"mine");
    for wrong in ["", "12", &"g".repeat(64), &"é".repeat(32)] {
        wrong.parse::<Key>().expect_err(wrong);
    }
}

/// Passes a connection on, and changes the sender's bytes behind its greeting.
fn between(address: String, change: fn(Vec<u8>) -> Vec<u8>) -> String {
    let (listener, own) = listener();
    thread::spawn(move || {
        let (mut sender, _) = listener.accept().expect("a sender");
        let mut receiver = TcpStream::connect(address).expect("connects");
        let mut greeting = [0; 48];
        sender.read_exact(&mut greeting).expect("a greeting");
        receiver.write_all(&greeting).expect("passed on");
        let mut answer = [0; 64];
        receiver.read_exact(&mut answer).expect("an answer");
        sender.write_all(&answer).expect("passed on");
        let mut rest = Vec::new();
        sender.read_to_end(&mut rest).expect("the rest");
        // The receiver may be gone by then.
        let _ = receiver.write_all(&change(rest));
    });
    own
}

#[test]
fn whoever_is_between_changes_nothing_unseen() {
    // Behind the proof (32): a piece of 4 bytes (4 + 4 + 32), another one, the end.
    let changes: [fn(Vec<u8>) -> Vec<u8>; 5] = [
        |mut bytes| {
            bytes[32 + 4] ^= 1;
            bytes
        },
        |bytes| [&bytes[..72], &bytes[32..]].concat(),
        |bytes| [&bytes[..32], &bytes[72..]].concat(),
        |bytes| [&bytes[..32], &bytes[72..112], &bytes[32..72], &bytes[112..]].concat(),
        |bytes| bytes[..112].to_vec(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let (listener, address) = listener();
        let key = Key::random();
        let own = key.clone();
        let receiver = thread::spawn(move || {
            let mut wire = Wire::accept(&listener, &own).expect("a sender");
            wire.read_to_end(&mut Vec::new()).map(drop)
        });
        let mut wire = Wire::connect(&between(address, change), &key).expect("connects");
        wire.write_all(b"one.").expect("sent");
        wire.write_all(b"two.").expect("sent");
        wire.end().expect("ended");
        drop(wire);
        receiver
            .join()
            .expect("the receiver")
            .expect_err(&number.to_string());
    }
}

/// Caller that sends one byte every nine seconds.
struct Slow {
    now: Instant,
    patience: Duration,
}

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let pause = Duration::from_secs(9);
        self.now += pause.min(self.patience);
        if self.patience < pause {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        buffer[0] = 7;
        Ok(1)
    }
}

impl Caller for Slow {
    fn now(&self) -> Instant {
        self.now
    }

    fn wait_at_most(&mut self, time: Duration) -> io::Result<()> {
        self.patience = time;
        Ok(())
    }
}

#[test]
fn who_greets_byte_by_byte_is_waited_for_no_longer_than_others() {
    let begun = Instant::now();
    let mut slow = Slow {
        now: begun,
        patience: Duration::MAX,
    };
    let until = begun + PATIENCE;
    let error = read_until(&mut slow, &mut [0; 48], until).expect_err("too slow");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(slow.now, until);
    // The caller is not even read if the time is over.
    let error = read_until(&mut slow, &mut [0; 32], until).expect_err("too late");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(slow.now, until);
}

#[test]
fn a_connection_that_breaks_before_it_is_taken_ends_nothing() {
    let mut answers = [
        Err(io::ErrorKind::ConnectionAborted.into()),
        Err(io::ErrorKind::HostUnreachable.into()),
        Ok(7),
        Err(io::ErrorKind::PermissionDenied.into()),
    ]
    .into_iter();
    let mut accept = || answers.next().expect("asked no more than that");
    assert_eq!(next_caller(&mut accept).expect("the third"), 7);
    // A fault of the listener itself ends the wait.
    let error = next_caller(&mut accept).expect_err("no connections");
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
}
