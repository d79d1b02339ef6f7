//! Users, tokens, roles at the control socket, and logins.

use control::endpoint::access as at_api;
use maud::{Markup, html};
use model::Error;
use model::access::{
    AccountKind, AddToken, AddUser, FolderGrant, LoginView, ModifyUser, NewToken, Password, Role,
    SocketRole, TokenView, UserView,
};

use crate::answer::Answer;
use crate::form::{Field, button, form, submit};
use crate::format::{ago, at, time};
use crate::frame::Page;
use crate::mark::State;
use crate::preview::{Asking, confirm};
use crate::routes::Routes;
use crate::table::{Cell, Column, Table};
use crate::visit::Visit;

/// Adds the routes of this file.
pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .page("/access", &at_api::USER_LIST, show)
        .act("/access/users", &at_api::USER_ADD, add_user)
        .act(
            "/access/users/{user}/modify",
            &at_api::USER_MODIFY,
            modify_user,
        )
        .act(
            "/access/users/{user}/remove",
            &at_api::USER_REMOVE,
            remove_user,
        )
        .act("/access/tokens", &at_api::TOKEN_ADD, add_token)
        .act(
            "/access/tokens/{token}/remove",
            &at_api::TOKEN_REMOVE,
            remove_token,
        )
        .act("/access/logins/{login}/end", &at_api::LOGIN_END, end_login)
        .act("/access/roles", &at_api::ROLE_SET, set_role)
        .act("/access/roles/remove", &at_api::ROLE_REMOVE, remove_role)
}

fn show(visit: &Visit) -> Result<Answer, Error> {
    let users = visit.call(&at_api::USER_LIST, &[])?;
    let tokens = visit.call(&at_api::TOKEN_LIST, &[])?;
    let logins = visit.call(&at_api::LOGINS, &[])?;
    let roles = visit.call(&at_api::ROLE_LIST, &[])?;
    Ok(Page::new("Users and tokens")
        .body(html! {
            section aria-label="Users" {
                h2 { "Users" } (user_table(visit, users).plain())
                details { summary { "Add a user" } (user_form()) }
            }
            section aria-label="Tokens" {
                h2 { "Tokens of programs" } (token_table(visit, tokens).plain())
                details { summary { "Add a token" } (token_form()) }
            }
            section aria-label="Logins" { h2 { "Logins" } (login_table(visit, logins).plain()) }
            section aria-label="Roles at the control socket" {
                h2 { "Roles at the control socket" }
                p.quiet { "Users of this machine who run the command line. Root and the group sandstone are admins." }
                (role_table(visit, roles).plain())
                details { summary { "Give a role" } (role_form()) }
            }
        })
        .into())
}

fn roles() -> Vec<(String, String)> {
    let words = [
        "viewer: reads everything but secrets",
        "operator: also snapshots, scrubs, logs sessions out",
        "admin: does everything",
    ];
    Role::ALL
        .iter()
        .zip(words)
        .map(|(role, word)| (role.as_str().to_owned(), word.to_owned()))
        .collect()
}

fn user_table(visit: &Visit, users: Vec<UserView>) -> Table<'_, UserView> {
    Table {
        word: "user",
        columns: vec![
            Column::text("", "Name", |user: &UserView| Cell::text(user.name.as_str())),
            Column::text("", "Role", |user: &UserView| Cell::text(user.role.as_str())),
            Column::text("", "State", |user: &UserView| match user.is_disabled {
                true => Cell::state(State::Quiet, "disabled"),
                false => Cell::state(State::Good, "enabled"),
            }),
            Column::text("", "Second factor", |user: &UserView| {
                Cell::text(match user.has_second_factor {
                    true => format!("yes, {} recovery codes left", user.recovery_codes),
                    false => "no".to_owned(),
                })
            }),
            Column::text("", "Last login", |user: &UserView| {
                user.last_login
                    .map_or_else(Cell::unknown, |at| Cell::text(ago(at)))
            }),
            Column::buttons("Change", move |user: &UserView| {
                Cell::text("").markup(user_buttons(visit, user))
            }),
        ],
        rows: users,
        id: |_| String::new(),
        empty: html! { p { "No user yet." } },
    }
}

fn user_buttons(visit: &Visit, user: &UserView) -> Markup {
    let path = at("/access/users", &[&user.name]);
    let modify = format!("{path}/modify");
    let (value, label) = if user.is_disabled {
        ("no", "Enable")
    } else {
        ("yes", "Disable")
    };
    html! {
        div.row-buttons {
            form.inline method="post" action=(modify) {
                select name="role" aria-label=(format!("Role of {}", user.name)) {
                    @for role in Role::ALL { option value=(role.as_str()) selected[role == user.role] { (role.as_str()) } }
                }
                button type="submit" { "Set role" }
            }
            (button(visit, Role::Admin, &modify, label, &[("disabled", value)]))
            @if user.has_second_factor {
                (button(visit, Role::Admin, &modify, "Remove second factor", &[("without_second_factor", "yes")]))
            }
            (button(visit, Role::Admin, &format!("{path}/remove"), "Remove", &[]))
        }
    }
}

