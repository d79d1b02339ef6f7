//! `pool check`: proves a pool that is not open, on its files and devices, without a daemon.
//!
//! Nothing is written (`overlay.rs`).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use store::catalog::Catalog;
use store::format::SECTOR_SIZE;
use store::pool::check::{Check, Finding, FindingKind, Owner};
use store::pool::{LeafLabels, Pool, examine};
use utoipa::ToSchema;

use super::disks::Disks;
use super::found::{Found, describe, find_labels};
use super::import::open_all;
use super::overlay::Drive;
use crate::block::BlockDevice;
use crate::config::{Error, ErrorKind};

/// What a check found out about a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckView {
    /// The pool's name.
    pub name: String,
    /// Its number.
    pub guid: String,
    /// When its last checkpoint was made, in seconds since 1970.
    pub checkpoint_s: u64,
    /// Devices that were not found: what is on them was not looked at.
    pub missing: Vec<String>,
    /// Volumes and snapshots.
    pub datasets: u64,
    /// Blocks of them.
    pub blocks: u64,
    /// Nodes of their maps.
    pub nodes: u64,
    /// Blocks and nodes of which every copy was read and is right.
    pub verified: u64,
    /// Bytes on the devices that are needed.
    pub needed: u64,
    /// What is wrong.
    pub findings: Vec<FindingView>,
    /// How much more is wrong.
    pub more_findings: u64,
}

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingView {
    /// A word that stays what it is.
    pub kind: String,
    /// What is wrong, and where.
    pub text: String,
    /// What it means and what to do.
    pub action: String,
}

/// Checks the pool `wanted` (its name or number; the only one there is) on files and devices, and those in
/// folders. `progress` is told bytes that were proven, and all.
///
/// # Errors
/// It is not found, is in use, or cannot be opened.
pub fn check(
    paths: &[PathBuf],
    wanted: Option<&str>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CheckView, Error> {
    // The disks of other machines are reached by the daemon only, which has no pool checked that is not open.
    let disks = Disks::default();
    let found = find_labels(&disks, paths);
    let guid = choose(&found, wanted)?;
    let described = describe(guid, &found.pools[&guid]);
    let mut opened = Vec::new();
    for (path, result) in open_all(&disks, &described.devices) {
        match result {
            Ok((device, labels)) => opened.push((device, labels)),
            Err(error) => return Err(in_use(&described.name, &path, error)),
        }
    }
    let labels: Vec<LeafLabels> = opened.iter().map(|(_, labels)| labels.clone()).collect();
    let examined = examine(&labels, Some(guid)).map_err(|error| damaged(&error.to_string()))?;
    let leaves = examined.leaves.iter().zip(opened);
    let leaves: Vec<(u64, Arc<dyn BlockDevice>)> = leaves
        .filter_map(|(leaf, (device, _))| Some(((*leaf)?, device)))
        .collect();
    let mut drive = Drive::new().map_err(|reason| damaged(&reason))?;
    let opened = drive.open(&examined, &leaves, None);
    let (mut pool, _) = opened.map_err(|error| damaged(&error.to_string()))?;
    let view = CheckView {
        name: described.name,
        guid: described.guid,
        checkpoint_s: examined.roots.first().map_or(0, |root| root.root.time_s),
        missing: described.missing,
        ..CheckView::default()
    };
    prove(&mut pool, &mut drive, view, progress)
}

/// The pool that is meant.
fn choose(found: &Found, wanted: Option<&str>) -> Result<u64, Error> {
    let described = found
        .pools
        .iter()
        .map(|(guid, on)| (describe(*guid, on), *guid));
    let is_meant = |name: &str, guid: &str| wanted.is_none_or(|word| word == name || word == guid);
    let fitting: Vec<u64> = described
        .filter(|(pool, _)| is_meant(&pool.name, &pool.guid))
        .map(|(_, guid)| guid)
        .collect();
    match fitting[..] {
        [guid] => Ok(guid),
        [] => Err(Error::not_found(
            match wanted {
                Some(name) => format!("no pool {name} was found{}", found.told_unusable()),
                None => format!("no pool was found{}", found.told_unusable()),
            },
            "name its files, devices or folders",
        )),
        _ => Err(Error::invalid(
            "there are several pools there",
            "say which, by its name or number; `sandstone pool import -d PATH` lists them",
        )),
    }
}

fn in_use(name: &str, path: &std::path::Path, error: Error) -> Error {
    Error::new(
        ErrorKind::InUse,
        format!("{}: {}", path.display(), error.message),
        format!(
            "a pool that is open is verified by `sandstone pool scrub {name}`; to check it, export it first"
        ),
    )
}

fn damaged(reason: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("the pool cannot be opened, so it cannot be checked: {reason}"),
        "attach all of its devices",
    )
}

