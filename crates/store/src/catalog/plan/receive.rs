//! Plans to receive streams: the volume to which a snapshot goes, the snapshot of which it is a
//! clone, and whether it fits there.

use std::cmp::Reverse;

use super::request::{ReceiveInto, Rollback, Stamp, Texts};
use crate::catalog::error::{CatalogError, ErrorKind};
use crate::catalog::operation::{NewClone, NewSnapshot, NewSnapshots, NewVolume, Operation};
use crate::catalog::properties::Properties;
use crate::catalog::property::Property;
use crate::catalog::value::Value;
use crate::catalog::{Catalog, Dataset, Receiving};
use crate::format::DatasetId;
use crate::stream::Begin;

impl Catalog {
    /// Plans the beginning of a stream. The stream goes into one of these:
    ///
    /// - a new volume, which is a clone if the stream goes on from another volume's snapshot;
    /// - a volume whose newest snapshot is the one that the stream goes on from;
    /// - a volume into which this very snapshot was received in part.
    ///
    /// # Errors
    /// Exists, NotFound (also of the origin of a clone), InvalidName; Busy if another stream is
    /// being received; Mismatch if the stream does not go on from the volume's state.
    pub fn plan_begin_receive(
        &self,
        request: &ReceiveInto,
        stamp: Stamp,
    ) -> Result<Operation, CatalogError> {
        let found = super::Name::parse(&request.name)
            .ok()
            .and_then(|name| self.resolve(&name));
        match found {
            Some(dataset) => self.plan_receive_changes(dataset, request),
            None => self.plan_receive_new(request, stamp),
        }
    }

    /// Plans the rollback that `-F` does before a stream begins. The volume goes back to its newest
    /// snapshot, if the stream goes on from that snapshot and nothing is being received yet. The
    /// plan of the stream's beginning after that comes with it. If the stream may not begin even
    /// then, nothing has to be lost for it.
    ///
    /// # Errors
    /// The errors of [`Catalog::plan_rollback`], and of [`Catalog::plan_begin_receive`] after it.
    pub fn plan_rollback_to_receive(
        &self,
        request: &ReceiveInto,
    ) -> Result<Option<(Operation, Operation)>, CatalogError> {
        let Ok(volume) = self.find_volume(&request.name).map(|volume| volume.id) else {
            return Ok(None);
        };
        let newest = self.snapshots(volume).pop();
        let is_next = |newest: &&Dataset| Some(newest.guid) == request.begin.from;
        let Some(newest) = newest.filter(is_next) else {
            return Ok(None);
        };
        if self.receiving(volume).is_some() {
            return Ok(None);
        }
        let rollback = self.plan_rollback(&Rollback {
            snapshot: self.name(newest.id),
            ..Rollback::default()
        })?;
        let mut after = self.clone();
        after.apply(&rollback)?;
        let begin = after.plan_receive_changes(after.existing(volume)?, request)?;
        Ok(Some((rollback, begin)))
    }

    /// Plans the beginning of a stream into an existing volume.
    fn plan_receive_changes(
        &self,
        dataset: &Dataset,
        request: &ReceiveInto,
    ) -> Result<Operation, CatalogError> {
        let begin = &request.begin;
        let Some(volume) = dataset.as_volume() else {
            return Err(self.not_a(dataset, "volume"));
        };
        let receiving = match &volume.receiving {
            Some(before) => self.resumed(dataset, before, request)?,
            None => self.continued(dataset, request)?,
        };
        self.check_block_size(dataset, begin)?;
        self.planned(Operation::BeginReceive {
            volume: dataset.id,
            size: begin.size,
            receiving,
            refreservation: self.reservation_while_receiving(dataset, begin.size),
        })
    }

    /// Returns the refreservation with which a stream begins. With a larger volume it grows. With a
    /// smaller volume it stays until the end is proven. If the end never comes, the volume needs
    /// the space again, and nobody else may take it.
    fn reservation_while_receiving(&self, volume: &Dataset, size: u64) -> Option<u64> {
        let is_larger = volume.geometry().is_some_and(|(before, _)| size > before);
        is_larger.then(|| self.adapted_reservation(volume.id, size))?
    }

