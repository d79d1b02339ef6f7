//! Volumes, snapshots and folders of pools as administrators see them, and the changes that they make.

mod change;
mod creation;
mod listing;
mod names;
mod preview;
mod there;

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use store::catalog::request::Stamp;
use store::catalog::size::print_size;
use store::catalog::{Catalog, CatalogError, ErrorKind as Refusal, Operation};
use store::format::Epoch;
use store::pool::{Plan, Pool, PoolError, PoolErrorKind, Wasteful};
use utoipa::ToSchema;

pub use self::change::DatasetChange;
use self::change::Step;
pub use self::listing::{Listing, Selection};
pub(super) use self::names::require_whole;
pub use self::names::split;
pub use self::preview::Doomed;
use self::there::already_there;
use super::registry::{OpenPool, Pools};
use super::served::Served;
use model::{Error, ErrorKind};

/// What became of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Changed {
    /// What whoever asked for it should know, and what to do about it.
    pub notices: Vec<String>,
    /// What a destruction would take with it; told only where nothing is changed.
    #[serde(default)]
    pub destroyed: Vec<Doomed>,
    /// Bytes that would become free with it, at least.
    #[serde(default)]
    pub freed: u64,
    /// Nothing had to be changed: what was to be made is there.
    #[serde(default)]
    pub unchanged: bool,
}

/// A folder, volume or snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DatasetView {
    /// With the pool's name.
    pub name: String,
    /// `folder`, `volume` or `snapshot`.
    pub kind: String,
    /// When it was made, in seconds since 1970.
    pub created_s: u64,
    /// Bytes that clients see.
    pub size: Option<u64>,
    /// volblocksize in bytes.
    pub block_size: Option<u32>,
    /// Bytes that it, its snapshots and all below it take, and what is kept for it; of a snapshot what only it
    /// has. Parity is not counted.
    #[serde(default)]
    pub used: u64,
    /// Bytes of its blocks, parity not counted; folders have none.
    pub referenced: Option<u64>,
    /// Bytes that data of a volume may still take; of a folder, the largest volume that could still be made in it with all
    /// of it reserved. Not told of snapshots.
    pub available: Option<u64>,
    /// The snapshot that it was cloned of.
    pub origin: Option<String>,
    /// What holds for it.
    pub properties: Vec<PropertyView>,
    /// Who keeps a snapshot from being destroyed.
    #[serde(default)]
    pub holds: Vec<HoldView>,
}

/// Somebody keeps a snapshot from being destroyed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HoldView {
    /// Who.
    pub tag: String,
    /// Since when, in seconds since 1970.
    pub created_s: u64,
}

/// A property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PropertyView {
    /// Its name.
    pub name: String,
    /// Its exact value.
    pub value: String,
    /// Its value for people.
    pub rounded: String,
    /// `local`, `default`, `inherited from …`, `received` or `-`.
    pub source: String,
}

impl Pools {
    /// Makes a change; it outlives a power cut when this returns.
    ///
    /// # Errors
    /// What was wrong, and what to do.
    pub fn change(&self, change: &DatasetChange) -> Result<Changed, Error> {
        self.change_beneath(change, &Served::default())
    }

    /// Makes a change that disturbs nothing of what is served. That is asked when the change is decided on, so that nothing
    /// comes between. A change of several steps is made only where all of them can be.
    ///
    /// # Errors
    /// What was wrong, and what to do; or who serves something of it.
    pub fn change_beneath(
        &self,
        change: &DatasetChange,
        served: &Served,
    ) -> Result<Changed, Error> {
        let pool = self.get(change.pool()?)?;
        let mut change = change.with_what_is_made()?;
        if let Some(unchanged) = already_there(&pool, &change)? {
            return Ok(unchanged);
        }
        let changed = with_block_size(&pool, &mut change)?;
        let steps = change.steps()?;
        if steps.len() > 1 {
            let (steps, served, number) = (steps.clone(), served.clone(), pool.guid);
            let checked = pool
                .host
                .ask(move |pool| check_all(pool, number, &steps, &served));
            checked.map_err(|error| failed(&error))??;
        }
        for (made, step) in steps.into_iter().enumerate() {
            let (served, number) = (served.clone(), pool.guid);
            let allowed = move |catalog: &Catalog, stamp: Stamp| {
                let operation = step(catalog, stamp)?;
                served.refuse_operation(number, catalog, &operation)?;
                Ok(operation)
            };
            let done = administer(&pool, Box::new(allowed));
            // Somebody else made the same in the same moment.
            if made == 0
                && done
                    .as_ref()
                    .is_err_and(|error| error.kind == ErrorKind::Exists)
                && let Some(unchanged) = already_there(&pool, &change)?
            {
                return Ok(unchanged);
            }
            // What could be done a moment ago, somebody else's change made impossible.
            done.map_err(|error| match made {
                0 => error,
                _ => error.not_changed("a part of it was changed: see `sandstone volume get all`"),
            })?;
        }
        Ok(changed)
    }

