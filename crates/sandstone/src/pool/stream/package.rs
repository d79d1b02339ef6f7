//! Which snapshots a stream carries, each relative to which: decided by names, or by a token.

use store::catalog::request::Texts;
use store::catalog::{Catalog, CatalogError, Dataset, ErrorKind, ROOT};
use store::format::DatasetId;
use store::stream::{Begin, ResumeToken};

use super::SendRequest;
use crate::pool::dataset::split;

/// One snapshot of a stream.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) snapshot: DatasetId,
    pub(super) from: Option<DatasetId>,
    /// What stands behind `@` of that one.
    pub(super) from_name: Option<String>,
    pub(super) begin: Begin,
}

/// The parts of a stream, in their order.
///
/// # Errors
/// A name means nothing, or snapshots do not build on each other.
pub(super) fn parts(
    catalog: &Catalog,
    pool: u64,
    request: &SendRequest,
) -> Result<Vec<Part>, CatalogError> {
    let (_, name) = split(&request.snapshot);
    let mut parts = Vec::new();
    if let Some(from) = &request.from {
        refuse_other_pool(&request.snapshot, from)?;
    }
    if request.recursive {
        let (above, snapshot) = name.split_once('@').ok_or_else(|| unnamed(name))?;
        let root = catalog.find(above)?.id;
        let from = request.from.as_deref().map(|from| last(from).to_owned());
        let volumes = catalog.volumes_below(root);
        if let Some(from) = &from {
            // Volumes that are newer than it are sent whole. A name that none of them has is a mistake.
            let mut all = volumes.iter().flat_map(|of| catalog.snapshots(of.id));
            if !all.any(|of| of.name == *from) {
                return Err(CatalogError::new(
                    ErrorKind::NotFound,
                    format!(
                        "nothing below '{}' has a snapshot '{from}'",
                        catalog.full_name(root)
                    ),
                    "name one that the receiving side has too, or leave it out to send everything",
                ));
            }
        }
        for volume in volumes {
            let own = catalog.snapshots(volume.id);
            if own.is_empty() && catalog.receiving(volume.id).is_some() {
                continue;
            }
            let to = own.iter().find(|of| of.name == snapshot).ok_or_else(|| {
                CatalogError::new(
                    ErrorKind::NotFound,
                    format!(
                        "'{}' has no snapshot '{snapshot}'",
                        catalog.full_name(volume.id)
                    ),
                    "take one of all at the same moment with 'volume snapshot -r'",
                )
            })?;
            let from = own.iter().find(|of| Some(&of.name) == from.as_ref());
            let is_whole = request.intermediate || from.is_none();
            steps(catalog, to, from.copied(), is_whole, true, &mut parts)?;
        }
        let prefix = catalog.name(root);
        for part in &mut parts {
            part.begin.path = below(catalog, &prefix, part.snapshot);
            let folders = part.begin.folders();
            part.begin.properties = Some(properties(catalog, part.snapshot, folders));
        }
    } else {
        let to = catalog.find_snapshot(name)?;
        let from = request.from.as_deref();
        let from = from.map(|from| base(catalog, to, from)).transpose()?;
        steps(
            catalog,
            to,
            from,
            request.intermediate && from.is_some(),
            false,
            &mut parts,
        )?;
    }
    for part in &mut parts {
        part.begin.pool = pool;
        if request.properties && !request.recursive {
            part.begin.properties = Some(properties(catalog, part.snapshot, 0));
        }
    }
    Ok(parts)
}

/// What a receive that was interrupted still needs.
///
/// # Errors
/// The snapshots are not there any more.
pub(super) fn rest(
    catalog: &Catalog,
    pool: u64,
    token: &ResumeToken,
) -> Result<Part, CatalogError> {
    let gone = |what: &str| {
        CatalogError::new(
            ErrorKind::NotFound,
            format!("the {what} of the interrupted receive is not here any more"),
            "give the receive up with 'volume receive -A', and send it anew",
        )
    };
    let to = catalog.snapshots_by_guid(token.snapshot).next();
    let to = to.ok_or_else(|| gone("snapshot"))?;
    let from = match token.from {
        None => None,
        Some(guid) => {
            let base = catalog.chain(to.id).find(|older| older.guid == guid);
            Some(base.ok_or_else(|| gone("snapshot that goes before that"))?)
        }
    };
    let mut part = part(catalog, to, from);
    part.begin.pool = pool;
    part.begin.start = token.position.min(part.begin.blocks());
    if token.with_properties {
        part.begin.properties = Some(properties(catalog, part.snapshot, token.folders));
    }
    Ok(part)
}

