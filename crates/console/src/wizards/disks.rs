//! The list of this machine's disks, from which an administrator picks some. Disks in use are shown
//! and cannot be picked, and say why.

use std::path::{Path, PathBuf};

use maud::{Markup, html};
use model::Error;
use model::disk::{DiskVerdict, DiskView};

use super::parts::{values, warning};
use crate::form::{Field, check};
use crate::format::size;
use crate::visit::Visit;

/// Names of the fields of the list.
pub(super) const FIELDS: [&str; 3] = ["disk", "other_disks", "overwrite"];

/// A disk that was picked.
#[derive(Clone, Debug)]
pub(super) struct Picked {
    /// Path by which the pool will know it.
    pub(super) path: PathBuf,
    /// Facts about it; `None` for a file, or for a disk of another machine.
    pub(super) disk: Option<DiskView>,
}

impl Picked {
    /// Returns its size in bytes, if it is known.
    pub(super) fn size(&self) -> Option<u64> {
        self.disk.as_ref().map(|disk| disk.size)
    }

    /// Returns the data on it that would be overwritten, if any is known.
    pub(super) fn holds(&self) -> Option<&str> {
        self.disk.as_ref()?.holds.as_deref()
    }

    /// Shows its path, and what is printed on it.
    pub(super) fn show(&self) -> Markup {
        html! {
            span.name { (self.path.display()) }
            @if let Some(disk) = &self.disk {
                span.quiet {
                    ", " (size(disk.size))
                    @if let Some(model) = &disk.model { ", " (model) }
                    @if let Some(serial) = &disk.serial { ", serial " (serial) }
                    @if let Some(slot) = &disk.slot { ", slot " (slot) }
                }
            }
        }
    }

    /// Returns the facts that a preview depends on.
    pub(super) fn facts(&self) -> String {
        let disk = self
            .disk
            .as_ref()
            .map(|it| (it.size, it.identity(), &it.holds));
        format!("{:?} {disk:?}\n", self.path)
    }
}

/// Reports whether what the picked disks hold may be overwritten.
pub(super) fn may_overwrite(visit: &Visit) -> bool {
    visit.form.is_checked("overwrite")
}

/// Returns the picked disks, in the order of the list.
///
/// # Errors
/// No disk is picked, or one of them cannot be taken.
pub(super) fn picked(visit: &Visit) -> Result<Vec<Picked>, Error> {
    let all = visit.disks()?;
    let mut picked: Vec<Picked> = Vec::new();
    let others = visit.form.get("other_disks").lines().map(str::trim);
    let listed = values(visit, "disk").into_iter();
    for path in listed.chain(others.filter(|line| !line.is_empty())) {
        let found = all.iter().find(|it| it.path == path || it.node == path);
        let is_new = picked
            .iter()
            .all(|it| it.path != Path::new(path) && (found.is_none() || it.disk.as_ref() != found));
        if is_new {
            picked.push(Picked {
                path: found.map_or(path, |it| &it.path).into(),
                disk: found.cloned(),
            });
        }
    }
    Ok(picked)
}

/// Refuses picked disks that are in use, or hold data that may not be overwritten.
///
/// # Errors
/// One of the disks cannot be taken.
pub(super) fn refuse_unfit(visit: &Visit, picked: &[Picked]) -> Result<(), Error> {
    for it in picked {
        let path = it.path.display();
        if let Some(why) = it.disk.as_ref().and_then(|disk| disk.in_use.as_ref()) {
            return Err(Error::new(
                model::ErrorKind::InUse,
                format!("the disk {path} cannot be picked: {why}"),
                "pick another disk",
            ));
        }
        if let (Some(holds), false) = (it.holds(), may_overwrite(visit)) {
            return Err(Error::new(
                model::ErrorKind::InUse,
                format!("the disk {path} holds {holds}"),
                "pick another disk, or check the box that lets its data be overwritten",
            ));
        }
    }
    Ok(())
}

