//! Endpoints for pools.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::description::queries;
use super::endpoints;
use model::pool::create::{CreatePool, ExportView};
use model::pool::found::FoundPool;
use model::pool::history::{Happening, PoolHistoryView};
use model::pool::import::{ImportPool, WaitView};
use model::pool::properties::SetPoolProperty;
use model::pool::reguid::{ReguidPool, ReguidView};
use model::pool::scan::Scrub;
use model::pool::status::PoolView;
use model::pool::trim::Trim;
use model::pool::vdev_change::VdevChange;

const ALL: &str = "/v1/pools";
const ONE: &str = "/v1/pools/{name}";
const IMPORTS: &str = "/v1/import";

endpoints! {
    "pool":
    /// Lists all pools.
    LIST = Viewer GET ALL "pool_list" ((), ()) -> Vec<PoolView>;
    /// Returns one pool.
    SHOW = Viewer GET ONE "pool_show" ((), ()) -> PoolView;
    /// Makes a pool on files and devices. A dry run only reports the layout.
    CREATE = Admin POST ALL "pool_create" ((), CreatePool) -> PoolView;
    /// Destroys a pool and everything in it. This is refused while logical units serve its volumes.
    DESTROY = Admin DELETE ONE "pool_destroy" ((), ()) -> ();
    /// Exports a pool, so that any host may import it. A pool that is not open is forgotten. This
    /// is refused while logical units serve its volumes, unless forced.
    EXPORT = Admin POST "/v1/pools/{name}/export" "pool_export" (Letting, ()) -> ExportView;
    /// Changes the vdevs of a pool: takes devices offline or online, attaches, replaces, detaches,
    /// adds, removes or clears them. The answer comes when the labels record the change. A dry run
    /// of an addition only reports the layout.
    CHANGE_VDEVS = Admin POST "/v1/pools/{name}/vdevs" "pool_change_vdevs" ((), VdevChange) -> PoolView;
    /// Sets a property of a pool. The answer comes when the labels record it.
    SET_PROPERTY = Admin POST "/v1/pools/{name}/properties" "pool_set_property" ((), SetPoolProperty)
        -> PoolView;
    /// Enables all format features that this program knows. The answer comes when the labels record
    /// them.
    UPGRADE = Admin POST "/v1/pools/{name}/upgrade" "pool_upgrade" ((), ()) -> PoolView;
    /// Begins, pauses or stops a scrub.
    SCRUB = Operator POST "/v1/pools/{name}/scrub" "pool_scrub" ((), Scrub) -> PoolView;
    /// Begins, pauses or cancels trims of devices.
    TRIM = Operator POST "/v1/pools/{name}/trim" "pool_trim" ((), Trim) -> PoolView;
    /// Makes everything durable that the pool has taken so far. The answer comes when this is done.
    SYNC = Admin POST "/v1/pools/{name}/sync" "pool_sync" ((), ()) -> ();
    /// Lists the latest events of a pool since it was opened, oldest first.
    EVENTS = Viewer GET "/v1/pools/{name}/events" "pool_events" ((), ()) -> Vec<Happening>;
    /// Returns the history of a pool: its changes with author and time, as far as it is kept. The
    /// history is stored in the pool, and moves with it.
    HISTORY = Viewer GET "/v1/pools/{name}/history" "pool_history" ((), ()) -> PoolHistoryView;
    /// Lists imports and other openings that wait for proof that no other host has the pool, with
    /// their remaining time and reason.
    WAITS = Viewer GET IMPORTS "pool_import_waits" ((), ()) -> Vec<WaitView>;
    /// Imports a pool. Without a pool's name, it lists the pools that could be imported.
    IMPORT = Admin POST IMPORTS "pool_import" ((), ImportPool) -> Vec<FoundPool>;
    /// Turns a copy of a pool's devices into a separate pool with a number of its own.
    REGUID = Admin POST "/v1/reguid" "pool_reguid" ((), ReguidPool) -> ReguidView;
}

queries!(Letting);

/// Options for the export of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Letting {
    /// Whether a pool is exported although logical units serve its volumes. The units are not ready
    /// until it is imported.
    pub force: bool,
}