    fn plan_receive_new(
        &self,
        request: &ReceiveInto,
        stamp: Stamp,
    ) -> Result<Operation, CatalogError> {
        let begin = &request.begin;
        let shown = self.shown(&request.name);
        if begin.from.is_some() && begin.origin.is_none() {
            return Err(CatalogError::new(
                ErrorKind::NotFound,
                format!(
                    "the stream holds changes only, and '{shown}', which they belong to, does not exist"
                ),
                "receive a full stream first, sent without -i",
            ));
        }
        if begin.start > 0 {
            return Err(CatalogError::new(
                ErrorKind::NotFound,
                format!(
                    "the stream resumes an interrupted receive, but '{shown}' holds no part of it"
                ),
                "send the stream again without a token",
            ));
        }
        let origin = match begin.from {
            Some(guid) => Some(self.received_origin(request, guid)?),
            None => None,
        };
        let place = self.place(&request.name, request.with_parents, stamp)?;
        let mut dataset = stamp.dataset(place.next, place.parent, &place.name);
        dataset.received = begin
            .properties
            .as_ref()
            .map(known_properties)
            .unwrap_or_default();
        let folders = place.folders;
        let receiving = Some(Receiving {
            is_new: true,
            ..receiving(request, 0)
        });
        let (size, block_size) = (begin.size, begin.block_size);
        self.planned(match origin {
            None => Operation::CreateVolume {
                folders,
                volume: NewVolume {
                    dataset,
                    size,
                    block_size,
                    receiving,
                },
            },
            Some(origin) => Operation::Clone {
                folders,
                clone: NewClone {
                    dataset,
                    origin: origin.id,
                    size: (origin.geometry() != Some((size, block_size))).then_some(size),
                    receiving,
                },
            },
        })
    }

    /// Returns the snapshot of which a stream makes a clone. If a stream was received several
    /// times, several snapshots have its guid. The nearest is meant: its volume lies in most of the
    /// folders that the clone lies in, and least deep.
    fn received_origin(&self, request: &ReceiveInto, guid: u64) -> Result<&Dataset, CatalogError> {
        let nearness = |dataset: &&Dataset| {
            let name = self.name(dataset.parent);
            let parts = name.split('/').zip(request.name.split('/'));
            let in_common = parts.take_while(|(its, wanted)| its == wanted).count();
            (in_common, Reverse(name.split('/').count()))
        };
        // Of several snapshots that are equally near, the first in the order of numbers is taken.
        let all = self.snapshots_by_guid(guid).rev();
        let Some(nearest) = all.max_by_key(nearness) else {
            let origin = request.begin.origin.as_deref().unwrap_or_default();
            return Err(CatalogError::new(
                ErrorKind::NotFound,
                format!(
                    "the stream makes '{}' a clone of '{origin}', but this pool does not have that snapshot",
                    self.shown(&request.name)
                ),
                format!(
                    "receive '{origin}' first, or send the clone in full, without -i; 'volume send -R' of a \
                     folder that holds both sends both"
                ),
            ));
        };
        self.check_block_size(nearest, &request.begin)?;
        Ok(nearest)
    }

    /// Refuses a stream whose block size differs from that of the snapshot that it goes on from.
    fn check_block_size(&self, before: &Dataset, begin: &Begin) -> Result<(), CatalogError> {
        let (_, block_size) = before.geometry().unwrap_or_default();
        if block_size == begin.block_size {
            return Ok(());
        }
        Err(CatalogError::mismatch(format!(
            "the stream has blocks of {} bytes, and '{}' has blocks of {block_size}",
            begin.block_size,
            self.full_name(before.id),
        )))
    }

