//! `config`: the configuration as a whole.

mod backup;
mod history;

use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, Subcommand, ValueEnum};

use super::edit::{
    EditArgs, Guard, Request, make, make_briefly, remove_guarded, write_differences, write_preview,
};
use super::host::SecretArgs;
use super::lu::yes_no;
use crate::grammar::whole_file;
use crate::print::table;
use crate::print::table::ListArgs;
use crate::{Connection, Done, Failure, Program, Terminal};
use config::backup::Backup;
use config::change::SetDiscovery;
use config::diff::{Action, Difference};
use config::history::NotedChange;
use config::import;
use config::store::{Replacement, Store};
use control::answer::ConfigDocument;
use control::endpoint;
use control::endpoint::config::Apply;
use control::transaction::Commit;
use control::{Author, Client};
use model::{Config, Error, ErrorKind};

#[derive(Debug, Subcommand)]
pub(super) enum ConfigVerb {
    /// Print the configuration as TOML, without secrets; edit it and apply it again
    Show(Show),
    /// Show what applying a file would do
    Plan(FileArgs),
    /// Make a file the configuration: all of it or nothing
    Apply(ApplyArgs),
    /// Show how a file differs from the configuration in force; exit code 1 if it does
    Diff(FileArgs),
    /// Read SCST's scst.conf or LIO's saveconfig.json and print it as TOML
    Import(Import),
    /// Choose whether initiators must prove who they are before they are told of targets
    DiscoveryAuth(DiscoveryAuth),
    /// Choose the one user and secret that every discovery session must prove
    DiscoveryUser(DiscoverySecret),
    /// Choose the user and secret that answer initiators that ask for a proof in a discovery
    /// session (mutual CHAP)
    DiscoverySecret(DiscoverySecret),
    /// Write the whole configuration to a file, secrets included, to restore this machine from
    Export(backup::Export),
    /// Make a backup the configuration of this machine
    Restore(backup::Restore),
    /// List the kept generations: when each was made, by whom, and what it changed
    History(ListArgs),
    /// Go back to an earlier generation
    Rollback(Rollback),
}

