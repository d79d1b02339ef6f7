//! Wizards: tasks of several steps, each with a few questions, a preview, and one commit.
//!
//! | question | file |
//! |---|---|
//! | How does a walk go on, and where are the answers? | `walk.rs` |
//! | What do the questions look like? | `parts.rs`; the list of disks: `disks.rs` |
//! | How does a first LUN come from bare disks? | `first_lun.rs`; layouts: `layout.rs` |
//! | How does a host get a volume? | `volume.rs`; which host, and where: `host.rs` |
//! | What is typed on the host then? | `finish.rs` |
//! | How is a disk replaced? | `replace.rs`, of a disk in `leaf.rs`; its number: `serial.rs`; its lamp: `locate.rs` |
//! | How does data of a snapshot come back? | `restore.rs` |
//! | How does a port group go out of service, and back? | `maintenance.rs` |

mod disks;
mod finish;
mod first_lun;
mod host;
mod layout;
mod leaf;
mod locate;
mod maintenance;
mod parts;
mod replace;
mod restore;
mod serial;
mod volume;
mod walk;

use control::endpoint::{disk, lu, map, pool, target, volume as volume_endpoint};
use maud::html;
use model::Error;
use model::access::Role;

use super::answer::Answer;
use super::form::lead;
use super::frame::Page;
use super::routes::Routes;
use super::visit::Visit;
use walk::{Wizard, begin, go_on};

/// Adds the routes of all wizards. Each stands for the change that it ends with.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .page("/wizards", &lu::LIST, list)
        .page("/wizards/done", &lu::SHOW, finish::show)
        .page("/wizards/locate", &disk::LIST, locate::show)
        .act("/wizards/locate", &disk::LOCATE, locate::light)
        .page("/wizards/first-lun", &pool::CREATE, |visit| {
            begin(&first_lun::WIZARD, visit)
        })
        .act("/wizards/first-lun", &pool::CREATE, |visit| {
            go_on(&first_lun::WIZARD, visit)
        })
        .page("/wizards/volume", &map::SHARE, |visit| {
            begin(&volume::WIZARD, visit)
        })
        .act("/wizards/volume", &map::SHARE, |visit| {
            go_on(&volume::WIZARD, visit)
        })
        .page("/wizards/replace", &pool::CHANGE_VDEVS, |visit| {
            begin(&replace::WIZARD, visit)
        })
        .act("/wizards/replace", &pool::CHANGE_VDEVS, |visit| {
            go_on(&replace::WIZARD, visit)
        })
        .page("/wizards/restore", &volume_endpoint::SNAPSHOT, |visit| {
            begin(&restore::WIZARD, visit)
        })
        .act("/wizards/restore", &volume_endpoint::SNAPSHOT, |visit| {
            go_on(&restore::WIZARD, visit)
        })
        .page("/wizards/maintenance", &target::SET_ALUA_STATE, |visit| {
            begin(&maintenance::WIZARD, visit)
        })
        .act("/wizards/maintenance", &target::SET_ALUA_STATE, |visit| {
            go_on(&maintenance::WIZARD, visit)
        })
}

/// Wizards with their least roles and their words, in the order in which they are needed.
fn all() -> [(&'static Wizard, Role, &'static str); 5] {
    [
        (
            &first_lun::WIZARD,
            pool::CREATE.role,
            "Makes a pool of bare disks, a volume in it, and gives it to a host.",
        ),
        (
            &volume::WIZARD,
            map::SHARE.role,
            "Makes a volume in a pool, and gives it to a host.",
        ),
        (
            &replace::WIZARD,
            pool::CHANGE_VDEVS.role,
            "Rebuilds a disk of a pool on another disk, while hosts go on.",
        ),
        (
            &restore::WIZARD,
            volume_endpoint::SNAPSHOT.role,
            "Rolls a volume back, or makes a clone beside it.",
        ),
        (
            &maintenance::WIZARD,
            target::SET_ALUA_STATE.role,
            "Takes ports out of service, after a look at who would lose the last path.",
        ),
    ]
}

fn list(visit: &Visit) -> Result<Answer, Error> {
    let page = Page::new("Wizards").body(html! {
        p { "Each asks a few questions, shows what would change, and then changes exactly that. "
            "Nothing is changed before its last button." }
        ul.tasks {
            @for (wizard, role, words) in all() {
                li {
                    p { (lead(visit, role, wizard.path, wizard.title)) }
                    p.quiet { (words) }
                }
            }
        }
    });
    Ok(page.into())
}
