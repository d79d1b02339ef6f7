//! `pool import`: lists pools that are not open, and opens them.

use std::path::{Path, PathBuf};

use clap::Args;

use super::super::{Connection, Done, Failure, Terminal};
use super::{absolute, noted, rewind, tree, waiting, wrapped};
use crate::print::table::json;
use control::endpoint::pool;
use model::Error;
use model::pool::found::FoundPool;
use model::pool::import::ImportPool;
use model::pool::rewind::Reach;
use model::pool::vdev::VdevView;

#[derive(Debug, Args)]
pub(in super::super) struct Import {
    /// Look at this file or device, or at those in this folder; may be given several times
    /// [default: /dev, and other machines' disks]
    #[arg(short = 'd', value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Import the pool even if its labels say that another host had it last. With multihost, the
    /// devices are still watched, and a pool that another host uses is refused. Import it also if
    /// missing devices may hold newer changes or were the source of a rebuild, and with disks that
    /// logical units had meanwhile
    #[arg(short = 'f', long)]
    force: bool,
    /// Omit missing log devices: durable writes that are only there are lost
    #[arg(short = 'm', long)]
    without_log: bool,
    /// Give up the newest changes of a damaged pool: the end of the log, and at most one checkpoint
    #[arg(short = 'F', long, requires = "pool")]
    rewind: bool,
    /// Give up as many checkpoints as needed, with -F; blocks of the rest may be lost
    #[arg(short = 'X', long, requires = "rewind")]
    extreme: bool,
    /// Go back to the checkpoint of this number, with -F, even if newer ones are whole; -F -n lists
    /// them
    #[arg(
        short = 'T',
        value_name = "CHECKPOINT",
        requires = "rewind",
        conflicts_with = "extreme"
    )]
    checkpoint: Option<u64>,
    /// Show only what would be given up, with -F
    #[arg(short = 'n', long, requires = "rewind")]
    dry_run: bool,
    /// readonly=on: open it only for reading; nothing is written to its devices, not even to repair
    /// them
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = ["readonly=on", "readonly=off"],
          requires = "pool")]
    property: Option<String>,
    /// Import every pool that can be imported as it is
    #[arg(short = 'a', long, conflicts_with = "pool")]
    all: bool,
    /// JSON, as the control API gives it
    #[arg(long)]
    json: bool,
    /// Name or number of the pool; without it, pools that could be imported are listed
    pool: Option<String>,
    /// New name of the pool
    #[arg(value_name = "NEWNAME", requires = "pool")]
    new_name: Option<String>,
}

fn request(args: &Import) -> Result<ImportPool, Error> {
    let paths = args.paths.iter().map(|path| absolute(path));
    Ok(ImportPool {
        pool: args.pool.clone(),
        new_name: args.new_name.clone(),
        paths: paths.collect::<Result<_, _>>()?,
        force: args.force,
        without_log: args.without_log,
        rewind: match (args.rewind, args.extreme) {
            (false, _) => Reach::None,
            (true, false) => Reach::Newest,
            (true, true) => Reach::Extreme,
        },
        checkpoint: args.checkpoint,
        dry_run: args.dry_run,
        read_only: args.property.as_deref() == Some("readonly=on"),
    })
}

pub(super) fn run(t: &mut Terminal<'_>, connection: &Connection, args: &Import) -> Done {
    let request = request(args)?;
    let client = connection.client();
    let found: Vec<FoundPool> = waiting::told(t, connection, || {
        client.ask(&pool::IMPORT, &[], &(), &request)
    })?;
    if args.all {
        return import_all(t, connection, &request, &found);
    }
    if args.json {
        return json(t, &found);
    }
    if args.pool.is_none() && found.is_empty() {
        writeln!(
            t.err,
            "no pools available to import; name files, devices or folders to look at with -d"
        )?;
    }
    for pool in &found {
        match &pool.rewind {
            Some(rewind) => rewind::tell(t, &pool.name, rewind, request.read_only)?,
            None if args.pool.is_none() => write!(t.out, "{}", listed(pool))?,
            None => {}
        }
        tell_news(t, pool)?;
    }
    Ok(())
}

/// Imports all pools that were found, one after the other. The command fails if any of them cannot
/// be imported.
fn import_all(
    t: &mut Terminal<'_>,
    connection: &Connection,
    how: &ImportPool,
    found: &[FoundPool],
) -> Done {
    let mut is_any_left = false;
    for pool in found.iter().filter(|pool| !pool.guid.is_empty()) {
        let request = ImportPool {
            pool: Some(pool.guid.clone()),
            ..how.clone()
        };
        let client = connection.client();
        let sent: Result<Vec<FoundPool>, Failure> = waiting::told(t, connection, || {
            client.ask(&pool::IMPORT, &[], &(), &request)
        });
        match sent {
            Ok(found) => {
                writeln!(t.err, "imported {}", pool.name)?;
                found.iter().try_for_each(|pool| tell_news(t, pool))?;
            }
            Err(Failure::Refused(error)) => {
                is_any_left = true;
                writeln!(t.err, "not imported: {}: {error}", pool.name)?;
            }
            Err(failure) => return Err(failure),
        }
    }
    match is_any_left {
        true => Err(Failure::Said),
        false => Ok(()),
    }
}

