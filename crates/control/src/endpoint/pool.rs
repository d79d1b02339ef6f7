//! Routes for pools.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::endpoints;
use model::pool::create::{CreatePool, ExportView};
use model::pool::found::FoundPool;
use model::pool::history::{Happening, HistoryView};
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
    LIST = GET ALL "pool_list" ((), ()) -> Vec<PoolView>;
    SHOW = GET ONE "pool_show" ((), ()) -> PoolView;
    CREATE = POST ALL "pool_create" ((), CreatePool) -> PoolView;
    DESTROY = DELETE ONE "pool_destroy" ((), ()) -> ();
    EXPORT = POST "/v1/pools/{name}/export" "pool_export" (Letting, ()) -> ExportView;
    CHANGE_VDEVS = POST "/v1/pools/{name}/vdevs" "pool_change_vdevs" ((), VdevChange) -> PoolView;
    SET_PROPERTY = POST "/v1/pools/{name}/properties" "pool_set_property" ((), SetPoolProperty) -> PoolView;
    UPGRADE = POST "/v1/pools/{name}/upgrade" "pool_upgrade" ((), ()) -> PoolView;
    SCRUB = POST "/v1/pools/{name}/scrub" "pool_scrub" ((), Scrub) -> PoolView;
    TRIM = POST "/v1/pools/{name}/trim" "pool_trim" ((), Trim) -> PoolView;
    SYNC = POST "/v1/pools/{name}/sync" "pool_sync" ((), ()) -> ();
    EVENTS = GET "/v1/pools/{name}/events" "pool_events" ((), ()) -> Vec<Happening>;
    HISTORY = GET "/v1/pools/{name}/history" "pool_history" ((), ()) -> HistoryView;
    WAITS = GET IMPORTS "pool_import_waits" ((), ()) -> Vec<WaitView>;
    IMPORT = POST IMPORTS "pool_import" ((), ImportPool) -> Vec<FoundPool>;
    REGUID = POST "/v1/reguid" "pool_reguid" ((), ReguidPool) -> ReguidView;
}

/// Options for the export of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Letting {
    /// Whether a pool is exported although logical units serve its volumes. The units are not ready
    /// until it is imported.
    pub force: bool,
}
