//! `pool check`: proves a pool that is not open, on its files and devices, without a daemon.
//!
//! Nothing is written (`import/drive.rs`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::catalog::Catalog;
use store::engine::check::{Check, Finding, FindingKind, Owner};
use store::engine::{Back, LeafLabels, OpenError, OpenErrorKind, Pool, examine};
use store::format::{DatasetId, FAN_OUT, SECTOR_SIZE};

use crate::devices::disks::Disks;
use crate::import::drive::Drive;
use crate::import::found::{FoundPools, describe, find_labels, several};
use crate::import::opening::Remedy;
use crate::import::request::open_all;
use crate::import::{rewind, twins};
use block::BlockDevice;
use model::pool::check::{CheckPool, CheckView, FindingView, WrongDevice};
use model::{Error, ErrorKind};

/// Checks a pool that is not open. `progress` gets the bytes proven so far, and all bytes.
///
/// # Errors
/// The pool is not found, is in use, or cannot be opened, or its labels do not know the checkpoint.
pub fn check(asked: &CheckPool, progress: &mut dyn FnMut(u64, u64)) -> Result<CheckView, Error> {
    // Only the daemon reaches other machines' disks, and it checks no pool that is not open.
    let disks = Disks::default();
    let found = find_labels(&disks, &asked.paths);
    let guid = choose(&found, asked.pool.as_deref())?;
    let described = describe(guid, &found.pools[&guid]);
    let (all, paths) = (&described.devices, &asked.paths);
    twins::refuse(&described.name, &described.twins, all, paths, "check")?;
    let mut opened = Vec::new();
    for (path, result) in open_all(&disks, &described.devices) {
        match result {
            Ok((device, labels)) => opened.push((path, device, labels)),
            Err(error) => return Err(in_use(&described.name, &path, error)),
        }
    }
    let labels: Vec<LeafLabels> = opened.iter().map(|(.., labels)| labels.clone()).collect();
    let unopened = |error: OpenError| cannot_open(&described.name, &described.missing, error);
    let mut examined = examine(&labels, Some(guid)).map_err(unopened)?;
    if asked.without_log {
        examined.drop_missing_logs();
    }
    let mut leaves: Vec<(u64, Arc<dyn BlockDevice>)> = Vec::new();
    let mut places = BTreeMap::new();
    for (leaf, (path, device, _)) in examined.leaves.iter().zip(opened) {
        if let Some(leaf) = *leaf {
            leaves.push((leaf, device));
            places.insert(leaf, path);
        }
    }
    let mut drive = Drive::new().map_err(|reason| failed(&reason))?;
    let steps = asked
        .checkpoint
        .map(|number| rewind::steps_to(&examined, number));
    let steps = steps.transpose()?;
    let back = steps.map(|checkpoints| Back {
        checkpoints,
        without_log: true,
    });
    let opened = drive.open(&examined, &leaves, back);
    let (mut pool, _) = opened.pool.map_err(unopened)?;
    let root = examined.roots.get(steps.unwrap_or(0));
    let view = CheckView {
        name: described.name,
        guid: described.guid,
        checkpoint_s: root.map_or(0, |root| root.root.time_s),
        missing: described.missing,
        ..CheckView::default()
    };
    let view = prove(&mut pool, &mut drive, view, progress)?;
    let wrong = wrong_devices(&pool, &places);
    Ok(CheckView { wrong, ..view })
}

/// Returns the devices that gave wrong answers.
fn wrong_devices(pool: &Pool, places: &BTreeMap<u64, PathBuf>) -> Vec<WrongDevice> {
    let status = pool.status();
    let slots = status.top_levels.iter().flat_map(|top| &top.slots);
    let leaves = slots.flat_map(|slot| &slot.leaves);
    let wrong = leaves.filter(|leaf| leaf.errors.checksum + leaf.errors.read > 0);
    wrong
        .map(|leaf| WrongDevice {
            path: places.get(&leaf.guid).map_or_else(
                || format!("{:016x}", leaf.guid),
                |path| path.display().to_string(),
            ),
            checksum: leaf.errors.checksum,
            read: leaf.errors.read,
        })
        .collect()
}

