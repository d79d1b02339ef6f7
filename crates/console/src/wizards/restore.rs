//! Restore from a snapshot: the volume goes back to it, or a clone comes beside it and is given to
//! a host.
//!
//! Rolling back changes data under hosts, so the units of the volume are offline meanwhile. They
//! come back even if the rollback is refused.

use std::collections::HashMap;

use config::change::{CreateUnit, ModifyUnit, Share};
use control::endpoint::volume::{self, How, Listed};
use control::endpoint::{host, lu, map, target};
use control::transaction::{Commit, Committed};
use maud::{Markup, html};
use model::config::{BackendSpec, UnitSpec, default_block_size};
use model::pool::dataset::change::DatasetChange;
use model::pool::dataset::{Changed, DatasetView};
use model::{Error, ErrorKind};

use super::finish;
use super::parts::{Choice, danger, one_of, warning};
use super::walk::{Preview, Step, Wizard, facts_of, generation};
use crate::answer::Answer;
use crate::form::Field;
use crate::format::{ago, at, number_of, size, time};
use crate::preview::effects;
use crate::visit::Visit;

/// The wizard.
pub(super) static WIZARD: Wizard = Wizard {
    path: "/wizards/restore",
    title: "Restore from a snapshot",
    back: "/volumes",
    steps: &[
        Step {
            name: "volume",
            title: "Volume",
            fields: &["volume"],
            show: show_volumes,
            check: check_volume,
        },
        Step {
            name: "snapshot",
            title: "Snapshot",
            fields: &["snapshot"],
            show: show_snapshots,
            check: |visit| chosen(visit).map(drop),
        },
        Step {
            name: "how",
            title: "How",
            fields: &["how", "clone", "host"],
            show: show_how,
            check: check_how,
        },
    ],
    label: "Restore it",
    preview,
    commit,
};

/// Volumes that stand beside buttons of their own. More are a list to choose from.
const MOST_BUTTONS: usize = 20;
/// Snapshots that the list shows. Older ones are named.
const MOST: usize = 60;

/// Volumes and snapshots of a pool, or of all pools.
fn datasets(visit: &Visit, pool: Option<&str>) -> Result<Vec<DatasetView>, Error> {
    let listed = Listed {
        pool: pool.map(str::to_owned),
        kinds: Some("volume,snapshot".to_owned()),
        properties: Some("written".to_owned()),
        ..Listed::default()
    };
    visit.console.door.datasets(&visit.asker, &listed)
}

/// Returns the name of the chosen volume: that of the form, or that of the snapshot of a link.
fn chosen_volume(visit: &Visit) -> Result<String, Error> {
    let of_link = visit
        .form
        .get("snapshot")
        .split_once('@')
        .map(|(volume, _)| volume);
    let name = visit.form.some("volume").or(of_link);
    let name =
        name.ok_or_else(|| Error::invalid("no volume is chosen", "choose one of the list"))?;
    Ok(name.to_owned())
}

/// Checks that the chosen volume is one that the reader sees.
fn check_volume(visit: &Visit) -> Result<(), Error> {
    let name = chosen_volume(visit)?;
    let pool = name.split('/').next();
    let mut all = datasets(visit, pool)?.into_iter();
    match all.any(|it| it.kind == "volume" && it.name == name) {
        true => Ok(()),
        false => Err(Error::not_found(
            format!("there is no volume {name}"),
            "choose one of the list",
        )),
    }
}

