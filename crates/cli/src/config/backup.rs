//! `config export` and `config restore`: a machine's whole configuration in a file, and its way
//! back onto a bare machine.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use super::super::edit::{EditArgs, go_on, write_differences};
use super::super::secret::passphrase;
use super::{here, tell_preview};
use crate::grammar::typed::quoted;
use crate::grammar::whole_file;
use crate::print::table;
use crate::{Connection, Done, Failure, Program, Terminal};
use config::backup::{Backup, MOST_BYTES, PoolMembers};
use config::diff::{Action, Difference};
use config::store::{Replacement, Store};
use control::endpoint;
use control::transaction::{Commit, Committed};
use model::date::utc;
use model::{Config, Error, ErrorKind};
use state_folder::write_private;

#[derive(Debug, Args)]
pub(in super::super) struct Export {
    /// File to make; nobody but its owner may read it
    file: PathBuf,
    /// Yes, with all secrets: anybody who reads the file can log in with them
    #[arg(long, required = true)]
    with_secrets: bool,
    /// Seal the file with a passphrase, which is asked for
    #[arg(long)]
    seal: bool,
    /// Seal the file with the first line of this file, - for standard input
    #[arg(long, value_name = "PATH")]
    passphrase_file: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(short, long)]
    force: bool,
}

#[derive(Debug, Args)]
pub(in super::super) struct Restore {
    /// Backup, from `config export`
    file: PathBuf,
    /// Open the backup with the passphrase in the first line of this file, - for standard input
    #[arg(long, value_name = "PATH")]
    passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    edit: EditArgs,
}

pub(super) fn export(
    program: &Program,
    args: &Export,
    connection: &Connection,
    t: &mut Terminal<'_>,
) -> Done {
    let file = args.file.display();
    if !args.force && args.file.symlink_metadata().is_ok() {
        return Err(is_there(&args.file).into());
    }
    let is_sealed = args.seal || args.passphrase_file.is_some();
    let backup = take(program, connection)?;
    let bytes = match is_sealed {
        true => {
            let passphrase = passphrase(t, args.passphrase_file.as_deref(), true)?;
            backup.to_sealed_bytes(&passphrase)?
        }
        false => backup.to_bytes()?,
    };
    write_private(&args.file, &bytes, args.force).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => is_there(&args.file),
        _ => Error::new(
            ErrorKind::Storage,
            format!("{file} could not be written: {error}"),
            "check the folder, its space and its permissions, or name another file",
        )
        .not_changed("no backup was made")
        .caused_by(error),
    })?;
    let (config, secrets) = (&backup.config, backup.secrets());
    writeln!(
        t.out,
        "{file} holds generation {} with {}, {}",
        config.generation,
        contents(config),
        counted(secrets, "secret")
    )?;
    if !is_sealed {
        writeln!(
            t.err,
            "note: the backup is not sealed: its readers can log in with its secrets; --seal asks for a passphrase"
        )?;
    }
    Ok(())
}

fn is_there(file: &Path) -> Error {
    Error::exists(
        format!("{} is there already", file.display()),
        "name another file, or replace it with --force",
    )
}

/// Takes the backup of the daemon, or of its state folder if no daemon answers at its socket.
fn take(program: &Program, connection: &Connection) -> Result<Backup, Error> {
    match connection.client().call(&endpoint::config::EXPORT, &[]) {
        Err(error)
            if connection.state.is_some()
                && matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Refused) =>
        {
            let folder = connection.state_folder();
            let config = Store::peek(folder).map_err(|of_folder| match of_folder.kind {
                ErrorKind::NotFound => error,
                _ => of_folder,
            })?;
            Ok(Backup::new(&config, (program.pool_members)(folder)))
        }
        answer => answer,
    }
}

/// Outcome of a restore, or of its preview.
struct Restored {
    generation: u64,
    differences: Vec<Difference>,
    /// Whether a daemon serves the configuration already.
    is_served: bool,
}

