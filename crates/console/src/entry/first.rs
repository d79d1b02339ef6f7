//! The first admin, who comes by the link that the daemon prints at its first start.

use control::answer::Problem;
use maud::html;
use model::{Error, ErrorKind};

use super::login::entered;
use crate::answer::Answer;
use crate::form::{Field, form, problem, submit};
use crate::format::at;
use crate::frame::Page;
use crate::visit::Visit;

/// Shows the form for the name and password. This does not use the link up: programs that look at
/// links before people do must not take it away.
pub(super) fn show(visit: &Visit) -> Result<Answer, Error> {
    let secret = visit.name(0);
    if visit.console.door.plane().access.is_first_link(secret) {
        return Ok(page(secret, "", None).into());
    }
    Err(Error::new(
        ErrorKind::NotAuthenticated,
        "this link was used, or a newer start has given another",
        "see the daemon's log for the link; or, on this machine, sandstone user add NAME --role admin",
    ))
}

fn page(secret: &str, name: &str, error: Option<&Error>) -> Page {
    let page = Page::new("First administrator").secret();
    page.body(html! {
        p { "Choose the name and the password of the first administrator of this machine. The link then ends." }
        @if let Some(error) = error { (problem(error)) }
        (form(&at("/first", &[secret]), html! {
            (Field::new("name", "Name").value(name).autocomplete("username").text())
            (Field::new("password", "Password").autocomplete("new-password")
                .hint("At least twelve letters. Several words are easy to remember.").password())
            (Field::new("again", "Password again").autocomplete("new-password").password())
            (submit("Make the administrator and log in"))
        }))
    })
}

/// Adds the first admin, and logs in.
pub(super) fn add(visit: &Visit) -> Result<Answer, Error> {
    let (secret, form) = (visit.name(0), &visit.form);
    let (name, password) = (form.get("name"), form.exact("password"));
    let access = &visit.console.door.plane().access;
    let added = match password == form.exact("again") {
        true => access.add_first(secret, name, password, visit.asker.address()),
        false => Err(differ()),
    };
    match added {
        Ok(login) => Ok(entered(visit, &login, "/")),
        Err(error) if access.is_first_link(secret) => {
            let status = Problem::from(error.clone()).status();
            Ok(page(secret, name, Some(&error)).status(status).into())
        }
        Err(error) => Err(error),
    }
}

/// Returns the error for a password that was not repeated.
pub(super) fn differ() -> Error {
    Error::invalid(
        "the two passwords differ",
        "enter the same password in both fields",
    )
}