fn show_volumes(visit: &Visit) -> Result<Markup, Error> {
    let all = datasets(visit, None)?;
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let snapshots = all.iter().filter(|it| it.kind == "snapshot");
    for (volume, _) in snapshots.filter_map(|it| it.name.split_once('@')) {
        *counts.entry(volume).or_default() += 1;
    }
    let volumes = all.iter().filter(|it| it.kind == "volume");
    let counted: Vec<(&DatasetView, usize)> = volumes
        .filter_map(|it| Some((it, *counts.get(it.name.as_str())?)))
        .collect();
    let chosen = chosen_volume(visit).unwrap_or_default();
    Ok(html! {
        @if counted.is_empty() {
            p { strong { "No snapshot yet." } " Snapshots are taken on the page of a " a href="/volumes" { "volume" } "." }
        } @else if counted.len() > MOST_BUTTONS {
            (Field::new("volume", "Which volume?").value(&chosen).choice(&volume_names(&counted)))
        } @else {
            (one_of("volume", "Which volume?", &chosen, &volume_choices(&counted)))
        }
    })
}

/// Returns the volumes as answers beside buttons, each with the number of its snapshots.
fn volume_choices<'a>(counted: &[(&'a DatasetView, usize)]) -> Vec<Choice<'a>> {
    let choice = |(volume, count): &(&'a DatasetView, usize)| {
        let words = html! { span.name { (volume.name) } ", " (size(volume.size.unwrap_or(0))) };
        Choice::new(&volume.name, words).hint(html! { (number_of(*count, "snapshot")) "." })
    };
    counted.iter().map(choice).collect()
}

/// Returns the volumes as entries of a list. The first one stands for none.
fn volume_names(counted: &[(&DatasetView, usize)]) -> Vec<(String, String)> {
    let none = (String::new(), "Choose one".to_owned());
    let names = counted.iter().map(|(volume, count)| {
        let bytes = size(volume.size.unwrap_or(0));
        let told = format!(
            "{}, {bytes}, {}",
            volume.name,
            number_of(*count, "snapshot")
        );
        (volume.name.clone(), told)
    });
    [none].into_iter().chain(names).collect()
}

/// Returns the snapshots of a volume, the newest first.
fn snapshots(visit: &Visit, volume: &str) -> Result<Vec<DatasetView>, Error> {
    let pool = volume.split('/').next();
    let mut all = datasets(visit, pool)?;
    let start = format!("{volume}@");
    // The list is in the order of the snapshots.
    all.retain(|it| it.name.starts_with(&start));
    all.reverse();
    Ok(all)
}

fn show_snapshots(visit: &Visit) -> Result<Markup, Error> {
    let volume = chosen_volume(visit)?;
    let all = snapshots(visit, &volume)?;
    let choices: Vec<Choice<'_>> = all
        .iter()
        .take(MOST)
        .map(|snapshot| {
            let words = html! { span.name { (local(&snapshot.name)) } };
            let hint = html! { (time(snapshot.created_s)) " (" (ago(snapshot.created_s)) ")." };
            Choice::new(&snapshot.name, words).hint(hint)
        })
        .collect();
    let chosen = visit.form.some("snapshot");
    let first = all.first().map_or("", |it| it.name.as_str());
    Ok(html! {
        p { "Snapshots of " span.name { (volume) } ", the newest first." }
        @if choices.is_empty() { p { "It has no snapshot." } }
        @else { (one_of("snapshot", "Which snapshot?", chosen.unwrap_or(first), &choices)) }
        @if all.len() > MOST {
            p.hint { "Older ones: choose them on the page of the "
                a href=(at("/volumes", &[&volume])) { "volume" } ", with Restore." }
        }
    })
}

/// Returns the part of a snapshot's name after the volume.
fn local(name: &str) -> &str {
    name.split_once('@').map_or(name, |(_, local)| local)
}

/// Returns the chosen snapshot, and the newer ones of its volume, the newest first.
fn chosen(visit: &Visit) -> Result<(DatasetView, Vec<DatasetView>), Error> {
    let name = visit.form.get("snapshot");
    let volume = chosen_volume(visit)?;
    let mut newer = snapshots(visit, &volume)?;
    let place = newer.iter().position(|it| it.name == name).ok_or_else(|| {
        Error::invalid(
            match name {
                "" => "no snapshot is chosen".to_owned(),
                name => format!("the volume {volume} has no snapshot {name}"),
            },
            "choose one of the list",
        )
    })?;
    let snapshot = newer.split_off(place).swap_remove(0);
    Ok((snapshot, newer))
}

