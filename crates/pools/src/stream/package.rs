//! Snapshots that a stream carries, and the base of each, chosen by names or by a token.

use store::catalog::request::Texts;
use store::catalog::{Catalog, CatalogError, Dataset, ErrorKind, ROOT};
use store::format::DatasetId;
use store::stream::{Begin, ResumeToken};

use super::replication;
use model::pool::dataset::name::split;
use model::pool::stream::SendRequest;

/// Snapshot of a stream.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) snapshot: DatasetId,
    pub(super) from: Option<DatasetId>,
    /// Part of the base's name after `@`, or the full name if the base is another volume's.
    pub(super) from_name: Option<String>,
    pub(super) begin: Begin,
}

/// Returns the parts of the stream, in their order.
///
/// # Errors
/// A name means nothing, or the snapshots do not build on each other.
pub(super) fn parts(
    catalog: &Catalog,
    pool: u64,
    request: &SendRequest,
) -> Result<Vec<Part>, CatalogError> {
    let (_, name) = split(&request.snapshot);
    if let Some(from) = &request.from {
        refuse_other_pool(&request.snapshot, from)?;
    }
    let mut parts = if request.recursive {
        replication::parts(catalog, request)?
    } else {
        let to = catalog.find_snapshot(name)?;
        let from = request.from.as_deref();
        let from = from.map(|from| base(catalog, to, from)).transpose()?;
        let is_whole = request.intermediate && from.is_some();
        steps(catalog, to, from, is_whole, false)
    };
    for part in &mut parts {
        part.begin.pool = pool;
        if request.properties && !request.recursive {
            part.begin.properties = Some(properties(catalog, part.snapshot, 0));
        }
    }
    Ok(parts)
}

/// Returns the parts that an interrupted receive still needs.
///
/// # Errors
/// The snapshots no longer exist.
pub(super) fn rest(
    catalog: &Catalog,
    pool: u64,
    token: &ResumeToken,
) -> Result<Part, CatalogError> {
    let gone = |what: &str| {
        CatalogError::new(
            ErrorKind::NotFound,
            format!("the {what} of the interrupted receive no longer exists"),
            "discard the receive with 'volume receive -A' on the receiving side, and send it again",
        )
    };
    let mut all = catalog.snapshots_by_guid(token.snapshot).peekable();
    if all.peek().is_none() {
        return Err(gone("snapshot"));
    }
    // If several snapshots have the token's guid, choose one that builds on the other side's
    // snapshot.
    let found = all.find_map(|to| match token.from {
        None => Some((to, None)),
        Some(guid) => {
            let base = catalog.chain(to.id).find(|older| older.guid == guid);
            base.map(|base| (to, Some(base)))
        }
    });
    let (to, from) = found.ok_or_else(|| gone("base snapshot"))?;
    let mut part = part(catalog, to, from);
    part.begin.pool = pool;
    part.begin.start = token.position.min(part.begin.blocks());
    if token.with_properties {
        part.begin.properties = Some(properties(catalog, part.snapshot, token.folders));
    }
    Ok(part)
}

/// Returns the parts that lead to a snapshot from another one or from nothing, with or without the
/// snapshots in between.
pub(super) fn steps<'a>(
    catalog: &'a Catalog,
    to: &'a Dataset,
    from: Option<&'a Dataset>,
    is_whole: bool,
    is_own: bool,
) -> Vec<Part> {
    let mut chain = vec![to];
    if is_whole {
        let older = catalog.chain(to.id);
        let older = older.take_while(|older| !is_own || older.parent == to.parent);
        chain.extend(older.take_while(|older| from.is_none_or(|from| older.id != from.id)));
    }
    let mut before = from;
    let oldest_first = chain.into_iter().rev();
    let parts = oldest_first.map(|snapshot| part(catalog, snapshot, before.replace(snapshot)));
    parts.collect()
}

fn part(catalog: &Catalog, to: &Dataset, from: Option<&Dataset>) -> Part {
    let (size, block_size) = to.geometry().unwrap_or_default();
    let volume = catalog.dataset(to.parent).map_or(0, |volume| volume.guid);
    let foreign = from.filter(|from| from.parent != to.parent);
    let origin = foreign.map(|from| catalog.full_name(from.id));
    Part {
        snapshot: to.id,
        from: from.map(|from| from.id),
        from_name: origin.clone().or_else(|| Some(from?.name.clone())),
        begin: Begin {
            pool: 0,
            volume,
            snapshot: to.guid,
            from: from.map(|from| from.guid),
            origin,
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

/// Returns the snapshot that another builds on, from its short name `@a` or its full name.
pub(super) fn base<'a>(
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
            "name an older snapshot of the same volume, or of the volume that it was cloned from",
        )
    })
}

/// Refuses a base with a full name in another pool: this pool's snapshot of that name may be
/// another one.
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
        "name the older snapshot as the sending side calls it; the receiving side finds its own",
    ))
}

/// Returns the properties of a snapshot's volume that may travel with it. Folders do not travel. So
/// properties inherited from the nearest `folders` folders above travel as the volume's own.
pub(super) fn properties(catalog: &Catalog, snapshot: DatasetId, folders: u32) -> Texts {
    let mut texts = Texts::new();
    let mut next = catalog.volume_of(snapshot);
    let mut above = 0;
    while let Some(dataset) = next.and_then(|id| catalog.dataset(id)) {
        // A property set here counts more than one that came with a stream.
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

/// Returns the part of a name after `@`.
pub(super) fn last(name: &str) -> &str {
    name.rsplit('@').next().unwrap_or(name)
}

pub(super) fn unnamed(name: &str) -> CatalogError {
    CatalogError::new(
        ErrorKind::InvalidName,
        format!("'{name}' does not name a snapshot"),
        "add '@' and the snapshot's name",
    )
}
