//! A disk of a pool, as the wizard that replaces it shows it.

use std::path::Path;

use maud::{Markup, html};
use model::Error;
use model::disk::DiskView;
use model::pool::status::PoolView;
use model::pool::vdev::VdevView;

use super::locate;
use super::serial::Printed;
use crate::mark::State;
use crate::visit::Visit;

/// A disk of a pool, with its place in the tree.
pub(super) struct Leaf<'a> {
    pub(super) pool: &'a PoolView,
    pub(super) vdev: &'a VdevView,
    /// Vdev that holds its data too; `None` if it stands alone.
    pub(super) parent: Option<&'a VdevView>,
    /// Facts about the disk, if it is there and of this machine.
    pub(super) disk: Option<DiskView>,
}

impl Leaf<'_> {
    /// Returns the value of the disk in the form.
    pub(super) fn value(&self) -> String {
        let number = self.vdev.guid.as_deref().unwrap_or(&self.vdev.name);
        format!("{}/{number}", self.pool.name)
    }

    /// Returns the disk with the number that is printed on it, if it ever told one.
    pub(super) fn printed(&self) -> Option<Printed<'_>> {
        let of_disk = self.disk.as_ref().and_then(printed);
        let serial = self.vdev.serial.as_deref().or(of_disk)?;
        Some(Printed {
            name: &self.vdev.name,
            serial,
        })
    }

    pub(super) fn is_well(&self) -> bool {
        let errors = self.vdev.read + self.vdev.write + self.vdev.checksum;
        self.vdev.state == "ONLINE" && errors == 0 && !self.vdev.is_incomplete
    }

    /// Returns the disks beside it in its mirror or raidz.
    pub(super) fn beside(&self) -> Vec<&VdevView> {
        let all = self.parent.map(VdevView::all).unwrap_or_default();
        let leaves = all.into_iter().filter(|it| it.guid.is_some());
        leaves.filter(|it| it.guid != self.vdev.guid).collect()
    }

    fn state(&self) -> State {
        match (self.is_well(), self.vdev.state.as_str()) {
            (true, _) => State::Good,
            (false, "ONLINE" | "DEGRADED") => State::Warn,
            (false, "OFFLINE") => State::Quiet,
            (false, _) => State::Bad,
        }
    }

    /// Shows path, state, serial number, errors, and the disks beside it.
    pub(super) fn show(&self) -> (Markup, Markup) {
        let vdev = self.vdev;
        let words = html! {
            span.name { (vdev.name) } " " (self.state().show(&vdev.state))
        };
        let beside = self.beside();
        let hint = html! {
            "Pool " (self.pool.name)
            @if let Some(printed) = self.printed() { ", serial number " strong { (printed.serial) } }
            @if let Some(slot) = self.disk.as_ref().and_then(|it| it.slot.as_ref()) { ", slot " (slot) }
            @if let Some(note) = &vdev.note { ", " (note) }
            @if vdev.read + vdev.write + vdev.checksum > 0 {
                ". Errors: " (vdev.read) " reads, " (vdev.write) " writes, " (vdev.checksum) " checksums"
            }
            @match self.parent {
                None => ". It stands alone: no other disk has its data",
                Some(parent) => {
                    ". In " (parent.name) " beside "
                    @for (at, it) in beside.iter().enumerate() {
                        @if at > 0 { ", " }
                        span.name { (it.name) } " (" (it.state) ")"
                    }
                }
            }
            ". "
            @if let Some(disk) = &self.disk { a href=(locate::address(&disk.path)) target="_blank" { "Locate it" } }
        };
        (words, hint)
    }
}

/// Returns the number that is printed on a disk of this machine: its serial number, or its world
/// wide name.
pub(super) fn printed(disk: &DiskView) -> Option<&str> {
    disk.serial.as_deref().or(disk.wwn.as_deref())
}

/// Returns the disks of vdevs, each with the vdev that holds its data too.
pub(super) fn leaves<'a>(pool: &'a PoolView) -> Vec<Leaf<'a>> {
    let tops = pool.vdevs.iter().chain(&pool.logs);
    let of_top = |top: &'a VdevView| {
        let parent = Some(top).filter(|top| !top.children.is_empty());
        let disks = top.all().into_iter().filter(|it| it.guid.is_some());
        disks.map(move |vdev| Leaf {
            pool,
            vdev,
            parent,
            disk: None,
        })
    };
    tops.flat_map(of_top).collect()
}

/// Adds what this machine knows of the disks.
pub(super) fn describe(visit: &Visit, leaves: &mut [Leaf<'_>]) -> Result<(), Error> {
    let all = visit.disks()?;
    for leaf in leaves {
        let node = std::fs::canonicalize(&leaf.vdev.name).unwrap_or_default();
        let mut disks = all.iter();
        let found = disks.find(|it| it.path == leaf.vdev.name || node == Path::new(&it.node));
        leaf.disk = found.cloned();
    }
    Ok(())
}
