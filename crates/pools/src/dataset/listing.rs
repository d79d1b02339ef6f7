//! Listing of datasets. The pool's thread serves everybody, so it only hands out its data. Other
//! threads make the texts, for one dataset at a time and only for what was requested.

use std::collections::BTreeMap;
use std::sync::Arc;

use store::catalog::size::print_size;
use store::catalog::{
    Catalog, CatalogError, Dataset, DatasetKind, Native, PROPERTIES, Property, ROOT, Source,
};
use store::engine::{BlockBytes, DatasetUsage, Pool};
use store::format::DatasetId;

use model::date;
use model::pool::dataset::{DatasetView, HoldView, PropertyView, Selection};

/// Datasets of a pool at one moment.
#[derive(Debug)]
pub struct Listing {
    catalog: Arc<Catalog>,
    usage: BTreeMap<DatasetId, DatasetUsage>,
    /// Dataset at which the list begins.
    start: DatasetId,
}

impl Listing {
    /// Returns the present datasets of a pool.
    pub(super) fn of(pool: &Pool, selection: &Selection) -> Self {
        Self::from(pool, ROOT, selection)
    }

    /// Returns a dataset with all that lies below it, by its name in the pool.
    ///
    /// # Errors
    /// The pool has no dataset of this name.
    pub(super) fn below(
        pool: &Pool,
        name: &str,
        selection: &Selection,
    ) -> Result<Self, CatalogError> {
        let start = pool.catalog().find(name)?.id;
        Ok(Self::from(pool, start, selection))
    }

    fn from(pool: &Pool, start: DatasetId, selection: &Selection) -> Self {
        // The pool's thread serves I/O too, so it counts only for what is listed.
        let with_snapshots = selection.has_kind("snapshot") && selection.depth != Some(0);
        Self {
            usage: pool.usage_below(start, with_snapshots),
            catalog: pool.shared_catalog(),
            start,
        }
    }

    /// Returns the views of the datasets, each after the dataset that it lies in.
    pub fn into_views(self, selection: Selection) -> impl Iterator<Item = DatasetView> {
        let listed = match selection.depth {
            Some(0) => self.catalog.dataset(self.start).into_iter().collect(),
            _ => self.catalog.listing(self.start),
        };
        let listed = listed.into_iter().filter(|dataset| {
            let depth = || self.catalog.depth(dataset.id, self.start);
            selection.has_kind(dataset.kind.as_str())
                && selection.depth.is_none_or(|most| depth() <= most)
        });
        let ids: Vec<DatasetId> = listed.map(|dataset| dataset.id).collect();
        let view = move |id| Some(self.view(self.catalog.dataset(id)?, &selection));
        ids.into_iter().filter_map(view)
    }

    fn view(&self, dataset: &Dataset, selection: &Selection) -> DatasetView {
        let (catalog, id) = (&self.catalog, dataset.id);
        let usage = self.usage.get(&id).copied().unwrap_or_default();
        let figures = figures(&dataset.kind, usage, selection);
        let mut properties = self.properties(dataset, selection);
        properties.retain(|known| figures.iter().all(|figure| figure.name != known.name));
        properties.extend(figures);
        let geometry = dataset.geometry();
        let snapshot = dataset.as_snapshot();
        let holds = snapshot.into_iter().flat_map(|of| &of.holds);
        let holds = holds.map(|(tag, time_s)| HoldView {
            tag: tag.clone(),
            created_s: *time_s,
        });
        DatasetView {
            name: catalog.full_name(id),
            kind: dataset.kind.as_str().to_owned(),
            created_s: dataset.created_s,
            size: geometry.map(|(size, _)| size),
            block_size: geometry.map(|(_, block_size)| block_size),
            referenced: Some(usage.referenced),
            available: usage.available,
            used: usage.used,
            origin: catalog.origin(id).map(|id| catalog.full_name(id)),
            properties,
            holds: holds.collect(),
        }
    }