fn show_how(visit: &Visit) -> Result<Markup, Error> {
    let (snapshot, newer) = chosen(visit)?;
    let volume = chosen_volume(visit)?;
    let form = &visit.form;
    let may_change = visit.may(&volume::CHANGE);
    let own = format!("{volume}-{}", local(&snapshot.name));
    let mut hosts = vec![(String::new(), "no host yet".to_owned())];
    let known = visit.call(&host::LIST, &[])?.into_iter();
    hosts.extend(known.map(|view| (view.spec.name.clone(), view.spec.name)));
    let clone = html! {
        "The volume stays as it is. A new one beside it begins with what the snapshot has, and takes no room for that."
        (Field::new("clone", "Name of the clone").conditional().value(form.some("clone").unwrap_or(&own)).text())
        @if visit.may(&map::SHARE) {
            (Field::new("host", "Give it to").value(form.get("host"))
                .hint("As a unit of its own. Volumes of VMware get a new signature there, so that both can be used.").choice(&hosts))
        } @else { p { "An admin can give it to a host then." } }
    };
    let back = html! {
        "What was written after it is lost"
        @if !newer.is_empty() { ", and with it " (number_of(newer.len(), "newer snapshot")) }
        ". Hosts have to stop using the unit first."
        @if !may_change { " This needs the role admin." }
    };
    let choices = [
        Choice::new("clone", html! { "Make a clone beside the volume" }).hint(clone),
        Choice::new("back", html! { "Roll the volume back" })
            .hint(back)
            .open(may_change),
    ];
    Ok(html! {
        p { span.name { (snapshot.name) } " of " (time(snapshot.created_s)) " (" (ago(snapshot.created_s)) ")." }
        (one_of("how", "What is to happen?", form.some("how").unwrap_or("clone"), &choices))
    })
}

fn check_how(visit: &Visit) -> Result<(), Error> {
    match visit.form.get("how") {
        "back" => roll_back(visit, true).map(drop),
        "clone" => clone(visit, true).map(drop),
        _ => Err(Error::invalid(
            "it is not chosen what is to happen",
            "choose a clone, or to roll back",
        )),
    }
}

/// Rolls the volume back, or asks what that would do.
fn roll_back(visit: &Visit, dry_run: bool) -> Result<Changed, Error> {
    let (snapshot, _) = chosen(visit)?;
    let change = DatasetChange::Rollback {
        snapshot: snapshot.name,
        recursive: true,
        clones: false,
    };
    visit.ask(&volume::CHANGE, &[], How { dry_run }, change)
}

/// Returns the full name of the clone.
fn clone_name(visit: &Visit) -> Result<String, Error> {
    let name = visit.form.some("clone").map(str::to_owned);
    name.ok_or_else(|| Error::invalid("the clone has no name", "enter a name such as tank/db-copy"))
}

/// Makes the clone, or asks whether it could be made. A clone that is there already is taken as it
/// is, so that a repeated commit goes on.
fn clone(visit: &Visit, dry_run: bool) -> Result<Changed, Error> {
    let (snapshot, _) = chosen(visit)?;
    let change = DatasetChange::Clone {
        snapshot: snapshot.name,
        name: clone_name(visit)?,
        parents: true,
        properties: Default::default(),
    };
    visit.ask(&volume::SNAPSHOT, &[], How { dry_run }, change)
}

