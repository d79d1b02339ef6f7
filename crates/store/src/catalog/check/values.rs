//! Checks of the size of a volume and of the properties of a dataset.

use super::Checked;
use crate::catalog::error::{CatalogError, ErrorKind};
use crate::catalog::operation::NewVolume;
use crate::catalog::properties::Properties;
use crate::catalog::property::{Change, Native, Property};
use crate::catalog::size::print_size_exactly;
use crate::catalog::value::Value;
use crate::format::dataset::{MAX_BLOCK_SIZE, MAX_VOLUME_SIZE, MIN_BLOCK_SIZE};

/// Checks whether a volume can have this size and volblocksize.
pub(in crate::catalog) fn check_geometry(size: u64, block_size: u32) -> Checked {
    let is_valid = (MIN_BLOCK_SIZE..=MAX_BLOCK_SIZE).contains(&block_size);
    if !is_valid || !block_size.is_power_of_two() {
        return Err(CatalogError::new(
            ErrorKind::InvalidValue,
            format!("volblocksize cannot be {block_size}"),
            "use 4K, 8K, 16K, 32K, 64K or 128K",
        ));
    }
    let block = u64::from(block_size);
    if size > 0 && size <= MAX_VOLUME_SIZE && size.is_multiple_of(block) {
        return Ok(());
    }
    let below = size.min(MAX_VOLUME_SIZE) / block * block;
    let above = (below + block).min(MAX_VOLUME_SIZE);
    let nearest = match (below, above) {
        (0, above) => print_size_exactly(above),
        (below, above) if below == above => print_size_exactly(above),
        (below, above) => {
            format!(
                "{} or {}",
                print_size_exactly(below),
                print_size_exactly(above)
            )
        }
    };
    let message = match size {
        0 => "a volume cannot have the size 0".to_owned(),
        MAX_VOLUME_SIZE.. => format!("volsize cannot be {}", print_size_exactly(size)),
        _ => format!(
            "volsize cannot be {}: it is not a multiple of volblocksize, {}",
            print_size_exactly(size),
            print_size_exactly(block)
        ),
    };
    Err(CatalogError::new(
        ErrorKind::InvalidValue,
        message,
        format!("the nearest possible size is {nearest}"),
    ))
}

/// Checks whether a new volume can have these properties.
pub(super) fn check_volume_properties(new: &NewVolume) -> Checked {
    check_properties('v', new.size, &new.dataset.properties)?;
    check_properties('v', new.size, &new.dataset.received)
}

/// Checks whether an administrator may set a property at any time.
pub(in crate::catalog) fn check_settable(native: Native) -> Checked {
    let info = native.info();
    let (message, next) = match (info.change, native) {
        (Change::Settable, Native::Volsize) => (
            "volsize is changed by resizing".to_owned(),
            "resize the volume by itself, and set other properties separately",
        ),
        (Change::Settable, _) => return Ok(()),
        (Change::AtCreation, _) => (
            format!("{} cannot be changed after the volume is made", info.name),
            "make a new volume and copy the data, or send and receive it",
        ),
        (Change::Computed, _) => (format!("{} is computed and cannot be set", info.name), ""),
    };
    Err(CatalogError::new(ErrorKind::ReadOnly, message, next))
}

/// Checks whether a dataset of this kind (by its letter) and size can have these properties.
pub(in crate::catalog) fn check_properties(
    letter: char,
    size: u64,
    properties: &Properties,
) -> Checked {
    for (property, value) in &properties.0 {
        let Property::Native(native) = property else {
            continue;
        };
        check_settable(*native)?;
        if letter == 's' || !native.info().has_it.contains(letter) {
            let kind = match letter {
                'f' => "a folder",
                'v' => "a volume",
                _ => "a snapshot",
            };
            return Err(CatalogError::new(
                ErrorKind::InvalidValue,
                format!("{property} cannot be set on {kind}"),
                "",
            ));
        }
        if matches!(value, Value::Reservation(Some(bytes)) if *bytes > size) {
            return Err(too_much_reserved(size));
        }
    }
    Ok(())
}

pub(super) fn too_much_reserved(size: u64) -> CatalogError {
    CatalogError::new(
        ErrorKind::InvalidValue,
        format!(
            "refreservation cannot be more than volsize, {}",
            print_size_exactly(size)
        ),
        "use auto for all of the volume, or none",
    )
}
