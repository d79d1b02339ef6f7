//! A volume for a host: a volume in a pool, its unit, a host and a map, made by one commit.

use config::change::{CreateUnit, NewVolume};
use control::endpoint::{lu, map, pool};
use control::transaction::Commit;
use maud::{Markup, html};
use model::Error;
use model::config::{BackendSpec, default_block_size};
use model::pool::status::PoolView;
use model::quantity::parse_size;

use super::parts::{Choice, one_of};
use super::walk::{Preview, Step, Wizard, facts_of, generation};
use super::{finish, host};
use crate::answer::Answer;
use crate::form::Field;
use crate::format::size;
use crate::preview::effects;
use crate::visit::Visit;

/// The wizard.
pub(super) static WIZARD: Wizard = Wizard {
    path: "/wizards/volume",
    title: "A volume for a host",
    back: "/units",
    steps: &[
        Step {
            name: "volume",
            title: "Volume",
            fields: &["pool", "name", "size", "block_size"],
            show,
            check,
        },
        Step {
            name: "host",
            title: "Host",
            fields: &host::FIELDS,
            show: host::show,
            check: check_host,
        },
    ],
    label: "Make it",
    preview,
    commit,
};

/// Names of the fields of [`fields`].
pub(super) const FIELDS: [&str; 3] = ["name", "size", "block_size"];
/// Size of a volume in a pool with enough room, unless another one is entered.
const DEFAULT_SIZE: &str = "100G";
/// Block size of a volume, unless another one is chosen.
const DEFAULT_BLOCK_SIZE: &str = "16K";
/// Block sizes, with what they are for.
const BLOCK_SIZES: [(&str, &str); 5] = [
    (
        "4K",
        "4K: databases that write single pages of 4K; least room is saved",
    ),
    ("8K", "8K: databases with pages of 8K"),
    ("16K", "16K: virtual machines and file systems (usual)"),
    (
        "64K",
        "64K: large files, Windows volumes with clusters of 64K",
    ),
    (
        "128K",
        "128K: backups and media, read and written in long runs",
    ),
];

fn show(visit: &Visit) -> Result<Markup, Error> {
    let pools = visit.call(&pool::LIST, &[])?;
    if pools.is_empty() {
        return Ok(html! {
            p { strong { "No pool yet." } " A volume lies in a pool, which joins disks." }
            p { a.button href="/wizards/first-lun" { "Make a pool and a first LUN" } }
        });
    }
    let choices: Vec<Choice<'_>> = pools.iter().map(choice).collect();
    let usable = || pools.iter().find(|pool| is_usable(pool));
    let first = usable().map_or("", |pool| pool.name.as_str());
    let chosen = visit.form.some("pool").unwrap_or(first);
    Ok(html! {
        (one_of("pool", "In which pool?", chosen, &choices))
        (fields(visit, pools.iter().find(|pool| pool.name == chosen).map(|pool| pool.available)))
    })
}

fn is_usable(pool: &PoolView) -> bool {
    matches!(pool.state.as_str(), "ONLINE" | "DEGRADED") && !pool.is_read_only
}

fn choice(pool: &PoolView) -> Choice<'_> {
    let words = html! {
        span.name { (pool.name) } ": " (size(pool.available)) " available of " (size(pool.size)) ", " (pool.state)
    };
    let is_open = is_usable(pool);
    let hint = match is_open {
        true => html! {},
        false => html! { "It takes no new volumes in this state." },
    };
    Choice::new(&pool.name, words).hint(hint).open(is_open)
}

/// Returns the size that a new volume has at first, where the pool has so many bytes for data.
fn sensible(room: Option<u64>) -> String {
    match room.map(|bytes| bytes / 10 * 8) {
        Some(bytes @ ..0x4000_0000) => format!("{}M", (bytes >> 20).max(1)),
        Some(bytes @ ..0x19_0000_0000) => format!("{}G", bytes >> 30),
        _ => DEFAULT_SIZE.to_owned(),
    }
}

/// Shows the fields for name, size and block size. `room` is what the pool has for data.
pub(super) fn fields(visit: &Visit, room: Option<u64>) -> Markup {
    let form = &visit.form;
    let first = sensible(room);
    let sizes = BLOCK_SIZES.map(|(value, label)| (value.to_owned(), label.to_owned()));
    html! {
        (Field::new("name", "Name").value(form.get("name"))
            .hint("Of the volume and of its unit, such as esx-ds1.").text())
        (Field::new("size", "Size").value(form.some("size").unwrap_or(&first))
            .hint("Such as 500G or 2T. It takes room in the pool only as it is written, and can grow later.").text())
        (Field::new("block_size", "Block size").value(form.some("block_size").unwrap_or(DEFAULT_BLOCK_SIZE))
            .hint("It cannot be changed later. If you do not know, leave it.").choice(&sizes))
    }
}

/// Returns the size in bytes that a field holds.
fn bytes(visit: &Visit, field: &str, default: &str) -> Result<u64, Error> {
    let text = visit.form.some(field).unwrap_or(default);
    parse_size(text).map_err(|error| Error::invalid(error, "enter a size such as 100G"))
}

