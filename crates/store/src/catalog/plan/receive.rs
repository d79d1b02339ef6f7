//! Receiving streams: which volume a snapshot goes to, of what it is a clone, and whether it fits there.

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
    /// A stream begins: into a new volume, which is a clone where the stream goes on from another volume's snapshot; or into
    /// one whose newest snapshot is what the stream goes on from; or one into which this very snapshot was received in part.
    ///
    /// # Errors
    /// Exists, NotFound (also of the origin of a clone), InvalidName; Busy where something else is being received; Mismatch
    /// where the stream does not go on from what is there.
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

    /// What `-F` does before a stream begins: its volume becomes again what its newest snapshot is, where the
    /// stream goes on from that one and nothing is being received yet. With it comes how the stream begins then;
    /// where it may not even then, nothing has to be lost for it.
    ///
    /// # Errors
    /// Those of [`Catalog::plan_rollback`], and of [`Catalog::plan_begin_receive`] after it.
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

    /// A stream begins into what there is.
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

    /// What refreservation has to become where a stream begins: with a larger volume more. With a smaller one it
    /// stays until the end is proven: nobody else may take what the volume needs again where that never comes.
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
                format!("the stream holds changes only, and there is no '{shown}' to make them to"),
                "receive a whole stream first, one that is sent without -i",
            ));
        }
        if begin.start > 0 {
            return Err(CatalogError::new(
                ErrorKind::NotFound,
                format!("the stream goes on in the middle, and '{shown}' has nothing of it"),
                "send it without a token",
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

    /// The snapshot of which a stream makes a clone. Where a stream was received several times there are several of its
    /// guid: the nearest is meant, the one whose volume lies in most of the folders that the clone lies in, and least deep.
    fn received_origin(&self, request: &ReceiveInto, guid: u64) -> Result<&Dataset, CatalogError> {
        let nearness = |dataset: &&Dataset| {
            let name = self.name(dataset.parent);
            let parts = name.split('/').zip(request.name.split('/'));
            let in_common = parts.take_while(|(its, wanted)| its == wanted).count();
            (in_common, Reverse(name.split('/').count()))
        };
        // Of several that are as near, the first one in the order of numbers.
        let all = self.snapshots_by_guid(guid).rev();
        let Some(nearest) = all.max_by_key(nearness) else {
            let origin = request.begin.origin.as_deref().unwrap_or_default();
            return Err(CatalogError::new(
                ErrorKind::NotFound,
                format!(
                    "the stream makes '{}' a clone of '{origin}', and no snapshot here is that one",
                    self.shown(&request.name)
                ),
                format!(
                    "receive '{origin}' first, or send the clone whole, without -i; 'volume send -R' of a folder \
                     that both lie in sends both"
                ),
            ));
        };
        self.check_block_size(nearest, &request.begin)?;
        Ok(nearest)
    }

    /// Refuses a stream whose blocks are not as long as those of what it goes on from.
    fn check_block_size(&self, before: &Dataset, begin: &Begin) -> Result<(), CatalogError> {
        let (_, block_size) = before.geometry().unwrap_or_default();
        if block_size == begin.block_size {
            return Ok(());
        }
        Err(CatalogError::mismatch(format!(
            "the stream has blocks of {} bytes, '{}' of {block_size}",
            begin.block_size,
            self.full_name(before.id),
        )))
    }

    /// What was received in part goes on.
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
                    "'{name}' has a part of {}, and this is no rest of it",
                    before.source
                ),
                format!(
                    "send the rest with the token of 'volume get receive_resume_token {name}', or give it up \
                     with 'volume receive -A {name}'"
                ),
            ));
        }
        // The rest comes as of one volume: how much was sent at first, only what is there already knows.
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

    /// A volume that is there gets what changed.
    fn continued(
        &self,
        dataset: &Dataset,
        request: &ReceiveInto,
    ) -> Result<Receiving, CatalogError> {
        let (begin, name) = (&request.begin, self.full_name(dataset.id));
        let Some(from) = begin.from else {
            return Err(CatalogError::new(
                ErrorKind::Exists,
                format!("'{name}' exists already, and the stream is a whole volume"),
                "receive it under another name, or send only what changed with -i",
            ));
        };
        let own = self.snapshots(dataset.id);
        let has = |guid: u64| own.iter().rev().find(|snapshot| snapshot.guid == guid);
        if has(begin.snapshot).is_some() || self.child(dataset.id, &begin.name).is_some() {
            let snapshot = &begin.name;
            return Err(CatalogError::new(
                ErrorKind::Exists,
                format!("'{name}@{snapshot}' exists already"),
                "send what changed since it, or destroy it first",
            ));
        }
        let newest = own.last();
        if let Some(origin) = &begin.origin
            && has(from).is_none()
        {
            return Err(CatalogError::new(
                ErrorKind::Exists,
                format!("'{name}' exists already, and the stream makes a new clone of '{origin}'"),
                "receive it under another name, or destroy what has this one",
            ));
        }
        if newest.map(|newest| newest.guid) == Some(from) && begin.start == 0 {
            return Ok(receiving(request, 0));
        }
        if begin.start > 0 {
            return Err(CatalogError::new(
                ErrorKind::NotFound,
                format!("the stream goes on in the middle, and '{name}' has nothing of it"),
                "send it without a token",
            ));
        }
        let (problem, next) = match (has(from), newest) {
            (Some(base), Some(newest)) => (
                format!(
                    "the stream goes on from '@{}', and '@{}' is newer",
                    base.name, newest.name
                ),
                format!(
                    "send what changed since '@{}', or go back with 'volume rollback -r {name}@{}'",
                    newest.name, base.name
                ),
            ),
            _ => (
                format!("'{name}' has no snapshot that the stream goes on from"),
                "send what changed since a snapshot that both have".to_owned(),
            ),
        };
        Err(CatalogError::new(ErrorKind::InvalidValue, problem, next))
    }

    /// All blocks below `position` are there.
    ///
    /// # Errors
    /// Mismatch where something else is being received, or nothing.
    pub fn plan_note_received(
        &self,
        volume: DatasetId,
        attempt: u64,
        position: u64,
    ) -> Result<Operation, CatalogError> {
        self.check_attempt(volume, attempt)?;
        self.planned(Operation::NoteReceived { volume, position })
    }

    /// Everything was received: the snapshot is taken.
    ///
    /// # Errors
    /// Mismatch where something else is being received, or nothing; Exists; LimitReached.
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

    /// What was received in part goes: a new volume as a whole, of another the changes. With an `attempt` only
    /// what that one received.
    ///
    /// # Errors
    /// Mismatch where nothing is being received.
    pub fn plan_abort_receive(
        &self,
        volume: DatasetId,
        attempt: Option<u64>,
    ) -> Result<Operation, CatalogError> {
        if attempt.is_some_and(|attempt| self.check_attempt(volume, attempt).is_err()) {
            return Err(CatalogError::mismatch("another try took over"));
        }
        let Some(receiving) = self.receiving(volume) else {
            return Err(CatalogError::new(
                ErrorKind::NotFound,
                format!(
                    "nothing is being received into '{}'",
                    self.full_name(volume)
                ),
                "see 'volume get receive_resume_token'",
            ));
        };
        if receiving.is_new {
            let ids = vec![volume];
            return self.planned(Operation::Destroy { ids });
        }
        let newest = self.chain(volume).next();
        let newest = newest.ok_or_else(|| CatalogError::mismatch("its snapshot is gone"))?;
        let size = newest.geometry().map_or(0, |(size, _)| size);
        self.planned(Operation::Rollback {
            volume,
            snapshot: newest.id,
            destroy: Vec::new(),
            refreservation: self.restored_reservation(volume, size),
        })
    }

    /// The volumes into which something is being received.
    pub fn receiving_volumes(&self) -> Vec<DatasetId> {
        let all = self.datasets.keys().copied();
        all.filter(|id| self.receiving(*id).is_some()).collect()
    }

    /// The snapshots of a guid, in the order of their numbers: several, where a stream was received several times.
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
            "what was being received was given up, or another try took over",
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

/// Properties of a stream as far as this version knows them and they may come with one.
fn known_properties(texts: &Texts) -> Properties {
    let known = texts.iter().filter_map(|(name, text)| {
        let property = Property::parse(name).ok()?;
        let value = Value::parse(&property, text).ok()?;
        property.travels().then_some((property, value))
    });
    Properties(known.collect())
}