    /// All datasets of all pools that answer, each after the one that it lies in: by name, but the snapshots of a
    /// volume in the order in which they were taken.
    pub fn datasets(&self) -> Vec<DatasetView> {
        let listings = self.listings(None).unwrap_or_default();
        let views = |of: Listing| of.into_views(Selection::default());
        listings.into_iter().flat_map(views).collect()
    }

    /// What is to be listed of a pool, or of all pools that answer, as of this moment.
    ///
    /// # Errors
    /// There is no such pool, or it does not answer: why.
    pub fn listings(&self, pool: Option<&str>) -> Result<Vec<Listing>, Error> {
        let Some(pool) = pool else {
            let pools = self.all();
            let asked = pools.iter().map(|(_, pool)| pool.host.ask(Listing::of));
            return Ok(asked.filter_map(Result::ok).collect());
        };
        let asked = self.get(pool)?.host.ask(Listing::of);
        Ok(vec![asked.map_err(|error| failed(&error))?])
    }
}

/// Gives a new volume the block size that suits the pool, where none is named, and says what is to be said of one that
/// does not suit it.
fn with_block_size(pool: &OpenPool, change: &mut DatasetChange) -> Result<Changed, Error> {
    let DatasetChange::Create {
        size: Some(_),
        block_size,
        ..
    } = change
    else {
        return Ok(Changed::default());
    };
    let wanted = *block_size;
    let asked = pool.host.ask(move |pool| {
        let size = wanted.unwrap_or_else(|| pool.default_block_size());
        (size, pool.wasteful(size))
    });
    let (size, wasteful) = asked.map_err(|error| failed(&error))?;
    *block_size = Some(size);
    let notices = wasteful.map(|Wasteful { percent, better }| {
        let [size, better] = [size, better].map(|size| print_size(size.into()));
        format!(
            "with blocks of {size} parity and padding leave {percent} % of the room for data that the pool could have; \
             volblocksize={better} leaves more, and is chosen when a volume is made"
        )
    });
    Ok(Changed {
        notices: notices.into_iter().collect(),
        ..Changed::default()
    })
}

/// What is going to be done; refused where it cannot be done to its end. Numbers of what is new are not those that it
/// will have.
fn check_all(
    pool: &Pool,
    number: u64,
    steps: &[Step],
    served: &Served,
) -> Result<Vec<Operation>, Error> {
    let stamp = Stamp {
        epoch: Epoch(0),
        time_s: 0,
        entropy: 0,
    };
    let mut after = pool.catalog().clone();
    let mut operations = Vec::new();
    for step in steps {
        let operation = step(&after, stamp).map_err(refused)?;
        served
            .refuse_operation(number, &after, &operation)
            .map_err(refused)?;
        pool.check_lists(&operation)
            .map_err(|error| failed(&error))?;
        if operations.len() + 1 < steps.len() {
            after.apply(&operation).map_err(refused)?;
        }
        operations.push(operation);
    }
    // Each may fit where all do not.
    pool.check_promises(&operations)
        .map_err(|error| failed(&error))?;
    Ok(operations)
}

/// One change, decided on by what the catalogue is at that moment.
pub(super) type Decide = Box<dyn FnOnce(&Catalog, Stamp) -> Result<Operation, CatalogError> + Send>;

pub(super) fn administer(pool: &OpenPool, step: Decide) -> Result<(), Error> {
    pool.require_writable()?;
    // The refusal itself says more than the pool's error that comes of it.
    let refusal: Arc<Mutex<Option<CatalogError>>> = Arc::default();
    let seen = Arc::clone(&refusal);
    let plan: Plan = Box::new(move |catalog, stamp| {
        step(catalog, stamp).inspect_err(|error| {
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        })
    });
    let done = pool.host.administer(plan);
    let refusal = refusal
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    done.map_err(|error| refusal.map_or_else(|| failed(&error), refused))
}

/// Returns a refusal of the catalogue as the error that users see.
pub fn refused(error: CatalogError) -> Error {
    let kind = match error.kind {
        Refusal::Exists => ErrorKind::Exists,
        Refusal::NotFound => ErrorKind::NotFound,
        Refusal::HasSnapshots
        | Refusal::HasClones
        | Refusal::Held
        | Refusal::NotEmpty
        | Refusal::Busy => ErrorKind::InUse,
        Refusal::InvalidName
        | Refusal::InvalidValue
        | Refusal::LimitReached
        | Refusal::ReadOnly
        | Refusal::Mismatch => ErrorKind::Invalid,
    };
    let next = if error.next.is_empty() {
        "see `sandstone volume list -t all`".to_owned()
    } else {
        error.next
    };
    Error::new(kind, error.problem, next)
}

pub(super) fn failed(error: &PoolError) -> Error {
    if error.kind == PoolErrorKind::Modified {
        return Error::new(
            ErrorKind::InUse,
            error.to_string(),
            "keep it as a clone of a new snapshot, or let -F roll it back",
        );
    }
    Error::new(
        ErrorKind::Refused,
        error.to_string(),
        "see `sandstone pool status`",
    )
}
