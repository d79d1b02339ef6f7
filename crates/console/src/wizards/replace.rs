//! Replace a disk: which one, by its serial number, which the administrator compares with the disk
//! itself; what takes its place; and then the resilver, which the page of the pool shows until the
//! new disk holds everything.

use std::path::PathBuf;

use control::endpoint::{pool, session};
use maud::{Markup, html};
use model::pool::status::PoolView;
use model::pool::vdev::VdevView;
use model::pool::vdev_change::VdevChange;
use model::{Error, ErrorKind};

use super::disks::{self, Picked, may_overwrite};
use super::leaf::{Leaf, describe, leaves, printed};
use super::parts::{Choice, danger, one_of, warning};
use super::serial::{self, Printed};
use super::walk::{Preview, Step, Wizard};
use crate::answer::Answer;
use crate::form::{Field, sentence};
use crate::format::{at, number_of, size};
use crate::visit::Visit;

/// The wizard.
pub(super) static WIZARD: Wizard = Wizard {
    path: "/wizards/replace",
    title: "Replace a disk",
    back: "/pools",
    steps: &[
        Step {
            name: "old",
            title: "Which disk",
            fields: &["old"],
            show: show_old,
            check: check_old,
        },
        Step {
            name: "new",
            title: "New disk",
            fields: &[
                serial::FIELD,
                "new_kind",
                "spare",
                "disk",
                "other_disks",
                "overwrite",
            ],
            show: show_new,
            check: check_new,
        },
    ],
    label: "Replace the disk",
    preview,
    commit,
};

/// Returns the pools of the form: the one that a link named, or all.
fn pools(visit: &Visit) -> Result<Vec<PoolView>, Error> {
    match visit.form.some("pool") {
        Some(name) => Ok(vec![visit.call(&pool::SHOW, &[name])?]),
        None => visit.call(&pool::LIST, &[]),
    }
}

fn show_old(visit: &Visit) -> Result<Markup, Error> {
    let pools = pools(visit)?;
    let mut all: Vec<Leaf<'_>> = pools.iter().flat_map(leaves).collect();
    all.sort_by_key(Leaf::is_well);
    describe(visit, &mut all)?;
    let values: Vec<String> = all.iter().map(Leaf::value).collect();
    let first = all.iter().position(|leaf| !leaf.is_well());
    let first = first.map_or("", |at| values[at].as_str());
    let choices: Vec<Choice<'_>> = all
        .iter()
        .zip(&values)
        .map(|(leaf, value)| {
            let (words, hint) = leaf.show();
            Choice::new(value, words).hint(hint)
        })
        .collect();
    Ok(html! {
        @if all.is_empty() { p { "No pool is open, so no disk can be replaced." } }
        @else { (one_of("old", "Which disk is to be replaced?", visit.form.some("old").unwrap_or(first), &choices)) }
    })
}

