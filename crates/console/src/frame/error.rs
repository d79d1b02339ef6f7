//! Error pages: the four fields of an error, in the same frame as every page.

use axum::http::StatusCode;
use control::answer::Problem;
use maud::html;
use model::{Error, ErrorKind};

use super::Page;
use crate::answer::Answer;
use crate::form::problem;

/// Returns the page of an error, with the status of its kind.
pub(crate) fn page(error: &Error) -> Answer {
    let status = Problem::from(error.clone()).status();
    let page = Page::new(title(error.kind)).status(status);
    let page = page.body(html! {
        (problem(error))
        p {
            @if status == StatusCode::UNAUTHORIZED { a.button href="/login" { "Log in" } }
            @else { a.button href="/" { "Overview" } }
        }
    });
    page.into()
}

fn title(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "Not found",
        ErrorKind::NotAuthenticated => "Not logged in",
        ErrorKind::NotPermitted => "Not permitted",
        ErrorKind::TooMany => "Too many attempts",
        ErrorKind::Stale => "Changed meanwhile",
        ErrorKind::Unavailable => "Not available",
        ErrorKind::Corrupt | ErrorKind::Storage => "Failed",
        ErrorKind::Invalid
        | ErrorKind::Exists
        | ErrorKind::InUse
        | ErrorKind::Locked
        | ErrorKind::Refused => "Refused",
    }
}
