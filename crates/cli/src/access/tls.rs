//! `tls`: the certificate of the console.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::time;
use crate::grammar::whole_file;
use crate::print::table::{self, Numbers, or_dash};
use crate::{Connection, Done, Terminal};
use control::endpoint::tls::{self as at, GiveTls, TlsView};
use hint::Place;
use model::access::Password;
use model::{Error, ErrorKind};

#[derive(Debug, Subcommand)]
pub(crate) enum TlsVerb {
    /// Show the certificate, its fingerprint and its end
    #[command(visible_alias = "list")]
    Show(Show),
    /// Give the console a certificate and its key, from files of this machine
    Give(Give),
    /// Make a new certificate of the daemon's own; browsers then ask again
    Make(Answer),
    /// Read the files of the certificate again
    Reload(Answer),
}

#[derive(Debug, Args)]
pub(crate) struct Answer {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Print the certificate as PEM, for --control-ca and for other clients
    #[arg(long, conflicts_with = "json")]
    pem: bool,
    #[command(flatten)]
    answer: Answer,
}

#[derive(Debug, Args)]
pub(crate) struct Give {
    /// Certificate and the chain above it, as PEM
    #[arg(long, value_name = "FILE")]
    cert: PathBuf,
    /// Private key, as PEM
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    #[command(flatten)]
    answer: Answer,
}

pub(crate) fn run(verb: TlsVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    match verb {
        TlsVerb::Show(args) => {
            let view = client.call(&at::SHOW, &[])?;
            match args.pem {
                true => Ok(write!(t.out, "{}", view.pem)?),
                false => print(t, &args.answer, &view),
            }
        }
        TlsVerb::Give(args) => {
            let body = GiveTls {
                certificate: read(&args.cert)?,
                key: Password(read(&args.key)?),
            };
            let view = client.ask(&at::GIVE, &[], &(), &body)?;
            print(t, &args.answer, &view)
        }
        TlsVerb::Make(args) => print(t, &args, &client.call(&at::MAKE, &[])?),
        TlsVerb::Reload(args) => print(t, &args, &client.call(&at::RELOAD, &[])?),
    }
}

fn read(path: &Path) -> Result<String, Error> {
    whole_file::text(path, whole_file::SETTINGS).map_err(|error| {
        let next = Place::File(path).next(&error);
        let message = format!("{} could not be read: {error}", path.display());
        Error::new(ErrorKind::Invalid, message, next)
    })
}

fn print(t: &mut Terminal<'_>, answer: &Answer, view: &TlsView) -> Done {
    if answer.json {
        return table::json(t, view);
    }
    let source = match view.source.as_str() {
        "own" => "made by the daemon",
        "given" => "given with sandstone tls give",
        _ => "in the files that the daemon's options name",
    };
    writeln!(t.out, "console      {}", view.url)?;
    writeln!(t.out, "certificate  {source}")?;
    writeln!(t.out, "fingerprint  {}", view.fingerprint)?;
    writeln!(t.out, "names        {}", or_dash(&view.names.join(" ")))?;
    writeln!(t.out, "ends         {}", time(view.ends, Numbers::Short))?;
    if let Some(trouble) = &view.trouble {
        writeln!(t.out, "trouble      {trouble}")?;
    }
    Ok(())
}
