//! `host`: groups of initiators and their secrets.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::edit::{EditArgs, Request, make, remove};
use super::secret::from_file;
use super::{Connection, Done, Terminal};
use crate::grammar::completion::host_names;
use crate::print::table::{Column, ListArgs, left, or_dash, print, right};
use config::change::{CreateHost, SetChap};
use control::Client;
use control::answer::HostView;
use control::endpoint::host;
use model::{Error, ErrorKind};

#[derive(Debug, Subcommand)]
pub(super) enum HostVerb {
    /// Make a host
    Create(Create),
    /// Add an initiator name; * and ? are wildcards
    AddInitiator(Initiator),
    /// Remove an initiator name
    RemoveInitiator(RemoveInitiator),
    /// Set the secret that the host must know to log in (CHAP)
    Auth(Auth),
    /// List hosts
    #[command(visible_alias = "show")]
    List(List),
    /// Remove a host
    Delete(Delete),
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// Name of the host
    name: String,
    /// Initiator name; may be given several times; * and ? are wildcards
    #[arg(short, long = "initiator", value_name = "IQN")]
    initiators: Vec<String>,
    /// Initiator name to omit although a wildcard matches it; may be given several times
    #[arg(long, value_name = "IQN")]
    except: Vec<String>,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct Initiator {
    /// Name of the host
    #[arg(add = host_names())]
    host: String,
    /// Initiator name
    iqn: String,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct RemoveInitiator {
    /// Name of the host
    #[arg(add = host_names())]
    host: String,
    /// Initiator name
    iqn: String,
    #[command(flatten)]
    removal: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct Auth {
    /// Name of the host
    #[arg(add = host_names())]
    host: String,
    #[command(flatten)]
    secret: SecretArgs,
    #[command(flatten)]
    edit: EditArgs,
}

/// CHAP user, and the source of its secret. The secret never comes from the command line, which
/// every user of the machine can read.
#[derive(Debug, Args)]
pub(super) struct SecretArgs {
    /// CHAP user name
    #[arg(short, long, required_unless_present = "none")]
    user: Option<String>,
    /// Read the secret from the first line of this file, - for standard input
    #[arg(long, value_name = "PATH", group = "source")]
    secret_file: Option<PathBuf>,
    /// Make a secret of 16 characters and print it once
    #[arg(long, group = "source")]
    generate: bool,
    /// Remove the secret: none is proved or asked for
    #[arg(long, conflicts_with_all = ["user", "source"])]
    none: bool,
}

impl SecretArgs {
    /// Reads the user and secret. Returns `None` for `--none`.
    pub(super) fn read(&self, t: &mut Terminal<'_>) -> Result<Option<SetChap>, super::Failure> {
        if self.none {
            return Ok(None);
        }
        let user = self.user.clone().unwrap_or_default();
        let secret = match &self.secret_file {
            Some(path) => from_file(path)?,
            None if self.generate => {
                let secret = generated()?;
                writeln!(t.out, "secret: {secret}")?;
                secret
            }
            None => {
                return Err(Error::invalid(
                    "no secret was given",
                    "add --secret-file PATH (- for standard input), or --generate to have one made",
                )
                .into());
            }
        };
        Ok(Some(SetChap { user, secret }))
    }
}

/// Returns a random secret: 16 of 32 characters that nobody confuses. It has 80 bits, and Windows
/// takes no longer one.
fn generated() -> Result<String, Error> {
    const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| {
        Error::new(
            ErrorKind::Storage,
            format!("the operating system gave no random numbers: {e}"),
            "use --secret-file",
        )
    })?;
    Ok(bytes
        .iter()
        .map(|b| char::from(ALPHABET[usize::from(b & 31)]))
        .collect())
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// Hosts to list [default: all]
    #[arg(add = host_names())]
    names: Vec<String>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Args)]
pub(super) struct Delete {
    /// Name of the host
    #[arg(add = host_names())]
    name: String,
    #[command(flatten)]
    removal: EditArgs,
}

pub(super) fn run(verb: HostVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    match verb {
        HostVerb::Create(args) => {
            let body = CreateHost {
                name: args.name,
                initiators: args.initiators,
                except: args.except,
                chap: None,
            };
            let request = Request::with(&host::CREATE, &[], &body);
            make(t, &client, &args.edit, &request)
        }
        HostVerb::AddInitiator(args) => {
            let request = Request::bare(&host::ADD_INITIATOR, &[&args.host, &args.iqn]);
            make(t, &client, &args.edit, &request)
        }
        HostVerb::RemoveInitiator(args) => {
            let request = Request::bare(&host::REMOVE_INITIATOR, &[&args.host, &args.iqn]);
            remove(t, &client, &args.removal, &request, false)
        }
        HostVerb::Auth(args) => {
            let at = [args.host.as_str()];
            match args.secret.read(t)? {
                Some(body) => make(
                    t,
                    &client,
                    &args.edit,
                    &Request::with(&host::SET_CHAP, &at, &body),
                ),
                None => make(
                    t,
                    &client,
                    &args.edit,
                    &Request::bare(&host::REMOVE_CHAP, &at),
                ),
            }
        }
        HostVerb::List(args) => list(&args, &client, t),
        HostVerb::Delete(args) => {
            let request = Request::bare(&host::DELETE, &[&args.name]);
            remove(t, &client, &args.removal, &request, false)
        }
    }
}

fn list(args: &List, client: &Client, t: &mut Terminal<'_>) -> Done {
    let one = |name: &String| client.call(&host::SHOW, &[name]);
    let hosts: Vec<HostView> = match args.names.as_slice() {
        [] => client.call(&host::LIST, &[])?,
        names => names.iter().map(one).collect::<Result<_, _>>()?,
    };
    let none = "no hosts; make one with `sandstone host create NAME --initiator IQN`";
    print(t, &args.list, &COLUMNS, &hosts, none)
}

const COLUMNS: [Column<HostView>; 5] = [
    left("name", |h, _| h.spec.name.clone()),
    left("initiators", |h, _| {
        let mut names = h.spec.initiators.clone();
        names.extend(h.spec.except.iter().map(|except| format!("!{except}")));
        or_dash(&names.join(" "))
    }),
    left("auth", |h, _| {
        h.spec
            .chap
            .as_ref()
            .map_or("-".into(), |c| format!("CHAP {}", c.user))
    }),
    right("maps", |h, _| h.maps.len().to_string()),
    right("sessions", |h, _| h.sessions.to_string()),
];
