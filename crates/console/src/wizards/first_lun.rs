//! The first LUN from bare disks: a pool, a volume in it, and the host that gets it.
//!
//! A pool is no part of the configuration, so it cannot be made by one commit with the rest. It is
//! made first. If the rest then fails, the pool stays, the page says so, and a repeated commit goes
//! on with it.

use control::endpoint::pool;
use maud::{Markup, html};
use model::Error;
use model::pool::create::CreatePool;
use model::pool::status::PoolView;

use super::disks::{self, Picked, may_overwrite};
use super::layout::{Layout, fitting};
use super::parts::{Choice, danger, one_of, warning};
use super::walk::{Preview, Step, Wizard, facts_of};
use super::{finish, host, volume};
use crate::answer::Answer;
use crate::form::{Field, hidden};
use crate::format::size;
use crate::preview::effects;
use crate::visit::Visit;

/// The wizard.
pub(super) static WIZARD: Wizard = Wizard {
    path: "/wizards/first-lun",
    title: "First LUN from bare disks",
    back: "/",
    steps: &[
        Step {
            name: "disks",
            title: "Disks",
            fields: &disks::FIELDS,
            show: show_disks,
            check: check_disks,
        },
        Step {
            name: "layout",
            title: "Layout",
            fields: &["layout", "pool", "disks"],
            show: show_layout,
            check: check_layout,
        },
        Step {
            name: "volume",
            title: "Volume",
            fields: &volume::FIELDS,
            show: show_volume,
            check: volume::check_unit,
        },
        Step {
            name: "host",
            title: "Host",
            fields: &host::FIELDS,
            show: host::show,
            check: volume::check_host,
        },
    ],
    label: "Make it all",
    preview,
    commit,
};

/// Name of the pool, unless another one is entered.
const DEFAULT_POOL: &str = "tank";

/// Returns the pool of the form if an earlier commit made it of the picked disks.
fn made(visit: &Visit, picked: &[Picked]) -> Result<Option<PoolView>, Error> {
    let name = visit.form.get("pool");
    let mut pools = visit.call(&pool::LIST, &[])?.into_iter();
    let wanted: Vec<String> = picked
        .iter()
        .map(|it| it.path.display().to_string())
        .collect();
    let found = pools.find(|pool| {
        let leaves = pool.vdevs.iter().flat_map(|vdev| vdev.all());
        let mut own = leaves
            .filter(|leaf| leaf.guid.is_some())
            .map(|leaf| &leaf.name);
        let count = own.clone().count();
        pool.name == name && count == wanted.len() && own.all(|path| wanted.contains(path))
    });
    Ok(found)
}

fn show_disks(visit: &Visit) -> Result<Markup, Error> {
    let list = disks::list(visit, false)?;
    Ok(html! {
        p { "Pick the disks for the pool. Two of one size make a mirror, which is the least that survives the loss of a disk." }
        (list)
    })
}

fn check_disks(visit: &Visit) -> Result<(), Error> {
    let picked = disks::picked(visit)?;
    if picked.is_empty() {
        return Err(Error::invalid(
            "no disk is picked",
            "pick the disks for the pool; two make a mirror",
        ));
    }
    match made(visit, &picked)? {
        Some(_) => Ok(()),
        None => disks::refuse_unfit(visit, &picked),
    }
}

fn show_layout(visit: &Visit) -> Result<Markup, Error> {
    let picked = disks::picked(visit)?;
    let layouts = fitting(&picked);
    let choices: Vec<Choice<'_>> = layouts
        .iter()
        .enumerate()
        .map(|(at, layout)| {
            let is_advised = at == 0 && layouts.len() > 1;
            let words = html! { (layout.title) @if is_advised { " (recommended)" } };
            Choice::new(layout.name, words).hint(html! { (layout.told()) " " (layout.remark) })
        })
        .collect();
    let first = layouts.first().map_or("", |it| it.name);
    let is_fitting = |name: &&str| layouts.iter().any(|it| it.name == *name);
    // A layout that was chosen for another number of disks is no choice: a stripe over one disk
    // must not become one over two.
    let count = picked.len().to_string();
    let is_same_count = visit.form.get("disks") == count;
    let chosen = visit.form.some("layout");
    let chosen = chosen.filter(|name| is_same_count && is_fitting(name));
    let pools = visit.call(&pool::LIST, &[])?;
    let names = (2..).map(|number| format!("{DEFAULT_POOL}{number}"));
    let mut names = [DEFAULT_POOL.to_owned()].into_iter().chain(names);
    let is_free = |name: &String| pools.iter().all(|pool| pool.name != *name);
    let free = names.find(is_free).unwrap_or_default();
    let name = visit.form.some("pool").unwrap_or(&free);
    let sizes: Vec<u64> = picked.iter().filter_map(Picked::size).collect();
    let is_uneven = sizes.iter().min() != sizes.iter().max();
    Ok(html! {
        ul { @for it in &picked { li { (it.show()) } } }
        @if is_uneven { (warning(html! { "The disks differ in size. Of each group, only as much as its smallest disk has is used." })) }
        (one_of("layout", "How do they hold the data together?", chosen.unwrap_or(first), &choices))
        (Field::new("pool", "Name of the pool").value(name).text())
        (hidden("disks", &count))
    })
}

