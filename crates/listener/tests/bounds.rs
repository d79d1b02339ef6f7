//! A listener with short bounds, and clients that ask for nothing, take nothing, or never end.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use hyper::body::Frame;
use listener::{BodyFault, Bounds, Place, Wire, read_whole};
use testing::wait;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Longest time that a test waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// Body that ends never, and tells by its mark that it is still held.
struct Endless {
    _mark: Arc<()>,
}

impl hyper::body::Body for Endless {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![7; 64 << 10])))))
    }
}

/// Listener of a test.
struct Served {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    /// Mark that each endless answer holds.
    mark: Arc<()>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn start(bounds: Bounds) -> Self {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        socket.set_nonblocking(true).expect("is set");
        let address = socket.local_addr().expect("has an address");
        let (stop, stopped) = watch::channel(false);
        let mark = Arc::new(());
        let held = Arc::clone(&mark);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async move {
                let listener = TcpListener::from_std(socket).expect("listens");
                let ending = stopped.clone();
                let serve = move |(stream, _): (tokio::net::TcpStream, SocketAddr), place: Arc<Place>| {
                    let (held, stopped) = (Arc::clone(&held), ending.clone());
                    let answer = move |request: Request<Body>| {
                        let held = Arc::clone(&held);
                        async move {
                            match request.uri().path() {
                                "/endless" => Response::new(Body::new(Endless { _mark: held })),
                                _ => Response::new(Body::from("here")),
                            }
                        }
                    };
                    async move { listener::serve(stream, Wire::Both, &place, stopped, answer).await }
                };
                listener::accept(listener, bounds, stopped, serve).await;
            });
        });
        Self {
            address,
            stop,
            mark,
            thread: Some(thread),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("is set");
        stream
    }

    fn ask(&self) -> String {
        let mut stream = self.connect();
        let request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(request).expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn bounds() -> Bounds {
    Bounds {
        most: 4,
        most_of_origin: 4,
        idle: PATIENCE,
        stall: PATIENCE,
        last_answers: Duration::from_millis(100),
    }
}

#[test]
fn a_connection_that_asks_for_nothing_ends() {
    let served = Served::start(Bounds {
        idle: Duration::from_millis(100),
        ..bounds()
    });
    // One that says nothing, one with half a head, and one that was answered.
    for begin in [
        "",
        "GET / HTTP/1.1\r\nHo",
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ] {
        let mut stream = served.connect();
        stream.write_all(begin.as_bytes()).expect("written");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("it ends");
        assert_eq!(
            all.ends_with(b"here"),
            begin.ends_with("\r\n\r\n"),
            "{begin}"
        );
    }
}

#[test]
fn a_peer_that_takes_nothing_loses_its_connection() {
    let served = Served::start(Bounds {
        stall: Duration::from_millis(200),
        ..bounds()
    });
    let mut stream = served.connect();
    stream
        .write_all(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("written");
    let mut first = [0; 8];
    stream.read_exact(&mut first).expect("it began");
    // The server, this test, and no answer any more.
    wait::until("the answer is let go", || {
        Arc::strong_count(&served.mark) <= 2
    });
}

#[test]
fn idle_connections_make_room_for_new_ones() {
    let served = Served::start(bounds());
    let held: Vec<TcpStream> = (0..20).map(|_| served.connect()).collect();
    assert!(served.ask().ends_with("here"));
    drop(held);
}

#[test]
fn the_end_of_the_listener_waits_for_nobody() {
    let served = Served::start(bounds());
    let (idle, mut endless) = (served.connect(), served.connect());
    endless
        .write_all(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("written");
    let mut first = [0; 8];
    endless.read_exact(&mut first).expect("it began");
    drop(served);
    drop((idle, endless));
}

/// Body whose rest never comes.
struct Pending;

impl hyper::body::Body for Pending {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Pending
    }
}

#[test]
fn a_body_is_read_whole_within_its_bounds() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let within = Duration::from_millis(50);
        let read = |body| read_whole(body, 4096, within);
        assert_eq!(read(Body::from("here")).await, Ok(Bytes::from("here")));
        let long = read(Body::from(vec![0; 4097])).await.expect_err("too long");
        assert_eq!(
            long.to_string(),
            "it has more than 4 KiB, or did not arrive"
        );
        let slow = read(Body::new(Pending)).await;
        assert_eq!(slow, Err(BodyFault::Slow { within }));
    });
}
