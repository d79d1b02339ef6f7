//! `alert way`: who is told of alerts, and how.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::edit::{EditArgs, Request, make, remove};
use crate::grammar::completion::way_names;
use crate::health::alert::time;
use crate::health::events::severity;
use crate::print::table::{self, Column, ListArgs, extra, left, or_dash, print, right};
use crate::secret::from_file;
use crate::{Connection, Done, Terminal};
use config::change::ModifyWay;
use control::endpoint::alert_way as at;
use model::Error;
use model::event::Severity;
use model::way::{
    HeartbeatSpec, MailSpec, MailTls, Secret, WaySpec, WayTested, WayView, WebhookFormat,
    WebhookSpec,
};

#[derive(Debug, Subcommand)]
pub(crate) enum WayVerb {
    /// Add a way: a webhook (--url), mail (--to, --server, --from), or a heartbeat (--url, --every)
    Add(Box<Add>),
    /// Change a way; what is left out stays, and an empty text removes a value
    Modify(Box<Modify>),
    /// Remove a way, and what waits for it
    Remove(Remove),
    /// List the ways and whether they can be reached
    #[command(visible_alias = "show")]
    List(ListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Name of the way
    name: String,
    #[command(flatten)]
    values: Values,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Modify {
    /// Name of the way
    #[arg(add = way_names())]
    name: String,
    #[command(flatten)]
    values: Values,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Name of the way
    #[arg(add = way_names())]
    name: String,
    #[command(flatten)]
    removal: EditArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Name of the way
    #[arg(add = way_names())]
    way: String,
    /// JSON, as the control API gives it
    #[arg(long)]
    json: bool,
}

/// Values of a way. Those of other kinds are refused.
#[derive(Debug, Default, Args)]
struct Values {
    /// Least severity that is told: info, warning, error, critical [default: warning]
    #[arg(long, value_name = "SEVERITY", value_parser = severity)]
    least: Option<Severity>,
    /// Address of a webhook or heartbeat; no history keeps it
    #[arg(long, value_name = "URL", conflicts_with = "url_file")]
    url: Option<String>,
    /// Read the address from the first line of this file, - for standard input
    #[arg(long, value_name = "PATH")]
    url_file: Option<PathBuf>,
    /// Form of a webhook's body: json, slack, teams, ntfy, gotify [default: json]
    #[arg(long, value_name = "FORM", value_parser = format)]
    format: Option<WebhookFormat>,
    /// Sign requests to a webhook with the key in the first line of this file
    #[arg(long, value_name = "PATH")]
    key_file: Option<PathBuf>,
    /// Send the token in the first line of this file to a webhook
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,
    /// Make it a heartbeat: a request every so many seconds, whose absence others notice
    #[arg(long, value_name = "SECONDS")]
    every: Option<u32>,
    /// Address that mail goes to; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    to: Vec<String>,
    /// Mail server, with its port if that is not the usual one
    #[arg(long, value_name = "HOST[:PORT]")]
    server: Option<String>,
    /// Address that mail comes from
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// Protection of mail: starttls, tls, none [default: starttls]
    #[arg(long, value_name = "KIND", value_parser = protection)]
    tls: Option<MailTls>,
    /// User to log in to the mail server as
    #[arg(short, long, value_name = "NAME")]
    user: Option<String>,
    /// Read the password of the user from the first line of this file
    #[arg(long, value_name = "PATH")]
    password_file: Option<PathBuf>,
    /// Trust the certificates in this file of the daemon's machine, in place of the system's
    #[arg(long, value_name = "PATH")]
    ca: Option<String>,
}

fn format(word: &str) -> Result<WebhookFormat, String> {
    let unknown = || "choose from json, slack, teams, ntfy and gotify".to_owned();
    WebhookFormat::of_word(word).ok_or_else(unknown)
}

fn protection(word: &str) -> Result<MailTls, String> {
    let unknown = || "choose from starttls, tls and none".to_owned();
    MailTls::of_word(word).ok_or_else(unknown)
}

fn secret(path: Option<&PathBuf>) -> Result<Option<Secret>, Error> {
    path.map(|path| from_file(path).map(Secret)).transpose()
}

impl Values {
    fn url(&self) -> Result<Option<Secret>, Error> {
        match &self.url {
            Some(url) => Ok(Some(Secret(url.clone()))),
            None => secret(self.url_file.as_ref()),
        }
    }

    /// Returns the values as a change of a way.
    fn change(&self) -> Result<ModifyWay, Error> {
        Ok(ModifyWay {
            least: self.least,
            url: self.url()?,
            format: self.format,
            key: secret(self.key_file.as_ref())?,
            token: secret(self.token_file.as_ref())?,
            every_s: self.every,
            server: self.server.clone(),
            tls: self.tls,
            from: self.from.clone(),
            to: Some(self.to.clone()).filter(|to| !to.is_empty()),
            user: self.user.clone(),
            password: secret(self.password_file.as_ref())?,
            ca: self.ca.clone(),
        })
    }

    /// Returns the values as a new way.
    fn way(&self, name: &str) -> Result<WaySpec, Error> {
        let change = self.change()?;
        let is_mail = !self.to.is_empty() || self.server.is_some() || self.from.is_some();
        let of_url = [
            ("--format", self.format.is_some()),
            ("--key-file", self.key_file.is_some()),
            ("--token-file", self.token_file.is_some()),
        ];
        let of_mail = [
            ("--tls", self.tls.is_some()),
            ("--user", self.user.is_some()),
            ("--password-file", self.password_file.is_some()),
        ];
        let refuse = |kind: &str, foreign: &[(&str, bool)]| {
            let mut given = foreign.iter().filter(|(_, is_given)| *is_given);
            given.next().map_or(Ok(()), |(option, _)| {
                Err(Error::invalid(
                    format!("{kind} has no {option}"),
                    "see sandstone alert way add --help for what belongs together",
                ))
            })
        };
        let mut way = WaySpec {
            name: name.to_owned(),
            least: self.least.unwrap_or(Severity::Warning),
            ..WaySpec::default()
        };
        match (change.url, is_mail, self.every) {
            (Some(url), false, None) => {
                refuse("a webhook", &of_mail)?;
                way.webhook = Some(WebhookSpec {
                    url,
                    format: self.format.unwrap_or_default(),
                    key: change.key,
                    token: change.token,
                    ca: change.ca,
                });
            }
            (Some(url), false, Some(every_s)) => {
                refuse("a heartbeat", &[&of_mail[..], &of_url].concat())?;
                way.heartbeat = Some(HeartbeatSpec {
                    url,
                    every_s,
                    ca: change.ca,
                });
            }
            (None, true, None) => {
                refuse("mail", &of_url)?;
                let missing = |option: &str| {
                    Error::invalid(
                        format!("mail needs {option}"),
                        "add --to ADDRESS, --server HOST and --from ADDRESS",
                    )
                };
                way.mail = Some(MailSpec {
                    server: change.server.ok_or_else(|| missing("--server"))?,
                    tls: self.tls.unwrap_or_default(),
                    from: change.from.ok_or_else(|| missing("--from"))?,
                    to: change.to.ok_or_else(|| missing("--to"))?,
                    user: change.user,
                    password: change.password,
                    ca: change.ca,
                });
            }
            _ => {
                return Err(Error::invalid(
                    "this is not exactly one of a webhook, mail and a heartbeat",
                    "give --url for a webhook; --url and --every for a heartbeat; --to, --server and --from for mail",
                ));
            }
        }
        Ok(way)
    }
}

pub(crate) fn run(verb: WayVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    match verb {
        WayVerb::Add(args) => {
            let way = args.values.way(&args.name)?;
            let request = Request::with(&at::ADD, &[], &way);
            make(t, &client, &args.edit, &request)
        }
        WayVerb::Modify(args) => {
            let change = args.values.change()?;
            let request = Request::with(&at::MODIFY, &[&args.name], &change);
            make(t, &client, &args.edit, &request)
        }
        WayVerb::Remove(args) => {
            let request = Request::bare(&at::REMOVE, &[&args.name]);
            remove(t, &client, &args.removal, &request, false)
        }
        WayVerb::List(args) => {
            let ways: Vec<WayView> = client.call(&at::LIST, &[])?;
            print(
                t,
                &args,
                &COLUMNS,
                &ways,
                "no ways out: alerts are only shown here",
            )
        }
    }
}

/// Sends a test message.
pub(crate) fn test(args: &Test, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let tested: WayTested = connection.client().call(&at::TEST, &[&args.way])?;
    if args.json {
        return table::json(t, &tested);
    }
    let WayTested {
        way,
        place,
        took_ms,
    } = tested;
    Ok(writeln!(
        t.out,
        "way {way}: {place} took a test message within {took_ms} ms"
    )?)
}

const COLUMNS: [Column<WayView>; 8] = [
    left("name", |way, _| way.spec.name.clone()),
    left("kind", |way, _| match &way.spec.webhook {
        Some(webhook) => format!("webhook {}", webhook.format.as_str()),
        None => way.kind.clone(),
    }),
    left("least", |way, _| match &way.spec.heartbeat {
        Some(_) => "-".to_owned(),
        None => way.spec.least.as_str().to_owned(),
    }),
    left("to", |way, _| or_dash(&way.place)),
    right("waiting", |way, _| way.queued.to_string()),
    left("error", |way, _| {
        or_dash(way.error.as_deref().unwrap_or_default())
    }),
    extra(left("reached", |way, numbers| {
        way.reached_ms
            .map_or("-".to_owned(), |reached_ms| time(reached_ms, numbers))
    })),
    extra(left("failing since", |way, numbers| {
        way.failing_since_ms
            .map_or("-".to_owned(), |since_ms| time(since_ms, numbers))
    })),
];