fn user_form() -> Markup {
    let roles = roles();
    form(
        "/access/users",
        html! {
            (Field::new("name", "Name").within("user-").text())
            (Field::new("role", "Role").within("user-").choice(&roles))
            (Field::new("password", "Password").within("user-").autocomplete("new-password")
                .hint("At least twelve letters. The user changes it after the first login.").password())
            (submit("Add the user"))
        },
    )
}

fn role_of(visit: &Visit) -> Result<Role, Error> {
    visit.form.get("role").parse()
}

fn add_user(visit: &Visit) -> Result<Answer, Error> {
    let name = visit.form.get("name");
    let body = AddUser {
        name: name.to_owned(),
        role: role_of(visit)?,
        password: Password(visit.form.exact("password").to_owned()),
    };
    visit.ask(&at_api::USER_ADD, &[], (), body)?;
    Ok(Answer::done("/access", format!("User {name} is added.")))
}

fn modify_user(visit: &Visit) -> Result<Answer, Error> {
    let (name, form) = (visit.name(0), &visit.form);
    let body = ModifyUser {
        role: form.some("role").map(str::parse).transpose()?,
        password: None,
        is_disabled: form.some("disabled").map(|value| value == "yes"),
        without_second_factor: form.is_checked("without_second_factor"),
    };
    let words = match (body.role, body.is_disabled, body.without_second_factor) {
        (Some(role), ..) => format!("{name} gets the role {role}, at once and in all logins."),
        (_, Some(true), _) => {
            format!("{name} cannot log in any more, and all logins of {name} end.")
        }
        (_, Some(false), _) => format!("{name} can log in again."),
        (_, _, true) => format!(
            "{name} logs in by the password alone, until {name} sets up another second factor."
        ),
        _ => "Nothing changes.".to_owned(),
    };
    let asking = Asking {
        title: format!("Change user {name}"),
        label: "Change it",
        back: "/access".to_owned(),
        done: format!("User {name} was changed."),
    };
    confirm(visit, &asking, html! { p { (words) } }, || {
        visit.ask(&at_api::USER_MODIFY, &[name], (), body).map(drop)
    })
}

fn remove_user(visit: &Visit) -> Result<Answer, Error> {
    let name = visit.name(0);
    let asking = Asking {
        title: format!("Remove user {name}"),
        label: "Remove the user",
        back: "/access".to_owned(),
        done: format!("User {name} is removed."),
    };
    let words =
        html! { p { "All logins of " (name) " end. What " (name) " did stays in the audit log." } };
    confirm(visit, &asking, words, || {
        visit.call(&at_api::USER_REMOVE, &[name])
    })
}

fn token_table(visit: &Visit, tokens: Vec<TokenView>) -> Table<'_, TokenView> {
    Table {
        word: "token",
        columns: vec![
            Column::text("", "Name", |token: &TokenView| {
                Cell::text(token.name.as_str())
            }),
            Column::text("", "Role", |token: &TokenView| {
                Cell::text(token.role.as_str())
            }),
            Column::text("", "Limit", |token: &TokenView| {
                Cell::text(match &token.grant {
                    Some(grant) => {
                        format!("folder {}, hosts {}", grant.folder, grant.hosts.join(", "))
                    }
                    None => "everything".to_owned(),
                })
            }),
            Column::text("", "Added", |token: &TokenView| {
                Cell::text(format!("{} by {}", ago(token.added), token.added_by))
            }),
            Column::text("", "Ends", |token: &TokenView| {
                Cell::text(token.expires.map_or_else(|| "never".to_owned(), time))
            }),
            Column::text("", "Last used", |token: &TokenView| {
                Cell::text(token.last_used.map_or_else(|| "never".to_owned(), ago))
            }),
            Column::buttons("Change", move |token: &TokenView| {
                let path = format!("{}/remove", at("/access/tokens", &[&token.name]));
                Cell::text("").markup(button(visit, Role::Admin, &path, "Remove", &[]))
            }),
        ],
        rows: tokens,
        id: |_| String::new(),
        empty: html! { p { "No token yet. A token lets a program use the API." } },
    }
}

fn token_form() -> Markup {
    let roles = roles();
    form(
        "/access/tokens",
        html! {
            (Field::new("name", "Name").within("token-").text())
            (Field::new("role", "Role").within("token-").choice(&roles))
            (Field::new("folder", "Folder").within("token-").optional().hint("Limits the token to the datasets below a folder, such as tank/pve.").text())
            (Field::new("hosts", "Hosts").within("token-").optional().hint("Hosts to which a limited token may map units, separated by spaces.").text())
            (Field::new("days", "Days").within("token-").optional().hint("Without a number, the token never ends.").number())
            (submit("Add the token"))
        },
    )
}

