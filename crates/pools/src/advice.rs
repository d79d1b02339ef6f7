//! Advice about a pool: what happened, what it means and what to do. It fills zpool's `status:` and
//! `action:`.

use store::engine::{PoolStatus, ScanKind, ScanState, Stop};
use store::vdev::{Class, LeafStatus, TopLevelKind, TopLevelStatus, VdevState};

use super::condition::{has_lost_blocks, state};
use super::fullness::{Fill, Fullness};

/// Worst event with its meaning, and the remedy.
type Advice = (String, String);

/// Place where the new device of a command is found.
const FREE_DEVICES: &str = "'sandstone pool disks' lists free ones";

/// Returns the name of a device for a command, or `DEVICE` if several are meant. Names stand beside
/// each other in the status.
fn the_one(mut guids: impl Iterator<Item = u64>, name_of: &dyn Fn(u64) -> String) -> String {
    match (guids.next(), guids.next()) {
        (Some(guid), None) => name_of(guid),
        _ => "DEVICE".to_owned(),
    }
}

/// Returns the advice for a pool, or `None` if all is well. `lost` are the volumes that lost
/// unflushed writes. `goes_on` means that disks are missing, or may be, and the pool goes on by
/// itself if they were the reason. `name_of` returns the name of a device by its guid.
pub(super) fn advice(
    status: &PoolStatus,
    lost: &[String],
    goes_on: bool,
    name_of: &dyn Fn(u64) -> String,
) -> Option<Advice> {
    let tops = status.top_levels.iter().filter(|top| !is_log_lost(top));
    let slots = tops.flat_map(|top| &top.slots);
    let leaves: Vec<&LeafStatus> = slots.flat_map(|slot| &slot.leaves).collect();
    of_suspended(status, goes_on)
        .or_else(|| of_read_only(status))
        .or_else(|| of_lost(status, lost))
        .or_else(|| of_pool(status))
        .or_else(|| of_absent(status, &leaves, name_of))
        .or_else(|| of_hurt(status, &leaves, name_of))
        .or_else(|| of_space(status))
}

/// Advises about a pool that fills up.
fn of_space(status: &PoolStatus) -> Option<Advice> {
    let (fullness, name) = (Fullness::of(status), &status.name);
    let (how, what) = match fullness.now() {
        Fill::Roomy => return None,
        Fill::High => (
            "filling up",
            "When it is full, writes that need space fail.",
        ),
        Fill::Critical => (
            "nearly full",
            "When it is full, writes that need space fail.",
        ),
        Fill::Full => (
            "full",
            "Writes that need space fail. Reads, UNMAP and destroying datasets go on.",
        ),
    };
    Some((
        format!("The pool is {how}: {}. {what}", fullness.told()),
        format!(
            "Add devices with 'sandstone pool add {name} VDEV' ({FREE_DEVICES}), or destroy datasets that are not needed: \
             'sandstone volume list -t all -r -S used {name}' lists them by the space they use."
        ),
    ))
}

/// Advises about a pool that takes no more changes.
fn of_suspended(status: &PoolStatus, goes_on: bool) -> Option<Advice> {
    let (name, reason) = (&status.name, status.suspended.as_ref()?);
    if let Some(stop) = &status.stopped {
        return Some(of_stopped(
            name,
            reason,
            goes_on && matches!(stop, Stop::Silent(_)),
        ));
    }
    let what = format!(
        "The pool takes no changes any more: {reason}. All writes that were acknowledged as durable are on \
         the devices."
    );
    let action = match goes_on {
        true => format!(
            "Check the devices: the pool resumes automatically when missing disks are back. If something \
             else was the cause, use 'sandstone pool clear {name}' when it is removed."
        ),
        false => format!(
            "Check the devices, then use 'sandstone pool clear {name}', which reopens the pool from their \
             contents."
        ),
    };
    Some((what, action))
}

/// Advises about a pool that another host has, or may have.
fn of_stopped(name: &str, reason: &str, goes_on: bool) -> Advice {
    let by_itself = match goes_on {
        true => "The pool resumes automatically when its disks answer and no other host has it. ",
        false => "",
    };
    (
        format!(
            "The pool is not served any more: {reason}. All writes that were acknowledged as durable are on \
             the devices."
        ),
        format!(
            "{by_itself}To continue on this host, use 'sandstone pool clear {name}': it watches the devices, \
             and opens the pool if no other host uses it. To leave the pool to the other host, use \
             'sandstone pool export {name}': this host only forgets it."
        ),
    )
}

/// Advises about a read-only pool. Nobody can act on its other troubles meanwhile.
fn of_read_only(status: &PoolStatus) -> Option<Advice> {
    let name = &status.name;
    status.is_read_only.then(|| {
        (
            "The pool was imported to be read only. Nothing is written to its devices, not even to repair them."
                .to_owned(),
            format!(
                "Copy the data that you need. To change the pool, use 'sandstone pool export {name}', then \
                 'sandstone pool import {name}' without -o readonly=on."
            ),
        )
    })
}

