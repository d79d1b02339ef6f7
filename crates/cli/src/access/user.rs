//! `user`: the users of the console.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{time, time_or_dash};
use crate::grammar::completion::{login_numbers, user_names};
use crate::print::table::{Column, ListArgs, left, print, right};
use crate::secret::password;
use crate::{Connection, Done, Terminal};
use control::endpoint::access as at;
use model::access::{AddUser, LoginView, ModifyUser, Role, UserView};
use model::{Error, ErrorKind};

#[derive(Debug, Subcommand)]
pub(crate) enum UserVerb {
    /// Add a user of the console; the password is asked for
    Add(Add),
    /// Change the role or the password of a user, disable the user, or remove the second factor
    Modify(Modify),
    /// Remove a user, and end the user's logins
    #[command(visible_alias = "delete")]
    Remove(Remove),
    /// List users
    #[command(visible_alias = "show")]
    List(ListArgs),
    /// List the logins at the console that have not ended
    Logins(ListArgs),
    /// End a login at the console
    Logout(Logout),
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Name of the user
    name: String,
    /// Role of the user: viewer, operator or admin
    #[arg(long, value_name = "ROLE", default_value = "viewer", value_parser = role)]
    role: Role,
    #[command(flatten)]
    password: PasswordArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PasswordArgs {
    /// Read the password from the first line of this file, - for standard input
    #[arg(long, value_name = "PATH")]
    password_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Modify {
    /// Name of the user
    #[arg(add = user_names())]
    name: String,
    /// New role: viewer, operator or admin
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: Option<Role>,
    /// Set a new password, which is asked for; all logins of the user end
    #[arg(long)]
    password: bool,
    #[command(flatten)]
    file: PasswordArgs,
    /// Let the user log in no more (yes), or again (no)
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no)]
    disabled: Option<bool>,
    /// Remove the second factor, for a user who lost the phone and the recovery codes
    #[arg(long)]
    no_second_factor: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Name of the user
    #[arg(add = user_names())]
    name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Logout {
    /// Number of the login
    #[arg(add = login_numbers())]
    login: u64,
}

pub(super) fn role(text: &str) -> Result<Role, String> {
    text.parse()
        .map_err(|error: Error| format!("{}; {}", error.message, error.next))
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("write yes or no".to_owned()),
    }
}

pub(crate) fn run(verb: UserVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    match verb {
        UserVerb::Add(args) => {
            let file = args.password.password_file.as_deref();
            let body = AddUser {
                password: password(t, &args.name, file)?,
                name: args.name,
                role: args.role,
            };
            let view = client.ask(&at::USER_ADD, &[], &(), &body)?;
            Ok(writeln!(
                t.out,
                "user {} added with the role {}",
                view.name, view.role
            )?)
        }
        UserVerb::Modify(args) => modify(args, connection, t),
        UserVerb::Remove(args) => {
            client.call(&at::USER_REMOVE, &[&args.name])?;
            Ok(writeln!(t.out, "user {} removed", args.name)?)
        }
        UserVerb::List(args) => {
            let users = client.call(&at::USER_LIST, &[])?;
            let none =
                "no users of the console; add one with `sandstone user add NAME --role admin`";
            print(t, &args, &USERS, &users, none)
        }
        UserVerb::Logins(args) => {
            let logins = client.call(&at::LOGINS, &[])?;
            print(
                t,
                &args,
                &LOGINS,
                &logins,
                "no user is logged in at the console",
            )
        }
        UserVerb::Logout(args) => {
            client.call(&at::LOGIN_END, &[&args.login.to_string()])?;
            Ok(writeln!(t.out, "login {} ended", args.login)?)
        }
    }
}

fn modify(args: Modify, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let file = args.file.password_file.as_deref();
    let new = match args.password || file.is_some() {
        true => Some(password(t, &args.name, file)?),
        false => None,
    };
    let body = ModifyUser {
        role: args.role,
        password: new,
        is_disabled: args.disabled,
        without_second_factor: args.no_second_factor,
    };
    if body == ModifyUser::default() {
        let message = "no change was asked for";
        let next = "give --role, --password, --disabled or --no-second-factor";
        return Err(Error::new(ErrorKind::Invalid, message, next).into());
    }
    let client = connection.client();
    let view = client.ask(&at::USER_MODIFY, &[&args.name], &(), &body)?;
    Ok(writeln!(t.out, "user {}: {}", view.name, in_words(&view))?)
}

fn in_words(user: &UserView) -> String {
    let role = user.role;
    let factor = if user.has_second_factor {
        "with"
    } else {
        "without"
    };
    let state = if user.is_disabled { ", disabled" } else { "" };
    format!("{role}, {factor} second factor{state}")
}

const USERS: [Column<UserView>; 6] = [
    left("name", |user, _| user.name.clone()),
    left("role", |user, _| user.role.to_string()),
    left("state", |user, _| {
        if user.is_disabled {
            "disabled"
        } else {
            "enabled"
        }
        .to_owned()
    }),
    left("factor", |user, _| {
        if user.has_second_factor { "code" } else { "-" }.to_owned()
    }),
    left("added", |user, n| time(user.added, n)),
    left("last-login", |user, n| time_or_dash(user.last_login, n)),
];

const LOGINS: [Column<LoginView>; 5] = [
    right("login", |login, _| login.id.to_string()),
    left("user", |login, _| login.user.clone()),
    left("from", |login, _| login.from.clone()),
    left("began", |login, n| time(login.began, n)),
    left("last-seen", |login, n| time(login.last_seen, n)),
];
