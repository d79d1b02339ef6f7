//! What `send -R` carries: volumes with all their snapshots, in an order in which a clone finds its origin.

use std::collections::BTreeSet;

use store::catalog::{Catalog, CatalogError, Dataset, ErrorKind};
use store::format::DatasetId;

use super::package::{Part, base, last, properties, steps, unnamed};
use model::pool::dataset::name::split;
use model::pool::stream::SendRequest;

/// A volume that is sent.
struct Sent<'a> {
    /// Its snapshots, oldest first.
    own: Vec<&'a Dataset>,
    to: &'a Dataset,
    /// What the receiving side has of it already.
    base: Option<&'a Dataset>,
}

/// The parts of a stream of all volumes at or below something, in their order.
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
        // Volumes that are newer than it are sent whole. A name that none of them has is a mistake.
        let mut all = volumes.iter().flat_map(|of| catalog.snapshots(of.id));
        if !all.any(|of| of.name == from) {
            return Err(CatalogError::new(
                ErrorKind::NotFound,
                format!(
                    "nothing below '{}' has a snapshot '{from}'",
                    catalog.full_name(root.id)
                ),
                "name one that the receiving side has too, or leave it out to send everything",
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
            // As for one that is sent by itself, this may be what it was cloned of.
            Some(from) if root.as_volume().is_some() => Some(base(catalog, to, from)?),
            Some(from) => own.iter().find(|of| of.name == last(from)).copied(),
        };
        all.push(Sent { own, to, base });
    }
    // Snapshots that the receiving side has, or gets before what comes next.
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

/// The volumes at or below something by their names, but those that others were cloned of before these.
fn in_order(catalog: &Catalog, root: DatasetId) -> Vec<&Dataset> {
    let volumes = catalog.volumes_below(root);
    let meant: BTreeSet<DatasetId> = volumes.iter().map(|volume| volume.id).collect();
    let mut placed = BTreeSet::new();
    let mut ordered = Vec::new();
    for volume in volumes {
        // The volume, the one that it was cloned of, what that was cloned of, and so on.
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

/// The parts of one volume. What the receiving side has nothing of begins as the nearest snapshot that it builds on, and
/// that is `known` there: so a clone stays one.
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

/// A volume's name below what is sent.
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
        "take one of all at the same moment with 'volume snapshot -r'",
    )
}