/// Advises about volumes that lost acknowledged writes.
fn of_lost(status: &PoolStatus, lost: &[String]) -> Option<Advice> {
    let name = &status.name;
    let volumes = lost.join(", ");
    (!lost.is_empty()).then(|| {
        (
            format!(
                "The pool stopped and was reopened. Unflushed writes to {volumes} are lost; flushes of these \
                 volumes fail, so that the hosts notice the loss."
            ),
            format!(
                "Let the hosts check their data and start again, as after a power cut; then use 'sandstone \
                 pool clear {name}'."
            ),
        )
    })
}

/// Advises about troubles of the whole pool.
fn of_pool(status: &PoolStatus) -> Option<Advice> {
    let name = &status.name;
    let resilver = status
        .scan
        .as_ref()
        .is_some_and(|scan| scan.kind == ScanKind::Resilver && scan.state == ScanState::Running);
    let (what, action) = if has_lost_blocks(status) {
        (
            "One or more blocks have no correct copy on any device; reading them fails. All other data is \
             served."
                .to_owned(),
            format!(
                "Restore the affected data from a backup: rewriting a block ends its errors. Then use \
                 'sandstone pool clear {name}', and 'sandstone pool scrub {name}' to verify it."
            ),
        )
    } else if !status.behind.is_empty() {
        (
            "One or more devices came back with an old copy of their data. They do not count until they are \
             rebuilt from the other devices, which begins automatically."
                .to_owned(),
            format!(
                "Keep the other devices attached until 'sandstone pool status {name}' shows no resilver any \
                 more; 'sandstone pool events {name}' shows how old the copy is."
            ),
        )
    } else if resilver {
        (
            "One or more devices is currently being resilvered. The pool will continue to function, possibly \
             in a degraded state."
                .to_owned(),
            "Wait for the resilver to complete.".to_owned(),
        )
    } else {
        return None;
    };
    Some((what, action))
}

/// Advises about devices for blocks that are not used.
fn of_absent(
    status: &PoolStatus,
    leaves: &[&LeafStatus],
    name_of: &dyn Fn(u64) -> String,
) -> Option<Advice> {
    let any = |is: &dyn Fn(&LeafStatus) -> bool| leaves.iter().any(|leaf| is(leaf));
    let device = |states: &[VdevState]| {
        let meant = leaves.iter().filter(|leaf| states.contains(&leaf.state));
        the_one(meant.map(|leaf| leaf.guid), name_of)
    };
    let name = &status.name;
    let (what, action) = if any(&|leaf| leaf.state == VdevState::Faulted) {
        let device = device(&[VdevState::Faulted]);
        (
            format!(
                "One or more devices are faulted in response to persistent errors. {}",
                sufficient(status)
            ),
            format!(
                "Replace the faulted device with 'sandstone pool replace {name} {device} NEW' \
                 ({FREE_DEVICES}), or use 'sandstone pool clear {name} {device}' to mark it repaired."
            ),
        )
    } else if any(&|leaf| matches!(leaf.state, VdevState::Unavailable | VdevState::Removed)) {
        let device = device(&[VdevState::Unavailable, VdevState::Removed]);
        (
            format!(
                "One or more devices could not be used because they are missing, in use elsewhere or not \
                 answering. {}",
                sufficient(status)
            ),
            format!(
                "Attach the missing device: the pool then uses it again automatically. If it stays missing, \
                 'sandstone pool online {name} {device}' tells the reason; or replace it with 'sandstone pool \
                 replace {name} {device} NEW' ({FREE_DEVICES})."
            ),
        )
    } else if any(&|leaf| leaf.state == VdevState::Offline) {
        let device = device(&[VdevState::Offline]);
        (
            format!(
                "One or more devices has been taken offline by the administrator. {}",
                sufficient(status)
            ),
            format!(
                "Online the device using 'sandstone pool online {name} {device}' or replace it with \
                 'sandstone pool replace {name} {device} NEW' ({FREE_DEVICES})."
            ),
        )
    } else {
        return None;
    };
    Some((what, action))
}

