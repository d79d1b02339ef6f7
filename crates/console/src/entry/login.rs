//! Logging in by name and password, and out; and a demo's link.

use access::{Attempt, Entrance, LoggedIn};
use control::COOKIE_NAME;
use control::answer::Problem;
use maud::html;
use model::Error;

use super::{own_path, to_login};
use crate::answer::{Answer, Told, set_cookie};
use crate::form::{Field, form, hidden, problem, submit};
use crate::frame::Page;
use crate::visit::Visit;

/// Shows the form to log in.
pub(super) fn show(visit: &Visit) -> Result<Answer, Error> {
    let next = own_path(visit.query.get("next"));
    if visit.reader().is_some() {
        return Ok(Answer::go(next));
    }
    Ok(page("", next, None).into())
}

fn page(name: &str, next: &str, error: Option<&Error>) -> Page {
    Page::new("Log in").body(html! {
        @if let Some(error) = error { (problem(error)) }
        (form("/login", html! {
            (Field::new("name", "Name").value(name).autocomplete("username").text())
            (Field::new("password", "Password").autocomplete("current-password").password())
            (Field::new("code", "Code").optional().autocomplete("one-time-code")
                .hint("Only for users with a second factor: the code of the app, or a recovery code.").text())
            (hidden("next", next))
            (submit("Log in"))
        }))
    })
}

/// Logs in.
pub(super) fn log_in(visit: &Visit) -> Result<Answer, Error> {
    let (name, next) = (visit.form.get("name"), own_path(visit.form.get("next")));
    let attempt = Attempt {
        user: name,
        password: visit.form.exact("password"),
        code: visit.form.get("code"),
        from: visit.asker.address(),
    };
    match visit.console.door.plane().access.log_in(&attempt) {
        Ok(login) => Ok(entered(visit, &login, next)),
        Err(error) => {
            let status = Problem::from(error.clone()).status();
            Ok(page(name, next, Some(&error)).status(status).into())
        }
    }
}

/// Logs in by a demo's link.
pub(super) fn enter(visit: &Visit) -> Result<Answer, Error> {
    let access = &visit.console.door.plane().access;
    let login = access.enter(visit.name(0), visit.asker.address())?;
    Ok(entered(visit, &login, "/"))
}

/// Gives the browser the secret of a new login. The login of the same browser before it ends, so
/// that nobody goes on with an old secret.
pub(super) fn entered(visit: &Visit, login: &LoggedIn, next: &str) -> Answer {
    end_own(visit);
    Answer::Go {
        to: next.to_owned(),
        told: None,
        cookies: vec![set_cookie(COOKIE_NAME, &login.secret, None)],
    }
}

/// Logs out.
pub(super) fn log_out(visit: &Visit) -> Result<Answer, Error> {
    end_own(visit);
    let forgotten = set_cookie(COOKIE_NAME, "", Some(0));
    Ok(to_login(Told::done("You are logged out."), vec![forgotten]))
}

fn end_own(visit: &Visit) {
    if let Some(Entrance::Console { login, .. }) = visit.reader().map(|reader| reader.entrance) {
        // The login may have ended by itself meanwhile.
        let _ = visit.console.door.plane().access.log_out(login);
    }
}
