//! What a pool gets besides, and gives back: `pool add`, `remove`.

use std::path::PathBuf;

use store::vdev::{Class, TopLevelSpec};

use super::super::create::{VdevRequest, check_devices, make_files, redundancies};
use super::super::host::Place;
use super::super::label;
use super::super::opening::paths;
use super::new_device::settle_in;
use super::{Site, failed, is_meant};
use crate::config::{Error, ErrorKind};

impl Site<'_> {
    pub(super) fn add(
        &self,
        vdevs: &[VdevRequest],
        spares: &[PathBuf],
        force: bool,
        file_size: Option<u64>,
    ) -> Result<(), Error> {
        check_devices(vdevs, spares)?;
        self.check_redundancy(vdevs, force)?;
        let paths = vdevs.iter().flat_map(|vdev| &vdev.paths).chain(spares);
        let made = make_files(paths.map(PathBuf::as_path), file_size)?;
        let added = self.add_vdevs(vdevs, force);
        added
            .and_then(|()| self.add_spares(spares, force))
            .inspect_err(|_| self.take_away(&made))
    }

    fn add_vdevs(&self, vdevs: &[VdevRequest], force: bool) -> Result<(), Error> {
        for vdev in vdevs {
            let mut leaves = Vec::new();
            let mut specs = Vec::new();
            for path in &vdev.paths {
                let (spec, device) = self.open_new(path, force)?;
                leaves.push((spec.guid, path.clone(), device));
                specs.push(spec);
            }
            let top = TopLevelSpec::new(vdev.kind.kind(), Class::Normal, specs);
            self.shape("add", &vdev.paths[0], move |hands| {
                hands.pool.add(&top)?;
                for (guid, path, device) in leaves {
                    if let Some(leaf) = hands.pool.leaf(guid) {
                        settle_in(hands, leaf, guid, path, device);
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn add_spares(&self, spares: &[PathBuf], force: bool) -> Result<(), Error> {
        for path in spares {
            let (spec, device) = self.open_new(path, force)?;
            let config = self.pool.host.ask(|pool| pool.config().clone());
            let config = config.map_err(|error| failed(self.name, "add a spare to", &error))?;
            label::write_spare(path, &config, spec.guid).map_err(|error| {
                Error::storage(format!("write the labels of {}", path.display()), error)
            })?;
            let path = path.clone();
            self.handle("add a spare to", move |hands| {
                let guid = spec.guid;
                let mut spares = hands.pool.config().spares.clone();
                spares.push(spec);
                hands.devices.keep_spare(guid, device);
                let place = Place {
                    path,
                    trouble: None,
                };
                hands.shared.places().insert(guid, place);
                hands.pool.set_spares(spares);
                hands.pool.set_paths(paths(&hands.shared.places()));
            })?;
        }
        Ok(())
    }

    /// Vdevs that are added may lose as many devices as those that there are.
    fn check_redundancy(&self, vdevs: &[VdevRequest], force: bool) -> Result<(), Error> {
        let there = redundancies(&self.status);
        let first = there.first().copied().unwrap_or(0);
        // Where they differ already, that was wanted.
        let is_alike = there.iter().all(|one| *one == first);
        let mut new = vdevs.iter().map(VdevRequest::redundancy);
        match new.find(|other| *other != first) {
            Some(other) if !force && is_alike => Err(Error::invalid(
                format!(
                    "mismatched replication level: pool {} and what is added can lose {first} and {other} devices",
                    self.name
                ),
                "the pool is lost with its weakest vdev: make them alike, or use -f to add it all the same",
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn remove(&self, names: &[String]) -> Result<(), Error> {
        let places = self.pool.host.places();
        let mut gone = Vec::new();
        for name in names {
            let spares = self.status.spares.iter();
            let at = |guid: &u64| places.get(guid).map(|place| place.path.clone());
            let found = spares
                .filter_map(|guid| Some((*guid, at(guid)?)))
                .find(|(guid, path)| is_meant(name, *guid, path));
            gone.push(found.ok_or_else(|| {
                Error::new(
                    ErrorKind::Refused,
                    format!("cannot remove {name}: only spares that stand ready can be removed"),
                    format!(
                        "use `sandstone pool detach {} DEVICE` for devices of mirrors and spares in use, \
                         `replace` for all others",
                        self.name
                    ),
                )
            })?);
        }
        for (guid, path) in gone {
            self.handle("remove a spare from", move |hands| {
                let mut spares = hands.pool.config().spares.clone();
                spares.retain(|spare| spare.guid != guid);
                hands.pool.set_spares(spares);
                hands.devices.take_spare(guid);
                hands.shared.places().remove(&guid);
                hands.pool.set_paths(paths(&hands.shared.places()));
            })?;
            let synced = self.pool.host.sync();
            synced.map_err(|error| failed(self.name, "remove a spare from", &error))?;
            // What is not there, or cannot be written, is no spare any more either way.
            if let Err(error) = label::wipe_leaf(&path, guid) {
                let path = path.display();
                tracing::warn!(%path, %error, "the labels of a spare that was removed are not wiped");
            }
        }
        Ok(())
    }
}
