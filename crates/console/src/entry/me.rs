//! The reader's own login: password, second factor, and other logins.

use access::{Enrolment, Entrance};
use control::answer::Problem;
use maud::{Markup, html};
use model::Error;
use model::access::{LoginView, UserView};

use super::first::differ;
use super::{note, qr_code, to_login};
use crate::answer::{Answer, Told, set_cookie};
use crate::form::{Field, form, hidden, problem, submit, user_name};
use crate::format::{ago, number_of};
use crate::frame::Page;
use crate::visit::Visit;

/// Returns the account of the reader. Tokens and a demo's login have none.
fn account(visit: &Visit) -> Option<UserView> {
    let reader = visit.reader()?;
    let Entrance::Console { .. } = reader.entrance else {
        return None;
    };
    let users = visit.console.door.plane().access.users();
    users.into_iter().find(|user| user.name == reader.name)
}

fn no_account() -> Error {
    Error::invalid(
        "this login has no account of its own",
        "log in with a name and a password",
    )
}

/// Returns the reader's other logins.
fn other_logins(visit: &Visit) -> Vec<LoginView> {
    let Some(reader) = visit.reader() else {
        return Vec::new();
    };
    let Entrance::Console { login: own, .. } = reader.entrance else {
        return Vec::new();
    };
    let mut all = visit.console.door.plane().access.login_views();
    all.retain(|login| login.user == reader.name && login.id != own);
    all
}

/// Shows the reader's own login.
pub(super) fn show(visit: &Visit) -> Result<Answer, Error> {
    Ok(page(visit, None).into())
}

fn page(visit: &Visit, error: Option<&Error>) -> Page {
    let reader = visit.reader();
    let page = Page::new(reader.map_or("", |reader| reader.name.as_str()));
    let role = reader.map_or("", |reader| reader.role.as_str());
    page.body(html! {
        p { "Your role is " strong { (role) } "." }
        @if let Some(error) = error { (problem(error)) }
        @match account(visit) {
            None => p { "This login has no account: it belongs to a demo or to a token." },
            Some(user) => (own_account(visit, &user)),
        }
        @let others = other_logins(visit);
        h2 { "Other logins" }
        @if others.is_empty() {
            p { "You are logged in nowhere else." }
        } @else {
            ul { @for login in &others { li { "from " (login.from) ", last seen " (ago(login.last_seen)) } } }
            (form("/me/logins", submit("End the other logins")))
        }
    })
}

fn own_account(visit: &Visit, user: &UserView) -> Markup {
    html! {
        h2 { "Password" }
        p { "A new password ends all your logins, this one too." }
        (form("/me/password", html! {
            (user_name(visit))
            (Field::new("present", "Present password").autocomplete("current-password").password())
            (Field::new("password", "New password").autocomplete("new-password").password())
            (Field::new("again", "New password again").autocomplete("new-password").password())
            (submit("Change the password"))
        }))
        h2 { "Second factor" }
        @match user.has_second_factor {
            true => p { "A login takes a code of your app. " (number_of(user.recovery_codes, "recovery code"))
                " left. An admin can remove the second factor if your phone is lost." },
            false => p { "A login takes only the password. A code of an app on your phone makes a stolen password worthless." },
        }
        p { a.button href="/me/second-factor" {
            @if user.has_second_factor { "Set up another app" } @else { "Set up a second factor" }
        } }
    }
}

fn refused(visit: &Visit, error: &Error) -> Answer {
    let status = Problem::from(error.clone()).status();
    page(visit, Some(error)).status(status).into()
}

/// Changes the reader's password.
pub(super) fn change_password(visit: &Visit) -> Result<Answer, Error> {
    let user = account(visit).ok_or_else(no_account)?;
    let form = &visit.form;
    let (present, new) = (form.exact("present"), form.exact("password"));
    let access = &visit.console.door.plane().access;
    let changed = match new == form.exact("again") {
        true => access.change_password(&user.name, present, new),
        false => Err(differ()),
    };
    note(visit, "change own password", changed.as_ref().copied());
    match changed {
        Ok(()) => {
            let forgotten = set_cookie(control::COOKIE_NAME, "", Some(0));
            let told = Told::done("The password is changed. Log in with the new one.");
            Ok(to_login(told, vec![forgotten]))
        }
        Err(error) => Ok(refused(visit, &error)),
    }
}

/// Shows a new secret for an app.
pub(super) fn show_enrolment(visit: &Visit) -> Result<Answer, Error> {
    let user = account(visit).ok_or_else(no_account)?;
    let enrolment = Enrolment::new(&user.name, &visit.console.machine)?;
    Ok(enrolment_page(visit, &enrolment.secret, &enrolment.uri, None).into())
}

fn enrolment_page(visit: &Visit, secret: &str, uri: &str, error: Option<&Error>) -> Page {
    let page = Page::new("Second factor")
        .crumb("Your login", "/me")
        .secret();
    page.body(html! {
        @if let Some(error) = error { (problem(error)) }
        ol.steps {
            li {
                p { "Read this code with an app for one-time codes (TOTP):" }
                @if let Some(code) = qr_code::draw(uri, "Secret for the app as a QR code") { (code) }
                p { "Or type the secret: " code.secret { (secret) } }
            }
            li {
                p { "Enter the code that the app shows now." }
                (form("/me/second-factor", html! {
                    (hidden("secret", secret))
                    (hidden("uri", uri))
                    (user_name(visit))
                    (Field::new("password", "Your password").autocomplete("current-password").password())
                    (Field::new("code", "Code").autocomplete("one-time-code").text())
                    (submit("Use this app"))
                }))
            }
        }
    })
}

/// Sets the reader's second factor, and shows the recovery codes once.
pub(super) fn enrol(visit: &Visit) -> Result<Answer, Error> {
    let user = account(visit).ok_or_else(no_account)?;
    let form = &visit.form;
    let access = &visit.console.door.plane().access;
    let (secret, code) = (form.get("secret"), form.get("code"));
    let enrolled = access.enrol(&user.name, form.exact("password"), secret, code);
    note(visit, "set own second factor", enrolled.as_ref().map(drop));
    match enrolled {
        Ok(codes) => {
            let page = Page::new("Recovery codes")
                .crumb("Your login", "/me")
                .secret();
            let page = page.body(html! {
                p { "The second factor is set. Each of these codes replaces the app once, if your phone is lost. "
                    strong { "They are shown now, and never again:" } " print them or keep them in a safe." }
                pre { @for code in &codes { (code) "\n" } }
                p { a.button href="/me" { "I have kept them" } }
            });
            Ok(page.into())
        }
        Err(error) => {
            let status = Problem::from(error.clone()).status();
            let page = enrolment_page(visit, secret, form.get("uri"), Some(&error));
            Ok(page.status(status).into())
        }
    }
}

/// Ends the reader's other logins.
pub(super) fn end_other_logins(visit: &Visit) -> Result<Answer, Error> {
    let others = other_logins(visit);
    let access = &visit.console.door.plane().access;
    for login in &others {
        // A login may have ended by itself meanwhile.
        let _ = access.log_out(login.id);
    }
    note(visit, "end own other logins", Ok(()));
    Ok(Answer::done(
        "/me",
        format!("{} ended.", number_of(others.len(), "login")),
    ))
}