/// Calls a function with the disk that was chosen.
fn with_old<T>(
    visit: &Visit,
    function: impl FnOnce(&Leaf<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let value = visit.form.get("old");
    let (name, _) = value.split_once('/').ok_or_else(|| {
        Error::invalid(
            "no disk is chosen",
            "choose the disk that is to be replaced",
        )
    })?;
    let pool = visit.call(&pool::SHOW, &[name])?;
    let found = leaves(&pool).into_iter().find(|leaf| leaf.value() == value);
    let mut found = found.ok_or_else(|| {
        Error::not_found(
            format!("pool {name} no longer has this disk"),
            "choose a disk of the list",
        )
    })?;
    describe(visit, std::slice::from_mut(&mut found))?;
    function(&found)
}

fn check_old(visit: &Visit) -> Result<(), Error> {
    with_old(visit, |old| match old.vdev.state.as_str() {
        "ONLINE" | "DEGRADED" => Ok(()),
        // The others of its vdev have to hold the data.
        _ if old.parent.is_some() => Ok(()),
        state => Err(Error::new(
            ErrorKind::Refused,
            format!(
                "{} is {state}, and no other disk has its data",
                old.vdev.name
            ),
            "bring this disk back; if it is lost, restore the pool from a backup",
        )),
    })
}

/// Returns the spares that stand ready.
fn spares(pool: &PoolView) -> Vec<&VdevView> {
    let spares = pool.spares.iter();
    spares.filter(|spare| spare.state == "AVAIL").collect()
}

fn show_new(visit: &Visit) -> Result<Markup, Error> {
    with_old(visit, |old| {
        let (words, hint) = old.show();
        let names: Vec<(String, String)> = spares(old.pool)
            .iter()
            .map(|spare| (spare.name.clone(), spare.name.clone()))
            .collect();
        let is_away = !matches!(old.vdev.state.as_str(), "ONLINE" | "DEGRADED");
        let first = if names.is_empty() { "disk" } else { "spare" };
        let list = disks::list(visit, true)?;
        let mut all = Vec::new();
        if !names.is_empty() {
            let spare = Field::new("spare", "Spare").value(visit.form.get("spare"));
            let hint = html! { "It is part of the pool already, and can stand in at once." (spare.choice(&names)) };
            all.push(Choice::new("spare", html! { "A spare of the pool" }).hint(hint));
        }
        all.push(Choice::new("disk", html! { "Another disk" }).hint(list));
        if is_away {
            let words = html! { "The disk that is now at " span.name { (old.vdev.name) } };
            let hint = html! { "If you have put a new disk into the place of the old one, and it has the same path." };
            all.push(Choice::new("same", words).hint(hint));
        }
        let kind = visit.form.some("new_kind").unwrap_or(first);
        Ok(html! {
            p { "It replaces " (words) }
            p.hint { (hint) }
            @if let Some(printed) = old.printed() { (serial::ask(&printed, visit.form.get(serial::FIELD))) }
            (one_of("new_kind", "What takes its place?", kind, &all))
        })
    })
}

/// The disk that takes the place of the old one.
enum New {
    Spare(String),
    Disk(Picked),
    /// New disk at the path of the old one.
    SamePath,
}

fn new(visit: &Visit, old: &Leaf<'_>) -> Result<New, Error> {
    match visit.form.get("new_kind") {
        "same" => Ok(New::SamePath),
        "spare" => {
            let name = visit.form.get("spare");
            let found = spares(old.pool).into_iter().find(|it| it.name == name);
            let found = found.ok_or_else(|| {
                Error::not_found(
                    format!(
                        "pool {} has no spare {name} that stands ready",
                        old.pool.name
                    ),
                    "choose another disk",
                )
            })?;
            Ok(New::Spare(found.name.clone()))
        }
        _ => {
            let mut picked = disks::picked(visit)?;
            disks::refuse_unfit(visit, &picked)?;
            match (picked.pop(), picked.is_empty()) {
                (Some(disk), true) => Ok(New::Disk(disk)),
                (Some(_), false) => Err(Error::invalid(
                    "more than one disk is picked",
                    "pick the one disk that takes the place of the old one",
                )),
                (None, _) => Err(Error::invalid(
                    "no disk is picked",
                    "pick the disk that takes the place of the old one",
                )),
            }
        }
    }
}

fn check_new(visit: &Visit) -> Result<(), Error> {
    with_old(visit, |old| {
        check_serial(visit, old)?;
        match new(visit, old)? {
            New::SamePath => refuse_the_old_one(old),
            New::Spare(_) | New::Disk(_) => Ok(()),
        }
    })
}

/// Compares the number that was read on the disk with those of this disk and of all others.
fn check_serial(visit: &Visit, old: &Leaf<'_>) -> Result<(), Error> {
    let Some(of_old) = old.printed() else {
        return Ok(());
    };
    let of_machine = visit.disks()?.iter();
    let of_machine = of_machine.filter_map(|disk| {
        let (name, serial) = (disk.path.as_str(), printed(disk)?);
        Some(Printed { name, serial })
    });
    let beside = leaves(old.pool);
    let of_pool = beside.iter().filter_map(Leaf::printed);
    let others: Vec<Printed<'_>> = of_machine.chain(of_pool).collect();
    serial::check(visit.form.get(serial::FIELD), &of_old, &others)
}

/// Refuses the old disk as the one that takes its own place.
fn refuse_the_old_one(old: &Leaf<'_>) -> Result<(), Error> {
    let there = old.disk.as_ref().and_then(printed);
    match (there, old.vdev.serial.as_deref()) {
        (Some(there), Some(serial)) if there == serial => Err(Error::new(
            ErrorKind::Refused,
            format!(
                "the disk that is now at {} is still the old one: its serial number is {serial}",
                old.vdev.name
            ),
            "put the new disk into its place, or pick another disk",
        )),
        _ => Ok(()),
    }
}

fn preview(visit: &Visit) -> Result<Preview, Error> {
    let sessions = visit.call(&session::LIST, &[])?.len();
    with_old(visit, |old| {
        let new = new(visit, old)?;
        let beside = old.beside();
        let whole = beside
            .iter()
            .filter(|it| it.state == "ONLINE" && !it.is_incomplete);
        let whole = whole.count();
        let is_there = matches!(old.vdev.state.as_str(), "ONLINE" | "DEGRADED");
        let (words, hint) = old.show();
        let data = old
            .parent
            .and_then(|parent| parent.allocated)
            .or(old.vdev.allocated);
        let told = match &new {
            New::Spare(path) => html! { "the spare " span.name { (path) } },
            New::Disk(disk) => disk.show(),
            New::SamePath => html! { "the disk that is now at " span.name { (old.vdev.name) } },
        };
        let lost = match &new {
            New::Disk(disk) => disk
                .holds()
                .map(|holds| (disk.path.display().to_string(), holds)),
            New::Spare(_) | New::SamePath => None,
        };
        let facts = match &new {
            New::Spare(path) => path.clone(),
            New::Disk(disk) => disk.facts(),
            New::SamePath => "same".to_owned(),
        };
        let states: Vec<(&str, &str)> = beside
            .iter()
            .map(|it| (it.name.as_str(), it.state.as_str()))
            .collect();
        Ok(Preview {
            shown: html! {
                section aria-label="What happens" {
                    h2 { "What happens" }
                    dl.facts {
                        dt { "Leaves the pool" } dd { (words) div.hint { (hint) } }
                        dt { "Takes its place" } dd { (told) }
                        @if let Some(bytes) = data { dt { "To be rebuilt" } dd { "what the disk held of " (size(bytes)) } }
                    }
                    @if let Some((path, holds)) = &lost {
                        (danger(html! { "What is on " span.name { (path) } " is lost: " (holds) "." }))
                    }
                    p { "The pool copies the data to the new disk, and checks each block by its checksum. "
                        "Then the old disk leaves the pool by itself, and can be pulled." }
                    @if is_there { (warning(html! { "Do not pull the old disk before that." })) }
                    @if old.parent.is_some() && !is_there && whole <= 1 {
                        (warning(html! { "Until the copy is whole, only " (number_of(whole, "whole disk"))
                            " of " (old.parent.map_or("", |it| it.name.as_str())) " is left. Pull no other disk." }))
                    }
                    @if let Some(status) = &old.pool.status { p.quiet { (sentence(status)) } }
                }
                section aria-label="Sessions" {
                    h2 { "Sessions" }
                    p { @match sessions {
                        0 => "No session is logged in.",
                        _ => "No session loses anything. Reads and writes go on meanwhile, and may be slower.",
                    } }
                }
            },
            facts: format!("{} {} {states:?} {facts}", old.value(), old.vdev.state),
        })
    })
}

fn commit(visit: &Visit) -> Result<Answer, Error> {
    with_old(visit, |old| {
        let new = match new(visit, old)? {
            New::Spare(path) => Some(PathBuf::from(path)),
            New::Disk(disk) => Some(disk.path),
            New::SamePath => None,
        };
        let name = old.pool.name.as_str();
        let device = old
            .vdev
            .guid
            .clone()
            .unwrap_or_else(|| old.vdev.name.clone());
        let change = VdevChange::Replace {
            device,
            new,
            force: may_overwrite(visit),
            file_size: None,
        };
        visit.ask(&pool::CHANGE_VDEVS, &[name], (), change)?;
        let told = format!(
            "{} is being replaced. Below is how far the copy is.",
            old.vdev.name
        );
        Ok(Answer::done(
            format!("{}#scan", at("/pools", &[name])),
            told,
        ))
    })
}

#[cfg(test)]
mod tests {
    use model::disk::DiskView;
    use model::pool::vdev::VdevView;

    use super::*;

    fn disk(serial: Option<&str>, wwn: Option<&str>) -> DiskView {
        DiskView {
            path: "/dev/sda".to_owned(),
            serial: serial.map(str::to_owned),
            wwn: wwn.map(str::to_owned),
            ..DiskView::default()
        }
    }

    /// Calls a function with a disk of a pool that told this number, and what is at its path now.
    fn with_leaf<T>(
        serial: Option<&str>,
        there: Option<DiskView>,
        function: impl FnOnce(&Leaf<'_>) -> T,
    ) -> T {
        let pool = PoolView::default();
        let vdev = VdevView {
            name: "/dev/sda".to_owned(),
            serial: serial.map(str::to_owned),
            ..VdevView::default()
        };
        function(&Leaf {
            pool: &pool,
            vdev: &vdev,
            parent: None,
            disk: there,
        })
    }

    #[test]
    fn the_number_of_the_pool_goes_before_that_of_the_disk_which_is_there_now() {
        let number = |serial, there| {
            with_leaf(serial, there, |leaf| {
                leaf.printed().map(|it| it.serial.to_owned())
            })
        };
        let new = || Some(disk(Some("NEW"), None));
        assert_eq!(number(Some("OLD"), new()).as_deref(), Some("OLD"));
        assert_eq!(number(None, new()).as_deref(), Some("NEW"));
        assert_eq!(
            number(None, Some(disk(None, Some("naa.5")))).as_deref(),
            Some("naa.5")
        );
        assert_eq!(number(None, Some(disk(None, None))), None);
        assert_eq!(number(None, None), None);
    }

    #[test]
    fn the_old_disk_does_not_take_its_own_place() {
        let checked = |serial, there| with_leaf(serial, there, refuse_the_old_one);
        let error = checked(Some("OLD"), Some(disk(Some("OLD"), None))).expect_err("the old one");
        assert!(error.message.contains("is still the old one"), "{error}");
        checked(Some("OLD"), Some(disk(Some("NEW"), None))).expect("a new one");
        checked(Some("OLD"), None).expect("a file or another machine's disk");
        checked(None, Some(disk(None, None))).expect("nobody knows");
    }
}
