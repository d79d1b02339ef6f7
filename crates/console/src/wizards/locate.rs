//! Locate a disk: its serial number, its slot, and the lamp of the slot.

use control::endpoint::disk;
use maud::html;
use model::Error;
use model::disk::{DiskView, LocateDisk};

use crate::answer::Answer;
use crate::form::button;
use crate::format::{escape, size};
use crate::frame::Page;
use crate::visit::Visit;

/// Returns the address of the page for a disk.
pub(super) fn address(path: &str) -> String {
    format!("/wizards/locate?disk={}", escape(path))
}

/// Finds a disk by its path or node.
///
/// # Errors
/// This machine has no such disk, or the disks cannot be listed.
fn find(visit: &Visit, name: &str) -> Result<DiskView, Error> {
    let mut all = visit.call(&disk::LIST, &[])?.into_iter();
    all.find(|it| it.path == name || it.node == name)
        .ok_or_else(|| {
            Error::not_found(
                format!("this machine has no disk {name} now"),
                "look for its serial number, which is printed on the disk",
            )
        })
}

/// Shows a disk, with the buttons for its lamp.
pub(super) fn show(visit: &Visit) -> Result<Answer, Error> {
    let disk = find(visit, visit.query.get("disk"))?;
    let lamp = |label: &str, on: &str| {
        let fields = [("disk", disk.path.as_str()), ("on", on)];
        button(visit, disk::LOCATE.role, "/wizards/locate", label, &fields)
    };
    let page = Page::new("Locate a disk").crumb("Wizards", "/wizards").body(html! {
        dl.facts {
            dt { "Disk" } dd { (disk.path) ", " (disk.node) }
            dt { "Serial number" } dd { strong { (disk.serial.as_deref().or(disk.wwn.as_deref()).unwrap_or("not told")) } }
            dt { "Model" } dd { (disk.model.as_deref().unwrap_or("not told")) }
            dt { "Size" } dd { (size(disk.size)) }
            dt { "Slot" } dd { (disk.slot.as_deref().unwrap_or("not told")) }
        }
        p { "The serial number is printed on the disk. Compare it before you pull one." }
        div.buttons { (lamp("Light the lamp of its slot", "yes")) (lamp("Put the lamp out", "no")) }
    });
    Ok(page.into())
}

/// Lights the lamp, or puts it out.
pub(super) fn light(visit: &Visit) -> Result<Answer, Error> {
    let path = visit.form.get("disk");
    let on = visit.form.get("on") == "yes";
    let body = LocateDisk {
        disk: path.to_owned(),
        on,
    };
    visit.ask(&disk::LOCATE, &[], (), body)?;
    let told = if on {
        "The lamp is lit."
    } else {
        "The lamp is out."
    };
    Ok(Answer::done(address(path), told))
}
