//! `pool`: pools of disks, in zpool's manner.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};
use store::catalog::PropertyInfo;
use store::engine::PoolProperty;

use self::layout::layout;
use self::named_vdevs::NamedVdevs;
use crate::grammar::completion::{pool_names, size};
use crate::print::table::json;
use crate::print::wrap;
use crate::{Connection, Done, Failure, Program, Terminal, unwell};
use control::endpoint::pool;
use hint::Place;
use model::Error;
use model::device_name::is_remote;
use model::health::Health;
use model::pool::create::CreatePool;
use model::pool::properties::elsewhere;
use model::pool::status::{NO_ERRORS, PoolView};
use model::pool::trim::text as trim_text;
use model::pool::vdev::VdevView;
use model::quantity::format_size;

mod check;
mod disks;
mod ending;
mod get;
mod history;
mod import;
pub(crate) mod iostat;
mod layout;
mod list;
mod named_vdevs;
mod rebuild_labels;
mod reguid;
mod rewind;
mod set;
mod trim;
mod upgrade;
mod vdev;
mod waiting;

#[derive(Debug, Subcommand)]
pub(super) enum PoolVerb {
    /// Make a pool on files, devices and other machines' disks (naa.…)
    Create(Create),
    /// List pools
    List(list::List),
    /// List the disks of this machine: what is printed on them, what uses them, what is on them
    Disks(disks::Disks),
    /// Show the state of pools: what happened, what it means, what to do
    ///
    /// With -x the exit status is 0 if all pools are healthy, 3 if something is to be done, and 4
    /// if a pool is not ONLINE, is full, or has lost data.
    Status(Status),
    /// Show properties of pools
    Get(get::Get),
    /// Set a property of a pool
    Set(set::Set),
    /// Show what pools and their devices read and write, and how long requests take
    ///
    /// With an INTERVAL in seconds, a report is printed after each interval: COUNT reports, or
    /// until it is interrupted. The first report covers the time since the pool was opened, each
    /// later one the time since the report before.
    ///
    /// Operations of a device are its requests. Operations of a mirror or a raidz are blocks,
    /// without copies and parity. Space that was freed and is not free yet counts as allocated.
    /// Flushes and trims are not counted.
    Iostat(iostat::Iostat),
    /// Find pools on files and devices, and open one
    Import(import::Import),
    /// Make a copy of a pool's devices a pool of its own, with a new number
    ///
    /// A copy made with dd or cp, a snapshot of the volume below, or a cloned virtual machine
    /// carries the labels of its original. If two copies of a device of a pool are found, the pool
    /// is not opened. Only labels are written: checkpoints, volumes and snapshots stay as they are.
    Reguid(reguid::Reguid),
    /// Export a pool, so that any host may import it; forget a pool that is not open
    Export(ending::Export),
    /// End a pool; everything in it is lost
    Destroy(ending::Destroy),
    /// Verify every copy of every block, and repair bad copies
    Scrub(vdev::Scrub),
    /// Tell devices which space of a pool is free
    ///
    /// Solid-state disks, thin volumes and sparse files get the space back. `pool set autotrim=on`
    /// reports space as it becomes free from then on; this verb reports all free space, also in
    /// small pieces.
    Trim(trim::TrimArgs),
    /// Make all data durable that pools have taken up to now, whether or not it was flushed
    Sync(Sync),
    /// Take devices offline
    Offline(vdev::Devices),
    /// Bring devices online again that were taken offline, failed or were missing
    Online(vdev::Online),
    /// Make a mirror of a device, or add a device to a mirror
    Attach(vdev::Attach),
    /// Rebuild a device on another one, which then takes its place
    Replace(vdev::Replace),
    /// Take a device out of a mirror or a replacement, or a spare out of use
    Detach(vdev::Device),
    /// Add vdevs, logs, caches and spares
    Add(vdev::Add),
    /// Take away logs, caches, and spares that stand ready
    Remove(vdev::Devices),
    /// Clear errors of devices, and try failed devices again
    Clear(vdev::Clear),
    /// Show the format features of pools, or enable those that this program knows
    Upgrade(upgrade::Upgrade),
    /// Show what happened to a pool
    Events(vdev::Events),
    /// Show what was done to pools, by whom and when; the pools keep it
    History(history::History),
    /// Verify a pool that is not open: its allocation, and every copy of every block
    Check(check::CheckArgs),
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// Use devices that hold another pool's labels, a file system or other data, and vdevs that
    /// differ in redundancy
    #[arg(short = 'f', long)]
    force: bool,
    /// Show only how the pool would be laid out; change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Make files of this size if paths do not exist
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    /// multihost=on, off or auto: protection of the pool against being open on two hosts; auto: on
    /// if another host could reach its devices
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = at_creation)]
    property: Option<String>,
    /// JSON, as the control API gives it
    #[arg(long)]
    json: bool,
    /// Name of the pool
    name: String,
    /// Devices and files; `mirror`, `raidz1`, `raidz2` or `raidz3` before those that form one vdev;
    /// `log` before those that answer durable writes, `cache` before those that keep what memory
    /// gives up, `spare` before those that stand ready
    #[arg(required = true, value_name = "VDEV", value_hint = ValueHint::FilePath)]
    vdevs: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct Status {
    /// Pools to show [default: all]
    #[arg(add = pool_names())]
    names: Vec<String>,
    /// Show only pools that need attention
    #[arg(short = 'x')]
    unwell: bool,
    /// Show how much of each device was trimmed
    #[arg(short = 't')]
    trim: bool,
    /// Name the volumes and bytes that could not be read
    #[arg(short = 'v')]
    verbose: bool,
    /// JSON, as the control API gives it
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Sync {
    /// Pools to sync [default: all]
    #[arg(add = pool_names())]
    names: Vec<String>,
}

pub(super) fn run(
    program: &Program,
    verb: PoolVerb,
    connection: &Connection,
    t: &mut Terminal<'_>,
) -> Done {
    match verb {
        PoolVerb::Create(args) => create(t, connection, &args),
        PoolVerb::List(args) => list::run(t, connection, &args),
        PoolVerb::Disks(args) => disks::run(t, connection, &args),
        PoolVerb::Status(args) => status(t, connection, &args),
        PoolVerb::Get(args) => get::run(t, connection, &args),
        PoolVerb::Set(args) => set::run(connection, &args),
        PoolVerb::Iostat(args) => iostat::run(t, connection, &args),
        PoolVerb::Import(args) => import::run(t, connection, &args),
        PoolVerb::Reguid(args) => reguid::run(t, connection, &args),
        PoolVerb::Export(args) => ending::export(t, connection, &args),
        PoolVerb::Destroy(args) => ending::destroy(t, connection, &args),
        PoolVerb::Scrub(args) => vdev::scrub(connection, &args),
        PoolVerb::Trim(args) => trim::run(connection, args),
        PoolVerb::Sync(args) => sync(connection, &args),
        PoolVerb::Offline(args) => vdev::offline(connection, args),
        PoolVerb::Online(args) => vdev::online(connection, args),
        PoolVerb::Attach(args) => vdev::attach(connection, args),
        PoolVerb::Replace(args) => vdev::replace(connection, args),
        PoolVerb::Detach(args) => vdev::detach(connection, args),
        PoolVerb::Add(args) => vdev::add(t, connection, &args),
        PoolVerb::Remove(args) => vdev::remove(connection, args),
        PoolVerb::Clear(args) => vdev::clear(t, connection, args),
        PoolVerb::Upgrade(args) => upgrade::run(t, connection, &args),
        PoolVerb::Events(args) => vdev::events(t, connection, &args),
        PoolVerb::History(args) => history::run(t, connection, &args),
        PoolVerb::Check(args) => check::run(program, t, &args),
    }
}

/// Reads a property that can be chosen when a pool is made. For other properties, the error says
/// where they are set.
fn at_creation(text: &str) -> Result<String, String> {
    let name = text.split('=').next().unwrap_or_default();
    match text {
        "multihost=on" | "multihost=off" | "multihost=auto" => Ok(text.to_owned()),
        _ if name == PoolProperty::Multihost.name() => {
            Err("write multihost=on, multihost=off or multihost=auto".to_owned())
        }
        _ if PoolProperty::named(name).is_some() => Err(format!(
            "set it after the pool is made: `sandstone pool set {text} POOL`"
        )),
        _ => Err(elsewhere(name, PropertyInfo::named(name).is_some())
            .unwrap_or("write multihost=on, multihost=off or multihost=auto")
            .to_owned()),
    }
}

fn create(t: &mut Terminal<'_>, connection: &Connection, args: &Create) -> Done {
    let named = NamedVdevs::read(&args.vdevs)?;
    let request = CreatePool {
        name: args.name.clone(),
        vdevs: named.vdevs,
        logs: named.logs,
        caches: named.caches,
        spares: named.spares,
        force: args.force,
        file_size: args.size,
        multihost: match args.property.as_deref() {
            Some("multihost=on") => Some(true),
            Some("multihost=off") => Some(false),
            _ => None,
        },
        dry_run: args.dry_run,
    };
    let client = connection.client();
    let made: PoolView = client.ask(&pool::CREATE, &[], &(), &request)?;
    if args.json {
        return json(t, &made);
    }
    if args.dry_run {
        write!(t.out, "{}", layout("would create", &made))?;
    }
    Ok(())
}

/// Returns a path that means the same file to the daemon. The name of another machine's disk stays
/// as it is.
fn absolute(path: &Path) -> Result<PathBuf, Error> {
    if is_remote(path) {
        return Ok(path.to_owned());
    }
    std::path::absolute(path).map_err(|error| {
        Error::system(Place::File(path), format!("find {}", path.display()), error)
    })
}

pub(crate) fn wanted(connection: &Connection, names: &[String]) -> Result<Vec<PoolView>, Error> {
    let client = connection.client();
    match names {
        [] => client.call(&pool::LIST, &[]),
        names => names
            .iter()
            .map(|name| client.call(&pool::SHOW, &[name]))
            .collect(),
    }
}

fn sync(connection: &Connection, args: &Sync) -> Done {
    let client = connection.client();
    let mut names = args.names.clone();
    if names.is_empty() {
        let pools: Vec<PoolView> = client.call(&pool::LIST, &[])?;
        // A pool that is not open or is read-only has nothing that is not durable.
        let writable = |pool: &PoolView| pool.open_for_us.is_some() && !pool.is_read_only;
        let writable = pools.into_iter().filter(writable);
        names.extend(writable.map(|pool| pool.name));
    }
    for name in names {
        client.call(&pool::SYNC, &[&name])?;
    }
    Ok(())
}

fn status(t: &mut Terminal<'_>, connection: &Connection, args: &Status) -> Done {
    let mut pools = wanted(connection, &args.names)?;
    let worst = pools.iter().map(PoolView::health).max().unwrap_or_default();
    let any = !pools.is_empty();
    if args.unwell {
        if !args.json {
            let named = pools.iter().filter(|_| !args.names.is_empty());
            for pool in named.filter(|pool| pool.health() == Health::Healthy) {
                writeln!(t.out, "pool '{}' is healthy", pool.name)?;
            }
        }
        pools.retain(|pool| pool.health() != Health::Healthy);
    }
    if args.json {
        json(t, &pools)?;
    } else if !any {
        writeln!(t.out, "no pools available")?;
    } else if pools.is_empty() && args.names.is_empty() {
        writeln!(t.out, "all pools are healthy")?;
    }
    for (number, pool) in pools.iter().enumerate().filter(|_| !args.json) {
        if number > 0 {
            writeln!(t.out)?;
        }
        write!(t.out, "{}", report(pool, args.trim))?;
        if args.verbose {
            write!(t.out, "{}", damaged(pool))?;
        }
    }
    match args.unwell {
        true => unwell(worst),
        false => Ok(()),
    }
}

/// Bytes of a block as most initiators count them.
const SECTOR: u64 = 512;

/// Returns a pool as `zpool status` shows it.
fn report(pool: &PoolView, with_trim: bool) -> String {
    let mut text = format!("  pool: {}\n state: {}\n", pool.name, pool.state);
    for (title, words) in [("status", &pool.status), ("action", &pool.action)] {
        if let Some(words) = words {
            text.push_str(&format!("{title}: {}\n", wrapped(words)));
        }
    }
    let scan = pool.scan.replace('\n', "\n\t");
    text.push_str(&format!("  scan: {scan}\n"));
    if let Some(outlook) = &pool.outlook {
        text.push_str(&format!("  fill: {}\n", outlook.text));
    }
    if let Some(multihost) = &pool.multihost {
        text.push_str(&format!(" hosts: {}\n", wrapped(multihost)));
    }
    text.push_str("config:\n\n");
    let root = VdevView {
        name: pool.name.clone(),
        state: pool.state.clone(),
        children: pool.vdevs.clone(),
        ..VdevView::default()
    };
    let mut lines = Vec::new();
    tree(&root, 0, &mut lines);
    let section = |name: &str, children: &[VdevView]| VdevView {
        name: name.to_owned(),
        children: children.to_vec(),
        ..VdevView::default()
    };
    let sections = [
        section("logs", &pool.logs),
        section("cache", &pool.caches),
        section("spares", &pool.spares),
    ];
    for section in sections.iter().filter(|of| !of.children.is_empty()) {
        tree(section, 0, &mut lines);
    }
    let name = lines.iter().map(|(name, _)| name.chars().count()).max();
    let name = name.unwrap_or(0).max(4);
    text.push_str(&format!(
        "\t{:name$}  {:<9} {:>5} {:>5} {:>5}\n",
        "NAME", "STATE", "READ", "WRITE", "CKSUM"
    ));
    for (label, vdev) in lines {
        let mut note = vdev.note.clone().unwrap_or_default();
        if with_trim && vdev.is_trimmed {
            note = format!("{note}  {}", trim_text(vdev.trim.as_ref()));
        }
        let note = note.trim_start();
        // Headings have no counts. Spares have none either while they stand by.
        let row = match vdev.state.as_str() {
            "" | "AVAIL" | "INUSE" => format!("{label:name$}  {:<9}", vdev.state),
            state => format!(
                "{label:name$}  {state:<9} {:>5} {:>5} {:>5} ",
                count(vdev.read),
                count(vdev.write),
                count(vdev.checksum),
            ),
        };
        text.push_str(&noted(&row, note));
    }
    if with_trim && pool.auto_trimmed > 0 {
        let bytes = format_size(pool.auto_trimmed);
        text.push_str(&format!("\nautotrim: {bytes} since the pool was opened\n"));
    }
    text.push_str(&format!("\nerrors: {}\n", pool.errors));
    text
}

/// Returns the volumes and bytes without any right copy.
fn damaged(pool: &PoolView) -> String {
    let is_known = pool.errors != NO_ERRORS;
    if pool.damaged.is_empty() && is_known && pool.open_for_us.is_some() {
        return "\n\tNo volume is known to have lost bytes since the pool was opened or cleared. A scrub \
                names the lost parts of volumes and snapshots; other errors are in the pool's own data.\n"
            .to_owned();
    }
    let mut text = String::new();
    for lost in &pool.lost {
        let ranges = match lost.ranges {
            1 => "1 range".to_owned(),
            count => format!("{count} ranges"),
        };
        let least = if lost.is_more { "at least " } else { "" };
        text.push_str(&format!(
            "\n\t{}: {least}{} bytes ({}) in {ranges} cannot be read:",
            lost.dataset,
            lost.bytes,
            format_size(lost.bytes)
        ));
        let own = pool.damaged.iter().filter(|of| of.dataset == lost.dataset);
        for of in own.clone().take(RANGES) {
            let (first, last) = (of.offset, (of.offset + of.len).saturating_sub(1));
            let (from, to) = (first / SECTOR, last / SECTOR);
            text.push_str(&format!(
                "\n\t  bytes {first} to {last} (blocks {from} to {to} of {SECTOR} bytes)"
            ));
        }
        let more = own.count().saturating_sub(RANGES);
        if more > 0 {
            text.push_str(&format!("\n\t  and {more} more ranges, which --json lists"));
        }
    }
    let snapshot = pool.lost.iter().find(|of| of.dataset.contains('@'));
    if let Some((volume, _)) = snapshot.and_then(|of| of.dataset.split_once('@')) {
        text.push_str(&format!(
            "\n\n\tA block that several of them share is listed for the oldest only. '{volume}', its later \
             snapshots and its clones also lack these bytes, except where they were written since."
        ));
    }
    if let Some(of) = pool.lost.first() {
        text.push_str(&format!(
            "\n\n\t'sandstone volume salvage {} FILE' copies the readable parts of a volume.\n",
            of.dataset
        ));
    }
    text
}

/// Most ranges of a volume that are printed.
const RANGES: usize = 100;

/// Returns a number as zpool shortens it: `1.21K`.
fn count(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        number => format_size(number * 1024 / 1000),
    }
}

