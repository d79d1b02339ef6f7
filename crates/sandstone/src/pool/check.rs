//! `pool check`: proves a pool that is not open, on its files and devices, without a daemon.
//!
//! Nothing is written. Opening a pool may want to bring the end of its log onto all its leaves; that is
//! kept in memory here and what is read comes from there.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pages::Pages;
use serde::{Deserialize, Serialize};
use store::cache::Cache;
use store::catalog::Catalog;
use store::format::SECTOR_SIZE;
use store::pool::check::{Check, Finding, FindingKind, Owner};
use store::pool::{Examined, LeafLabels, Limits, Opening, Pool, examine};
use store::vdev::{self, DeviceOp, DeviceOutcome, DeviceRequest, IoId, LeafId};
use utoipa::ToSchema;

use super::devices::Devices;
use super::import::{Found, describe, open_all, scan_paths};
use super::opening::{Clock, wall_clock_s};
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
    let found = scan_paths(paths);
    let guid = choose(&found, wanted)?;
    let described = describe(guid, &found[&guid]);
    let mut opened = Vec::new();
    for (path, result) in open_all(&described.devices) {
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
    let mut drive = Drive::new()?;
    let mut pool = open(&examined, &leaves, &mut drive)?;
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
    let described = found.iter().map(|(guid, on)| (describe(*guid, on), *guid));
    let is_meant = |name: &str, guid: &str| wanted.is_none_or(|word| word == name || word == guid);
    let fitting: Vec<u64> = described
        .filter(|(pool, _)| is_meant(&pool.name, &pool.guid))
        .map(|(_, guid)| guid)
        .collect();
    match fitting[..] {
        [guid] => Ok(guid),
        [] => Err(Error::not_found(
            match wanted {
                Some(name) => format!("no pool {name} was found"),
                None => "no pool was found".to_owned(),
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

fn open(
    examined: &Examined,
    leaves: &[(u64, Arc<dyn BlockDevice>)],
    drive: &mut Drive,
) -> Result<Pool, Error> {
    let root = examined
        .roots
        .first()
        .ok_or_else(|| damaged("its labels hold no checkpoint"))?;
    let cache = Arc::new(Cache::new(16 << 20, super::random_u64()));
    let now_us = drive.clock.now_us();
    let (limits, of_vdevs) = (Limits::default(), vdev::Limits::default());
    let mut opening = Opening::new(examined, root, limits, of_vdevs, cache, now_us)
        .map_err(|error| damaged(&error.to_string()))?;
    for (guid, device) in leaves {
        if let Some(leaf) = opening.leaf(*guid) {
            drive.devices.attach(leaf, Arc::clone(device));
        }
    }
    while !opening.is_done() {
        opening
            .take_requests()
            .into_iter()
            .for_each(|request| drive.submit(request));
        let answers = drive.wait(opening.deadline_us())?;
        let now_us = drive.clock.now_us();
        for (io, outcome) in answers {
            opening.completed(io, outcome, now_us);
        }
        if opening.deadline_us().is_some_and(|at| at <= now_us) {
            opening.tick(now_us, wall_clock_s());
        }
    }
    opening
        .finish()
        .map_err(|error| damaged(&error.to_string()))
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
        let answers = drive.wait(check.deadline_us())?;
        let now_us = drive.clock.now_us();
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

/// Devices that are read, and never written.
struct Drive {
    devices: Devices,
    clock: Clock,
    /// What was to be written, by leaf and sector.
    written: HashMap<(LeafId, u64), Vec<u8>>,
    reading: HashMap<IoId, (LeafId, u64)>,
    answers: Vec<(IoId, DeviceOutcome)>,
}

impl Drive {
    fn new() -> Result<Self, Error> {
        let devices =
            Devices::new(true).map_err(|error| Error::storage("prepare to read devices", error))?;
        Ok(Self {
            devices,
            clock: Clock::start(),
            written: HashMap::new(),
            reading: HashMap::new(),
            answers: Vec::new(),
        })
    }

    fn submit(&mut self, request: DeviceRequest) {
        let sector = |byte: u64| byte / SECTOR_SIZE as u64;
        match request.op {
            DeviceOp::Read { offset, .. } => {
                self.reading
                    .insert(request.io, (request.leaf, sector(offset)));
                self.devices.submit(request);
            }
            DeviceOp::Write { offset, data } => {
                let bytes = data.to_vec();
                for (at, bytes) in (sector(offset)..).zip(bytes.chunks(SECTOR_SIZE)) {
                    self.written.insert((request.leaf, at), bytes.to_vec());
                }
                self.answers.push((request.io, Ok(Pages::new())));
            }
            DeviceOp::Flush | DeviceOp::Trim { .. } => {
                self.answers.push((request.io, Ok(Pages::new())));
            }
        }
    }

    /// The answers that are there, or those that come before `until`.
    fn wait(&mut self, until: Option<u64>) -> Result<Vec<(IoId, DeviceOutcome)>, Error> {
        self.devices.start_batch();
        self.devices.take(&mut self.answers);
        if self.answers.is_empty() {
            if self.devices.is_idle() && until.is_none() {
                return Err(damaged("it waits for nothing: this is a defect, report it"));
            }
            let until = until.and_then(|at| self.clock.at(at));
            self.devices
                .wait(until)
                .map_err(|error| Error::storage("wait for the devices", error))?;
            self.devices.take(&mut self.answers);
        }
        let answers = std::mem::take(&mut self.answers);
        let answers = answers.into_iter();
        Ok(answers
            .map(|(io, outcome)| self.overlaid(io, outcome))
            .collect())
    }

    /// A read with what was to be written in its place.
    fn overlaid(&mut self, io: IoId, outcome: DeviceOutcome) -> (IoId, DeviceOutcome) {
        let (Some((leaf, first)), Ok(data)) = (self.reading.remove(&io), &outcome) else {
            return (io, outcome);
        };
        let sectors = (data.len() / SECTOR_SIZE) as u64;
        let is_written = |at| self.written.contains_key(&(leaf, at));
        if self.written.is_empty() || !(first..first + sectors).any(is_written) {
            return (io, outcome);
        }
        let mut bytes = data.to_vec();
        for (at, part) in (first..).zip(bytes.chunks_mut(SECTOR_SIZE)) {
            if let Some(written) = self.written.get(&(leaf, at)) {
                part.copy_from_slice(written);
            }
        }
        (io, Ok(Pages::from_bytes(&bytes)))
    }
}