/// Returns the number of the pool that the request means.
fn choose(found: &FoundPools, wanted: Option<&str>) -> Result<u64, Error> {
    let fitting = match wanted {
        Some(wanted) => found.named(wanted),
        None => found.all(),
    };
    match &fitting[..] {
        [(_, guid)] => Ok(*guid),
        [] => Err(Error::not_found(
            match wanted {
                Some(name) => format!("no pool {name} was found{}", found.told_unusable()),
                None => format!("no pool was found{}", found.told_unusable()),
            },
            "name its files, devices or folders; if all labels of its devices are lost, `sandstone pool \
             check --rebuild-labels DEVICE...` looks for traces of the pool",
        )),
        _ => Err(several(&fitting)),
    }
}

fn in_use(name: &str, path: &std::path::Path, error: Error) -> Error {
    let path = path.display().to_string();
    let message = match error.message.contains(&path) {
        true => error.message,
        false => format!("{path}: {}", error.message),
    };
    Error::new(
        ErrorKind::InUse,
        message,
        format!(
            "`sandstone pool scrub {name}` verifies an open pool; to check the pool, export it first"
        ),
    )
}

fn cannot_open(name: &str, missing: &[String], error: OpenError) -> Error {
    let mut reason = error.to_string();
    if !missing.is_empty() {
        reason.push_str(&format!("; missing: {}", missing.join(", ")));
    }
    let rewind = Remedy::going_back(name);
    let next = match (Remedy::of(error.kind), missing.is_empty()) {
        (_, false) if error.kind == OpenErrorKind::LogMissing => {
            "attach the log device, or name it with -d; -m checks the pool without it".to_owned()
        }
        (Remedy::Newer, _) => Remedy::newer(name),
        (Remedy::Rewind, true) => rewind,
        (Remedy::Rewind, false) => {
            format!("attach the missing devices, or name them with -d; otherwise {rewind}")
        }
        (Remedy::Program, _) => format!(
            "check it with the version of sandstone that wrote it, or a newer one; if that version reports \
             the same error, {rewind}"
        ),
        (_, false) => "attach the missing devices, or name them with -d".to_owned(),
        (_, true) => format!("`sandstone pool import -d PATH {name}` tells the remedy"),
    };
    let message = format!("pool {name} cannot be opened, so it cannot be checked: {reason}");
    Error::new(ErrorKind::Corrupt, message, next)
}

/// Returns an error for an obstacle other than the pool.
pub(crate) fn failed(reason: &str) -> Error {
    Error::new(
        ErrorKind::Storage,
        format!("the pool cannot be checked: {reason}"),
        "check it again; report this if it happens again",
    )
}

