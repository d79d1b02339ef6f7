//! Contents of `send -R`: volumes with all their snapshots, in an order in which a clone finds its
//! origin.

use std::collections::BTreeSet;

use store::catalog::{Catalog, CatalogError, Dataset, ErrorKind};
use store::format::DatasetId;

use super::package::{Part, base, last, properties, steps, unnamed};
use model::pool::dataset::name::split;
use model::pool::stream::SendRequest;

/// Volume that is sent.
struct Sent<'a> {
    /// Snapshots of the volume, oldest first.
    own: Vec<&'a Dataset>,
    to: &'a Dataset,
    /// Snapshot that the receiving side already has.
    base: Option<&'a Dataset>,
}

/// Returns the parts of a stream of all volumes at or below a dataset, in their order.
///
/// # Errors
/// A name means nothing, or a volume lacks the snapshot.
pub(super) fn parts(catalog: &Catalog, request: &SendRequest) -> Result<Vec<Part>, CatalogError> {
    let (_, name) = split(&request.snapshot);
    let (above, snapshot) = name.split_once('@').ok_or_else(|| unnamed(name))?;
    let root = catalog.find(above)?;
    let from = request.from.as_deref();
    let volumes = in_order(catalog, root.id);
    if let Some(from) = from.map(last).filter(|_| root.is_folder()) {
        // Volumes that are newer than the base are sent whole. A base that none of them has is a
        // mistake.
        let mut all = volumes.iter().flat_map(|of| catalog.snapshots(of.id));
        if !all.any(|of| of.name == from) {
            return Err(CatalogError::new(
                ErrorKind::NotFound,
                format!(
                    "no volume in '{}' has a snapshot '{from}'",
                    catalog.full_name(root.id)
                ),
                "name a snapshot that the receiving side has too, or omit it to send everything",
            ));
        }
    }
    let mut all = Vec::new();
    for volume in volumes {
        let own = catalog.snapshots(volume.id);
        if own.is_empty() && catalog.receiving(volume.id).is_some() {
            continue;
        }
        let to = own.iter().find(|of| of.name == snapshot).copied();
        let to = to.ok_or_else(|| without_snapshot(catalog, volume, snapshot))?;
        let base = match from {
            None => None,
            // As for a volume that is sent alone, the base may be the volume's origin.
            Some(from) if root.as_volume().is_some() => Some(base(catalog, to, from)?),
            Some(from) => own.iter().find(|of| of.name == last(from)).copied(),
        };
        all.push(Sent { own, to, base });
    }
    // Snapshots that the receiving side has, or gets before the next part.
    let mut known: BTreeSet<DatasetId> = all.iter().filter_map(|of| Some(of.base?.id)).collect();
    let mut parts = Vec::new();
    for sent in &all {
        let own = send(catalog, sent, request.intermediate, &known);
        known.extend(own.iter().map(|part| part.snapshot));
        parts.extend(own);
    }
    let prefix = catalog.name(root.id);
    for part in &mut parts {
        part.begin.path = below(catalog, &prefix, part.snapshot);
        let folders = part.begin.folders();
        part.begin.properties = Some(properties(catalog, part.snapshot, folders));
    }
    Ok(parts)
}

/// Returns the volumes at or below a dataset by name, but the origin of a clone always before the
/// clone.
fn in_order(catalog: &Catalog, root: DatasetId) -> Vec<&Dataset> {
    let volumes = catalog.volumes_below(root);
    let meant: BTreeSet<DatasetId> = volumes.iter().map(|volume| volume.id).collect();
    let mut placed = BTreeSet::new();
    let mut ordered = Vec::new();
    for volume in volumes {
        // The volume, its origin's volume, the origin of that volume, and so on.
        let mut owners = vec![volume.id];
        let older = catalog.chain(volume.id).map(|snapshot| snapshot.parent);
        owners.extend(older);
        owners.dedup();
        let owners = owners.into_iter().rev();
        let missing = owners.filter(|owner| meant.contains(owner) && placed.insert(*owner));
        ordered.extend(missing.filter_map(|owner| catalog.dataset(owner)));
    }
    ordered
}

/// Returns the parts of one volume. If the receiving side has nothing of it, the first part builds
/// on the nearest ancestor snapshot that is `known` there. So a clone stays a clone.
fn send<'a>(
    catalog: &'a Catalog,
    sent: &Sent<'a>,
    is_intermediate: bool,
    known: &BTreeSet<DatasetId>,
) -> Vec<Part> {
    if let Some(base) = sent.base {
        return steps(catalog, sent.to, Some(base), is_intermediate, true);
    }
    let oldest = sent.own.first().map_or(sent.to.id, |oldest| oldest.id);
    let origin = catalog
        .chain(oldest)
        .find(|older| known.contains(&older.id));
    let mut parts = steps(catalog, sent.to, origin, true, true);
    if let (None, Some(left_out)) = (origin, catalog.chain(oldest).next())
        && let Some(part) = parts.first_mut()
    {
        part.begin.origin = Some(catalog.full_name(left_out.id));
    }
    parts
}

/// Returns the name of a volume below the dataset that is sent.
fn below(catalog: &Catalog, prefix: &str, snapshot: DatasetId) -> String {
    let volume = catalog.volume_of(snapshot).unwrap_or(snapshot);
    let name = catalog.name(volume);
    let rest = name.strip_prefix(prefix).unwrap_or(&name);
    rest.trim_start_matches('/').to_owned()
}

fn without_snapshot(catalog: &Catalog, volume: &Dataset, snapshot: &str) -> CatalogError {
    CatalogError::new(
        ErrorKind::NotFound,
        format!(
            "'{}' has no snapshot '{snapshot}'",
            catalog.full_name(volume.id)
        ),
        "take snapshots of all volumes together with 'volume snapshot -r'",
    )
}
