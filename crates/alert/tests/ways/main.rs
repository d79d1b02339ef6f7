//! Ways out against servers of these tests: webhooks over HTTP and HTTPS, mail over SMTP, STARTTLS
//! and TLS, heartbeats; servers that are away, refuse, or hang.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on is a test that failed"
)]

mod certificate;
mod mail;
mod queue;
mod sink;
mod webhook;

use std::path::Path;

use alert::{News, Notice, Ways};
use model::alert::AlertView;
use model::event::{Severity, Teller};
use model::way::WaySpec;

/// Returns news of an alert.
fn opened(number: u64, severity: Severity) -> Notice {
    Notice {
        news: News::Opened,
        alert: AlertView {
            number,
            condition: "pool-degraded".to_owned(),
            object: format!("tank{number}"),
            severity,
            text: "The pool is degraded.".to_owned(),
            next: "sandstone pool status".to_owned(),
            since_ms: 1_795_320_000_000,
            ..AlertView::default()
        },
    }
}

/// Starts the ways of a state folder.
fn start(folder: &Path, specs: &[WaySpec]) -> Ways {
    let ways = Ways::start(folder, Teller::default()).unwrap();
    ways.configure(specs);
    ways
}

/// Returns the number of messages that wait.
fn queued(ways: &Ways) -> usize {
    ways.views().iter().map(|way| way.queued).sum()
}
