//! Devices that the daemon's own pools have open. The kernel only says that such a device is busy,
//! and an administrator needs the pool's name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use store::engine::PoolStatus;
use store::vdev::VdevState;

use crate::registry::{OpenPool, Pools};
use block::backing::Backing;
use model::{Error, ErrorKind};

impl Pools {
    /// Refuses devices that an open pool uses, by whatever path they are named.
    ///
    /// # Errors
    /// A pool uses one of the devices.
    pub fn refuse_own<'a>(&self, paths: impl IntoIterator<Item = &'a Path>) -> Result<(), Error> {
        let pools = self.all();
        paths.into_iter().try_for_each(|path| {
            match pools
                .iter()
                .find_map(|(name, pool)| Some((name, place_in(pool, path)?)))
            {
                Some((name, at)) => Err(in_pool(path, name, &at)),
                None => Ok(()),
            }
        })
    }
}

/// Returns the name of the open pool that uses the device at `path`.
pub(super) fn name_of_pool(pools: &Pools, path: &Path) -> Option<String> {
    let all = pools.all();
    let mut own = all
        .iter()
        .filter(|(_, pool)| place_in(pool, path).is_some());
    own.next().map(|(name, _)| name.to_string())
}

/// Returns the path by which a pool uses the device at `path`, if the pool uses it.
fn place_in(pool: &OpenPool, path: &Path) -> Option<PathBuf> {
    let wanted = Backing::at(path);
    let places = pool.host.places().into_iter();
    let mut same =
        places.filter(|(_, at)| at.path == path || Backing::at(&at.path).overlaps(&wanted));
    let (guid, at) = same.next()?;
    // An engine that has ended has closed its devices.
    let status = pool.host.ask(|engine| engine.status()).ok()?;
    in_use(&status).contains(&guid).then_some(at.path)
}

/// Returns the leaves whose devices are open. The device of a failed or missing leaf may be
/// replaced by another device at the leaf's own path.
fn in_use(status: &PoolStatus) -> BTreeSet<u64> {
    let slots = status.top_levels.iter().flat_map(|top| &top.slots);
    let leaves = slots.flat_map(|slot| &slot.leaves);
    let leaves =
        leaves.filter(|leaf| matches!(leaf.state, VdevState::Online | VdevState::Degraded));
    let caches = status
        .caches
        .iter()
        .filter(|cache| cache.state == VdevState::Online);
    let guids = leaves
        .map(|leaf| leaf.guid)
        .chain(caches.map(|cache| cache.guid));
    guids.chain(status.spares.iter().copied()).collect()
}

fn in_pool(path: &Path, pool: &str, at: &Path) -> Error {
    let as_told = match path == at {
        true => String::new(),
        false => format!(", which uses it as {}", at.display()),
    };
    Error::new(
        ErrorKind::InUse,
        format!("{} is a device of pool {pool}{as_told}", path.display()),
        format!(
            "choose another device: `sandstone pool status {pool}` shows the pool's devices; `sandstone pool \
             remove` releases logs, caches and spares, `sandstone pool detach` releases a device of a mirror"
        ),
    )
}
