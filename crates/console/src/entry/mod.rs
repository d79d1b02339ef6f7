//! Entry to the console: the first admin, logging in and out, and what a reader may change of the
//! own login.

mod first;
mod login;
mod me;
mod qr_code;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use control::endpoint::access::WHO;
use maud::html;
use model::Error;
use model::access::AuditLine;

use super::answer::{Answer, Told, set_cookie};
use super::assets::takes_gzip;
use super::format::escape;
use super::frame::Page;
use super::routes::Routes;
use super::state::Console;
use super::visit::{Theme, Visit};

/// Adds the routes of this folder.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .open_page("/login", login::show)
        .open_act("/login", login::log_in)
        .open_act("/logout", login::log_out)
        .open_page("/first/{secret}", first::show)
        .open_act("/first/{secret}", first::add)
        .open_page("/enter/{secret}", login::enter)
        .open_act("/theme", choose_theme)
        .page("/me", &WHO, me::show)
        .act("/me/password", &WHO, me::change_password)
        .page("/me/second-factor", &WHO, me::show_enrolment)
        .act("/me/second-factor", &WHO, me::enrol)
        .act("/me/logins", &WHO, me::end_other_logins)
}

/// Leads to the login page, and from there back to what was asked.
pub(crate) fn log_in_first(visit: &Visit) -> Answer {
    let to = match visit.address.as_str() {
        "/" => "/login".to_owned(),
        address => format!("/login?next={}", escape(address)),
    };
    Answer::go(to)
}

/// Returns a path of the console, in place of one that leads elsewhere.
pub(crate) fn own_path(text: &str) -> &str {
    let is_own =
        text.starts_with('/') && !text.starts_with("//") && !text.contains(['\\', '\r', '\n']);
    if is_own { text } else { "/" }
}

/// Shows where the link of the first start is, until there is a user.
pub(crate) async fn wait_for_first(
    State(console): State<Arc<Console>>,
    request: Request,
    next: Next,
) -> Response {
    let waits = console.door.plane().access.waits_for_first();
    if !waits || request.uri().path().starts_with("/first/") {
        return next.run(request).await;
    }
    let is_packed = takes_gzip(request.headers());
    let (parts, _) = request.into_parts();
    let file = console.door.plane().access.first_link_file();
    let page = Page::new("No administrator yet").status(StatusCode::SERVICE_UNAVAILABLE);
    let page = page.body(html! {
        p { "The daemon made a link when it started. Open it to choose the name and password of the first administrator. \
            The link is in the daemon's log, and on that machine in this file:" }
        pre { (file.display()) }
        p { "Or add the administrator on that machine:" }
        pre { "sandstone user add NAME --role admin" }
    });
    Answer::from(page).write(&nobody(console, &parts), is_packed)
}

/// Returns the visit of a reader who is not known.
fn nobody(console: Arc<Console>, parts: &Parts) -> Visit {
    Visit {
        console,
        asker: control::Asker::unknown(parts),
        at: Vec::new(),
        address: parts.uri.path().to_owned(),
        query: Default::default(),
        form: Default::default(),
        theme: Theme::default(),
        told: None,
        disks: Default::default(),
    }
}

fn choose_theme(visit: &Visit) -> Result<Answer, Error> {
    let theme = Theme::of(visit.form.get("theme"));
    let year = 365 * 24 * 60 * 60;
    Ok(Answer::Go {
        to: own_path(visit.form.get("back")).to_owned(),
        told: None,
        cookies: vec![set_cookie(Theme::COOKIE, theme.as_str(), Some(year))],
    })
}

/// Notes an act of a reader on the own login in the audit log.
fn note(visit: &Visit, act: &str, result: Result<(), &Error>) {
    let Some(reader) = visit.reader() else { return };
    let from = visit.asker.address().map(|from| from.to_string());
    visit.console.door.plane().access.note(AuditLine {
        who: reader.name.clone(),
        by: reader.entrance.as_str().to_owned(),
        role: Some(reader.role),
        from: from.unwrap_or_default(),
        request: act.to_owned(),
        result: match result {
            Ok(()) => "done".to_owned(),
            Err(error) => format!("{}: {}", error.kind.as_str(), error.message),
        },
        ..AuditLine::default()
    });
}

/// Leads to the login page with a message.
fn to_login(told: Told, cookies: Vec<String>) -> Answer {
    Answer::Go {
        to: "/login".to_owned(),
        told: Some(told),
        cookies,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_nowhere_else() {
        assert_eq!(own_path("/units?q=a"), "/units?q=a");
        for foreign in [
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "",
            "x",
            "/a\r\nb",
        ] {
            assert_eq!(own_path(foreign), "/", "{foreign}");
        }
    }
}
