//! `pool check --rebuild-labels`: gives devices that lost all their labels new ones, from their
//! inner labels.
//!
//! The store (`Rebuild`) decides what the labels become. This file opens the devices exclusively
//! and searches them. It then proves the findings as `pool check` proves a pool. The pool is opened
//! without a write (`import/drive.rs`), and every copy of every block is read. Labels are written
//! only after that, and only on request.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pages::Pages;
use store::engine::features::Feature;
use store::engine::{
    Examined, LeafLabels, OpenError, OpenErrorKind, Rebuild, Trace, front_labels, trace_places,
};
use store::format::SECTOR_SIZE;
use store::format::label::{ACTIVITY_OFFSET, LABEL_SIZE};

use super::check::{failed, prove};
use crate::devices::disks::Disks;
use crate::devices::label;
use crate::devices::system::key;
use crate::import::drive::Drive;
use crate::import::found::{leaves, name_of, unaccounted};
use crate::import::request::open_all;
use block::lane::ask;
use block::{BlockDevice, Done, Request};
use model::pool::check::CheckView;
use model::pool::rebuild_labels::{RebuildLabels, RebuildProgress, RebuildView, RebuiltDevice};
use model::{Error, ErrorKind};

/// Time for which devices are watched that another host may have open. An open pool's host writes a
/// record there at least every eight seconds.
const WATCH: Duration = Duration::from_secs(20);

/// Device that the user named.
struct Own {
    path: PathBuf,
    device: Arc<dyn BlockDevice>,
    labels: LeafLabels,
    traces: Vec<Trace>,
}