/// Adds a token, and shows its text once.
fn add_token(visit: &Visit) -> Result<Answer, Error> {
    let form = &visit.form;
    let days = form.some("days").map(|text| {
        let days = text.parse().ok();
        days.ok_or_else(|| {
            Error::invalid(
                format!("{text:?} is not a number of days"),
                "enter a whole number",
            )
        })
    });
    let grant = form.some("folder").map(|folder| FolderGrant {
        folder: folder.to_owned(),
        hosts: form
            .get("hosts")
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
    });
    let body = AddToken {
        name: form.get("name").to_owned(),
        role: role_of(visit)?,
        grant,
        days: days.transpose()?,
    };
    let NewToken { token, view } = visit.ask(&at_api::TOKEN_ADD, &[], (), body)?;
    let page = Page::new(format!("Token {}", view.name))
        .crumb("Users and tokens", "/access")
        .secret();
    Ok(page
        .body(html! {
            p { "This is the text of the token. " strong { "It is shown now, and never again." } }
            pre { (token) }
            p { "A program sends it with each request:" }
            pre { "Authorization: Bearer " (token) }
            p { a.button href="/access" { "I have kept it" } }
        })
        .into())
}

fn remove_token(visit: &Visit) -> Result<Answer, Error> {
    let name = visit.name(0);
    let asking = Asking {
        title: format!("Remove token {name}"),
        label: "Remove the token",
        back: "/access".to_owned(),
        done: format!("Token {name} is removed."),
    };
    let words = html! { p { "Requests with this token are refused from then on." } };
    confirm(visit, &asking, words, || {
        visit.call(&at_api::TOKEN_REMOVE, &[name])
    })
}

fn login_table(visit: &Visit, logins: Vec<LoginView>) -> Table<'_, LoginView> {
    Table {
        word: "login",
        columns: vec![
            Column::text("", "User", |login: &LoginView| {
                Cell::text(login.user.as_str())
            }),
            Column::text("", "From", |login: &LoginView| {
                Cell::text(login.from.as_str())
            }),
            Column::text("", "Began", |login: &LoginView| {
                Cell::text(ago(login.began))
            }),
            Column::text("", "Last seen", |login: &LoginView| {
                Cell::text(ago(login.last_seen))
            }),
            Column::buttons("Change", move |login: &LoginView| {
                let path = format!("{}/end", at("/access/logins", &[&login.id.to_string()]));
                Cell::text("").markup(button(visit, Role::Admin, &path, "End", &[]))
            }),
        ],
        rows: logins,
        id: |_| String::new(),
        empty: html! { p { "There is no login." } },
    }
}

/// Ends a login. Its user logs in again, so nothing is asked first.
fn end_login(visit: &Visit) -> Result<Answer, Error> {
    visit.call(&at_api::LOGIN_END, &[visit.name(0)])?;
    Ok(Answer::done("/access", "The login is ended."))
}

fn role_table(visit: &Visit, roles: Vec<SocketRole>) -> Table<'_, SocketRole> {
    Table {
        word: "role",
        columns: vec![
            Column::text("", "Name", |role: &SocketRole| {
                Cell::text(format!("{} {}", role.kind, role.name))
            }),
            Column::text("", "Role", |role: &SocketRole| {
                Cell::text(role.role.as_str())
            }),
            Column::buttons("Change", move |role: &SocketRole| {
                let kind = role.kind.to_string();
                let fields = [("kind", kind.as_str()), ("name", role.name.as_str())];
                Cell::text("").markup(button(
                    visit,
                    Role::Admin,
                    "/access/roles/remove",
                    "Remove",
                    &fields,
                ))
            }),
        ],
        rows: roles,
        id: |_| String::new(),
        empty: html! { p { "No other user has a role." } },
    }
}

fn role_form() -> Markup {
    let kinds = [
        ("user".to_owned(), "user".to_owned()),
        ("group".to_owned(), "group".to_owned()),
    ];
    let roles = roles();
    form(
        "/access/roles",
        html! {
            (Field::new("kind", "Kind").within("role-").choice(&kinds))
            (Field::new("name", "Name").within("role-").hint("A user or group of this machine.").text())
            (Field::new("role", "Role").within("role-").choice(&roles))
            (submit("Give the role"))
        },
    )
}

fn kind(visit: &Visit) -> AccountKind {
    match visit.form.get("kind") {
        "group" => AccountKind::Group,
        _ => AccountKind::User,
    }
}

fn set_role(visit: &Visit) -> Result<Answer, Error> {
    let (name, role) = (visit.form.get("name"), role_of(visit)?);
    let body = SocketRole {
        kind: kind(visit),
        name: name.to_owned(),
        role,
    };
    visit.ask(&at_api::ROLE_SET, &[], (), body)?;
    Ok(Answer::done(
        "/access",
        format!("{name} has the role {role}."),
    ))
}

fn remove_role(visit: &Visit) -> Result<Answer, Error> {
    let (name, kind) = (visit.form.get("name"), kind(visit).to_string());
    let asking = Asking {
        title: format!("Take the role of {name} away"),
        label: "Take it away",
        back: "/access".to_owned(),
        done: format!("{name} has no role of its own any more."),
    };
    let words = html! { p { "The " (kind) " " (name) " can then use the command line only by other roles." } };
    confirm(visit, &asking, words, || {
        visit.call(&at_api::ROLE_REMOVE, &[&kind, name])
    })
}
