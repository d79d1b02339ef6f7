//! Webhooks and heartbeats: what they send, over HTTP and HTTPS, and how refusals are told.

use model::event::Severity;
use model::way::{HeartbeatSpec, Secret, WaySpec, WebhookFormat, WebhookSpec};
use testing::wait;

use super::certificate::Certificate;
use super::sink::{Got, Sink, http, listener, tls};
use super::{opened, queued, start};

pub(crate) fn webhook(url: String) -> WebhookSpec {
    WebhookSpec {
        url: Secret(url),
        ..WebhookSpec::default()
    }
}

pub(crate) fn way(name: &str, webhook: WebhookSpec) -> WaySpec {
    WaySpec {
        name: name.to_owned(),
        least: Severity::Warning,
        webhook: Some(webhook),
        ..WaySpec::default()
    }
}

/// Starts a server that answers each request by a status line.
pub(crate) fn server(answer: &'static str) -> Sink<Got> {
    Sink::start(listener(), move |stream| http(stream, answer))
}

#[test]
fn an_alert_is_posted_signed_and_only_where_it_is_grave_enough() {
    let folder = tempfile::tempdir().unwrap();
    let (all, grave) = (server("200 OK"), server("204 No Content"));
    let key = "a key of the tests".to_owned();
    let mut signed = webhook(format!("http://{}/hook?x=1", all.address));
    signed.key = Some(Secret(key.clone()));
    signed.token = Some(Secret("tok".to_owned()));
    let mut second = way("grave", webhook(format!("http://{}/", grave.address)));
    second.least = Severity::Critical;
    let ways = start(folder.path(), &[way("all", signed), second]);
    ways.post(opened(1, Severity::Error));
    ways.post(opened(2, Severity::Critical));
    let got = wait::until_seen("both come", || all.got(), |got| got.len() == 2);
    assert_eq!(got[0].first, "POST /hook?x=1 HTTP/1.1");
    assert_eq!(got[0].header("authorization"), Some("Bearer tok"));
    assert_eq!(got[0].header("content-type"), Some("application/json"));
    assert_eq!(got[0].json()["alert"]["object"], "tank1");
    let time = got[0].header("sandstone-timestamp").unwrap();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.as_bytes());
    let signed = [time.as_bytes(), b".", &got[0].body].concat();
    let signature = got[0].header("sandstone-signature").unwrap();
    let digits = signature.strip_prefix("v1=").unwrap().as_bytes();
    let bytes = digits
        .chunks(2)
        .map(|two| std::str::from_utf8(two).unwrap());
    let bytes: Vec<u8> = bytes
        .map(|two| u8::from_str_radix(two, 16).unwrap())
        .collect();
    ring::hmac::verify(&key, &signed, &bytes).unwrap();
    let got = wait::until_seen("one comes", || grave.got(), |got| !got.is_empty());
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].json()["alert"]["object"], "tank2");
    assert_eq!(got[0].header("sandstone-signature"), None);
    wait::until_seen("0 are queued", || queued(&ways), |count| *count == 0);
    assert!(ways.unreached().is_empty());
    assert!(ways.views().iter().all(|way| way.reached_ms.is_some()));
}

#[test]
fn a_server_is_trusted_by_the_given_authority_only() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = Certificate::new(folder.path());
    let config = certificate.config.clone();
    let sink = Sink::start(listener(), move |stream| {
        http(tls(stream, &config), "200 OK")
    });
    let mut trusted = webhook(format!("https://localhost:{}/", sink.address.port()));
    trusted.ca = certificate.path();
    let mut foreign = trusted.clone();
    foreign.ca = None;
    let mut missing = trusted.clone();
    missing.ca = Some("/nowhere/ca.pem".to_owned());
    let specs = [
        way("trusted", trusted),
        way("foreign", foreign),
        way("missing", missing),
    ];
    let ways = start(folder.path(), &specs);
    let tested = ways.test("trusted").unwrap();
    assert_eq!(
        tested.place,
        format!("https://localhost:{}", sink.address.port())
    );
    let got = wait::until_some("something comes", || sink.got().pop());
    assert_eq!(got.json()["news"], "test");
    let error = ways.test("foreign").unwrap_err();
    assert!(
        error.message.contains("TLS cannot begin") || error.message.contains("ca-certificates"),
        "{error}"
    );
    let error = ways.test("missing").unwrap_err();
    assert!(
        error.message.contains("/nowhere/ca.pem cannot be read"),
        "{error}"
    );
    assert_eq!(ways.unreached().len(), 2);
    assert!(
        ways.test("nobody")
            .unwrap_err()
            .message
            .contains("does not exist")
    );
    assert_eq!(sink.got().len(), 1);
}

#[test]
fn refusals_are_told_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let (refuses, moved) = (server("403 Forbidden"), server("302 Found"));
    let url = |sink: &Sink<Got>| format!("http://{}/T0/very-secret", sink.address);
    let mut with_token = webhook(url(&refuses));
    with_token.token = Some(Secret("very-secret".to_owned()));
    with_token.format = WebhookFormat::Gotify;
    let ways = start(
        folder.path(),
        &[
            way("refuses", with_token),
            way("moved", webhook(url(&moved))),
        ],
    );
    for (name, words) in [("refuses", "403 Forbidden"), ("moved", "302 Found")] {
        let error = ways.test(name).unwrap_err();
        assert!(error.message.contains(words), "{error}");
        assert!(!format!("{error:?}").contains("very-secret"), "{error:?}");
    }
    assert_eq!(refuses.got()[0].header("x-gotify-key"), Some("very-secret"));
}

#[test]
fn the_heart_beats_while_alerts_are_judged() {
    let folder = tempfile::tempdir().unwrap();
    let sink = server("200 OK");
    let beat = WaySpec {
        name: "beat".to_owned(),
        heartbeat: Some(HeartbeatSpec {
            url: Secret(format!("http://{}/ping", sink.address)),
            every_s: 0,
            ca: None,
        }),
        ..WaySpec::default()
    };
    let ways = start(folder.path(), &[beat]);
    // News do not go this way, and nothing is judged yet.
    ways.post(opened(1, Severity::Critical));
    ways.test("beat").unwrap();
    assert_eq!(
        wait::until_some("something comes", || sink.got().pop()).first,
        "GET /ping HTTP/1.1"
    );
    assert_eq!((sink.got().len(), queued(&ways)), (1, 0));
    ways.note_judgement();
    wait::until_seen("pings come", || sink.got(), |got| got.len() > 3);
}
