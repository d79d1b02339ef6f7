//! Devices that replace others, join them, or leave them: `pool attach`, `replace`, `detach`.

use std::path::Path;

use store::vdev::VdevState;

use super::new_device::settle_in;
use super::{Site, is_same};
use crate::setup::Place;
use model::{Error, ErrorKind};

impl Site<'_> {
    pub(super) fn attach(&self, device: &str, new: &Path, force: bool) -> Result<(), Error> {
        let beside = self.find(device)?;
        let (spec, device) = self.open_new(new, self.over(force, None))?;
        let (leaf, at) = (beside.leaf.leaf, Place::at(new.to_owned()));
        self.shape("attach", new, move |hands| {
            let new = hands.pool.attach(leaf, &spec)?;
            settle_in(hands, new, spec.guid, at, device);
            Ok(())
        })
    }

    pub(super) fn replace(
        &self,
        device: &str,
        new: Option<&Path>,
        force: bool,
    ) -> Result<(), Error> {
        let old = self.find(device)?;
        let new = new.unwrap_or(&old.path);
        let leaf = old.leaf.leaf;
        if let Some(guid) = self.ready_spare(new) {
            return self.shape("replace", &old.path, move |hands| {
                hands.pool.use_spare(leaf, guid).map(|_| ())
            });
        }
        let is_alone = is_same(new, &old.path);
        if is_alone && matches!(old.leaf.state, VdevState::Online | VdevState::Degraded) {
            return Err(Error::new(
                ErrorKind::InUse,
                format!("{} is in use by the pool", old.path.display()),
                "name the device that replaces it",
            ));
        }
        let (spec, device) = self.open_new(new, self.over(force, Some(leaf)))?;
        let at = Place::at(new.to_owned());
        self.shape("replace", &old.path, move |hands| {
            let new = hands.pool.replace(leaf, &spec)?;
            settle_in(hands, new, spec.guid, at, device);
            Ok(())
        })
    }

    pub(super) fn detach(&self, device: &str) -> Result<(), Error> {
        let named = self.find(device)?;
        let leaf = named.leaf.leaf;
        self.shape("detach", &named.path, move |hands| {
            hands.pool.detach(leaf, hands.now_us)
        })
    }

    /// Returns the ready spare at `path`.
    fn ready_spare(&self, path: &Path) -> Option<u64> {
        let places = self.pool.host.places();
        let mut spares = self.status.spares.iter().copied();
        spares.find(|guid| places.get(guid).is_some_and(|at| is_same(&at.path, path)))
    }
}
