//! `create -p` and `clone -p` of a dataset that already exists. As in zfs, nothing is changed and
//! there is no error. If another dataset has the name, the request is refused.

use std::collections::BTreeMap;

use store::catalog::size::print_size_exactly;
use store::catalog::{Catalog, Dataset, Property, Value};

use super::failed;
use crate::registry::OpenPool;
use model::pool::dataset::Changed;
use model::pool::dataset::change::DatasetChange;
use model::pool::dataset::name::split;
use model::{Error, ErrorKind};

/// Returns the remarks about an existing dataset that makes the change unnecessary. Returns `None`
/// if the dataset does not exist, or if the change does not allow this.
///
/// # Errors
/// Another dataset has the name.
pub(super) fn already_there(
    pool: &OpenPool,
    change: &DatasetChange,
) -> Result<Option<Changed>, Error> {
    if !matches!(
        change,
        DatasetChange::Create { parents: true, .. } | DatasetChange::Clone { parents: true, .. }
    ) {
        return Ok(None);
    }
    let change = change.clone();
    let asked = pool
        .host
        .ask(move |pool| compared(pool.catalog(), &change))
        .map_err(|error| failed(&error))?;
    let notices = asked?;
    Ok(notices.map(|notices| Changed {
        notices,
        unchanged: true,
        ..Changed::default()
    }))
}

/// Compares the existing dataset with the requested one, and returns the remarks.
fn compared(catalog: &Catalog, change: &DatasetChange) -> Result<Option<Vec<String>>, Error> {
    let (DatasetChange::Create {
        name, properties, ..
    }
    | DatasetChange::Clone {
        name, properties, ..
    }) = change
    else {
        return Ok(None);
    };
    let there = catalog.find(split(name).1).ok();
    // Snapshots are not created this way, and a half-received dataset is nobody's. Both are refused
    // as without -p.
    let there = there.filter(|there| {
        there.as_snapshot().is_none() && catalog.receiving(there.id).is_none_or(|of| !of.is_new)
    });
    let Some(there) = there else {
        return Ok(None);
    };
    let different = match change {
        DatasetChange::Create {
            size, block_size, ..
        } => other_than_created(there, name, *size, *block_size),
        DatasetChange::Clone { snapshot, .. } => {
            // A missing snapshot is reported as without -p.
            let Ok(origin) = catalog.find_snapshot(split(snapshot).1) else {
                return Ok(None);
            };
            other_than_cloned(catalog, there, origin)
        }
        _ => None,
    };
    if let Some((what, next)) = different {
        let message = format!("'{name}' exists already {what}");
        return Err(Error::new(ErrorKind::Exists, message, next));
    }
    let mut notices = vec![format!("'{name}' exists already; nothing was changed")];
    let unset = unset(there, properties);
    if !unset.is_empty() {
        let (unset, are) = (unset.join(" "), if unset.len() > 1 { "are" } else { "is" });
        notices.push(format!(
            "{unset} {are} not set on the existing dataset: use `sandstone volume set {unset} {name}`"
        ));
    }
    Ok(Some(notices))
}

/// Describes a dataset that differs from the requested folder or volume, with the remedy.
fn other_than_created(
    there: &Dataset,
    name: &str,
    size: Option<u64>,
    block_size: Option<u32>,
) -> Option<(String, String)> {
    let another_name = || "choose another name".to_owned();
    match (there.geometry(), size) {
        (Some(_), None) => Some(("and is a volume, not a folder".to_owned(), another_name())),
        (None, Some(_)) => Some(("and is a folder, not a volume".to_owned(), another_name())),
        (Some((size, _)), Some(wanted)) if size != wanted => {
            let [size, wanted] = [size, wanted].map(print_size_exactly);
            Some((
                format!("with volsize {size}, not {wanted}"),
                format!(
                    "choose another name, or give it that size with `sandstone volume resize {name} {wanted}`"
                ),
            ))
        }
        (Some((_, of_block)), _) if block_size.is_some_and(|wanted| wanted != of_block) => {
            let wanted = block_size.unwrap_or_default();
            let [of_block, wanted] = [of_block, wanted].map(|of| print_size_exactly(of.into()));
            Some((
                format!("with volblocksize {of_block}, not {wanted}"),
                "choose another name, or omit -b: volblocksize cannot be changed".to_owned(),
            ))
        }
        _ => None,
    }
}

/// Describes a dataset that differs from the requested clone, with the remedy.
fn other_than_cloned(
    catalog: &Catalog,
    there: &Dataset,
    origin: &Dataset,
) -> Option<(String, String)> {
    let wanted = catalog.full_name(origin.id);
    let what = match catalog.origin(there.id) {
        Some(of) if of == origin.id => return None,
        Some(of) => {
            let of = catalog.full_name(of);
            format!("and is a clone of '{of}', not of '{wanted}'")
        }
        None if there.is_folder() => format!("and is a folder, not a clone of '{wanted}'"),
        None => format!("and is a separate volume, not a clone of '{wanted}'"),
    };
    Some((what, "choose another name".to_owned()))
}

/// Returns the names of the properties that a dataset does not have with the given value.
fn unset(there: &Dataset, properties: &BTreeMap<String, String>) -> Vec<String> {
    let is_set = |name: &str, text: &str| {
        let Ok(property) = Property::parse(name) else {
            return false;
        };
        let set = there.properties.get(&property);
        set.is_some() && set == Value::parse(&property, text).ok().as_ref()
    };
    let unset = properties.iter().filter(|(name, text)| !is_set(name, text));
    unset.map(|(name, text)| format!("{name}={text}")).collect()
}