pub(crate) fn prove(
    pool: &mut Pool,
    drive: &mut Drive,
    view: CheckView,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CheckView, Error> {
    let busy = || failed("the pool is still busy after its opening, which is a defect");
    let mut check = Check::new(pool).ok_or_else(busy)?;
    let mut told = Instant::now();
    while !check.is_done() {
        check
            .take_requests()
            .into_iter()
            .for_each(|request| drive.submit(request));
        let answers = drive
            .wait(check.deadline_us())
            .map_err(|reason| failed(&reason))?;
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
    let mut findings: Vec<&Finding> = report.findings.iter().collect();
    // In the order of the volumes, not in the order in which they were met.
    let order = |of: &Finding| (severity(of.kind), of.kind);
    findings.sort_by(|one, other| (order(one), &one.owners).cmp(&(order(other), &other.owners)));
    let findings = findings.into_iter();
    Ok(CheckView {
        datasets: report.datasets,
        blocks: report.blocks,
        nodes: report.nodes,
        verified: report.verified,
        needed: report.reached_sectors * SECTOR_SIZE as u64,
        findings: findings
            .map(|found| told_of(found, pool.catalog(), &view.name))
            .collect(),
        more_findings: report.more_findings,
        ..view
    })
}

fn told_of(finding: &Finding, catalog: &Catalog, pool: &str) -> FindingView {
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
        action: action(finding.kind, pool),
    }
}

/// Words which bytes of a volume or snapshot a range of blocks covers, cut to the volume's size.
fn bytes(catalog: &Catalog, dataset: DatasetId, first: u64, count: u64) -> Option<String> {
    let (size, block_size) = catalog.dataset(dataset)?.geometry()?;
    let block_size = u64::from(block_size);
    let end = first.saturating_add(count).saturating_mul(block_size);
    let first = first.saturating_mul(block_size);
    (first < size).then(|| format!("bytes {first} to {}", end.min(size)))
}

/// Returns the rank of a finding. The most urgent ones are reported first.
fn severity(kind: FindingKind) -> u8 {
    match kind {
        FindingKind::DoubleAllocation
        | FindingKind::NotAllocated
        | FindingKind::Beyond
        | FindingKind::WrongBirth
        | FindingKind::WrongDeadList
        | FindingKind::WrongSpace => 0,
        FindingKind::Unreadable => 1,
        FindingKind::BadCopy => 2,
        FindingKind::Leak | FindingKind::Unproven | FindingKind::WrongReferenced => 3,
    }
}

/// Names the owner of sectors, by the names of the datasets.
fn owner(owner: &Owner, catalog: &Catalog) -> String {
    match owner {
        Owner::Block { dataset, block } => {
            let name = catalog.full_name(*dataset);
            match bytes(catalog, *dataset, *block, 1) {
                Some(bytes) => format!("{bytes} of {name}"),
                None => format!("block {block} of {name}"),
            }
        }
        Owner::Node {
            dataset,
            level,
            index,
        } => {
            let name = catalog.full_name(*dataset);
            let bits = FAN_OUT.ilog2() * (u32::from(*level) + 1);
            let first = index.checked_shl(bits).unwrap_or(0);
            match bytes(
                catalog,
                *dataset,
                first,
                1_u64.checked_shl(bits).unwrap_or(u64::MAX),
            ) {
                Some(bytes) => format!("node {level}/{index} of {name}, which leads to {bytes}"),
                None => format!("node {level}/{index} of {name}"),
            }
        }
        Owner::DeadList { dataset } => {
            format!("the dead list of {}", catalog.full_name(*dataset))
        }
        other => other.to_string(),
    }
}

fn what(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::DoubleAllocation => "two owners have the same sectors",
        FindingKind::NotAllocated => "sectors are in use but marked as free",
        FindingKind::Beyond => "sectors are referenced that do not exist",
        FindingKind::Leak => "sectors are marked as used but belong to nothing",
        FindingKind::Unproven => {
            "no owner of these sectors was found, but not everything could be read"
        }
        FindingKind::Unreadable => "no correct copy is left",
        FindingKind::BadCopy => "one copy is wrong, another one is correct",
        FindingKind::WrongBirth => "the epochs of blocks contradict one another",
        FindingKind::WrongDeadList => "a dead list does not match the dead blocks",
        FindingKind::WrongReferenced => "the space of a dataset is counted incorrectly",
        FindingKind::WrongSpace => "the space map contradicts itself",
    }
}

fn action(kind: FindingKind, pool: &str) -> String {
    match kind {
        FindingKind::BadCopy => {
            return format!(
                "nothing is lost: `sandstone pool import -d PATH {pool}`, then `sandstone pool scrub {pool}` \
                 writes the correct bytes there"
            );
        }
        FindingKind::Unreadable => {
            "these bytes are lost unless a missing device has them: reading them fails, and never returns \
             wrong bytes; restore them from a backup"
        }
        FindingKind::Unproven => {
            "the sectors belong to data that could not be read, or they are lost space; nothing else is \
             wrong with them"
        }
        FindingKind::Leak => {
            "only space is lost; if it is much, copy the volumes to a new pool"
        }
        FindingKind::WrongReferenced => "only a figure is wrong; report this",
        FindingKind::DoubleAllocation
        | FindingKind::NotAllocated
        | FindingKind::Beyond
        | FindingKind::WrongBirth
        | FindingKind::WrongDeadList
        | FindingKind::WrongSpace => {
            "do not write to this pool: copy all readable data to a new pool, and report this"
        }
    }
    .to_owned()
}