fn prove(
    pool: &mut Pool,
    drive: &mut Drive,
    view: CheckView,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CheckView, Error> {
    let busy = || damaged("it is not at rest after its opening: this is a defect, report it");
    let mut check = Check::new(pool).ok_or_else(busy)?;
    let mut told = Instant::now();
    while !check.is_done() {
        check
            .take_requests()
            .into_iter()
            .for_each(|request| drive.submit(request));
        let answers = drive
            .wait(check.deadline_us())
            .map_err(|reason| damaged(&reason))?;
        let now_us = drive.now_us();
        for (io, outcome) in answers {
            check.completed(io, outcome, now_us);
        }
        if check.deadline_us().is_some_and(|at| at <= now_us) {
            check.tick(now_us);
        }
        if told.elapsed() > Duration::from_millis(200) {
            told = Instant::now();
            let (done, all) = check.progress();
            progress(done * SECTOR_SIZE as u64, all * SECTOR_SIZE as u64);
        }
    }
    let report = check.finish();
    let findings = report.findings.iter();
    Ok(CheckView {
        datasets: report.datasets,
        blocks: report.blocks,
        nodes: report.nodes,
        verified: report.verified,
        needed: report.reached_sectors * SECTOR_SIZE as u64,
        findings: findings
            .map(|found| told_of(found, pool.catalog()))
            .collect(),
        more_findings: report.more_findings,
        ..view
    })
}

fn told_of(finding: &Finding, catalog: &Catalog) -> FindingView {
    let mut text = what(finding.kind).to_owned();
    let owners: Vec<String> = finding.owners.iter().map(|of| owner(of, catalog)).collect();
    if !owners.is_empty() {
        text = format!("{text}: {}", owners.join(" and "));
    }
    if let Some(extent) = finding.extent {
        let (vdev, first, end) = (extent.vdev, extent.sector, extent.end());
        text = format!("{text} (sectors {first}..{end} of vdev {vdev})");
    }
    if !finding.context.is_empty() {
        text = format!("{text}: {}", finding.context);
    }
    FindingView {
        kind: finding.kind.as_str().to_owned(),
        text,
        action: action(finding.kind).to_owned(),
    }
}

/// Whose sectors they are, with the names that people gave.
fn owner(owner: &Owner, catalog: &Catalog) -> String {
    match owner {
        Owner::Block { dataset, block } => {
            format!("block {block} of {}", catalog.full_name(*dataset))
        }
        Owner::Node {
            dataset,
            level,
            index,
        } => format!("node {level}/{index} of {}", catalog.full_name(*dataset)),
        Owner::DeadList { dataset } => {
            format!("the dead list of {}", catalog.full_name(*dataset))
        }
        other => other.to_string(),
    }
}

fn what(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::DoubleAllocation => "two owners have the same sectors",
        FindingKind::NotAllocated => "sectors are needed and said to be free",
        FindingKind::Beyond => "sectors are named that do not exist",
        FindingKind::Leak => "sectors are in use and nobody has them",
        FindingKind::Unproven => {
            "nobody was found who has these sectors, but not all could be read"
        }
        FindingKind::Unreadable => "no copy is right",
        FindingKind::BadCopy => "a copy is wrong, and another is right",
        FindingKind::WrongBirth => "the epochs of blocks contradict one another",
        FindingKind::WrongDeadList => "a dead list does not say what is dead",
        FindingKind::WrongReferenced => "the space of a dataset is counted wrongly",
        FindingKind::WrongSpace => "the space map contradicts itself",
    }
}

fn action(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::BadCopy => "nothing is lost: import the pool and use `sandstone pool scrub`",
        FindingKind::Unreadable => {
            "these bytes are lost unless a missing device has them: reading them fails, and never returns \
             wrong bytes; restore them from a copy"
        }
        FindingKind::Leak | FindingKind::Unproven => {
            "space is lost, and nothing else; where much is, copy the volumes to a new pool"
        }
        FindingKind::WrongReferenced => "a figure is wrong, and nothing else; report this",
        FindingKind::DoubleAllocation
        | FindingKind::NotAllocated
        | FindingKind::Beyond
        | FindingKind::WrongBirth
        | FindingKind::WrongDeadList
        | FindingKind::WrongSpace => {
            "do not write to this pool: copy what can be read to a new one, and report this"
        }
    }
}
