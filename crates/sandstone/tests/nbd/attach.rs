//! `sandstone initiator attach` as users run it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nbd::wire::{command, command_flag};

use crate::client::Client;

/// Server of its own process.
struct Attached {
    child: Child,
    line: serde_json::Value,
}

fn attach(what: &str, socket: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandstone"));
    command
        .args(["initiator", "attach", what, "--json", "--socket"])
        .arg(socket)
        .args(options);
    command
}

impl Attached {
    fn start(what: &str, socket: &Path, options: &[&str]) -> Self {
        let mut child = attach(what, socket, options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut errors = String::new();
            let mut pipe = child.stderr.take().unwrap();
            pipe.read_to_string(&mut errors).unwrap();
            panic!("it does not serve: {errors}");
        }
        let line = serde_json::from_str(&line).unwrap();
        Self { child, line }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Creates a folder with a sparse file of 16 MiB, and returns the place for the socket.
fn folder() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk.img");
    let file = std::fs::File::create(&disk).unwrap();
    file.set_len(16 << 20).unwrap();
    let socket = folder.path().join("nbd.sock");
    (folder, disk, socket)
}

#[test]
fn a_file_is_offered_and_keeps_what_was_promised_when_the_server_is_killed() {
    let (_folder, disk, socket) = folder();
    let disk = disk.to_str().unwrap();
    let server = Attached::start(disk, &socket, &["--block-size", "4096"]);
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    assert_eq!(server.line["uri"], uri);
    assert_eq!(server.line["size"], 16 << 20);
    let mut client = Client::connect(&socket);
    assert_eq!(client.size, 16 << 20);
    assert_eq!(client.write(4096, &[1; 8192], command_flag::FUA), 0);
    assert_eq!(client.write(1 << 20, &[2; 4096], 0), 0);
    assert_eq!(client.ask(0, command::FLUSH, 0, 0), 0);
    assert_eq!(
        client.ask(0, command::READ, 512, 512),
        22,
        "not a whole block"
    );
    drop(server);
    assert!(socket.exists(), "it was killed");
    // The stale socket is no obstacle.
    let _again = Attached::start(disk, &socket, &["--no-io-uring", "--threads", "2"]);
    let mut client = Client::connect(&socket);
    assert_eq!(client.read(4096, 8192).unwrap(), [1; 8192]);
    assert_eq!(client.read(1 << 20, 4096).unwrap(), [2; 4096]);
}

#[test]
fn ctrl_c_ends_it_and_takes_the_socket_away() {
    for signal in ["INT", "TERM"] {
        let (_folder, _, socket) = folder();
        let mut server = Attached::start("memory:16M", &socket, &[]);
        let mut client = Client::connect(&socket);
        assert_eq!(client.write(0, &[1; 4096], 0), 0);
        server.signal(signal);
        assert!(server.child.wait().unwrap().success());
        assert!(!socket.exists());
        assert!(client.is_closed());
    }
}

#[test]
fn what_cannot_be_served_is_said_and_nothing_is_touched() {
    let (folder, disk, socket) = folder();
    let disk = disk.to_str().unwrap();
    let refused = |what: &str, socket: &Path, options: &[&str], words: &[&str]| {
        let output = attach(what, socket, options).output().unwrap();
        assert!(!output.status.success());
        let text = String::from_utf8(output.stderr).unwrap();
        for word in words {
            assert!(text.contains(word), "{word} in {text}");
        }
    };
    let server = Attached::start(disk, &socket, &[]);
    refused(
        "memory:1M",
        &socket,
        &[],
        &["another process serves", "next:"],
    );
    let other = folder.path().join("other.sock");
    refused(disk, &other, &[], &["in use"]);
    assert!(!other.exists());
    refused(
        "memory:1M",
        &folder.path().join("no/such/folder"),
        &[],
        &["make the folder first"],
    );
    refused(
        "nothing",
        &other,
        &[],
        &["cannot open nothing", "create it"],
    );
    refused("memory:1000", &other, &[], &["multiple of the block size"]);
    let certificates = folder.path().to_str().unwrap();
    let tls = ["--tls-certificates", certificates];
    refused("memory:1M", &other, &tls, &["server-cert.pem"]);
    refused(
        "memory:1M",
        &other,
        &["--tls", "allow"],
        &["--tls-certificates"],
    );
    let precious = folder.path().join("precious");
    std::fs::write(&precious, "data").unwrap();
    refused("memory:1M", &precious, &[], &["is not a socket"]);
    assert_eq!(std::fs::read(&precious).unwrap(), b"data");
    let mut client = Client::connect(&socket);
    assert_eq!(client.read(0, 512).unwrap(), [0; 512]);
    drop(server);
}

#[test]
fn read_only_means_read_only() {
    let (_folder, disk, socket) = folder();
    let _server = Attached::start(disk.to_str().unwrap(), &socket, &["--read-only"]);
    let mut client = Client::connect(&socket);
    assert_eq!(client.write(0, &[1; 512], 0), 1);
    assert_eq!(client.ask(0, command::WRITE_ZEROES, 0, 512), 1);
    assert_eq!(client.read(0, 512).unwrap(), [0; 512]);
}

/// Nobody would know of the bytes that are left out: neither the client nor a user who looks at the
/// size.
#[test]
fn a_file_that_ends_within_a_block_is_refused_and_left_as_it_is() {
    let (_folder, disk, socket) = folder();
    for (len, block, advice) in [
        (1_000_300_u64, "512", "truncate -s 1000448"),
        (511, "512", "less than one block"),
        ((1 << 20) + 512, "4096", "--block-size 512"),
        ((1 << 20) + 1, "4096", "truncate -s 1052672"),
    ] {
        let file = std::fs::File::options().write(true).open(&disk).unwrap();
        file.set_len(len).unwrap();
        let refused = attach(disk.to_str().unwrap(), &socket, &["--block-size", block]).output();
        let refused = refused.unwrap();
        let told = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success(), "{len} is served");
        assert!(
            told.contains(&len.to_string()) && told.contains(advice),
            "{told}"
        );
        assert_eq!(std::fs::metadata(&disk).unwrap().len(), len);
        assert!(!socket.exists());
    }
    std::fs::File::options()
        .write(true)
        .open(&disk)
        .unwrap()
        .set_len(1_000_448)
        .unwrap();
    let attached = Attached::start(disk.to_str().unwrap(), &socket, &[]);
    assert_eq!(attached.line["size"], 1_000_448);
}