/// The parts that lead to a snapshot: from another one, or from nothing; with all in between or without.
fn steps<'a>(
    catalog: &'a Catalog,
    to: &'a Dataset,
    from: Option<&'a Dataset>,
    is_whole: bool,
    is_own: bool,
    parts: &mut Vec<Part>,
) -> Result<(), CatalogError> {
    let mut chain = vec![to];
    if is_whole {
        let older = catalog.chain(to.id);
        let older = older.take_while(|older| !is_own || older.parent == to.parent);
        chain.extend(older.take_while(|older| from.is_none_or(|from| older.id != from.id)));
    }
    let mut before = from;
    for snapshot in chain.into_iter().rev() {
        parts.push(part(catalog, snapshot, before));
        before = Some(snapshot);
    }
    Ok(())
}

fn part(catalog: &Catalog, to: &Dataset, from: Option<&Dataset>) -> Part {
    let (size, block_size) = to.geometry().unwrap_or_default();
    let volume = catalog.dataset(to.parent).map_or(0, |volume| volume.guid);
    Part {
        snapshot: to.id,
        from: from.map(|from| from.id),
        from_name: from.map(|from| from.name.clone()),
        begin: Begin {
            pool: 0,
            volume,
            snapshot: to.guid,
            from: from.map(|from| from.guid),
            origin: None,
            source: catalog.full_name(to.id),
            path: String::new(),
            name: to.name.clone(),
            created_s: to.created_s,
            size,
            block_size,
            start: 0,
            properties: None,
        },
    }
}

/// The snapshot that another is told relative to: `@a`, or its whole name.
fn base<'a>(
    catalog: &'a Catalog,
    to: &'a Dataset,
    name: &str,
) -> Result<&'a Dataset, CatalogError> {
    let wanted = match name.split_once('@') {
        Some((volume, _)) if !volume.is_empty() => catalog.find_snapshot(split(name).1)?.id,
        _ => {
            let volume = catalog.name(to.parent);
            catalog
                .find_snapshot(&format!("{volume}@{}", last(name)))?
                .id
        }
    };
    let mut chain = catalog.chain(to.id);
    chain.find(|older| older.id == wanted).ok_or_else(|| {
        CatalogError::new(
            ErrorKind::InvalidValue,
            format!("'{name}' is not older than '{}'", catalog.full_name(to.id)),
            "name an older snapshot of the same volume, or of what it was cloned of",
        )
    })
}

/// Refuses an older snapshot that is told by its whole name in another pool: this one's own may be another.
fn refuse_other_pool(sent: &str, from: &str) -> Result<(), CatalogError> {
    let is_whole = from
        .split_once('@')
        .is_some_and(|(volume, _)| !volume.is_empty());
    if !is_whole || split(from).0 == split(sent).0 {
        return Ok(());
    }
    Err(CatalogError::new(
        ErrorKind::InvalidValue,
        format!("'{from}' is in another pool than '{sent}'"),
        "name the older snapshot as it is called where it is sent from; the receiving side finds its own",
    ))
}

/// A volume's name below what is sent.
fn below(catalog: &Catalog, prefix: &str, snapshot: DatasetId) -> String {
    let volume = catalog.volume_of(snapshot).unwrap_or(snapshot);
    let name = catalog.name(volume);
    let rest = name.strip_prefix(prefix).unwrap_or(&name);
    rest.trim_start_matches('/').to_owned()
}

/// What was set on a snapshot's volume and may go with it. Folders do not travel: of so many above it, what the volume
/// inherits goes as its own.
fn properties(catalog: &Catalog, snapshot: DatasetId, folders: u32) -> Texts {
    let mut texts = Texts::new();
    let mut next = catalog.volume_of(snapshot);
    let mut above = 0;
    while let Some(dataset) = next.and_then(|id| catalog.dataset(id)) {
        // What was set here counts more than what came with a stream.
        for set in [&dataset.properties, &dataset.received] {
            let travels = set.0.iter().filter(|(property, _)| {
                property.travels() && (above == 0 || property.is_inheritable())
            });
            for (property, value) in travels {
                texts
                    .entry(property.to_string())
                    .or_insert_with(|| value.to_string());
            }
        }
        let is_last = above == folders || dataset.id == ROOT;
        next = (!is_last).then_some(dataset.parent);
        above += 1;
    }
    texts
}

/// What stands behind `@`.
fn last(name: &str) -> &str {
    name.rsplit('@').next().unwrap_or(name)
}

fn unnamed(name: &str) -> CatalogError {
    CatalogError::new(
        ErrorKind::InvalidName,
        format!("'{name}' names no snapshot"),
        "add '@' and the snapshot's name",
    )
}