/// Returns the chosen layout of the picked disks.
fn layout(visit: &Visit, picked: &[Picked]) -> Result<Layout, Error> {
    let name = visit.form.get("layout");
    let mut all = fitting(picked).into_iter();
    all.find(|it| it.name == name).ok_or_else(|| {
        Error::invalid(
            format!("the layout {name:?} does not fit {} disks", picked.len()),
            "choose a layout of the list, or other disks",
        )
    })
}

/// Returns the request for the pool.
fn creation(visit: &Visit, picked: &[Picked], dry_run: bool) -> Result<CreatePool, Error> {
    let name = visit
        .form
        .some("pool")
        .ok_or_else(|| Error::invalid("the pool has no name", "enter a name such as tank"))?;
    Ok(CreatePool {
        name: name.to_owned(),
        vdevs: layout(visit, picked)?.vdevs,
        logs: Vec::new(),
        caches: Vec::new(),
        spares: Vec::new(),
        force: may_overwrite(visit),
        file_size: None,
        multihost: None,
        dry_run,
    })
}

fn check_layout(visit: &Visit) -> Result<(), Error> {
    let picked = disks::picked(visit)?;
    let request = creation(visit, &picked, true)?;
    // The devices are asked once. Later, the commit asks them.
    let is_asked = visit.form.get("step") == "layout";
    match made(visit, &picked)? {
        None if is_asked => visit.ask(&pool::CREATE, &[], (), request).map(drop),
        _ => Ok(()),
    }
}

fn show_volume(visit: &Visit) -> Result<Markup, Error> {
    let picked = disks::picked(visit)?;
    Ok(volume::fields(visit, layout(visit, &picked)?.usable))
}

fn preview(visit: &Visit) -> Result<Preview, Error> {
    let picked = disks::picked(visit)?;
    let layout = layout(visit, &picked)?;
    let made = made(visit, &picked)?;
    let request = volume::unit(visit)?;
    let share = host::share(visit, request.clone())?;
    let committed = host::preview(visit, share.clone())?;
    let wanted = request.new_volume.unwrap_or_default();
    let lost = picked.iter().filter_map(|it| Some((it, it.holds()?)));
    let lost: Vec<(&Picked, &str)> = lost.filter(|_| made.is_none()).collect();
    let name = visit.form.get("pool");
    let facts: String = picked.iter().map(Picked::facts).collect();
    Ok(Preview {
        shown: html! {
            section aria-label="The pool" {
                h2 { "The pool" }
                @match &made {
                    Some(_) => p { "The pool " span.name { (name) } " is made already, of these disks:" },
                    None => p { "A new pool " span.name { (name) } ": " (layout.title) ". " (layout.told()) },
                }
                ul { @for it in &picked { li { (it.show()) } } }
                @for (it, holds) in &lost {
                    (danger(html! { "What is on " span.name { (it.path.display()) } " is lost: " (holds) "." }))
                }
            }
            section aria-label="The volume" {
                h2 { "The volume" }
                p { "A new volume " span.name { (name) "/" (request.name) } " of " (size(wanted.size)) ", in blocks of "
                    (size(wanted.block_size.unwrap_or_default().into())) "." }
                @if layout.usable.is_some_and(|usable| wanted.size > usable) {
                    (warning(html! { "That is more than the pool has. Writes fail when it is full, so watch its fill." }))
                }
            }
            (host::told(&share, &committed))
            (effects(&committed))
        },
        facts: format!(
            "{facts} {:?} {wanted:?} {}",
            layout.vdevs,
            facts_of(&committed)
        ),
    })
}

/// Makes the pool, unless it is made already, and then the rest.
fn commit(visit: &Visit) -> Result<Answer, Error> {
    let picked = disks::picked(visit)?;
    let name = visit.form.get("pool");
    if made(visit, &picked)?.is_none() {
        let request = creation(visit, &picked, false)?;
        visit
            .ask(&pool::CREATE, &[], (), request)
            .map_err(|error| {
                error.not_changed(
                "neither the pool nor anything else was made, and the configuration is as before",
            )
            })?;
    }
    let unit = volume::give(visit).map_err(|error| {
        let next = format!(
            "{}; then try again, which goes on with the pool",
            error.next
        );
        let mut error = error.not_changed(format!(
            "pool {name} is made and stays; its volume, unit, host, target and map are not made"
        ));
        error.next = next;
        error
    })?;
    let told = format!("Pool {name} and unit {unit} are made, and the unit is given to the host.");
    Ok(finish::lead(visit, &unit, told))
}