    /// Plans to go on with a snapshot that was received in part.
    fn resumed(
        &self,
        dataset: &Dataset,
        before: &Receiving,
        request: &ReceiveInto,
    ) -> Result<Receiving, CatalogError> {
        let (begin, name) = (&request.begin, self.full_name(dataset.id));
        let is_same = before.snapshot == begin.snapshot && before.from == begin.from;
        if !is_same || before.position < begin.start {
            return Err(CatalogError::new(
                ErrorKind::Busy,
                format!(
                    "'{name}' holds a part of {}, and this stream does not continue it",
                    before.source
                ),
                format!(
                    "send the rest with the token of 'volume get receive_resume_token {name}', or discard \
                     the part with 'volume receive -A {name}'"
                ),
            ));
        }
        // The rest comes as of one volume. Only the volume's own state tells how many folders were
        // sent at first.
        let folders = match begin.start {
            0 => begin.folders(),
            _ => before.folders,
        };
        Ok(Receiving {
            is_new: before.is_new,
            folders,
            ..receiving(request, begin.start)
        })
    }

    /// Plans to receive changes into an existing volume.
    fn continued(
        &self,
        dataset: &Dataset,
        request: &ReceiveInto,
    ) -> Result<Receiving, CatalogError> {
        let (begin, name) = (&request.begin, self.full_name(dataset.id));
        let Some(from) = begin.from else {
            return Err(CatalogError::new(
                ErrorKind::Exists,
                format!("'{name}' exists already, and the stream holds a full volume"),
                "receive it under another name, or send only the changes with -i",
            ));
        };
        let own = self.snapshots(dataset.id);
        let has = |guid: u64| own.iter().rev().find(|snapshot| snapshot.guid == guid);
        if has(begin.snapshot).is_some() || self.child(dataset.id, &begin.name).is_some() {
            let snapshot = &begin.name;
            return Err(CatalogError::new(
                ErrorKind::Exists,
                format!("'{name}@{snapshot}' exists already"),
                "send the changes since that snapshot, or destroy it first",
            ));
        }
        let newest = own.last();
        if let Some(origin) = &begin.origin
            && has(from).is_none()
        {
            return Err(CatalogError::new(
                ErrorKind::Exists,
                format!("'{name}' exists already, and the stream makes a new clone of '{origin}'"),
                "receive it under another name, or destroy the dataset that has this one",
            ));
        }
        if newest.map(|newest| newest.guid) == Some(from) && begin.start == 0 {
            return Ok(receiving(request, 0));
        }
        if begin.start > 0 {
            return Err(CatalogError::new(
                ErrorKind::NotFound,
                format!(
                    "the stream resumes an interrupted receive, but '{name}' holds no part of it"
                ),
                "send the stream again without a token",
            ));
        }
        let (message, next) = match (has(from), newest) {
            (Some(base), Some(newest)) => (
                format!(
                    "the stream continues from '@{}', but '@{}' is newer",
                    base.name, newest.name
                ),
                format!(
                    "send the changes since '@{}', or go back with 'volume rollback -r {name}@{}'",
                    newest.name, base.name
                ),
            ),
            _ => (
                format!("'{name}' does not have the snapshot that the stream continues from"),
                "send the changes since a snapshot that both volumes have".to_owned(),
            ),
        };
        Err(CatalogError::new(ErrorKind::InvalidValue, message, next))
    }

    /// Plans a note that all blocks below `position` have arrived.
    ///
    /// # Errors
    /// Mismatch if another stream is being received, or none.
    pub fn plan_note_received(
        &self,
        volume: DatasetId,
        attempt: u64,
        position: u64,
    ) -> Result<Operation, CatalogError> {
        self.check_attempt(volume, attempt)?;
        self.planned(Operation::NoteReceived { volume, position })
    }

