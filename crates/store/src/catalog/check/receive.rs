//! Checks of a volume into which a stream is received: nothing else may be done to it.

use super::super::dataset::{Dataset, Receiving};
use super::super::error::{CatalogError, ErrorKind};
use super::super::operation::{NewSnapshots, NewVolume};
use super::super::properties::Properties;
use super::values::{check_geometry, check_properties};
use super::{Catalog, Checked};
use crate::format::DatasetId;
use crate::stream::MAX_SOURCE;

impl Catalog {
    /// Refuses to change a volume that is not complete.
    pub(super) fn check_not_receiving(
        &self,
        volumes: impl IntoIterator<Item = DatasetId>,
    ) -> Checked {
        match volumes.into_iter().find(|id| self.receiving(*id).is_some()) {
            None => Ok(()),
            Some(id) => Err(self.is_receiving(id)),
        }
    }

    /// Refuses to take away a snapshot to which a volume goes back if its receive is given up.
    pub(super) fn check_no_base(
        &self,
        snapshot: DatasetId,
        stays: impl Fn(DatasetId) -> bool,
    ) -> Checked {
        let mut followers = self.followers(snapshot).filter(|id| stays(*id));
        match followers.find(|id| self.receiving(*id).is_some()) {
            None => Ok(()),
            Some(id) => Err(self.is_receiving(id)),
        }
    }

    fn is_receiving(&self, id: DatasetId) -> CatalogError {
        let name = self.full_name(id);
        CatalogError::new(
            ErrorKind::Busy,
            format!("'{name}' is not complete: a stream is being received into it"),
            format!("let it finish, or discard it with 'volume receive -A {name}'"),
        )
    }

    /// Returns the snapshot that is being received into a volume.
    pub fn receiving(&self, volume: DatasetId) -> Option<&Receiving> {
        self.dataset(volume)?.as_volume()?.receiving.as_ref()
    }

    pub(super) fn check_begin_receive(
        &self,
        id: DatasetId,
        size: u64,
        receiving: &Receiving,
        refreservation: Option<u64>,
    ) -> Checked {
        let dataset = self.existing(id)?;
        let Some(volume) = dataset.as_volume() else {
            return Err(self.not_a(dataset, "volume"));
        };
        check_geometry(size, volume.block_size)?;
        check_receiving(Some(receiving), size, volume.block_size)?;
        let fits = match &volume.receiving {
            // The receive goes on with the blocks that are there.
            Some(before) => {
                volume.size == size
                    && before.snapshot == receiving.snapshot
                    && before.from == receiving.from
                    && before.is_new == receiving.is_new
                    && before.position >= receiving.position
            }
            None => {
                let newest = self.chain(id).next().filter(|older| older.parent == id);
                !receiving.is_new
                    && receiving.position == 0
                    && receiving.from.is_some()
                    && newest.map(|newest| newest.guid) == receiving.from
            }
        };
        if !fits {
            return Err(CatalogError::mismatch(format!(
                "the stream does not continue from the data that '{}' has",
                self.full_name(id)
            )));
        }
        // The volume may keep its reservation until the end, even if its new size is less.
        match refreservation {
            Some(bytes) => self.check_reservation_after(id, size, Some(bytes)),
            None => Ok(()),
        }
    }

    pub(super) fn check_note_received(&self, id: DatasetId, position: u64) -> Checked {
        let blocks = |dataset: &Dataset| {
            let (size, block_size) = dataset.geometry()?;
            Some(size / u64::from(block_size))
        };
        let most = blocks(self.existing(id)?).unwrap_or(0);
        match self.receiving(id) {
            Some(receiving) if (receiving.position..=most).contains(&position) => Ok(()),
            _ => Err(self.not_received(id)),
        }
    }

    pub(super) fn check_end_receive(
        &self,
        taken: &NewSnapshots,
        received: Option<&Properties>,
        refreservation: Option<u64>,
    ) -> Checked {
        self.check_snapshots(taken)?;
        let [new] = taken.snapshots.as_slice() else {
            return Err(CatalogError::mismatch(
                "a receive ends with exactly one snapshot",
            ));
        };
        let volume = self.existing(new.volume)?;
        let size = volume.geometry().map_or(0, |(size, _)| size);
        if let Some(received) = received {
            check_properties(volume.kind.letter(), size, received)?;
        }
        self.check_reservation_after(volume.id, size, refreservation)?;
        match self.receiving(new.volume) {
            Some(receiving) if receiving.snapshot == new.guid => Ok(()),
            _ => Err(self.not_received(new.volume)),
        }
    }

    fn not_received(&self, id: DatasetId) -> CatalogError {
        CatalogError::mismatch(format!(
            "'{}' is not receiving this stream",
            self.full_name(id)
        ))
    }
}

/// Checks whether a stream can make a clone of a snapshot with this guid. The stream must hold the
/// changes since that snapshot, from the beginning of the volume.
pub(super) fn check_received_clone(clone: &NewVolume, origin: u64) -> Checked {
    let receiving = clone.receiving.as_ref();
    check_receiving(receiving, clone.size, clone.block_size)?;
    let fits = |of: &Receiving| of.is_new && of.position == 0 && of.from == Some(origin);
    match receiving.is_none_or(fits) {
        true => Ok(()),
        false => Err(CatalogError::mismatch(
            "the stream does not continue from the clone's origin",
        )),
    }
}

/// Checks whether a stream can be received into a volume of this shape.
pub(in crate::catalog) fn check_receiving(
    receiving: Option<&Receiving>,
    size: u64,
    block_size: u32,
) -> Checked {
    let Some(receiving) = receiving else {
        return Ok(());
    };
    let blocks = size / u64::from(block_size.max(1));
    let fits = receiving.position <= blocks
        && receiving.from != Some(receiving.snapshot)
        && receiving.source.len() <= MAX_SOURCE;
    match fits {
        true => Ok(()),
        false => Err(CatalogError::mismatch(
            "the position, base or source of the receive is invalid",
        )),
    }
}
