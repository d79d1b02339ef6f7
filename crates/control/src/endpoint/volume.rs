//! Volumes, snapshots and folders of pools.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::endpoints;
use model::pool::dataset::change::DatasetChange;
use model::pool::dataset::{Changed, DatasetView, Selection};

const ALL: &str = "/v1/volumes";

endpoints! {
    "volume":
    LIST = GET ALL "volume_list" (Listed, ()) -> Vec<DatasetView>;
    CHANGE = POST ALL "volume_change" (How, DatasetChange) -> Changed;
}

/// Which datasets are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Listed {
    /// Only those of this pool; refused where it does not answer.
    #[serde(default)]
    pub pool: Option<String>,
    /// Only these kinds, comma-separated: folder, volume, snapshot.
    #[serde(default)]
    pub kinds: Option<String>,
    /// Only these properties, comma-separated. Whoever needs few of many datasets is answered sooner.
    #[serde(default)]
    pub properties: Option<String>,
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
        }
    }
}

/// How a change is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct How {
    /// Only say what would happen.
    #[serde(default)]
    pub dry_run: bool,
}