/// Returns the request for the volume. A new pool cannot be asked yet whether it takes the size.
fn new_volume(visit: &Visit) -> Result<NewVolume, Error> {
    let size = bytes(visit, "size", DEFAULT_SIZE)?;
    let block_size = bytes(visit, "block_size", DEFAULT_BLOCK_SIZE)?;
    let is_known = BLOCK_SIZES
        .iter()
        .any(|(of, _)| parse_size(of) == Ok(block_size));
    let block_size = u32::try_from(block_size).ok().filter(|_| is_known);
    let block_size = block_size.ok_or_else(|| {
        Error::invalid("this block size is not offered", "choose one of the list")
    })?;
    if size == 0 || !size.is_multiple_of(block_size.into()) {
        return Err(Error::invalid(
            format!("a volume of {size} bytes is no whole number of blocks of {block_size} bytes"),
            "enter a size such as 100G",
        ));
    }
    Ok(NewVolume {
        size,
        block_size: Some(block_size),
        reserve: false,
    })
}

/// Returns the request for the unit and its volume in a pool.
///
/// # Errors
/// An answer is missing or wrong.
pub(super) fn unit(visit: &Visit) -> Result<CreateUnit, Error> {
    let form = &visit.form;
    let required = |field: &str, what: &str, next: &str| {
        let value = form.some(field).map(str::to_owned);
        value.ok_or_else(|| Error::invalid(format!("{what} is missing"), next))
    };
    let name = required(
        "name",
        "the name of the volume",
        "enter a name such as esx-ds1",
    )?;
    let pool = required("pool", "the name of the pool", "choose a pool")?;
    let volume = new_volume(visit)?;
    Ok(CreateUnit {
        backend: BackendSpec::on_volume(format!("{pool}/{name}")),
        name,
        block_size: default_block_size(),
        physical_block_size: None,
        new_volume: Some(volume),
        write_cache: false,
        read_only: false,
        thin: None,
        threshold_percent: None,
        naa: None,
        serial: None,
    })
}

/// Checks name and size of the unit by a dry run.
///
/// # Errors
/// The unit could not be made.
pub(super) fn check_unit(visit: &Visit) -> Result<(), Error> {
    let request = unit(visit)?;
    let config = visit.console.door.plane().transactions.config();
    // `share` would take the unit that is there.
    if config.unit(&request.name).is_some() {
        return Err(Error::exists(
            format!("there is a unit {} already", request.name),
            "choose another name, or map that unit to the host on the page Paths",
        ));
    }
    let how = Commit {
        dry_run: true,
        ..Commit::default()
    };
    visit.ask(&lu::CREATE, &[], how, request).map(drop)
}

fn check(visit: &Visit) -> Result<(), Error> {
    check_unit(visit)?;
    let wanted = unit(visit)?;
    // The pool knows whether the volume can be made.
    let (pool, volume) = (
        visit.form.get("pool"),
        wanted.new_volume.unwrap_or_default(),
    );
    visit.call(&pool::SHOW, &[pool])?;
    let creation = model::pool::dataset::change::DatasetChange::Create {
        name: format!("{pool}/{}", wanted.name),
        size: Some(volume.size),
        block_size: volume.block_size,
        sparse: true,
        parents: false,
        properties: Default::default(),
    };
    let how = control::endpoint::volume::How { dry_run: true };
    visit
        .ask(&control::endpoint::volume::CHANGE, &[], how, creation)
        .map(drop)
}

/// Checks host, target and portals by a dry run.
///
/// # Errors
/// The unit could not be given to the host.
pub(super) fn check_host(visit: &Visit) -> Result<(), Error> {
    host::preview(visit, host::share(visit, unit(visit)?)?).map(drop)
}

fn preview(visit: &Visit) -> Result<Preview, Error> {
    let request = unit(visit)?;
    let share = host::share(visit, request.clone())?;
    let committed = host::preview(visit, share.clone())?;
    let pool = visit.call(&pool::SHOW, &[visit.form.get("pool")])?;
    let volume = request.new_volume.unwrap_or_default();
    Ok(Preview {
        shown: html! {
            section aria-label="What is made" {
                h2 { "What is made" }
                p { "The volume " span.name { (pool.name) "/" (request.name) } " of " (size(volume.size))
                    ", in blocks of " (size(volume.block_size.unwrap_or_default().into()))
                    ", and what is below. The pool has " (size(pool.available)) " available." }
                @if volume.size > pool.available {
                    (super::parts::warning(html! {
                        "That is more than the pool has. Writes fail when it is full, so watch its fill."
                    }))
                }
            }
            (host::told(&share, &committed))
            (effects(&committed))
        },
        facts: format!("{volume:?} {:?} {}", pool.guid, facts_of(&committed)),
    })
}

/// Makes volume, unit, host, target and map, bound to the generation of the preview.
///
/// # Errors
/// A part could not be made. Then none is left.
pub(super) fn give(visit: &Visit) -> Result<String, Error> {
    let request = host::share(visit, unit(visit)?)?;
    let how = Commit {
        if_generation: generation(visit),
        ..Commit::default()
    };
    Ok(visit.ask(&map::SHARE, &[], how, request)?.unit.name)
}

fn commit(visit: &Visit) -> Result<Answer, Error> {
    let unit = give(visit)?;
    let told = format!("Unit {unit} is made, and given to the host.");
    Ok(finish::lead(visit, &unit, told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_has_a_size_at_first_that_its_pool_has_room_for() {
        for (room, expected) in [
            (None, "100G"),
            (Some(4 << 40), "100G"),
            (Some(125 << 30), "100G"),
            (Some(100 << 30), "80G"),
            (Some(1 << 30), "819M"),
            (Some(0), "1M"),
        ] {
            assert_eq!(sensible(room), expected, "{room:?}");
        }
    }
}
