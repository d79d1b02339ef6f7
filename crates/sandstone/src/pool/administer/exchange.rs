//! Devices that take the place of others, stand beside them, or leave them: `pool attach`, `replace`, `detach`.

use std::path::Path;

use store::vdev::State;

use super::new_device::settle_in;
use super::{Site, is_same};
use crate::config::{Error, ErrorKind};

impl Site<'_> {
    pub(super) fn attach(&self, device: &str, new: &Path, force: bool) -> Result<(), Error> {
        let beside = self.find(device)?;
        self.require_unlisted(new, None)?;
        let (spec, device) = self.open_new(new, force)?;
        let (leaf, at) = (beside.leaf.leaf, new.to_owned());
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
        if is_alone && matches!(old.leaf.state, State::Online | State::Degraded) {
            return Err(Error::new(
                ErrorKind::InUse,
                format!("{} is in use by the pool", old.path.display()),
                "name the device that is to take its place",
            ));
        }
        self.require_unlisted(new, Some(old.leaf.guid))?;
        let (spec, device) = self.open_new(new, force)?;
        let at = new.to_owned();
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

    /// Refuses a device that the pool lists already, but for the one that is replaced at its own path. Another one may be
    /// away; until the labels say that it left its place, what is written over on it is taken for parts of blocks.
    fn require_unlisted(&self, path: &Path, old: Option<u64>) -> Result<(), Error> {
        let places = self.pool.host.places();
        let mut others = places.iter().filter(|(guid, _)| Some(**guid) != old);
        let Some((guid, _)) = others.find(|(_, at)| is_same(&at.path, path)) else {
            return Ok(());
        };
        let (name, path) = (self.name, path.display());
        let verb = match self.pool_has_leaf(*guid) {
            true => "detach",
            false => "remove",
        };
        Err(Error::new(
            ErrorKind::InUse,
            format!("{path} is a device of pool {name} already"),
            format!(
                "use `sandstone pool {verb} {name} {path}` first, if it is to be used in another place"
            ),
        ))
    }

    /// Whether it is a leaf, and no cache or spare that stands ready.
    fn pool_has_leaf(&self, guid: u64) -> bool {
        let mut slots = self.status.top_levels.iter().flat_map(|top| &top.slots);
        slots.any(|slot| slot.leaves.iter().any(|leaf| leaf.guid == guid))
    }

    /// The spare at a path that stands ready.
    fn ready_spare(&self, path: &Path) -> Option<u64> {
        let places = self.pool.host.places();
        let mut spares = self.status.spares.iter().copied();
        spares.find(|guid| places.get(guid).is_some_and(|at| is_same(&at.path, path)))
    }
}
