//! The queue: servers that are away, over restarts; ways that change, go, or hang.

use std::net::TcpListener;

use model::event::Severity;
use model::way::MailTls;
use testing::wait;

use super::mail::{mail, plain, way as mail_way};
use super::sink::listener;
use super::webhook::{server, way, webhook};
use super::{opened, queued, start};

/// Returns a port on which nothing listens.
fn free_port() -> u16 {
    listener().local_addr().unwrap().port()
}

#[test]
fn what_was_queued_while_the_mail_server_was_down_arrives_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let specs = [mail_way("ops", mail(port, MailTls::None))];
    let ways = start(folder.path(), &specs);
    for number in 1..=3 {
        ways.post(opened(number, Severity::Error));
    }
    wait::until_some("a way is not reached", || ways.unreached().pop());
    wait::until_seen("3 are queued", || queued(&ways), |count| *count == 3);
    assert!(ways.unreached()[0].error.to_lowercase().contains("connect"));
    drop(ways);

    let sink = plain(TcpListener::bind(("127.0.0.1", port)).unwrap());
    let ways = start(folder.path(), &specs);
    let got = wait::until_seen("three come", || sink.got(), |got| got.len() == 3);
    for (mail, number) in got.iter().zip(1..) {
        assert!(mail.text.contains(&format!("tank{number}")), "{mail:?}");
    }
    wait::until_seen("0 are queued", || queued(&ways), |count| *count == 0);
    drop(ways);
    // Nothing is sent twice.
    let ways = start(folder.path(), &specs);
    ways.test("ops").unwrap();
    assert_eq!(
        wait::until_seen("one more comes", || sink.got(), |got| got.len() > 3).len(),
        4
    );
}

#[test]
fn a_server_that_comes_back_gets_all_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let specs = [mail_way("ops", mail(port, MailTls::None))];
    let ways = start(folder.path(), &specs);
    ways.post(opened(1, Severity::Error));
    wait::until_some("a way is not reached", || ways.unreached().pop());
    let sink = plain(TcpListener::bind(("127.0.0.1", port)).unwrap());
    wait::until_some("something comes", || sink.got().pop());
    wait::until_seen("it is reached", || ways.unreached(), |left| left.is_empty());
}

#[test]
fn a_server_that_hangs_delays_no_other_way() {
    let folder = tempfile::tempdir().unwrap();
    // It accepts connections, and never answers.
    let hangs = listener();
    let answers = server("200 OK");
    let specs = [
        way(
            "a",
            webhook(format!("http://{}/", hangs.local_addr().unwrap())),
        ),
        way("b", webhook(format!("http://{}/", answers.address))),
    ];
    let ways = start(folder.path(), &specs);
    for number in 1..=5 {
        ways.post(opened(number, Severity::Error));
    }
    wait::until_seen("all are sent", || answers.got(), |got| got.len() == 5);
    // The last answer may still be on its way back.
    wait::until_seen("5 are queued", || queued(&ways), |count| *count == 5);
}

#[test]
fn what_waits_for_a_way_that_is_gone_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let spec = way(
        "desk",
        webhook(format!("http://127.0.0.1:{}/", free_port())),
    );
    let ways = start(folder.path(), std::slice::from_ref(&spec));
    ways.post(opened(1, Severity::Error));
    wait::until_seen("1 are queued", || queued(&ways), |count| *count == 1);
    ways.configure(&[]);
    assert!(ways.views().is_empty());
    let left = std::fs::read_dir(folder.path().join("alert-queue")).unwrap();
    assert_eq!(left.count(), 0);
    // A corrected address is tried at once.
    let sink = server("200 OK");
    ways.configure(&[spec]);
    ways.post(opened(2, Severity::Error));
    wait::until_some("a way is not reached", || ways.unreached().pop());
    ways.configure(&[way("desk", webhook(format!("http://{}/", sink.address)))]);
    assert_eq!(
        wait::until_some("something comes", || sink.got().pop()).json()["alert"]["number"],
        2
    );
}