/// Reports the devices that were left alone, and doubts about those that were used.
fn tell_news(t: &mut Terminal<'_>, pool: &FoundPool) -> std::io::Result<()> {
    for path in &pool.left_out {
        writeln!(
            t.err,
            "left alone: {}, a copy of a device that was named",
            path.display()
        )?;
    }
    for note in &pool.notes {
        writeln!(t.err, "note: {note}")?;
    }
    Ok(())
}

/// Returns a pool as `zpool import` lists it.
fn listed(pool: &FoundPool) -> String {
    let or_unknown = |text: &str| match text {
        "" => "(unknown)".to_owned(),
        text => text.to_owned(),
    };
    let mut text = format!(
        "   pool: {}\n     id: {}\n  state: {}\n",
        or_unknown(&pool.name),
        or_unknown(&pool.guid),
        pool.state
    );
    let mut statuses: Vec<String> = pool.problem.iter().cloned().collect();
    if !pool.unaccounted.is_empty() {
        statuses.push(format!(
            "its newest changes may be on {} only, if the pool was used there after its last use on the \
             devices that were found; -f imports the pool without these changes, and the two can then no \
             longer be joined",
            pool.unaccounted.join(", ")
        ));
    }
    if !pool.is_exported && !pool.host.is_empty() {
        let machine = pool.host.split('/').next().unwrap_or_default();
        statuses.push(format!("it was last in use by {machine} and not exported"));
    }
    for status in statuses {
        text.push_str(&format!(" status: {}\n", wrapped(&status)));
    }
    text.push_str(&format!(" action: {}\n config:\n\n", wrapped(action(pool))));
    let unusable: Vec<VdevView> = match pool.layout.is_empty() {
        true => pool.devices.iter().map(|path| device(path)).collect(),
        false => Vec::new(),
    };
    let mut lines = Vec::new();
    for section in pool.layout.iter().chain(&unusable) {
        tree(section, 0, &mut lines);
    }
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, vdev) in lines {
        let row = format!("{name:width$}  {:8}", vdev.state);
        text.push_str(&noted(&row, vdev.note.as_deref().unwrap_or_default()));
    }
    text.push('\n');
    text
}

/// Returns a device whose labels name no pool.
fn device(path: &Path) -> VdevView {
    VdevView {
        name: path.display().to_string(),
        state: "UNAVAIL".to_owned(),
        ..VdevView::default()
    }
}

fn action(pool: &FoundPool) -> &'static str {
    match (&pool.problem, pool.missing.is_empty()) {
        (Some(_), _) if pool.guid.is_empty() && !pool.name.is_empty() => {
            "it cannot be imported as it is, and this command does not change it"
        }
        (Some(_), _) if pool.guid.is_empty() => {
            "use it with the program that wrote it; only -f of pool create, add, attach or replace \
             overwrites it"
        }
        (Some(_), _) if pool.is_log_missing => {
            "it cannot be imported without its log device: attach the device, or name it with -d; if it is \
             lost for good, -m imports the pool without it"
        }
        (Some(_), _) if pool.is_old_copy => {
            "it cannot be imported from an old copy: attach the device that was used last in its place, or \
             name it with -d; if that device is lost for good, -f imports the old copy, and the changes that \
             it lacks are lost"
        }
        (Some(_), _) if pool.is_between_numbers => {
            "it opens under neither number until that is complete; none of its data is lost"
        }
        (Some(_), _) if !pool.twins.is_empty() => {
            "it cannot be imported until -d names one of them itself: the import uses the named device, and \
             leaves its copies in a folder alone; `sandstone pool reguid` makes the copies a pool of their \
             own"
        }
        (Some(_), _) => "it cannot be imported: attach what is missing, or name it with -d",
        (None, true) => "it can be imported using its name or number",
        (None, false) => "it can be imported despite missing devices, using its name or number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_cannot_be_imported_says_so() {
        let vdev = |name: &str, state: &str, children| VdevView {
            name: name.to_owned(),
            state: state.to_owned(),
            children,
            ..VdevView::default()
        };
        let mut pool = FoundPool {
            name: "tank".to_owned(),
            guid: "00000000000000ff".to_owned(),
            state: "UNAVAIL".to_owned(),
            is_exported: true,
            layout: vec![vdev(
                "tank",
                "UNAVAIL",
                vec![vdev(
                    "raidz1-0",
                    "UNAVAIL",
                    vec![vdev("/a", "ONLINE", vec![]), vdev("/b", "UNAVAIL", vec![])],
                )],
            )],
            devices: vec!["/a".into()],
            missing: vec!["/b".to_owned(), "/c".to_owned()],
            problem: Some("raidz1-0 lacks 2 devices, and can do without 1".to_owned()),
            ..FoundPool::default()
        };
        let expected = "   pool: tank\n     id: 00000000000000ff\n  state: UNAVAIL\n\
                        \u{20}status: raidz1-0 lacks 2 devices, and can do without 1\n\
                        \u{20}action: it cannot be imported: attach what is missing, or name it with -d\n\
                        \u{20}config:\n\n\ttank        UNAVAIL\n\t  raidz1-0  UNAVAIL\n\t    /a      ONLINE\n\t    /b      UNAVAIL\n\n";
        assert_eq!(listed(&pool), expected);
        (pool.name, pool.guid) = (String::new(), String::new());
        assert!(listed(&pool).contains("pool: (unknown)\n     id: (unknown)\n"));
    }
}