/// Shows the list. With `is_one`, only one disk can be picked.
///
/// # Errors
/// The disks cannot be listed.
pub(super) fn list(visit: &Visit, is_one: bool) -> Result<Markup, Error> {
    let mut all = visit.disks()?.to_vec();
    // Disks that can be picked come first, the empty ones before the others.
    all.sort_by_key(|disk| (disk.in_use.is_some(), disk.holds.is_some()));
    let chosen = values(visit, "disk");
    let free = all.iter().filter(|disk| disk.in_use.is_none()).count();
    let has_data = all
        .iter()
        .any(|disk| disk.in_use.is_none() && disk.holds.is_some());
    let kind = if is_one { "radio" } else { "checkbox" };
    let others = visit.form.get("other_disks");
    Ok(html! {
        @if free == 0 {
            (warning(html! { "No disk of this machine is free. Put one in, and load this page again; "
                "or name a file or another machine's disk below." }))
        }
        @if !all.is_empty() {
            div.scroll tabindex="0" role="region" aria-label="Disks of this machine" {
                table {
                    thead { tr {
                        th scope="col" { "Disk" } th.figure scope="col" { "Size" } th scope="col" { "Model" }
                        th scope="col" { "Serial number" } th scope="col" { "Slot" } th scope="col" { "Health" }
                        th scope="col" { "What is on it" }
                    } }
                    tbody { @for (at, disk) in all.iter().enumerate() { (row(at, disk, kind, &chosen)) } }
                }
            }
        }
        @if has_data || may_overwrite(visit) {
            (check("overwrite", "Overwrite what the picked disks hold", may_overwrite(visit)))
        }
        details open[!others.is_empty()] {
            summary { "Files, and disks of other machines" }
            (Field::new("other_disks", "Paths or names").optional().value(others)
                .hint(if is_one { "The full path of a file or device, or the name of a disk that the initiator sees (naa.…)." }
                    else { "One in each line: the full path of a file or device, or the name of a disk that the initiator sees (naa.…)." })
                .area(2))
        }
    })
}

/// Shows a disk's health, as the disk tells it.
fn health(disk: &DiskView) -> Markup {
    let Some(health) = &disk.health else {
        return html! { "–" };
    };
    let reasons = health.reasons.join("; ");
    html! {
        @match health.verdict {
            DiskVerdict::Failing => span.state.bad { span aria-hidden="true" { "■ " } "failing: " (reasons) },
            DiskVerdict::Wearing => span.state.warn { span aria-hidden="true" { "▲ " } "wearing: " (reasons) },
            DiskVerdict::Well => "well",
            DiskVerdict::Unknown => span.quiet { "unknown" },
        }
        @if let Some(degrees) = health.temperature_c { ", " (degrees) " °C" }
    }
}

fn row(at: usize, disk: &DiskView, kind: &str, chosen: &[&str]) -> Markup {
    let id = format!("field-disk-{at}");
    let is_chosen = chosen.contains(&disk.path.as_str()) || chosen.contains(&disk.node.as_str());
    let turning = if disk.is_rotational {
        "turning"
    } else {
        "flash"
    };
    html! {
        tr {
            th scope="row" {
                div.option {
                    input type=(kind) id=(id) name="disk" value=(disk.path)
                        checked[is_chosen && disk.in_use.is_none()] disabled[disk.in_use.is_some()];
                    label for=(id) { (disk.path) @if disk.path != disk.node { " " span.quiet { (disk.node) } } }
                }
            }
            td.figure { (size(disk.size)) }
            td { @match &disk.model { Some(model) => { (model) ", " (turning) } None => "–" } }
            td { (disk.serial.as_deref().or(disk.wwn.as_deref()).unwrap_or("–")) }
            td { (disk.slot.as_deref().unwrap_or("–")) }
            td { (health(disk)) }
            td {
                @match (&disk.in_use, &disk.holds) {
                    (Some(why), _) => span.quiet { "In use: " (why) },
                    (None, Some(holds)) => span.state.warn { span aria-hidden="true" { "▲ " } (holds) },
                    (None, None) => "nothing known",
                }
            }
        }
    }
}