/// Advises about used devices with troubles, and about devices that nothing depends on.
fn of_hurt(
    status: &PoolStatus,
    leaves: &[&LeafStatus],
    name_of: &dyn Fn(u64) -> String,
) -> Option<Advice> {
    let is_canceled = status
        .scan
        .as_ref()
        .is_some_and(|scan| (scan.kind, scan.state) == (ScanKind::Resilver, ScanState::Canceled));
    let any = |is: &dyn Fn(&LeafStatus) -> bool| leaves.iter().any(|leaf| is(leaf));
    let name = &status.name;
    if let Some(advice) = of_lost_log(status, name_of) {
        return Some(advice);
    }
    let (what, action) = if !status.failing.is_empty() {
        let device = the_one(
            (leaves.iter())
                .filter(|leaf| status.failing.contains(&leaf.leaf))
                .map(|leaf| leaf.guid),
            name_of,
        );
        (
            "One or more devices have failed too often to be trusted; their errors are corrected from the \
             other devices."
                .to_owned(),
            format!(
                "Replace the device with 'sandstone pool replace {name} {device} NEW' ({FREE_DEVICES}), or \
                 use 'sandstone pool clear {name}' if the cause is removed."
            ),
        )
    } else if let Some(short) = status.short.iter().find(|short| short.is_cut) {
        (
            format!(
                "A device has shrunk: {}. Data beyond its new end is gone; it is read from other devices \
                 that have it.",
                short.told()
            ),
            format!(
                "Restore the size of the device, then use 'sandstone pool export {name}' and 'sandstone pool \
                 import -d PATH {name}'; or replace it with 'sandstone pool replace {name} DEVICE NEW'."
            ),
        )
    } else if any(&|leaf| leaf.is_incomplete) && is_canceled {
        (
            "One or more devices missed writes, and could not be rebuilt completely; the missing data is \
             read from other devices."
                .to_owned(),
            format!(
                "See 'sandstone pool events {name}' for the failures. Use 'sandstone pool clear {name}' to \
                 try again when the cause is removed, or 'sandstone pool replace {name} DEVICE NEW'."
            ),
        )
    } else if any(&|leaf| leaf.is_incomplete) {
        (
            "One or more devices missed writes while they were away; the missing data is read from other \
             devices."
                .to_owned(),
            "Keep the other devices attached; a resilver follows automatically.".to_owned(),
        )
    } else if any(&|leaf| leaf.errors != Default::default()) {
        let hurt = leaves.iter().filter(|it| it.errors != Default::default());
        let device = the_one(hurt.map(|leaf| leaf.guid), name_of);
        (
            "One or more devices has experienced an unrecoverable error. An attempt was made to correct the \
             error. Applications are unaffected."
                .to_owned(),
            format!(
                "Determine if the device needs to be replaced, and clear the errors using 'sandstone pool \
                 clear {name}' or replace the device with 'sandstone pool replace {name} {device} NEW' \
                 ({FREE_DEVICES})."
            ),
        )
    } else if status
        .caches
        .iter()
        .any(|cache| cache.state != VdevState::Online)
    {
        let away = status.caches.iter();
        let away = away.filter(|cache| cache.state != VdevState::Online);
        let device = the_one(away.map(|cache| cache.guid), name_of);
        (
            "A cache device is not used. Reads go to the other devices instead; nothing is lost."
                .to_owned(),
            format!(
                "Attach the device and online it using 'sandstone pool online {name} {device}', or remove it \
                 with 'sandstone pool remove {name} {device}'."
            ),
        )
    } else {
        return None;
    };
    Some((what, action))
}

/// Advises about a log vdev that is no longer used.
fn of_lost_log(status: &PoolStatus, name_of: &dyn Fn(u64) -> String) -> Option<Advice> {
    let name = &status.name;
    let lost: Vec<_> = (status.top_levels.iter())
        .filter(|top| is_log_lost(top))
        .collect();
    if lost.is_empty() {
        return None;
    }
    let leaves = lost
        .iter()
        .flat_map(|top| &top.slots)
        .flat_map(|it| &it.leaves);
    let device = the_one(leaves.map(|it| it.guid), name_of);
    Some((
        "A log device is not used any more. Durable writes now wait for the other devices, as in a pool \
         without a log; nothing is lost."
            .to_owned(),
        format!(
            "Use 'sandstone pool clear {name} {device}' when the cause is removed, or 'sandstone pool remove \
             {name} {device}' to continue without it."
        ),
    ))
}

/// Reports whether a log vdev is no longer used.
fn is_log_lost(top: &TopLevelStatus) -> bool {
    let is_used = matches!(top.state, VdevState::Online | VdevState::Degraded);
    top.class == Class::Log && top.kind != TopLevelKind::Hole && !is_used
}

/// Describes the effect of missing devices.
fn sufficient(status: &PoolStatus) -> &'static str {
    let mut blocks = status.top_levels.iter();
    let is_lacking = blocks.any(|top| top.class == Class::Normal && top.is_lacking());
    match state(status) {
        "UNAVAIL" => "There are insufficient replicas for the pool to continue functioning.",
        _ if is_lacking => {
            "More devices lack data than the redundancy covers: data without an intact copy on the present \
             devices cannot be read until missing devices are back or the others are rebuilt."
        }
        _ => "Sufficient replicas exist for the pool to continue functioning in a degraded state.",
    }
}
