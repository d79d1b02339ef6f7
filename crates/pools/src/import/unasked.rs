//! Actions of a pool on its devices without a request, apart from the return of missing devices. It
//! gives up pulled devices, replaces old disks by new ones (`autoreplace`), and uses the space by
//! which devices have grown (`autoexpand`).

use std::path::Path;

use store::engine::PoolProperty;
use store::vdev::{LeafId, VdevState};

use crate::devices::{foreign, label};
use crate::registry::{OpenPool, Pools};
use model::Error;
use model::device_name::is_remote;
use model::event::Severity;
use model::pool::history::Deed;
use model::pool::vdev_change::VdevChange;

/// Least growth of a device that is used. For less, the labels would move for nothing.
const LEAST_GROWTH: u64 = 1 << 20;
/// Folder of names that mean places of disks, whatever disk is there.
const PHYSICAL: &str = "/dev/disk/by-path/";

/// Reports whether a pool expands on its own when devices have grown.
pub(crate) fn expands(pool: &OpenPool) -> bool {
    is_on(pool, PoolProperty::Autoexpand)
}

fn is_on(pool: &OpenPool, property: PoolProperty) -> bool {
    let is_on = pool
        .host
        .ask(move |pool| pool.config().properties.is_on(property));
    is_on.unwrap_or(false)
}

impl Pools {
    /// Gives up this machine's devices whose names are gone. These are used devices whose data the
    /// other devices hold too, and failed devices.
    pub(crate) fn notice_pulled(&self, name: &str, pool: &OpenPool) {
        let places = pool.host.places().into_iter();
        let gone = places.filter(|(_, at)| !is_remote(&at.path) && !at.path.exists());
        for (guid, at) in gone {
            let pulled = pool.host.handle(move |hands| {
                let tops = hands.pool.status().top_levels.into_iter();
                let mut leaves = tops.flat_map(|top| top.slots).flat_map(|slot| slot.leaves);
                let leaf = leaves.find(|leaf| leaf.guid == guid);
                let is_known = leaf.is_some_and(|leaf| {
                    matches!(
                        leaf.state,
                        VdevState::Online | VdevState::Degraded | VdevState::Faulted
                    )
                });
                let leaf: Option<LeafId> = hands.pool.leaf(guid).filter(|_| is_known);
                leaf.is_some_and(|leaf| hands.pool.pulled(leaf, hands.now_us).is_ok())
            });
            if pulled.unwrap_or(false) {
                let device = at.path.display();
                tracing::warn!(pool = name, %device, "a disk is gone: its name has disappeared");
                pool.host
                    .note_trouble(guid, "it was removed: its name has disappeared");
            }
        }
    }

    /// Reports whether a device at the place of a disk that went is to replace it: a new disk that
    /// holds nothing.
    pub(crate) fn replaces_itself(&self, pool: &OpenPool, path: &Path) -> bool {
        is_on(pool, PoolProperty::Autoreplace) && is_place(path) && self.is_blank(path)
    }

    /// Reports whether a disk holds no known data, and only zeros where labels would be.
    fn is_blank(&self, path: &Path) -> bool {
        let looked = self.options.disks.open_and_look(path, |device| {
            let labels = label::read(device)?;
            let is_zero = |copy: &pages::Pages| {
                !copy.is_empty() && copy.to_vec().iter().all(|byte| *byte == 0)
            };
            let is_empty = labels.copies.iter().all(is_zero);
            Ok(is_empty && foreign::found(device, &labels)?.is_none())
        });
        looked.is_ok_and(|(_, is_blank)| is_blank)
    }

    /// Rebuilds a disk that went on the new disk at its place.
    pub(crate) fn autoreplace(&self, name: &str, guid: u64, path: &Path) -> Result<(), Error> {
        let replace = VdevChange::Replace {
            device: format!("{guid:016x}"),
            new: None,
            force: false,
            file_size: None,
        };
        self.change_vdevs(name, &replace)?;
        self.tell(
            name,
            &format!(
                "autoreplace: a new disk at {} replaces the one that was removed",
                path.display()
            ),
        );
        Ok(())
    }

    /// Uses the space by which devices have grown, if the pool expands on its own. A vdev grows
    /// once its last device has grown.
    pub(crate) fn expand_grown(&self, name: &str, pool: &OpenPool) {
        if !expands(pool) {
            return;
        }
        let Ok(leaves) = pool.host.handle(|hands| {
            let tops = hands.pool.status().top_levels.into_iter();
            let leaves = tops.flat_map(|top| top.slots).flat_map(|slot| slot.leaves);
            let online = leaves.filter(|leaf| leaf.state == VdevState::Online);
            let open = online.filter_map(|leaf| {
                let device = hands.devices.of(leaf.leaf)?;
                Some((leaf.guid, leaf.size, std::sync::Arc::clone(device)))
            });
            open.collect::<Vec<_>>()
        }) else {
            return;
        };
        for (guid, had, device) in leaves {
            // A device that does not answer is queried again the next time.
            let has = device.refresh().map_or(had, |geometry| geometry.len);
            if has < had + LEAST_GROWTH {
                continue;
            }
            let expand = VdevChange::Online {
                devices: vec![format!("{guid:016x}")],
                expand: true,
            };
            let places = pool.host.places();
            let device = places.get(&guid).map(|at| at.path.display().to_string());
            let device = device.unwrap_or_else(|| format!("{guid:016x}"));
            match self.change_vdevs(name, &expand) {
                Ok(()) => self.tell(
                    name,
                    &format!("autoexpand: {device} has grown, and is now used up to its new end"),
                ),
                Err(error) => {
                    tracing::info!(pool = name, device, %error, "the new space of a grown disk cannot be \
                                                                 used yet")
                }
            }
        }
    }

    /// Reports an action of the pool itself: in the log, its events and its history.
    fn tell(&self, name: &str, text: &str) {
        tracing::info!(pool = name, "{text}");
        if let Ok(pool) = self.get(name) {
            let line = text.to_owned();
            // If the engine has ended, there is no history to write to.
            let _ = pool
                .host
                .handle(move |hands| hands.shared.note(Severity::Info, &line));
        }
        let deed = Deed {
            text: text.to_owned(),
            is_internal: true,
            ..Deed::default()
        };
        self.note(name, &deed);
    }
}

/// Reports whether a path names a place, so that any disk there is meant to be used: a file, or a
/// port of this machine. A name such as /dev/sdb goes to whichever disk comes first.
fn is_place(path: &Path) -> bool {
    !is_remote(path) && (path.starts_with(PHYSICAL) || !path.starts_with("/dev"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_places_let_a_new_disk_take_the_place_of_an_old_one() {
        for (path, expected) in [
            ("/dev/disk/by-path/pci-0000:00:1f.2-ata-1", true),
            ("/srv/disks/d0", true),
            ("/dev/sdb", false),
            ("/dev/disk/by-id/ata-X", false),
            ("naa.652534e0000000000000100000000001", false),
        ] {
            assert_eq!(is_place(Path::new(path)), expected, "{path}");
        }
    }
}