/// Returns the request that gives the clone to the chosen host; `None` without a host.
fn share(visit: &Visit) -> Result<Option<Share>, Error> {
    let Some(host) = visit.form.some("host") else {
        return Ok(None);
    };
    let volume = clone_name(visit)?;
    let unit = volume.rsplit('/').next().unwrap_or_default().to_owned();
    let targets = visit.call(&target::LIST, &[])?;
    let config = visit.console.door.plane().transactions.config();
    if config.unit(&unit).is_some() {
        return Err(Error::exists(
            format!("there is a unit {unit} already"),
            "choose another name for the clone",
        ));
    }
    Ok(Some(Share {
        unit: unit.clone(),
        host: host.to_owned(),
        create: Some(CreateUnit {
            name: unit,
            backend: BackendSpec::on_volume(volume),
            block_size: default_block_size(),
            physical_block_size: None,
            new_volume: None,
            write_cache: false,
            read_only: false,
            thin: None,
            threshold_percent: None,
            naa: None,
            serial: None,
        }),
        target: targets.into_iter().next().map(|view| view.spec.iqn),
        portals: Vec::new(),
        lun: None,
        read_only: false,
    }))
}

/// Returns the units that serve the volume and are online.
fn online(visit: &Visit, volume: &str) -> Vec<UnitSpec> {
    let config = visit.console.door.plane().transactions.config();
    let units = config.units.iter();
    let on_it = units.filter(|unit| unit.backend.volume() == Some(volume) && !unit.offline);
    on_it.cloned().collect()
}

/// Takes a unit offline or online, or asks what that would do.
fn set_offline(visit: &Visit, unit: &str, offline: bool, how: Commit) -> Result<Committed, Error> {
    let body = ModifyUnit {
        offline: Some(offline),
        ..ModifyUnit::default()
    };
    visit.ask(&lu::MODIFY, &[unit], how, body)
}

fn asking() -> Commit {
    Commit {
        dry_run: true,
        ..Commit::default()
    }
}

fn preview(visit: &Visit) -> Result<Preview, Error> {
    match visit.form.get("how") {
        "back" => preview_of_rollback(visit),
        _ => preview_of_clone(visit),
    }
}

/// Returns the bytes that were written since the previous snapshot.
fn written(dataset: &DatasetView) -> u64 {
    let mut properties = dataset.properties.iter();
    let found = properties.find(|property| property.name == "written");
    found.and_then(|it| it.value.parse().ok()).unwrap_or(0)
}

fn preview_of_rollback(visit: &Visit) -> Result<Preview, Error> {
    let (snapshot, newer) = chosen(visit)?;
    let volume = chosen_volume(visit)?;
    let seen = roll_back(visit, true)?;
    let units = online(visit, &volume);
    let mut sessions = Vec::new();
    for unit in &units {
        sessions.push(set_offline(visit, &unit.name, true, asking())?);
    }
    let all = datasets(visit, volume.split('/').next())?;
    let own = all.iter().find(|it| it.name == volume);
    let bytes: u64 = own.into_iter().chain(&newer).map(written).sum();
    let lost: Vec<&str> = seen.destroyed.iter().map(|it| it.name.as_str()).collect();
    let effects_seen: Vec<String> = sessions.iter().map(facts_of).collect();
    let facts = format!("{} {lost:?} {effects_seen:?}", snapshot.name);
    Ok(Preview {
        shown: html! {
            section aria-label="What is lost" {
                h2 { "What is lost" }
                @if bytes == 0 && lost.is_empty() {
                    p { "Nothing was written to " span.name { (volume) } " after " (time(snapshot.created_s)) ", as far as the pool has stored it." }
                } @else {
                    (danger(html! { "What was written to " span.name { (volume) } " after "
                        (time(snapshot.created_s)) ": about " (size(bytes)) " of data. This cannot be taken back." }))
                }
                @if !lost.is_empty() {
                    p { "These newer snapshots are destroyed:" }
                    ul { @for name in lost.iter().take(MOST) { li.name { (name) } }
                        @if lost.len() > MOST { li { "and " (lost.len() - MOST) " more" } } }
                }
                @for notice in &seen.notices { p { (notice) } }
            }
            @if units.is_empty() {
                h2 { "Sessions" }
                p { "No unit serves the volume now, so no session notices it." }
            } @else {
                (warning(html! { "Stop what uses the unit first: unmount it on each host, or shut its virtual machines down. "
                    "A host that goes on with what it has in memory damages the restored data." }))
                p { "The unit is taken offline, the volume rolled back, and the unit taken online again." }
                @for committed in &sessions { (effects(committed)) }
            }
        },
        facts,
    })
}