    /// Returns the properties that were set, inherited, or are the dataset's nature.
    fn properties(&self, dataset: &Dataset, selection: &Selection) -> Vec<PropertyView> {
        let (catalog, id) = (&self.catalog, dataset.id);
        let named = PROPERTIES
            .iter()
            .filter(|info| selection.has_property(info.name));
        let table = named.filter_map(|info| {
            let effective = catalog.property(id, &Property::Native(info.native))?;
            Some((info.name.to_owned(), effective))
        });
        let of_users = match selection.has_user_property() {
            true => catalog.user_properties(id),
            false => Vec::new(),
        };
        let of_users = of_users.into_iter();
        let all = table.chain(of_users.filter(|(name, _)| selection.has_property(name)));
        let view = |(name, effective): (String, store::catalog::Effective)| PropertyView {
            value: effective.value.to_string(),
            rounded: match name == Native::Creation.info().name {
                true => date::utc_minute(dataset.created_s),
                false => effective.value.print_rounded(),
            },
            name,
            source: match effective.source {
                Source::Local => "local".to_owned(),
                Source::Received => "received".to_owned(),
                Source::Default => "default".to_owned(),
                Source::Inherited(from) => format!("inherited from {}", catalog.full_name(from)),
                Source::None => "-".to_owned(),
            },
        };
        all.map(view).collect()
    }
}

/// Returns the space figures of a dataset, by the names of zfs's properties.
fn figures(kind: &DatasetKind, usage: DatasetUsage, selection: &Selection) -> Vec<PropertyView> {
    let mut figures = vec![
        ("used", usage.used),
        ("referenced", usage.referenced),
        ("written", usage.written),
    ];
    if !matches!(kind, DatasetKind::Snapshot(_)) {
        figures.extend([
            ("usedbychildren", usage.by_children),
            ("usedbydataset", usage.by_dataset),
            ("usedbysnapshots", usage.by_snapshots),
            ("usedbyrefreservation", usage.by_refreservation),
        ]);
    }
    figures.extend(usage.available.map(|available| ("available", available)));
    let figures = figures.into_iter();
    let figures = figures.filter(|(name, _)| selection.has_property(name));
    let figures = figures.map(|(name, bytes)| computed(name, bytes.to_string(), print_size(bytes)));
    let compression = compression_figures(kind, usage).into_iter();
    let compression = compression.filter(|figure| selection.has_property(&figure.name));
    figures.chain(compression).collect()
}

/// Returns the figures of compression. Figures that are unknown for an older program's data are
/// `-`.
fn compression_figures(kind: &DatasetKind, usage: DatasetUsage) -> Vec<PropertyView> {
    let (used, referenced) = (usage.used_blocks, usage.referenced_blocks);
    let unknown = |name| computed(name, "-".to_owned(), "-".to_owned());
    let logical = |name, of: Option<BlockBytes>| match of {
        Some(of) => computed(name, of.logical.to_string(), print_size(of.logical)),
        None => unknown(name),
    };
    let ratio = |name, of: Option<BlockBytes>| match of.map(|of| of.ratio_percent()) {
        Some(percent) => {
            let value = format!("{}.{:02}", percent / 100, percent % 100);
            computed(name, value.clone(), value + "x")
        }
        None => unknown(name),
    };
    match kind {
        DatasetKind::Folder | DatasetKind::Volume(_) => vec![
            logical("logicalused", used),
            logical("logicalreferenced", referenced),
            ratio("compressratio", used),
            ratio("refcompressratio", referenced),
        ],
        // As in zfs, both count all that the snapshot can reach.
        DatasetKind::Snapshot(_) => vec![
            logical("logicalreferenced", referenced),
            ratio("compressratio", referenced),
            ratio("refcompressratio", referenced),
        ],
    }
}

fn computed(name: &str, value: String, rounded: String) -> PropertyView {
    PropertyView {
        name: name.to_owned(),
        value,
        rounded,
        source: "-".to_owned(),
    }
}
