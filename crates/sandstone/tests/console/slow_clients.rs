//! Clients that never end: connections that say nothing, requests that arrive bit by bit, answers
//! that nobody takes; and requests that are too long or mean two things.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;

use testing::wait;

use super::http2_stalls;
use super::site::{Reply, Site, Who, reply};

/// Connections beyond all that one address may have at once.
const MANY: usize = 140;

#[test]
fn clients_that_never_end_keep_nobody_out() {
    let (site, _session) = Site::with_one_of_each();
    silent_connections_make_room(&site);
    half_requests_leave_room_for_other_addresses(&site);
    silent_clients_of_the_socket_make_room(&site);
    streams_that_nobody_reads_end_with_their_token(&site);
    http2_stalls::cost_others_nothing(&site);
    heads_and_bodies_are_bounded(&site);
    requests_that_mean_two_things_are_refused(&site);
    no_path_leads_to_a_file(&site);
    assert_eq!(site.get("/login", &Who::Nobody).status, 200);
    site.done("status");
}

/// Connections without a handshake, and with half a head.
fn silent_connections_make_room(site: &Site) {
    let mut held = Vec::new();
    for _ in 0..MANY {
        held.push(TcpStream::connect(site.console).unwrap());
    }
    assert_eq!(site.get("/login", &Who::Nobody).status, 200);
    let mut halves = Vec::new();
    for _ in 0..20 {
        let mut stream = site.connect();
        stream
            .write_all(b"GET /login HTTP/1.1\r\nHost: loc")
            .unwrap();
        halves.push(stream);
    }
    assert_eq!(site.get("/login", &Who::Nobody).status, 200);
}

/// Requests whose bodies do not arrive take all places of their address, and none of another's.
fn half_requests_leave_room_for_other_addresses(site: &Site) {
    let mut held = Vec::new();
    for _ in 0..MANY {
        let mut stream = site.connect();
        let head = format!(
            "POST /login HTTP/1.1\r\nHost: {}\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 900\r\n\r\nname=",
            site.console
        );
        // Those beyond the bound are hung up on.
        let _ = stream.write_all(head.as_bytes());
        held.push(stream);
    }
    assert_eq!(site.get_from("127.0.0.2", "/login").status, 200);
}

fn silent_clients_of_the_socket_make_room(site: &Site) {
    let socket = site.state().join("control.sock");
    let mut held = Vec::new();
    for _ in 0..530 {
        held.push(UnixStream::connect(&socket).unwrap());
    }
    site.done("status");
    let mut half = UnixStream::connect(&socket).unwrap();
    half.write_all(b"POST /v1/lus HTTP/1.1\r\nHost: loc")
        .unwrap();
    site.done("lu list");
}

/// Opens a stream of live figures, and returns its status.
fn watch(site: &Site, who: &Who) -> (u16, impl std::io::Read + use<>) {
    let Who::Token(token) = who else {
        panic!("a token watches");
    };
    let mut stream = site.connect();
    let request = format!(
        "GET /v1/live?view=overview HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
        site.console
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    let status = String::from_utf8_lossy(&head[9..]).parse().unwrap();
    (status, stream)
}

fn streams_that_nobody_reads_end_with_their_token(site: &Site) {
    let slow = site.token("slow", "--role viewer");
    let mut streams = Vec::new();
    loop {
        let (status, stream) = watch(site, &slow);
        streams.push(stream);
        if status != 200 {
            assert_eq!(status, 503);
            break;
        }
    }
    site.done("token remove slow");
    let other = site.token("other", "--role viewer");
    // The places are free as soon as the streams have noticed it.
    wait::until("their places are free", || watch(site, &other).0 == 200);
}

fn heads_and_bodies_are_bounded(site: &Site) {
    let long = "x".repeat(200_000);
    let answer = raw(
        site,
        &format!("GET /login HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n"),
    );
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );
    let answer = raw(
        site,
        &format!("GET /login?q={long} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    );
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{answer}"
    );
    let many: String = (0..500).map(|it| format!("X{it}: 1\r\n")).collect();
    let answer = raw(
        site,
        &format!("GET /login HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"),
    );
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );
    let form = format!("name={}", "a".repeat(70_000));
    assert_eq!(site.post("/login", &Who::Nobody, &form).status, 400);
    // Whoever may not ask does not make the daemon read a body: the answer comes before it.
    let viewer = site.token("looking", "--role viewer");
    for (who, status) in [(Who::Nobody, 401), (viewer, 403)] {
        let token = match &who {
            Who::Token(token) => format!("Authorization: Bearer {token}\r\n"),
            _ => String::new(),
        };
        let mut stream = site.connect();
        let head = format!(
            "POST /v1/lus HTTP/1.1\r\nHost: localhost\r\n{token}Content-Length: 9000000\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut line = [0; 12];
        stream.read_exact(&mut line).unwrap();
        assert_eq!(String::from_utf8_lossy(&line), format!("HTTP/1.1 {status}"));
    }
}

/// Sends bytes, and returns all that comes back.
fn raw(site: &Site, request: &str) -> String {
    let mut stream = site.connect();
    // The daemon may hang up before it has read all of it.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// A server in front could see the end of such a request elsewhere, and take the rest for the
/// request of somebody else.
fn requests_that_mean_two_things_are_refused(site: &Site) {
    for head in [
        "Content-Length: 4\r\nContent-Length: 5",
        "Content-Length: +4",
        "Content-Length: 4, 5",
        "Content-Length: 0x4",
        "Content-Length : 4",
        "Transfer-Encoding: identity, chunked, identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked\r\nX: a\r\n b\r\n folded: c",
    ] {
        let request = format!(
            "POST /login HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\nGET /first HTTP/1.1\r\nHost: localhost\r\n\r\n"
        );
        let answer = raw(site, &request);
        let answers = answer.matches("HTTP/1.1 ").count();
        assert!(answers <= 1, "{head:?}: {answer}");
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{head:?}: {answer}"
        );
    }
}

fn no_path_leads_to_a_file(site: &Site) {
    let admin = site.token("walker", "--role admin");
    let up = [
        "../",
        "..%2f",
        "%2e%2e/",
        "%2e%2e%2f",
        "..%5c",
        "....//",
        "%252e%252e%252f",
    ];
    let before = [
        "/",
        "/assets/",
        "/units/",
        "/volumes/",
        "/config/file/",
        "/v1/lus/",
        "/v1/history/",
    ];
    for start in before {
        for step in up {
            for file in ["etc/passwd", "access.json", "secrets.key", "config.toml"] {
                let path = format!("{start}{}{file}", step.repeat(6));
                let reply = site.get(&path, &admin);
                assert!(
                    reply.status >= 300 && reply.status < 500,
                    "{path}: {}",
                    reply.status
                );
                for content in ["root:x:", "argon2", "\"tokens\"", "[[units]]"] {
                    assert!(!reply.body.contains(content), "{path}: {}", reply.body);
                }
            }
        }
    }
}

impl Site {
    /// Asks for a page from an address of the loopback. Without an answer the status is 0.
    pub(super) fn get_from(&self, address: &str, path: &str) -> Reply {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let from = SocketAddr::new(address.parse().unwrap(), 0);
        socket.bind(&from.into()).unwrap();
        socket.connect(&self.console.into()).unwrap();
        let mut stream = self.shake_hands(socket.into());
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.console
        );
        // The daemon hangs up if there is no place.
        let _ = stream.write_all(head.as_bytes());
        reply(&mut stream)
    }
}
