//! Clients of HTTP/2 that abuse what it adds: windows that stay shut, more streams than there may
//! be, and floods of frames that cost the client nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use testing::wait;

use super::site::{Site, Who};

/// Connections with shut windows, beyond all that one address may have at once.
const CONNECTIONS: usize = 140;
/// Streams that each of them opens.
const STREAMS: u32 = 8;
/// Streams of a connection that wants more than the 64 which the daemon serves at once.
const TOO_MANY_STREAMS: u32 = 100;
/// Bytes of a flood.
const FLOOD: usize = 4 << 20;
/// Most that the daemon's memory may grow under all attacks together, in bytes.
const GROWTH: u64 = 64 << 20;

/// Types of frames (RFC 9113 §6).
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
/// Flags of HEADERS: no body follows, and the head is whole.
const END: u8 = 0x5;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Returns the beginning of a connection whose streams may get no byte of a body.
fn preface() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // SETTINGS_INITIAL_WINDOW_SIZE is 0.
    bytes.extend(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
    bytes
}

/// Returns the head of a GET of the page of logins (RFC 7541: static fields, then literals).
fn head(site: &Site) -> Vec<u8> {
    let mut block = vec![0x82, 0x87];
    for (field, value) in [
        (0x04, "/login".to_owned()),
        (0x01, site.console.to_string()),
    ] {
        block.push(field);
        block.push(value.len() as u8);
        block.extend_from_slice(value.as_bytes());
    }
    block
}

/// Bytes that a process has in memory.
fn memory(site: &Site) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", site.child.id())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// Reads frames until one of this type comes, or the connection ends. Returns its payload.
fn until_frame(stream: &mut impl Read, wanted: u8) -> Option<Vec<u8>> {
    loop {
        let mut start = [0; 9];
        stream.read_exact(&mut start).ok()?;
        let length = u32::from_be_bytes([0, start[0], start[1], start[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).ok()?;
        if start[3] == wanted {
            return Some(payload);
        }
    }
}

/// Runs all attacks.
pub(super) fn cost_others_nothing(site: &Site) {
    let before = memory(site);
    refused_streams_are_told(site);
    for flood in [frame(SETTINGS, 0, 0, &[]), frame(PING, 0, 0, &[0; 8])] {
        a_flood_without_reading_takes_no_memory(site, &flood);
    }
    rapid_resets_end_the_connection(site);
    an_endless_head_ends_the_connection(site);
    let held = shut_windows_make_room(site);
    let grown = memory(site).saturating_sub(before);
    assert!(grown < GROWTH, "{} MiB", grown >> 20);
    drop(held);
}

/// Opens more streams than may be at once: those beyond are refused, and others are answered.
fn refused_streams_are_told(site: &Site) {
    let mut stream = site.connect_by_http2();
    stream.write_all(&preface()).unwrap();
    for number in 0..TOO_MANY_STREAMS {
        let head = frame(HEADERS, END, number * 2 + 1, &head(site));
        stream.write_all(&head).unwrap();
    }
    let refused = until_frame(&mut stream, RST_STREAM).expect("a stream is refused");
    assert_eq!(refused, 7_u32.to_be_bytes(), "REFUSED_STREAM");
}

/// Connections whose answers nobody takes: they make room for others of their address, and never
/// take that of another address.
fn shut_windows_make_room(site: &Site) -> Vec<impl Read + Write + use<>> {
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = site.connect_by_http2();
        let mut bytes = preface();
        for number in 0..STREAMS {
            bytes.extend(frame(HEADERS, END, number * 2 + 1, &head(site)));
        }
        // Those beyond the bound are hung up on.
        let _ = stream.write_all(&bytes);
        held.push(stream);
    }
    assert_eq!(site.get_from("127.0.0.2", "/login").status, 200);
    // A connection that takes nothing for some seconds gives its place away.
    wait::until("their places are free", || {
        site.get_from("127.0.0.1", "/login").status == 200
    });
    held
}

/// Frames that each want an answer, from a client that reads none. The daemon keeps no answers: its
/// memory would grow by more than the frames have.
fn a_flood_without_reading_takes_no_memory(site: &Site, flood: &[u8]) {
    let mut stream = site.connect_by_http2();
    let timeout = Some(Duration::from_millis(500));
    stream.get_ref().set_write_timeout(timeout).unwrap();
    stream.write_all(&preface()).unwrap();
    let before = memory(site);
    let many = flood.repeat(1000);
    let mut sent = 0;
    // The daemon reads no more once its answers find no room.
    while sent < FLOOD && stream.write_all(&many).is_ok() {
        sent += many.len();
    }
    let grown = memory(site).saturating_sub(before);
    assert!(grown < FLOOD as u64, "{} KiB", grown >> 10);
    assert_eq!(site.get_from("127.0.0.2", "/login").status, 200);
}

/// Streams that are opened and reset at once, each of which makes the daemon work (CVE-2023-44487).
fn rapid_resets_end_the_connection(site: &Site) {
    let mut stream = site.connect_by_http2();
    stream.write_all(&preface()).unwrap();
    let mut bytes = Vec::new();
    for number in 0..5000 {
        bytes.extend(frame(HEADERS, END, number * 2 + 1, &head(site)));
        bytes.extend(frame(RST_STREAM, 0, number * 2 + 1, &8_u32.to_be_bytes()));
    }
    // The daemon may hang up before it has read all of it.
    let _ = stream.write_all(&bytes);
    let told = until_frame(&mut stream, GOAWAY);
    if let Some(payload) = told {
        assert_eq!(payload[4..8], 11_u32.to_be_bytes(), "ENHANCE_YOUR_CALM");
    }
    assert_eq!(
        until_frame(&mut stream, GOAWAY),
        None,
        "the connection ends"
    );
}

/// A head that goes on for ever in CONTINUATION frames (CVE-2024-27316).
fn an_endless_head_ends_the_connection(site: &Site) {
    let mut stream = site.connect_by_http2();
    stream.write_all(&preface()).unwrap();
    let field = [&[0x00, 1, b'x', 120][..], &[b'y'; 120]].concat();
    let _ = stream.write_all(&frame(HEADERS, 0x1, 1, &head(site)));
    let more = frame(CONTINUATION, 0, 1, &field.repeat(100));
    let most = 64 << 20;
    let mut sent = 0;
    while sent < most && stream.write_all(&more).is_ok() {
        sent += more.len();
    }
    assert!(sent < most, "{} MiB were taken", sent >> 20);
    assert_eq!(site.get("/login", &Who::Nobody).status, 200);
}

impl Site {
    /// Opens a connection with TLS and HTTP/2.
    fn connect_by_http2(&self) -> rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        // The kernel takes little for a client that reads nothing.
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(&self.console.into()).unwrap();
        self.shake_hands_by(socket.into(), b"h2")
    }
}
