//! The two ends against each other over the loopback, and the server against malicious clients.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::client::{self, Direction, TestSettings};
use super::error::NetworkError;
use super::message::{Cookie, EndState, TestParameters, frame};
use super::path_mtu::Method;
use super::server::Background;
use super::survey::{OtherEnd, Step, survey};

fn server() -> Background {
    Background::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap()
}

fn settings(server: SocketAddr) -> TestSettings {
    TestSettings {
        server,
        bind: None,
        parallel: 2,
        seconds: 1,
        window: None,
    }
}

#[test]
fn a_path_is_surveyed_both_ways() {
    let server = server();
    let mut seconds = 0;
    let mut watch = |step: Step<'_>| seconds += u32::from(matches!(step, Step::Second(..)));
    let directions = [Direction::Send, Direction::Receive];
    let found = survey(
        &settings(server.address),
        &directions,
        &AtomicBool::new(false),
        &mut watch,
    )
    .unwrap();
    assert!(seconds >= 2);
    assert_eq!(found.other_end, OtherEnd::Sandstone);
    let program = found.program.unwrap();
    assert!(program.count > 10 && program.min_ns <= program.median_ns);
    let mtu = found.path_mtu.unwrap();
    assert!(mtu.is_whole() && mtu.method == Method::Udp, "{mtu:?}");
    assert_eq!(found.throughput.len(), 2);
    for one in &found.throughput {
        assert!(one.bytes > 1_000_000, "{one:?}");
        assert!((0.9..5.0).contains(&one.seconds), "{one:?}");
        let sum: u64 = one.intervals.iter().map(|interval| interval.bytes).sum();
        assert!(sum <= one.bytes && sum > one.bytes / 2, "{one:?}");
        assert!(one.retransmits.is_some() && one.tcp.mss > 0, "{one:?}");
    }
    assert!(found.findings()[0].text.contains("pass whole"));
}

#[test]
fn a_second_client_is_told_that_the_server_is_busy() {
    let server = server();
    let first = client::open(&settings(server.address), b"").unwrap();
    let second = client::open(&settings(server.address), b"");
    assert!(matches!(second, Err(NetworkError::Busy)), "{second:?}");
    drop(first);
    // The first client gave no parameters and is gone.
    client::open(&settings(server.address), b"").unwrap();
}

#[test]
fn a_test_that_follows_another_waits_until_iperf3_listens_again() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    // One client had connected when the server closed its listener. After that nobody listens.
    let taken = std::thread::spawn(move || drop(listener.accept().unwrap()));
    let (closed, is_closed) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        taken.join().unwrap();
        closed.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let listener = TcpListener::bind(address).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&[EndState::ParamExchange.byte()]).unwrap();
    });
    let first = client::open_next(&settings(address));
    assert!(is_closed.try_recv().is_ok() && first.is_ok(), "{first:?}");
    server.join().unwrap();
    // A first connection reports at once that nobody listens.
    let refused = client::open(&settings(address), b"");
    assert!(
        matches!(refused, Err(NetworkError::Socket { .. })),
        "{refused:?}"
    );
}

/// Returns a connection that has sent a new cookie and was asked for parameters.
fn begin(server: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(server).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream.write_all(&Cookie::new(b"").unwrap().0).unwrap();
    let mut state = [0];
    stream.read_exact(&mut state).unwrap();
    assert_eq!(EndState::read(state[0]), Some(EndState::ParamExchange));
    stream
}

/// Reads the server's output until it closes the connection.
fn rest(mut stream: &TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut said);
    said
}

