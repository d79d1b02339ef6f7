//! Tests of the listener with real clients of TLS.

use std::io::{Read as _, Write as _};
use std::net::TcpStream as Stream;

use axum::extract::ConnectInfo;
use axum::routing::get;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::*;

struct Served {
    server: HttpsServer,
    state: tempfile::TempDir,
}

fn served() -> Served {
    let state = tempfile::tempdir().expect("a folder");
    let certificates = Certificates::open(state.path(), None, &[]).expect("made");
    let told = |ConnectInfo(from): ConnectInfo<SocketAddr>| async move { from.ip().to_string() };
    let router = Router::new().route("/from", get(told));
    let address = "127.0.0.1:0".parse().expect("an address");
    let server = HttpsServer::start(address, Arc::new(certificates), router).expect("listens");
    Served { server, state }
}

impl Served {
    /// Connects as a client that trusts the certificate alone.
    fn connect(&self, protocols: &[&[u8]]) -> StreamOwned<ClientConnection, Stream> {
        let file = self.state.path().join("tls/cert.pem");
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(file).expect("reads"))
            .expect("is one");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions");
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
        let name = ServerName::try_from("localhost").expect("a name");
        let client = ClientConnection::new(Arc::new(config), name).expect("a client");
        let stream = Stream::connect(self.server.address()).expect("connects");
        StreamOwned::new(client, stream)
    }

    /// Asks over HTTP/1.1, and returns the whole answer.
    fn ask(&self, host: &str) -> String {
        let mut stream = self.connect(&[b"http/1.1"]);
        let request = format!("GET /from HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("written");
        let mut answer = Vec::new();
        // The end of the connection may come without a closure alert.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).expect("text")
    }
}

#[test]
fn requests_over_tls_carry_the_address_of_their_client() {
    let served = served();
    let answer = served.ask("localhost");
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("127.0.0.1"),
        "{answer}"
    );
}

#[test]
fn a_foreign_host_is_refused() {
    let served = served();
    let answer = served.ask("evil.example");
    assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
    assert!(answer.contains("--console-name"), "{answer}");
}

#[test]
fn http_2_is_chosen_where_the_client_knows_it() {
    let served = served();
    let mut stream = served.connect(&[b"h2", b"http/1.1"]);
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .expect("written");
    let mut head = [0; 9];
    stream.read_exact(&mut head).expect("a frame");
    assert_eq!(head[3], 4, "the first frame of a server is SETTINGS");
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"h2"[..]));
}

#[test]
fn plain_http_is_not_answered_and_delays_nobody() {
    let served = served();
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(Stream::connect(served.server.address()).expect("connects"));
    }
    let mut plain = Stream::connect(served.server.address()).expect("connects");
    plain
        .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .expect("written");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    assert!(served.ask("localhost").contains("200 OK"));
}

#[test]
fn a_taken_address_is_told() {
    let served = served();
    let certificates = Certificates::open(served.state.path(), None, &[]).expect("read");
    let again = HttpsServer::start(
        served.server.address(),
        Arc::new(certificates),
        Router::new(),
    );
    let error = again.expect_err("it is taken");
    assert!(error.message.contains("cannot listen at"), "{error}");
    assert!(error.next.contains("--console"), "{error}");
}

#[test]
fn the_end_of_the_server_frees_its_address() {
    let Served { server, state } = served();
    let address = server.address();
    let open = Stream::connect(address).expect("connects");
    drop(server);
    let certificates = Certificates::open(state.path(), None, &[]).expect("read");
    HttpsServer::start(address, Arc::new(certificates), Router::new()).expect("listens again");
    drop(open);
}
