//! Endpoints for volumes, snapshots and folders of pools.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::description::queries;
use super::endpoints;
use model::pool::dataset::change::DatasetChange;
use model::pool::dataset::{Changed, DatasetView, Selection};

const ALL: &str = "/v1/volumes";

endpoints! {
    "volume":
    /// Lists all datasets of a pool, or of all pools that answer.
    LIST = Viewer GET ALL "volume_list" (Listed, ()) -> Vec<DatasetView>;
    /// Makes one change of datasets, which survives a power cut once answered. This is refused if
    /// it would take away data that logical units serve.
    CHANGE = Admin POST ALL "volume_change" (How, DatasetChange) -> Changed;
    /// Makes a snapshot or a clone, or holds a snapshot. Any other change is refused here, because
    /// an operator may not make it.
    SNAPSHOT = Operator POST "/v1/snapshots" "volume_snapshot" (How, DatasetChange) -> Changed;
}

queries!(Listed, How);

/// Selection of datasets to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Listed {
    /// Name of the only pool to list. The request is refused if this pool does not answer.
    #[serde(default)]
    pub pool: Option<String>,
    /// Kinds to list, comma-separated: folder, volume, snapshot.
    #[serde(default)]
    pub kinds: Option<String>,
    /// Properties to list, comma-separated. A request for few properties of many datasets is
    /// answered sooner.
    #[serde(default)]
    pub properties: Option<String>,
    /// Name of the dataset at which the list begins: it holds this dataset and all that lies below
    /// it, which are the datasets in a folder and the snapshots of a volume.
    #[serde(default)]
    pub below: Option<String>,
    /// Levels to list below the dataset at which the list begins, or below each pool. 0 lists that
    /// dataset alone.
    #[serde(default)]
    pub depth: Option<u32>,
}

impl Listed {
    /// Returns the question for the names of datasets alone, without any property.
    pub fn names_only() -> Self {
        Self {
            properties: Some(String::new()),
            ..Self::default()
        }
    }

    pub(crate) fn selection(&self) -> Selection {
        let words = |list: &String| list.split(',').map(str::to_owned).collect();
        Selection {
            kinds: self.kinds.as_ref().map(words),
            properties: self.properties.as_ref().map(words),
            below: self.below.clone(),
            depth: self.depth,
        }
    }
}

/// Options for a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct How {
    /// Whether the request only reports the effect of the change.
    #[serde(default)]
    pub dry_run: bool,
}
