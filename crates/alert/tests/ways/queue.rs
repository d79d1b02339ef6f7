//! The queue: servers that are away, over restarts; ways that change, go, or hang.

use std::net::TcpListener;

use model::event::Severity;
use model::way::MailTls;

use super::mail::{mail, plain, way as mail_way};
use super::sink::listener;
use super::webhook::{server, way, webhook};
use super::{opened, queued, start, until};

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
    until(|| ways.unreached().pop());
    until(|| (queued(&ways) == 3).then_some(()));
    assert!(ways.unreached()[0].error.to_lowercase().contains("connect"));
    drop(ways);

    let sink = plain(TcpListener::bind(("127.0.0.1", port)).unwrap());
    let ways = start(folder.path(), &specs);
    let got = until(|| Some(sink.got()).filter(|got| got.len() == 3));
    for (mail, number) in got.iter().zip(1..) {
        assert!(mail.text.contains(&format!("tank{number}")), "{mail:?}");
    }
    until(|| (queued(&ways) == 0).then_some(()));
    drop(ways);
    // Nothing is sent twice.
    let ways = start(folder.path(), &specs);
    ways.test("ops").unwrap();
    assert_eq!(
        until(|| Some(sink.got()).filter(|got| got.len() > 3)).len(),
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
    until(|| ways.unreached().pop());
    let sink = plain(TcpListener::bind(("127.0.0.1", port)).unwrap());
    until(|| sink.got().pop());
    until(|| ways.unreached().is_empty().then_some(()));
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
    until(|| (answers.got().len() == 5).then_some(()));
    // The last answer may still be on its way back.
    until(|| (queued(&ways) == 5).then_some(()));
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
    until(|| (queued(&ways) == 1).then_some(()));
    ways.configure(&[]);
    assert!(ways.views().is_empty());
    let left = std::fs::read_dir(folder.path().join("alert-queue")).unwrap();
    assert_eq!(left.count(), 0);
    // A corrected address is tried at once.
    let sink = server("200 OK");
    ways.configure(&[spec]);
    ways.post(opened(2, Severity::Error));
    until(|| ways.unreached().pop());
    ways.configure(&[way("desk", webhook(format!("http://{}/", sink.address)))]);
    assert_eq!(until(|| sink.got().pop()).json()["alert"]["number"], 2);
}
