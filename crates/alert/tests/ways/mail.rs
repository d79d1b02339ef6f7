//! Mail: over STARTTLS, TLS and in the clear, and never without the protection that was asked for.

use model::event::Severity;
use model::way::{MailSpec, MailTls, Secret, WaySpec};
use testing::wait;

use super::certificate::Certificate;
use super::sink::{Mail, Sink, listener, smtp, smtps};
use super::{opened, start};

pub(crate) fn mail(port: u16, tls: MailTls) -> MailSpec {
    MailSpec {
        server: format!("localhost:{port}"),
        tls,
        from: "san@example.org".to_owned(),
        to: vec!["ops@example.org".to_owned(), "night@example.org".to_owned()],
        ..MailSpec::default()
    }
}

pub(crate) fn way(name: &str, mail: MailSpec) -> WaySpec {
    WaySpec {
        name: name.to_owned(),
        least: Severity::Warning,
        mail: Some(mail),
        ..WaySpec::default()
    }
}

/// Starts a server without TLS.
pub(crate) fn plain(listener: std::net::TcpListener) -> Sink<Mail> {
    Sink::start(listener, |stream| smtp(stream, None))
}

#[test]
fn mail_goes_over_each_protection() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = Certificate::new(folder.path());
    let starttls = {
        let config = certificate.config.clone();
        Sink::start(listener(), move |stream| smtp(stream, Some(&config)))
    };
    let wrapped = {
        let config = certificate.config.clone();
        Sink::start(listener(), move |stream| smtps(stream, &config))
    };
    let open = plain(listener());
    let sealed = |port, tls| MailSpec {
        ca: certificate.path(),
        user: Some("san".to_owned()),
        password: Some(Secret("a password".to_owned())),
        ..mail(port, tls)
    };
    let specs = [
        way(
            "starttls",
            sealed(starttls.address.port(), MailTls::Starttls),
        ),
        way("tls", sealed(wrapped.address.port(), MailTls::Tls)),
        way("open", mail(open.address.port(), MailTls::None)),
    ];
    let ways = start(folder.path(), &specs);
    ways.post(opened(1, Severity::Error));
    for (sink, is_sealed) in [(&starttls, true), (&wrapped, true), (&open, false)] {
        let got = wait::until_some("something comes", || sink.got().pop());
        assert_eq!(got.is_sealed, is_sealed);
        let is_there = |words: &str| got.commands.iter().any(|it| it.starts_with(words));
        assert!(is_there("MAIL FROM:<san@example.org>"), "{got:?}");
        assert!(is_there("RCPT TO:<ops@example.org>") && is_there("RCPT TO:<night@example.org>"));
        assert_eq!(is_there("AUTH "), is_sealed, "{got:?}");
        assert!(got.text.contains("error: pool-degraded tank1"), "{got:?}");
        assert!(got.text.contains("Next: sandstone pool status"), "{got:?}");
    }
}

#[test]
fn nothing_is_sent_in_the_clear_where_protection_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = Certificate::new(folder.path());
    // A server, or somebody in between, does not offer STARTTLS.
    let open = plain(listener());
    let config = certificate.config.clone();
    let foreign = Sink::start(listener(), move |stream| smtp(stream, Some(&config)));
    let stripped = MailSpec {
        ca: certificate.path(),
        ..mail(open.address.port(), MailTls::Starttls)
    };
    let untrusted = MailSpec {
        ca: Some(other_authority(folder.path())),
        ..mail(foreign.address.port(), MailTls::Starttls)
    };
    let ways = start(
        folder.path(),
        &[way("stripped", stripped), way("untrusted", untrusted)],
    );
    for name in ["stripped", "untrusted"] {
        let error = ways.test(name).unwrap_err();
        assert!(error.next.contains("alert way modify"), "{error:?}");
    }
    assert!(open.got().is_empty() && foreign.got().is_empty());
    assert!(ways.unreached().iter().all(|way| way.is_mail));
}

fn other_authority(folder: &std::path::Path) -> String {
    let inside = folder.join("other");
    std::fs::create_dir(&inside).unwrap();
    Certificate::new(&inside).path().unwrap()
}
