//! `token`: tokens of programs.

use clap::{Args, Subcommand};

use super::user::role;
use super::{time, time_or_dash};
use crate::grammar::completion::{host_names, token_names};
use crate::print::table::{self, Column, ListArgs, left, or_dash, print};
use crate::{Connection, Done, Terminal};
use control::endpoint::access as at;
use model::access::{AddToken, FolderGrant, Role, TokenView};

#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    /// Add a token for a program, and print its text, which is never shown again
    Add(Add),
    /// Remove a token; requests with it are refused from then on
    #[command(visible_alias = "delete")]
    Remove(Remove),
    /// List tokens
    #[command(visible_alias = "show")]
    List(ListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Name of the token
    name: String,
    /// Role of the token: viewer, operator or admin
    #[arg(long, value_name = "ROLE", default_value = "viewer", value_parser = role)]
    role: Role,
    /// Limit the token to volumes below this folder, and to logical units on them
    #[arg(long, value_name = "POOL/FOLDER")]
    folder: Option<String>,
    /// Host to which a token with a folder may map; may be given several times
    #[arg(long = "host", value_name = "NAME", requires = "folder", add = host_names())]
    hosts: Vec<String>,
    /// Days after which the token ends [default: never]
    #[arg(long, value_name = "DAYS")]
    days: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Name of the token
    #[arg(add = token_names())]
    name: String,
}

pub(crate) fn run(verb: TokenVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    match verb {
        TokenVerb::Add(args) => {
            let hosts = args.hosts;
            let body = AddToken {
                name: args.name,
                role: args.role,
                grant: args.folder.map(|folder| FolderGrant { folder, hosts }),
                days: args.days,
            };
            let made = client.ask(&at::TOKEN_ADD, &[], &(), &body)?;
            if args.json {
                return table::json(t, &made);
            }
            // The text alone, so that a script can take it.
            writeln!(t.out, "{}", made.token)?;
            Ok(writeln!(
                t.err,
                "token {} added with the role {}; its text is never shown again",
                made.view.name, made.view.role
            )?)
        }
        TokenVerb::Remove(args) => {
            client.call(&at::TOKEN_REMOVE, &[&args.name])?;
            Ok(writeln!(t.out, "token {} removed", args.name)?)
        }
        TokenVerb::List(args) => {
            let tokens = client.call(&at::TOKEN_LIST, &[])?;
            let none = "no tokens; add one with `sandstone token add NAME --role ROLE`";
            print(t, &args, &COLUMNS, &tokens, none)
        }
    }
}

const COLUMNS: [Column<TokenView>; 7] = [
    left("name", |token, _| token.name.clone()),
    left("role", |token, _| token.role.to_string()),
    left("folder", |token, _| {
        token
            .grant
            .as_ref()
            .map_or("-".to_owned(), |grant| grant.folder.clone())
    }),
    left("hosts", |token, _| {
        let hosts = token.grant.as_ref().map(|grant| grant.hosts.join(" "));
        or_dash(&hosts.unwrap_or_default())
    }),
    left("added", |token, n| time(token.added, n)),
    left("expires", |token, n| time_or_dash(token.expires, n)),
    left("last-used", |token, n| time_or_dash(token.last_used, n)),
];