/// Searches devices, proves what they hold, and writes their labels on request.
///
/// # Errors
/// The reason why nothing is written. If writing the labels failed, the request can be repeated.
pub fn rebuild_labels(
    asked: &RebuildLabels,
    progress: &mut dyn FnMut(RebuildProgress<'_>),
) -> Result<RebuildView, Error> {
    let devices = open(&asked.paths, progress)?;
    let guid = choose(&devices, asked.pool.as_deref())?;
    let labels: Vec<LeafLabels> = devices.iter().map(|own| own.labels.clone()).collect();
    let traces: Vec<Vec<Trace>> = devices.iter().map(|own| own.traces.clone()).collect();
    let plan =
        Rebuild::plan(&labels, &traces, guid).map_err(|error| unplanned(&devices, &error))?;
    let proof = prove_plan(&devices, &plan, progress)?;
    let mut view = view(&devices, &plan, proof);
    refuse_broken(&view)?;
    let config = &plan.examined.config;
    if asked.write {
        if !config.is_exported && config.features.is_active(Feature::Multihost) {
            progress(RebuildProgress::Watches);
            require_silence(&devices, &view)?;
        }
        write(&devices, &plan)?;
        view.is_written = true;
    }
    Ok(view)
}

fn open(
    paths: &[PathBuf],
    progress: &mut dyn FnMut(RebuildProgress<'_>),
) -> Result<Vec<Own>, Error> {
    if paths.is_empty() {
        return Err(Error::invalid(
            "no device was named",
            "name each device of the pool: `sandstone pool check --rebuild-labels DEVICE...`",
        ));
    }
    if let Some(folder) = paths.iter().find(|path| path.is_dir()) {
        return Err(Error::invalid(
            format!("{} is a folder", folder.display()),
            "labels are written only on devices that are named one by one: name each device of the pool",
        ));
    }
    let mut named: Vec<PathBuf> = Vec::new();
    for path in paths {
        let is_there =
            |other: &PathBuf| other == path || (key(path).is_some() && key(other) == key(path));
        if !named.iter().any(is_there) {
            named.push(path.clone());
        }
    }
    // Only the daemon reaches other machines' disks, and it rebuilds no pool.
    let disks = Disks::default();
    let mut devices = Vec::new();
    for (path, opened) in open_all(&disks, &named) {
        let (device, labels) = opened.map_err(|error| in_use(&path, error))?;
        devices.push(Own {
            traces: search(&path, &*device, progress)?,
            path,
            device,
            labels,
        });
    }
    Ok(devices)
}

fn in_use(path: &Path, error: Error) -> Error {
    let at = path.display().to_string();
    let message = match error.message.contains(&at) {
        true => error.message,
        false => format!("{at}: {}", error.message),
    };
    Error::new(
        error.kind,
        message,
        "if a pool is open on the device, `sandstone pool export POOL` writes its labels",
    )
    .not_changed("nothing was written")
}

/// Returns the inner labels of a device: at their places if its size never changed, else wherever
/// they may lie. An unreadable place counts as empty.
fn search(
    path: &Path,
    device: &dyn BlockDevice,
    progress: &mut dyn FnMut(RebuildProgress<'_>),
) -> Result<Vec<Trace>, Error> {
    let size = device.geometry().len;
    let (likely, all) = trace_places(size);
    let mut found = Vec::new();
    for at in likely {
        found.extend(trace_at(path, device, at)?);
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let mut told = Instant::now();
    for at in all {
        if told.elapsed() > Duration::from_millis(200) {
            told = Instant::now();
            progress(RebuildProgress::Searches(path, at, size));
        }
        found.extend(trace_at(path, device, at)?);
    }
    Ok(found)
}

fn trace_at(path: &Path, device: &dyn BlockDevice, at: u64) -> Result<Option<Trace>, Error> {
    let head = read(device, at, SECTOR_SIZE);
    if head.is_none_or(|head| !head.to_vec().starts_with(b"SANDLABL")) {
        return Ok(None);
    }
    let copy = read(device, at, LABEL_SIZE).unwrap_or_default();
    Trace::read(&copy, at).map_err(|error| {
        Error::new(
            ErrorKind::Refused,
            format!("{}: {error}", path.display()),
            "use the version of sandstone that wrote the label, or a newer one",
        )
    })
}

fn read(device: &dyn BlockDevice, offset: u64, len: usize) -> Option<Pages> {
    let len = len as u32;
    match ask(device, Request::Read { offset, len }) {
        Ok(Done::Pages(bytes)) if bytes.len() == len as usize => Some(bytes),
        _ => None,
    }
}

/// Returns the number of the pool that the name or number means, or `None` if the user named none.
fn choose(devices: &[Own], wanted: Option<&str>) -> Result<Option<u64>, Error> {
    let Some(wanted) = wanted else {
        return Ok(None);
    };
    let traces = devices.iter().flat_map(|own| &own.traces);
    let traces = traces.map(|trace| (trace.label.pool, trace.name.clone()));
    let labels = devices.iter().filter_map(|own| label::newest(&own.labels));
    let labels = labels.map(|(config, _)| (config.guid, config.name));
    let is_meant =
        |(guid, name): &(u64, String)| name == wanted || format!("{guid:016x}") == wanted;
    let mut fitting: Vec<u64> = traces
        .chain(labels)
        .filter(is_meant)
        .map(|of| of.0)
        .collect();
    fitting.sort_unstable();
    fitting.dedup();
    match fitting[..] {
        [guid] => Ok(Some(guid)),
        [] => Err(Error::not_found(
            format!("no trace of pool {wanted} was found: {}", told_of(devices)),
            "name one of the pools that were found, and its devices",
        )),
        _ => Err(Error::invalid(
            format!("several pools {wanted} were found: {}", told_of(devices)),
            "name one of them by its number",
        )),
    }
}

/// Words the findings on each device.
fn told_of(devices: &[Own]) -> String {
    let told = devices.iter().map(|own| {
        let mut said: Vec<String> = label::newest(&own.labels)
            .map(|(config, leaf)| {
                format!("labels of pool {} ({:016x}), device {leaf:016x}", config.name, config.guid)
            })
            .into_iter()
            .collect();
        said.extend(own.traces.iter().map(|trace| {
            let (name, label) = (&trace.name, &trace.label);
            format!(
                "an inner label of pool {name} ({:016x}), device {:016x}, configuration {} at byte {}",
                label.pool, label.leaf, label.generation, trace.offset
            )
        }));
        match said.is_empty() {
            true => format!("{}: nothing", own.path.display()),
            false => format!("{}: {}", own.path.display(), said.join(", ")),
        }
    });
    told.collect::<Vec<String>>().join("; ")
}

/// Words the reason why there is no plan, with the names of the devices.
fn unplanned(devices: &[Own], error: &OpenError) -> Error {
    let named: String = devices
        .iter()
        .map(|own| format!(" {}", own.path.display()))
        .collect();
    let has_nothing = |own: &&Own| own.traces.is_empty() && label::newest(&own.labels).is_none();
    let bare = devices.iter().find(has_nothing);
    let next = match (error.kind, bare) {
        (OpenErrorKind::NoPool, None) if error.context.contains("nothing to rebuild") => format!(
            "import the pool; `sandstone pool import{}` tells the obstacle if it does not open",
            devices.iter().map(|own| format!(" -d {}", own.path.display())).collect::<String>()
        ),
        (OpenErrorKind::NoPool | OpenErrorKind::Missing, Some(bare)) => format!(
            "omit {}: if other devices hold its data, `sandstone pool replace POOL OLD NEW` rebuilds it \
             from them when the pool is open; OLD is the name that `sandstone pool status` shows as missing",
            bare.path.display()
        ),
        (OpenErrorKind::Twins, _) if error.context.contains("several pools") => format!(
            "`sandstone pool check --rebuild-labels{named} POOL`, with the name or number of one pool"
        ),
        (OpenErrorKind::Twins, _) => {
            "one of them is a copy of another: name only the device that was in use last, and none of its \
             copies".to_owned()
        }
        (OpenErrorKind::Version, _) => {
            "use the version of sandstone that wrote the labels, or a newer one".to_owned()
        }
        _ => "name all remaining devices of the pool, and no device of another pool".to_owned(),
    };
    Error::new(
        ErrorKind::Refused,
        format!(
            "the labels cannot be rebuilt: {error}. {}",
            told_of(devices)
        ),
        next,
    )
    .not_changed("nothing was written")
}

/// Opens the pool as its new labels would have it, and reads all of it.
fn prove_plan(
    devices: &[Own],
    plan: &Rebuild,
    progress: &mut dyn FnMut(RebuildProgress<'_>),
) -> Result<CheckView, Error> {
    let examined = &plan.examined;
    let given = examined.leaves.iter().zip(devices);
    let given: Vec<(u64, Arc<dyn BlockDevice>)> = given
        .filter_map(|(leaf, own)| Some(((*leaf)?, Arc::clone(&own.device))))
        .collect();
    let mut drive = Drive::new().map_err(|reason| failed(&reason))?;
    let opened = drive.open(examined, &given, None);
    let (mut pool, _) = opened.pool.map_err(|error| {
        let missing = missing(examined);
        let lacking = match missing.is_empty() {
            true => String::new(),
            false => format!("; missing: {}", missing.join(", ")),
        };
        Error::new(
            ErrorKind::Corrupt,
            format!("labels were found, but the pool does not open with them: {error}{lacking}"),
            "name all remaining devices of the pool, including those that have labels",
        )
        .not_changed("nothing was written")
    })?;
    let (config, root) = (&examined.config, &examined.roots[0].root);
    let view = CheckView {
        name: config.name.clone(),
        guid: format!("{:016x}", config.guid),
        checkpoint_s: root.time_s,
        missing: missing(examined),
        ..CheckView::default()
    };
    prove(&mut pool, &mut drive, view, &mut |done, all| {
        progress(RebuildProgress::Proves(done, all));
    })
}

/// Returns the devices that the user did not name.
fn missing(examined: &Examined) -> Vec<String> {
    let config = &examined.config;
    let away = leaves(config).filter(|leaf| !examined.leaves.contains(&Some(*leaf)));
    away.map(|leaf| name_of(config, leaf)).collect()
}

fn view(devices: &[Own], plan: &Rebuild, proof: CheckView) -> RebuildView {
    let examined = &plan.examined;
    let (config, root) = (&examined.config, &examined.roots[0].root);
    let named = devices.iter().zip(&examined.leaves).zip(&plan.labels);
    let named = named.map(|((own, leaf), new)| RebuiltDevice {
        path: own.path.clone(),
        leaf: leaf.map(|leaf| format!("{leaf:016x}")).unwrap_or_default(),
        found_at: new
            .as_ref()
            .map(|new| new.found_at.clone())
            .unwrap_or_default(),
        labels_at: new
            .iter()
            .flat_map(|new| new.offsets.into_iter().flatten())
            .collect(),
    });
    let path_of = |guid: u64| {
        let at = examined.leaves.iter().position(|leaf| *leaf == Some(guid));
        at.map_or_else(
            || name_of(config, guid),
            |at| devices[at].path.display().to_string(),
        )
    };
    let behind = examined.behind.iter();
    RebuildView {
        name: config.name.clone(),
        guid: format!("{:016x}", config.guid),
        host: config.host.clone(),
        is_exported: config.is_exported,
        epoch: root.epoch.0,
        checkpoint_s: root.time_s,
        devices: named.collect(),
        unaccounted: unaccounted(examined),
        behind: behind
            .map(|of| format!("{}: {}", path_of(of.leaf), of.told()))
            .collect(),
        proof,
        is_written: false,
    }
}

/// Refuses a state that contradicts itself: it is not the pool's newest state, or a device is not
/// this pool's.
fn refuse_broken(view: &RebuildView) -> Result<(), Error> {
    let is_broken = |kind: &str| {
        [
            "double-allocation",
            "not-allocated",
            "beyond",
            "wrong-birth",
            "wrong-space",
        ]
        .contains(&kind)
    };
    let Some(broken) = view
        .proof
        .findings
        .iter()
        .find(|found| is_broken(&found.kind))
    else {
        return Ok(());
    };
    Err(Error::new(
        ErrorKind::Corrupt,
        format!(
            "the data on the devices contradicts itself: {}",
            broken.text
        ),
        "report this; `--json` without -y lists everything that was found",
    )
    .not_changed("nothing was written"))
}

/// Refuses devices that change although nothing here writes to them.
fn require_silence(devices: &[Own], view: &RebuildView) -> Result<(), Error> {
    let before: Vec<Vec<Option<Pages>>> = devices.iter().map(watched).collect();
    std::thread::sleep(WATCH);
    let is_equal = |one: &Option<Pages>, other: &Option<Pages>| match (one, other) {
        (Some(one), Some(other)) => one.to_vec() == other.to_vec(),
        (one, other) => one.is_none() && other.is_none(),
    };
    for (own, before) in devices.iter().zip(&before) {
        let now = watched(own);
        if !before
            .iter()
            .zip(&now)
            .all(|(one, other)| is_equal(one, other))
        {
            return Err(Error::new(
                ErrorKind::InUse,
                format!(
                    "another host is writing to {}: {} still has pool {} open",
                    own.path.display(),
                    view.host,
                    view.name
                ),
                "export the pool there; that host then writes the labels itself",
            )
            .not_changed("nothing was written"));
        }
    }
    Ok(())
}

/// Reads the places that a host with the pool open keeps writing: its records in place of the
/// labels, and roots in inner labels.
fn watched(own: &Own) -> Vec<Option<Pages>> {
    let size = own.device.geometry().len;
    let rear =
        [2, 1].map(|back| (size - size % LABEL_SIZE as u64).checked_sub(back * LABEL_SIZE as u64));
    let ends = front_labels(size).into_iter().chain(rear).flatten();
    let records = ends.map(|at| read(&*own.device, at + ACTIVITY_OFFSET as u64, SECTOR_SIZE));
    let inner = own
        .traces
        .iter()
        .map(|trace| read(&*own.device, trace.offset, LABEL_SIZE));
    records.chain(inner).collect()
}

/// Writes the labels in the store's order.
fn write(devices: &[Own], plan: &Rebuild) -> Result<(), Error> {
    let failed = |own: &Own, error| {
        label::failed("write", &own.path, error).not_changed(
            "some labels were rewritten, with the contents of the intact inner labels: run this command \
             again; if it reports that there is nothing to rebuild, import the pool",
        )
    };
    for step in 0..2 {
        let lost = || {
            devices
                .iter()
                .zip(&plan.labels)
                .filter_map(|(own, new)| Some((own, new.as_ref()?)))
        };
        for (own, new) in lost() {
            for (offset, data) in new.steps()[step].clone() {
                let write = Request::Write {
                    offset,
                    data,
                    durable: false,
                };
                ask(&*own.device, write).map_err(|error| failed(own, error))?;
            }
        }
        for (own, _) in lost() {
            ask(&*own.device, Request::Flush).map_err(|error| failed(own, error))?;
        }
    }
    Ok(())
}