/// Restores through the daemon, or in its folder if none runs.
pub(super) fn restore(args: &Restore, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let name = args.file.display().to_string();
    let bytes = whole_file::bytes(&args.file, MOST_BYTES).map_err(|error| {
        Error::new(
            ErrorKind::Storage,
            format!("{name} could not be read: {error}"),
            "check the path: name a file that sandstone config export made",
        )
    })?;
    let file = args.passphrase_file.as_deref();
    let backup = Backup::from_bytes(&name, &bytes, || passphrase(t, file, false))?;
    let edit = &args.edit;
    let how = Commit {
        dry_run: edit.dry_run,
        ..Commit::default()
    };
    let client = connection.client();
    let answer = client.ask(&endpoint::config::RESTORE, &[], &how, &backup);
    let restored = match answer {
        // A daemon at an address of its own may serve another folder, even one of another machine.
        Err(error)
            if error.kind == ErrorKind::Unavailable
                && (connection.state.is_some() || connection.control.is_none()) =>
        {
            in_folder(t, args, connection, &backup.config)?
        }
        answer => {
            let Committed {
                generation,
                differences,
                ..
            } = answer?;
            Restored {
                generation,
                differences,
                is_served: true,
            }
        }
    };
    if edit.dry_run {
        return tell_preview(t, edit, &restored.differences);
    }
    if edit.json {
        return table::json(t, &restored.differences);
    }
    tell(t, connection, &backup, &restored)
}

/// Restores in a folder that no daemon uses. If something is lost, asks first.
fn in_folder(
    t: &mut Terminal<'_>,
    args: &Restore,
    connection: &Connection,
    config: &Config,
) -> Result<Restored, Failure> {
    let folder = connection.state_folder();
    let wanted = Replacement::Backup(Box::new(config.clone()));
    let mut replaced = Store::replace(folder, &wanted, None)?;
    if !args.edit.dry_run {
        let mut differences = replaced.differences.iter();
        let is_bare = differences.all(|difference| difference.action == Action::Add);
        if !is_bare && !args.edit.yes {
            writeln!(t.err, "This would happen in {}:", folder.display())?;
            write_differences(t.err, &replaced.differences)?;
            go_on(t)?;
        }
        replaced = Store::replace(folder, &wanted, Some(here(connection)))?;
    }
    Ok(Restored {
        generation: replaced.config.generation,
        differences: replaced.differences,
        is_served: false,
    })
}

/// Prints what was restored, and what is still to be done.
fn tell(
    t: &mut Terminal<'_>,
    connection: &Connection,
    backup: &Backup,
    restored: &Restored,
) -> Done {
    writeln!(
        t.out,
        "restored the configuration that {} had on {}, as generation {}: {}, {}",
        backup.machine,
        utc(backup.time_s),
        restored.generation,
        contents(&backup.config),
        counted(backup.secrets(), "secret")
    )?;
    let state = connection.state_folder().display();
    if !restored.is_served {
        writeln!(t.out, "next: sandstone serve --state {state}")?;
    }
    for pool in &backup.pools {
        writeln!(
            t.out,
            "next: {} (with -f if its machine did not export the pool; it was on {})",
            import(pool),
            pool.devices.join(", ")
        )?;
    }
    Ok(writeln!(
        t.out,
        "next: sandstone lu list (a unit is not ready until its pool, disk or file is back)"
    )?)
}

/// Returns the command that imports a pool. An import finds devices outside of /dev only if the
/// command names their folder.
fn import(pool: &PoolMembers) -> String {
    let paths = pool.devices.iter().map(Path::new);
    let files = paths.filter(|path| path.is_absolute() && !path.starts_with("/dev"));
    let folders: BTreeSet<&Path> = files.filter_map(Path::parent).collect();
    let looked_in = folders
        .iter()
        .map(|folder| format!("-d {} ", quoted(&folder.display().to_string())));
    format!(
        "sandstone pool import {}{}",
        looked_in.collect::<String>(),
        quoted(&pool.name)
    )
}

/// Returns the number of objects of each kind, in words.
fn contents(config: &Config) -> String {
    let kinds = [
        (config.units.len(), "unit"),
        (config.targets.len(), "target"),
        (config.hosts.len(), "host"),
        (config.maps.len(), "map"),
        (config.initiator.targets.len(), "login"),
    ];
    let told = kinds.map(|(count, what)| counted(count, what));
    told.join(", ")
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}