#[derive(Debug, Args)]
pub(super) struct Show {
    /// JSON, as the control API gives it
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct FileArgs {
    /// TOML file, - for standard input
    file: PathBuf,
    /// JSON, as the control API gives it
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ApplyArgs {
    /// TOML file, - for standard input
    file: PathBuf,
    #[command(flatten)]
    removal: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct DiscoveryAuth {
    /// yes: an initiator of a host with a secret must know the secret, and an initiator that can
    /// see nothing is refused
    #[arg(value_name = "yes|no", value_parser = yes_no, action = ArgAction::Set)]
    wanted: bool,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct DiscoverySecret {
    #[command(flatten)]
    secret: SecretArgs,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct Import {
    /// scst.conf or saveconfig.json
    file: PathBuf,
    /// Format of the file [default: by the contents]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Add it to the running configuration instead of printing it
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// SCST's scst.conf
    Scst,
    /// LIO's saveconfig.json (targetcli)
    Lio,
}

#[derive(Debug, Args)]
pub(super) struct Rollback {
    /// Number of the generation, from `config history`
    generation: u64,
    #[command(flatten)]
    removal: EditArgs,
}

/// A change that is only told.
const ONLY_TOLD: Commit = Commit {
    dry_run: true,
    cascade: false,
    if_generation: None,
    if_effect: None,
    keep_sessions: false,
};

pub(super) fn run(
    program: &Program,
    verb: ConfigVerb,
    connection: &Connection,
    t: &mut Terminal<'_>,
) -> Done {
    let client = connection.client();
    match verb {
        ConfigVerb::Show(args) => {
            let document: ConfigDocument = client.call(&endpoint::config::SHOW, &[])?;
            if args.json {
                table::json(t, &document)
            } else {
                Ok(write!(t.out, "{}", document.toml)?)
            }
        }
        ConfigVerb::Plan(args) => {
            let body = Apply::Toml(read(&args.file)?);
            let edit = EditArgs {
                dry_run: true,
                json: args.json,
                ..EditArgs::default()
            };
            make(
                t,
                &client,
                &edit,
                &Request::with(&endpoint::config::APPLY, &[], &body),
            )
        }
        ConfigVerb::Diff(args) => diff(&args, connection, t),
        ConfigVerb::Apply(args) => {
            let body = Apply::Toml(read(&args.file)?);
            let request = Request::with(&endpoint::config::APPLY, &[], &body);
            let preview = client.ask(&endpoint::config::APPLY, &[], &ONLY_TOLD, &body)?;
            let grave = preview
                .differences
                .iter()
                .any(|d| d.action == Action::Remove);
            remove_guarded(
                t,
                &client,
                &args.removal,
                &request,
                grave,
                Guard::Everything,
            )
        }
        ConfigVerb::Import(args) => run_import(&args, connection, t),
        ConfigVerb::DiscoveryAuth(args) => {
            let body = SetDiscovery {
                auth: Some(args.wanted),
                ..SetDiscovery::default()
            };
            set_discovery(t, &client, &args.edit, &body)
        }
        ConfigVerb::DiscoveryUser(args) => {
            let chap = args.secret.read(t)?;
            let body = SetDiscovery {
                no_chap: chap.is_none(),
                chap,
                ..SetDiscovery::default()
            };
            set_discovery(t, &client, &args.edit, &body)
        }
        ConfigVerb::DiscoverySecret(args) => {
            let mutual_chap = args.secret.read(t)?;
            let body = SetDiscovery {
                no_mutual_chap: mutual_chap.is_none(),
                mutual_chap,
                ..SetDiscovery::default()
            };
            set_discovery(t, &client, &args.edit, &body)
        }
        ConfigVerb::Export(args) => backup::export(program, &args, connection, t),
        ConfigVerb::Restore(args) => backup::restore(&args, connection, t),
        ConfigVerb::History(args) => history::run(&args, connection, t),
        ConfigVerb::Rollback(args) => rollback(&args, connection, t),
    }
}

fn set_discovery(
    t: &mut Terminal<'_>,
    client: &Client,
    edit: &EditArgs,
    body: &SetDiscovery,
) -> Done {
    let request = Request::with(&endpoint::config::SET_DISCOVERY, &[], body);
    make(t, client, edit, &request)
}

fn diff(args: &FileArgs, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let body = Apply::Toml(read(&args.file)?);
    let client = connection.client();
    let committed = client.ask(&endpoint::config::APPLY, &[], &ONLY_TOLD, &body)?;
    if args.json {
        table::json(t, &committed.differences)?;
    } else {
        write_preview(t.out, &committed)?;
    }
    if committed.differences.is_empty() {
        Ok(())
    } else {
        Err(Failure::Said)
    }
}

/// Goes back through the daemon, or in its folder if none runs. A damaged configuration keeps the
/// daemon from starting, and this is the way out.
fn rollback(args: &Rollback, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    let generation = args.generation.to_string();
    let request = Request::bare(&endpoint::config::ROLLBACK, &[&generation]);
    let guard = Guard::Everything;
    match remove_guarded(t, &client, &args.removal, &request, true, guard) {
        Err(Failure::Refused(error))
            if error.kind == ErrorKind::Unavailable && connection.state.is_some() =>
        {
            let folder = connection.state_folder();
            let wanted = Replacement::Generation(args.generation);
            if args.removal.dry_run {
                let would = Store::replace(folder, &wanted, None)?;
                return tell_preview(t, &args.removal, &would.differences);
            }
            let by = Some(here(connection));
            let config = Store::replace(folder, &wanted, by)?.config;
            Ok(writeln!(
                t.out,
                "generation {} is in force again as generation {}; now start the daemon: sandstone serve --state {}",
                args.generation,
                config.generation,
                folder.display()
            )?)
        }
        other => other,
    }
}

/// Returns the user and the command that work in a state folder without a daemon.
fn here(connection: &Connection) -> NotedChange {
    Author::here(connection.command.as_deref().unwrap_or_default()).noted()
}

/// Prints what would change, if no daemon prints it.
fn tell_preview(t: &mut Terminal<'_>, edit: &EditArgs, differences: &[Difference]) -> Done {
    if edit.json {
        return table::json(t, differences);
    }
    write_differences(t.out, differences)?;
    Ok(writeln!(t.out, "nothing was changed (--dry-run)")?)
}

fn run_import(args: &Import, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let text = read(&args.file)?;
    let is_json = text.trim_start().starts_with('{');
    let format = args
        .format
        .unwrap_or(if is_json { Format::Lio } else { Format::Scst });
    let machine = import::scst::Machine {
        size_of: &|path| std::fs::metadata(path).ok().map(|m| m.len()),
        has_address: &|ip| std::net::UdpSocket::bind((ip, 0)).is_ok(),
    };
    let imported = match format {
        Format::Scst => import::scst::read(&text, &machine)?,
        Format::Lio => import::lio::read(&text)?,
    };
    for note in &imported.notes {
        writeln!(t.err, "note: {note}")?;
    }
    let summary = imported.summary();
    take_over(args, connection, t, imported.config)?;
    Ok(writeln!(t.err, "{summary}")?)
}

/// Prints an import, or adds it to the configuration in force.
fn take_over(args: &Import, connection: &Connection, t: &mut Terminal<'_>, config: Config) -> Done {
    if !args.apply {
        let toml = toml::to_string(&config).map_err(|e| {
            Error::invalid(
                format!("the import cannot be written as TOML: {e}"),
                "report this as a defect",
            )
        })?;
        write!(t.out, "{toml}")?;
        return Ok(());
    }
    let client = connection.client();
    let document: ConfigDocument = client.call(&endpoint::config::SHOW, &[])?;
    let running: Config = toml::from_str(&document.toml).map_err(|e| {
        Error::invalid(
            format!("the daemon's configuration was not understood: {e}"),
            "sandstone status",
        )
    })?;
    let merged = import::merge(running, config)?;
    let body = Apply::Config(Box::new(merged));
    let request = Request::with(&endpoint::config::APPLY, &[], &body);
    // The import was merged into that generation. Applied to a later one, it would undo changes
    // that others made since.
    make_briefly(t, &client, &args.edit, &request, Some(document.generation))
}

fn read(path: &Path) -> Result<String, Error> {
    let name = path.display();
    let bytes = whole_file::bytes(path, whole_file::DOCUMENT).map_err(|e| {
        Error::new(
            ErrorKind::Storage,
            format!("{name} could not be read: {e}"),
            "check the path",
        )
    })?;
    if Backup::is_one(&bytes) {
        return Err(Error::invalid(
            format!("{name} is a backup with secrets, not a configuration"),
            format!("sandstone config restore {name}"),
        ));
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        let before = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        Error::invalid(
            format!("line {line} of {name} is not written in UTF-8"),
            "save the file in UTF-8, or correct that line",
        )
    })?;
    // Editors of Windows write this mark first.
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}