fn preview_of_clone(visit: &Visit) -> Result<Preview, Error> {
    let (snapshot, _) = chosen(visit)?;
    let name = clone_name(visit)?;
    let made = clone(visit, true)?;
    let committed = match share(visit)? {
        None => None,
        Some(request) => Some(super::host::preview(visit, request)?),
    };
    let effect = committed.as_ref().map(facts_of);
    Ok(Preview {
        shown: html! {
            section aria-label="The clone" {
                h2 { "The clone" }
                @if made.unchanged { p { "The clone " span.name { (name) } " of " span.name { (snapshot.name) } " is made already." } }
                @else { p { "A new volume " span.name { (name) } " with what " span.name { (snapshot.name) } " has. "
                    "The snapshot stays as long as the clone needs it. Nothing is lost." } }
            }
            @match &committed {
                Some(committed) => (effects(committed)),
                None => p { "No host gets it yet." },
            }
        },
        facts: format!("{} {name} {effect:?}", snapshot.name),
    })
}

fn commit(visit: &Visit) -> Result<Answer, Error> {
    match visit.form.get("how") {
        "back" => commit_rollback(visit),
        _ => commit_clone(visit),
    }
}

/// Rolls back between taking the units offline and online.
fn commit_rollback(visit: &Visit) -> Result<Answer, Error> {
    let volume = chosen_volume(visit)?;
    let units = online(visit, &volume);
    let mut wanted = generation(visit);
    let mut offline: Vec<&str> = Vec::new();
    let mut result = Ok(());
    for unit in &units {
        let how = Commit {
            if_generation: wanted,
            ..Commit::default()
        };
        match set_offline(visit, &unit.name, true, how) {
            Ok(committed) => {
                wanted = Some(committed.generation);
                offline.push(&unit.name);
            }
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    let result = result.and_then(|()| roll_back(visit, false).map(drop));
    let mut left: Vec<&str> = Vec::new();
    for unit in offline {
        if set_offline(visit, unit, false, Commit::default()).is_err() {
            left.push(unit);
        }
    }
    let left_told = left.join(", ");
    match (result, left.is_empty()) {
        (Ok(()), true) => Ok(Answer::done(
            at("/volumes", &[&volume]),
            format!("{volume} is as it was in the snapshot. Hosts can use it again."),
        )),
        (Ok(()), false) => Err(Error::new(
            ErrorKind::Refused,
            format!(
                "{volume} is rolled back, but unit {left_told} could not be taken online again"
            ),
            "take it online on its page",
        )
        .not_changed(format!("unit {left_told} is still offline"))),
        (Err(error), true) => {
            Err(error.not_changed("the data is as before, and its units are online"))
        }
        (Err(error), false) => Err(error.not_changed(format!(
            "the data is as before, but unit {left_told} is offline: take it online on its page"
        ))),
    }
}

fn commit_clone(visit: &Visit) -> Result<Answer, Error> {
    let name = clone_name(visit)?;
    let request = share(visit)?;
    clone(visit, false)?;
    let Some(request) = request else {
        let told = format!("The clone {name} is made.");
        return Ok(Answer::done(at("/volumes", &[&name]), told));
    };
    let how = Commit {
        if_generation: generation(visit),
        ..Commit::default()
    };
    let shared = visit.ask(&map::SHARE, &[], how, request).map_err(|error| {
        let next = format!(
            "{}; then try again, which goes on with the clone",
            error.next
        );
        let mut error = error.not_changed(format!(
            "the clone {name} is made and stays; its unit and map are not made"
        ));
        error.next = next;
        error
    })?;
    let told = format!("The clone {name} is made, and given to the host.");
    Ok(finish::lead(visit, &shared.unit.name, told))
}