    /// Plans the end of a receive: the snapshot is taken.
    ///
    /// # Errors
    /// Mismatch if another stream is being received, or none; Exists; LimitReached.
    pub fn plan_end_receive(
        &self,
        volume: DatasetId,
        attempt: u64,
        begin: &Begin,
        stamp: Stamp,
    ) -> Result<Operation, CatalogError> {
        self.check_attempt(volume, attempt)?;
        let snapshots = vec![NewSnapshot {
            id: self.next,
            volume,
            name: begin.name.clone(),
            guid: begin.snapshot,
        }];
        self.check_limits_of_new(&snapshots)?;
        let reserved = self.settings(volume).refreservation;
        self.planned(Operation::EndReceive {
            taken: NewSnapshots {
                epoch: stamp.epoch,
                created_s: begin.created_s,
                snapshots,
                properties: Properties::default(),
            },
            received: begin.properties.as_ref().map(known_properties),
            refreservation: (reserved > begin.size).then_some(begin.size),
        })
    }

    /// Plans to drop a snapshot that was received in part. A new volume goes as a whole; in another
    /// volume the changes go. With an `attempt`, only the blocks of that attempt go.
    ///
    /// # Errors
    /// Mismatch if nothing is being received.
    pub fn plan_abort_receive(
        &self,
        volume: DatasetId,
        attempt: Option<u64>,
    ) -> Result<Operation, CatalogError> {
        if attempt.is_some_and(|attempt| self.check_attempt(volume, attempt).is_err()) {
            return Err(CatalogError::mismatch(
                "another attempt took over the receive",
            ));
        }
        let Some(receiving) = self.receiving(volume) else {
            return Err(CatalogError::new(
                ErrorKind::NotFound,
                format!(
                    "nothing is being received into '{}'",
                    self.full_name(volume)
                ),
                "see the token in 'volume get receive_resume_token'",
            ));
        };
        if receiving.is_new {
            let ids = vec![volume];
            return self.planned(Operation::Destroy { ids });
        }
        let newest = self.chain(volume).next();
        let newest =
            newest.ok_or_else(|| CatalogError::mismatch("the snapshot to go back to is gone"))?;
        let size = newest.geometry().map_or(0, |(size, _)| size);
        self.planned(Operation::Rollback {
            volume,
            snapshot: newest.id,
            destroy: Vec::new(),
            refreservation: self.restored_reservation(volume, size),
        })
    }

    /// Returns the volumes into which a stream is being received.
    pub fn receiving_volumes(&self) -> Vec<DatasetId> {
        let all = self.datasets.keys().copied();
        all.filter(|id| self.receiving(*id).is_some()).collect()
    }

    /// Returns the snapshots of a guid, in the order of their numbers. There are several if a
    /// stream was received several times.
    pub fn snapshots_by_guid(&self, guid: u64) -> impl DoubleEndedIterator<Item = &Dataset> {
        let all = self.datasets.values();
        all.filter(move |dataset| dataset.guid == guid && dataset.as_snapshot().is_some())
    }

    fn check_attempt(&self, volume: DatasetId, attempt: u64) -> Result<(), CatalogError> {
        let current = self.receiving(volume).map(|receiving| receiving.attempt);
        if current == Some(attempt) {
            return Ok(());
        }
        Err(CatalogError::mismatch(
            "the receive was discarded, or another attempt took it over",
        ))
    }
}

fn receiving(request: &ReceiveInto, position: u64) -> Receiving {
    let begin = &request.begin;
    Receiving {
        attempt: request.attempt,
        snapshot: begin.snapshot,
        from: begin.from,
        source: begin.source.clone(),
        position,
        is_new: false,
        is_resumable: request.is_resumable,
        with_properties: begin.properties.is_some(),
        folders: begin.folders(),
    }
}

/// Returns the properties of a stream that this version knows and that may come with a stream.
fn known_properties(texts: &Texts) -> Properties {
    let known = texts.iter().filter_map(|(name, text)| {
        let property = Property::parse(name).ok()?;
        let value = Value::parse(&property, text).ok()?;
        property.travels().then_some((property, value))
    });
    Properties(known.collect())
}
