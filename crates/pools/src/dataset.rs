//! Volumes, snapshots and folders of pools, as administrators see them, and the changes that
//! administrators make.

mod change;
mod creation;
mod listing;
mod preview;
mod there;

use std::sync::{Arc, Mutex, PoisonError};

use store::catalog::request::Stamp;
use store::catalog::size::print_size;
use store::catalog::{Catalog, CatalogError, ErrorKind as Refusal, Operation};
use store::engine::{Plan, Pool, PoolError, PoolErrorKind, Wasteful};
use store::format::Epoch;

use self::change::Step;
pub(super) use self::change::steps;
use self::creation::with_what_is_made;
pub use self::listing::Listing;
use self::there::already_there;
use super::registry::{OpenPool, Pools};
use super::served_datasets::Served;
use model::pool::dataset::change::DatasetChange;
use model::pool::dataset::name::split;
use model::pool::dataset::{Changed, DatasetView, Selection};
use model::{Error, ErrorKind};

impl Pools {
    /// Makes a change, and returns once it survives a power cut.
    ///
    /// # Errors
    /// The fault and its remedy.
    pub fn change(&self, change: &DatasetChange) -> Result<Changed, Error> {
        self.change_beneath(change, &Served::default())
    }

    /// Makes a change that does not disturb served datasets. This is checked when the change is
    /// decided on, so that nothing comes between. A change of several steps is made only if all of
    /// them are possible.
    ///
    /// # Errors
    /// The fault and its remedy, or the units that serve the dataset.
    pub fn change_beneath(
        &self,
        change: &DatasetChange,
        served: &Served,
    ) -> Result<Changed, Error> {
        let pool = self.get(change.pool()?)?;
        let mut change = with_what_is_made(change)?;
        if let Some(unchanged) = already_there(&pool, &change)? {
            return Ok(unchanged);
        }
        let changed = with_block_size(&pool, &mut change)?;
        let steps = steps(&change)?;
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
            // Another caller created the same dataset at this moment.
            if made == 0
                && done
                    .as_ref()
                    .is_err_and(|error| error.kind == ErrorKind::Exists)
                && let Some(unchanged) = already_there(&pool, &change)?
            {
                return Ok(unchanged);
            }
            // Another caller's change may have made a checked change impossible.
            done.map_err(|error| match made {
                0 => error,
                _ => error.not_changed(
                    "some of the properties were changed: see `sandstone volume get all`",
                ),
            })?;
        }
        Ok(changed)
    }

    /// Returns all datasets of all pools that answer, each after the dataset that it lies in. They
    /// are sorted by name, but the snapshots of a volume by age.
    pub fn datasets(&self) -> Vec<DatasetView> {
        let all = Selection::default();
        let listings = self.listings(None, &all).unwrap_or_default();
        let views = |of: Listing| of.into_views(all.clone());
        listings.into_iter().flat_map(views).collect()
    }

    /// Returns the present listing of one pool, or of all pools that answer.
    ///
    /// # Errors
    /// The pool or the dataset at which the list begins does not exist, or the pool does not
    /// answer; then the error says why.
    pub fn listings(
        &self,
        pool: Option<&str>,
        selection: &Selection,
    ) -> Result<Vec<Listing>, Error> {
        let below = selection.below.as_deref();
        let (within, start) = below.map(split).unzip();
        let Some(pool) = pool.or(within) else {
            let pools = self.all();
            let asked = pools.iter().map(|(_, pool)| {
                let selection = selection.clone();
                pool.host.ask(move |pool| Listing::of(pool, &selection))
            });
            return Ok(asked.filter_map(Result::ok).collect());
        };
        if let Some(within) = within.filter(|within| *within != pool) {
            let next = "leave out the pool, or name a dataset that lies in it";
            let message = format!("the list cannot begin in {within} and be limited to {pool}");
            return Err(Error::invalid(message, next));
        }
        let (start, selection) = (start.unwrap_or_default().to_owned(), selection.clone());
        let asked = self
            .get(pool)?
            .host
            .ask(move |pool| Listing::below(pool, &start, &selection));
        let listing = asked.map_err(|error| failed(&error))?;
        Ok(vec![listing.map_err(refused)?])
    }
}

/// Gives a new volume the block size that suits the pool, if the user names none. It warns about a
/// block size that does not suit the pool.
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
            "with blocks of {size}, parity and padding leave {percent} % of the space that the pool could \
             have for data; volblocksize={better} leaves more, and must be chosen when a volume is made"
        )
    });
    Ok(Changed {
        notices: notices.into_iter().collect(),
        ..Changed::default()
    })
}

/// Returns the steps of a change, and refuses a change that cannot be made to its end. New datasets
/// do not have their final numbers yet.
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
    // Each step may fit although all together do not.
    pool.check_promises(&operations)
        .map_err(|error| failed(&error))?;
    Ok(operations)
}

/// Change that is decided on by the state of the catalogue at that moment.
pub(super) type Decide = Box<dyn FnOnce(&Catalog, Stamp) -> Result<Operation, CatalogError> + Send>;

pub(super) fn administer(pool: &OpenPool, step: Decide) -> Result<(), Error> {
    pool.require_writable()?;
    // The refusal says more than the pool's error that results from it.
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
    Error::new(kind, error.message, next)
}

pub(super) fn failed(error: &PoolError) -> Error {
    if error.kind == PoolErrorKind::Modified {
        return Error::new(
            ErrorKind::InUse,
            error.to_string(),
            "keep the changes as a clone of a new snapshot, or roll them back with -F",
        );
    }
    Error::new(
        ErrorKind::Refused,
        error.to_string(),
        "see `sandstone pool status`",
    )
}