fn tree<'a>(vdev: &'a VdevView, depth: usize, lines: &mut Vec<(String, &'a VdevView)>) {
    lines.push((format!("{}{}", "  ".repeat(depth), vdev.name), vdev));
    for child in &vdev.children {
        tree(child, depth + 1, lines);
    }
}

/// Returns a row of a tree of vdevs behind a tab, with its note. The note goes below the row if the
/// line would be too long for a terminal of 80 columns.
fn noted(row: &str, note: &str) -> String {
    let beside = format!("{row} {note}");
    if note.is_empty() || beside.chars().count() <= WIDTH {
        return format!("\t{}\n", beside.trim_end());
    }
    let depth = row.chars().take_while(|of| *of == ' ').count() + 4;
    let indent = " ".repeat(depth);
    let note = wrap::wrapped(note, WIDTH - depth, &format!("\t{indent}"));
    format!("\t{}\n\t{indent}{note}\n", row.trim_end())
}

/// Columns of a line behind a tab.
const WIDTH: usize = 72;

/// Returns lines of at most 72 characters behind a tab, as zpool wraps them.
fn wrapped(words: &str) -> String {
    wrap::wrapped(words, WIDTH, "\t")
}

/// Asks a question. Ends the command if the answer is not yes, or if nobody can answer.
pub(super) fn confirm(t: &mut Terminal<'_>, question: &str, next: &str) -> Done {
    let answer = match t.ask.as_mut() {
        Some(ask) => ask(question)?,
        None => {
            return Err(Error::invalid(
                "this needs a confirmation, and there is no terminal to ask on",
                next,
            )
            .into());
        }
    };
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => {
            writeln!(t.err, "nothing was changed")?;
            Err(Failure::Said)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_is_too_long_for_a_terminal_stands_below_its_row() {
        let row = "    /dev/sdb  FAULTED       0     3     0 ";
        assert_eq!(noted(row, ""), format!("\t{}\n", row.trim_end()));
        let short = "too many errors";
        assert_eq!(noted(row, short), format!("\t{row} {short}\n"));
        let long = "device failed: write at byte 1073668096 of 1073643520, in blocks of 4096: it ended before its label says";
        let text = noted(row, long);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], format!("\t{}", row.trim_end()));
        assert!(lines.len() > 2, "{text}");
        for line in &lines {
            assert!(line.chars().count() <= WIDTH + 1, "{line}");
        }
        let words: Vec<&str> = lines[1..].iter().map(|line| line.trim()).collect();
        assert_eq!(words.join(" "), long);
        assert!(
            lines[1..].iter().all(|line| line.starts_with("\t        ")),
            "{text}"
        );
    }

    #[test]
    fn properties_at_creation_are_taken_or_told_where_they_are() {
        assert_eq!(at_creation("multihost=on"), Ok("multihost=on".to_owned()));
        let choose = "write multihost=on, multihost=off or multihost=auto";
        for (text, told) in [
            ("multihost=maybe", choose),
            ("colour=red", choose),
            (
                "autotrim=on",
                "set it after the pool is made: `sandstone pool set autotrim=on POOL`",
            ),
            (
                "ashift=12",
                "omit it: pools always write whole blocks of 4096 bytes, as zpool's ashift=12 does",
            ),
            (
                "compression=lz4",
                "it is a property of datasets: `sandstone volume set NAME=VALUE POOL` sets it for the whole pool",
            ),
        ] {
            assert_eq!(at_creation(text), Err(told.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_status_is_laid_out_as_by_zpool() {
        let leaf = |name: &str, checksum| VdevView {
            name: name.to_owned(),
            state: "ONLINE".to_owned(),
            checksum,
            ..VdevView::default()
        };
        let pool = PoolView {
            name: "tank".to_owned(),
            state: "ONLINE".to_owned(),
            status: Some("word ".repeat(20)),
            action: Some("Do it.".to_owned()),
            scan: "none requested".to_owned(),
            vdevs: vec![VdevView {
                children: vec![
                    VdevView {
                        is_trimmed: true,
                        ..leaf("/a", 0)
                    },
                    leaf("/long", 3),
                ],
                ..leaf("mirror-0", 0)
            }],
            logs: vec![leaf("/log", 0)],
            caches: vec![VdevView {
                note: Some("1M of 2M used, 3 hits, 4 misses".to_owned()),
                ..leaf("/fast", 0)
            }],
            errors: "No known data errors".to_owned(),
            ..PoolView::default()
        };
        let words = ["word"; 14].join(" ");
        let expected = format!(
            "  pool: tank\n state: ONLINE\nstatus: {words}\n\tword word word word word word\naction: Do it.\n  scan: none requested\nconfig:\n\n\
             \tNAME        STATE      READ WRITE CKSUM\n\
             \ttank        ONLINE        0     0     0\n\
             \t  mirror-0  ONLINE        0     0     0\n\
             \t    /a      ONLINE        0     0     0\n\
             \t    /long   ONLINE        0     0     3\n\
             \tlogs\n\
             \t  /log      ONLINE        0     0     0\n\
             \tcache\n\
             \t  /fast     ONLINE        0     0     0  1M of 2M used, 3 hits, 4 misses\n\
             \nerrors: No known data errors\n"
        );
        assert_eq!(report(&pool, false), expected);
        let with_trim = report(&pool, true);
        assert!(
            with_trim.contains("/a      ONLINE        0     0     0  (untrimmed)\n"),
            "{with_trim}"
        );
        assert!(
            with_trim.contains("  /log      ONLINE        0     0     0\n"),
            "{with_trim}"
        );
    }
}
