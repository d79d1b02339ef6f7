//! `serve --metrics`: an address of their own for metrics, which other machines may reach.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use control::ControlAddress;
use sandstone::console::ConsoleOptions;
use sandstone::daemon::{Daemon, DaemonOptions};
use testing::exposition::{Format, parse, value_of};
use testing::wait;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Daemon in this process with an address for metrics.
struct Serving {
    daemon: Option<Daemon>,
    address: SocketAddr,
    _state: tempfile::TempDir,
}

fn start(state: &tempfile::TempDir, address: SocketAddr) -> Result<Daemon, model::Error> {
    Daemon::start(DaemonOptions {
        state: state.path().join("state"),
        control: ControlAddress::Unix(state.path().join("control.sock")),
        threads: Some(1),
        memory_cap: 64 << 20,
        cache: 64 << 20,
        io_uring: false,
        default_portals: Vec::new(),
        console: ConsoleOptions::off(),
        history_clock: None,
        metrics: Some(address),
    })
}

impl Serving {
    fn start() -> Self {
        let state = tempfile::tempdir().unwrap();
        let daemon = start(&state, "127.0.0.1:0".parse().unwrap()).unwrap();
        Self {
            address: daemon.metrics().unwrap(),
            daemon: Some(daemon),
            _state: state,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a request, and returns head and body of the answer.
    fn ask(&self, request: &str, header: &str) -> (String, String) {
        answer(self.connect(), request, header)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.stop();
        }
    }
}

fn answer(mut stream: TcpStream, request: &str, header: &str) -> (String, String) {
    write!(stream, "{request} HTTP/1.1\r\nHost: san1\r\n{header}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}

#[test]
fn the_address_has_metrics_in_both_formats_and_nothing_else() {
    let serving = Serving::start();
    let (head, body) = serving.ask("GET /metrics", "");
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(
        head.contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    let families = parse(&body, Format::Text);
    let healthy = value_of(
        &families,
        "sandstone_daemon_health",
        &[("state", "healthy")],
    );
    assert_eq!(healthy, Some(1.0));

    let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
    let (head, body) = serving.ask("GET /metrics", accept);
    let kind = "content-type: application/openmetrics-text; version=1.0.0";
    assert!(head.contains(kind), "{head}");
    let open = parse(&body, Format::OpenMetrics);
    assert_eq!(open.len(), families.len());

    let (head, body) = serving.ask("HEAD /metrics", "");
    assert!(
        head.starts_with("http/1.1 200") && body.is_empty(),
        "{head}"
    );
    for (request, status) in [
        ("GET /", "404"),
        ("GET /v1/status", "404"),
        ("GET /metrics/x", "404"),
        ("POST /metrics", "405"),
        ("DELETE /metrics", "405"),
    ] {
        let (head, body) = serving.ask(request, "Content-Length: 0\r\n");
        assert!(
            head.starts_with(&format!("http/1.1 {status}")),
            "{request}: {head}"
        );
        assert!(body.ends_with('\n') && body.len() > 10, "{request}: {body}");
    }
}

/// Clients that connect and say nothing, and clients that never end their request, are more than
/// there is room for. They lose their connections, and others are answered.
#[test]
fn clients_that_say_nothing_do_not_keep_others_out() {
    let serving = Serving::start();
    let silent: Vec<TcpStream> = (0..20).map(|_| serving.connect()).collect();
    for mut stream in &silent {
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ");
    }
    let (head, _) = serving.ask("GET /metrics", "");
    assert!(head.starts_with("http/1.1 200"), "{head}");
}

#[test]
fn a_request_without_an_end_is_refused() {
    let serving = Serving::start();
    let mut stream = serving.connect();
    let long = "x".repeat(1 << 20);
    // The daemon may close before it has read all of it.
    let _ = write!(stream, "GET /metrics HTTP/1.1\r\nX: {long}");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(!answer.contains(" 200 "), "{answer}");
    let (head, _) = serving.ask("GET /metrics", "");
    assert!(head.starts_with("http/1.1 200"), "{head}");
}

#[test]
fn the_end_of_the_daemon_ends_the_address_though_clients_hold_it() {
    let mut serving = Serving::start();
    let held = serving.connect();
    serving.daemon.take().unwrap().stop();
    assert!(TcpStream::connect(serving.address).is_err());
    drop(held);
    TcpListener::bind(serving.address).unwrap();
}

#[test]
fn an_address_that_is_taken_is_told_before_anything_is_made() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let state = tempfile::tempdir().unwrap();
    let Err(error) = start(&state, address) else {
        panic!("the daemon started");
    };
    let message = error.to_string();
    assert!(
        message.contains(&format!("metrics cannot be served at {address}")),
        "{message}"
    );
    let next = &error.next;
    assert!(
        next.contains("ss -ltnp") && next.contains("--metrics"),
        "{next}"
    );
    assert!(!state.path().join("state").exists());
}

#[test]
fn the_log_tells_the_address_of_the_metrics() {
    let state = tempfile::tempdir().unwrap();
    let log = state.path().join("log");
    let mut child = Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .args([
            "serve",
            "--cache",
            "64M",
            "--metrics",
            "127.0.0.1:0",
            "--state",
        ])
        .arg(state.path().join("state"))
        .stdin(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let address = wait::until_ok("the log tells the address", || {
        let told = std::fs::read_to_string(&log).unwrap();
        let address = told.split_once("metrics=\"http://").and_then(|(_, rest)| {
            let (address, _) = rest.split_once("/metrics\"")?;
            address.parse::<SocketAddr>().ok()
        });
        address.ok_or(told)
    });
    let (head, _) = answer(TcpStream::connect(address).unwrap(), "GET /metrics", "");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(head.starts_with("http/1.1 200"), "{head}");
}