#[test]
fn clients_that_mean_ill_are_sent_away_and_others_served_after_them() {
    let server = server();
    let udp = frame(&TestParameters {
        udp: true,
        parallel: 1,
        len: 1000,
        ..TestParameters::default()
    });
    let refused = [EndState::ServerError.byte(), 0, 0, 0, 13, 0, 0, 0, 0];
    let cases: [(&[u8], &[u8]); 5] = [
        (&[0xff; 4], &[]),
        (&[0, 0, 0, 0], &[]),
        (&[0, 0, 0, 2, b'4', b'2'], &[]),
        (&[0, 0, 0, 6, b'{', b'"', 0xff, 0, 0, 0], &[]),
        (udp.as_deref().unwrap(), &refused),
    ];
    for (said, answer) in cases {
        let mut stream = begin(server.address);
        stream.write_all(said).unwrap();
        assert_eq!(rest(&stream), answer, "{said:?}");
        wait_until_free(server.address);
    }
    // One client goes away amid its JSON. Another never opens its streams, but talks on.
    let mut stream = begin(server.address);
    stream.write_all(&[0, 0, 1, 0, b'{']).unwrap();
    drop(stream);
    wait_until_free(server.address);
    let good = TestParameters {
        tcp: true,
        time: 1,
        parallel: 1,
        len: 1000,
        ..TestParameters::default()
    };
    let mut stream = begin(server.address);
    stream.write_all(&frame(&good).unwrap()).unwrap();
    let began = Instant::now();
    assert_eq!(rest(&stream), [EndState::CreateStreams.byte()]);
    assert!(began.elapsed() < Duration::from_secs(15));
}

#[test]
fn a_client_that_reads_to_the_end_is_not_waited_for() {
    let server = server();
    let cookie = Cookie::new(b"").unwrap();
    let connect = || {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let limit = Some(Duration::from_secs(5));
        stream.set_read_timeout(limit).unwrap();
        stream.write_all(&cookie.0).unwrap();
        stream
    };
    let expect = |mut stream: &TcpStream, state: EndState| {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(EndState::read(byte[0]), Some(state));
    };
    let mut control = connect();
    expect(&control, EndState::ParamExchange);
    let wanted = TestParameters {
        tcp: true,
        time: 1,
        parallel: 1,
        reverse: true,
        len: 100_000,
        ..TestParameters::default()
    };
    control.write_all(&frame(&wanted).unwrap()).unwrap();
    expect(&control, EndState::CreateStreams);
    let mut data = connect();
    expect(&control, EndState::TestStart);
    expect(&control, EndState::TestRunning);
    data.read_exact(&mut [0; 1000]).unwrap();
    control.write_all(&[EndState::TestEnd.byte()]).unwrap();
    // iperf3 reads this before it looks at the control connection again.
    data.read_to_end(&mut Vec::new()).unwrap();
    expect(&control, EndState::ExchangeResults);
}

fn wait_until_free(server: SocketAddr) {
    let opened = client::open(&settings(server), b"");
    opened.unwrap_or_else(|error| panic!("the server serves no one: {error}"));
    std::thread::sleep(Duration::from_millis(300));
}

#[test]
fn datagrams_come_back_only_to_whom_they_belong() {
    let server = server();
    let mut stream = TcpStream::connect(server.address).unwrap();
    let cookie = Cookie::new(super::message::ECHO_PREFIX).unwrap();
    stream.write_all(&cookie.0).unwrap();
    let mut answer = [0; 3];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(EndState::read(answer[0]), Some(EndState::Echo));
    let port = u16::from_be_bytes([answer[1], answer[2]]);
    let udp = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    udp.connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    udp.set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let mut buffer = [0; 100];
    udp.send(&[0; 100]).unwrap();
    assert!(udp.recv(&mut buffer).is_err());
    udp.send(&cookie.0).unwrap();
    assert_eq!(udp.recv(&mut buffer).unwrap(), cookie.0.len());
}

#[test]
fn a_server_that_talks_nonsense_is_named() {
    for said in [
        &b"SSH-2.0-x"[..],
        &[9, 9, 9],
        &[255],
        &[254, 0, 0, 0, 3, 0, 0, 0, 0],
        &[],
    ] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            // This is as often as a client tries again.
            listener.set_nonblocking(true).unwrap();
            let end = Instant::now() + Duration::from_secs(3);
            while Instant::now() < end {
                if let Ok((mut stream, _)) = listener.accept() {
                    let _ = stream.write_all(said);
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                    let _ = stream.read_to_end(&mut Vec::new());
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let error = survey(
            &settings(address),
            &[Direction::Send],
            &AtomicBool::new(false),
            &mut |_| {},
        );
        let error = error.unwrap_err();
        match said.first() {
            Some(255) => assert!(matches!(error, NetworkError::Busy), "{error:?}"),
            Some(254) => assert!(matches!(error, NetworkError::Refused(3)), "{error:?}"),
            None => assert!(matches!(error, NetworkError::Socket { .. }), "{error:?}"),
            _ => assert!(matches!(error, NetworkError::Protocol(_)), "{error:?}"),
        }
        thread.join().unwrap();
    }
}
