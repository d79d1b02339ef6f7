//! Properties that are chosen once, when a volume is created. zfs takes them as ordinary
//! properties, so `-o volblocksize=8K` is equal to `-b 8K`.

use store::catalog::size::parse_size;

use super::refused;
use model::Error;
use model::pool::dataset::change::DatasetChange;

const BLOCK_SIZE: &str = "volblocksize";
const SIZE: &str = "volsize";

/// The change with its properties that are chosen once, each in the field that the change has for
/// it.
///
/// # Errors
/// It cannot be chosen for what is made, or is said twice.
pub(super) fn with_what_is_made(change: &DatasetChange) -> Result<DatasetChange, Error> {
    let mut change = change.clone();
    match &mut change {
        DatasetChange::Create {
            name,
            size,
            block_size,
            properties,
            ..
        } => {
            if properties.contains_key(SIZE) {
                return Err(Error::invalid(
                    "the size of a new volume is not given as a property",
                    format!("use -V for it, as in `sandstone volume create -V 100G {name}`"),
                ));
            }
            let Some(text) = properties.remove(BLOCK_SIZE) else {
                return Ok(change);
            };
            if size.is_none() {
                return Err(Error::invalid(
                    format!("{name} would be a folder, which has no volblocksize"),
                    format!(
                        "give the size of a volume, as in `sandstone volume create -V 100G -o \
                         volblocksize={text} {name}`"
                    ),
                ));
            }
            *block_size = Some(told(&text, *block_size)?);
        }
        DatasetChange::Clone { properties, .. } => {
            if properties.contains_key(BLOCK_SIZE) {
                return Err(Error::invalid(
                    "a clone has the volblocksize of its snapshot, because it shares the snapshot's blocks",
                    "omit volblocksize; for another one make a volume with `sandstone volume create` and \
                     copy the data",
                ));
            }
            if properties.contains_key(SIZE) {
                return Err(Error::invalid(
                    "a clone starts with the size of its snapshot",
                    "omit volsize, and set it afterwards: `sandstone volume set volsize=SIZE CLONE`",
                ));
            }
        }
        _ => {}
    }
    Ok(change)
}

/// Returns the `volblocksize` of a property, if the change gives no other value.
fn told(text: &str, other: Option<u32>) -> Result<u32, Error> {
    let bytes = parse_size(text).map_err(refused)?;
    // A size that no `volblocksize` can have is refused, with the possible sizes.
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    match other {
        Some(other) if other != bytes => Err(Error::invalid(
            format!("volblocksize is given twice: {bytes} and {other} bytes"),
            "give it once, with -b or with -o volblocksize",
        )),
        _ => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(size: Option<u64>, block_size: Option<u32>, property: (&str, &str)) -> DatasetChange {
        DatasetChange::Create {
            name: "tank/v".into(),
            size,
            block_size,
            sparse: false,
            parents: false,
            properties: [(property.0.to_owned(), property.1.to_owned())].into(),
        }
    }

    #[test]
    fn a_new_volume_takes_volblocksize_among_its_properties() {
        for block_size in [None, Some(8192)] {
            let change = create(Some(1 << 30), block_size, ("volblocksize", "8K"));
            let DatasetChange::Create {
                block_size,
                properties,
                ..
            } = with_what_is_made(&change).expect("it is being made")
            else {
                panic!("another change");
            };
            assert_eq!((block_size, properties.len()), (Some(8192), 0));
        }
        let other = create(Some(1 << 30), None, ("compression", "zstd"));
        assert_eq!(with_what_is_made(&other).expect("as it is"), other);
    }

    #[test]
    fn what_cannot_be_chosen_is_refused_with_where_it_can() {
        let clone = |name: &str| DatasetChange::Clone {
            snapshot: "tank/v@s".into(),
            name: "tank/c".into(),
            parents: false,
            properties: [(name.to_owned(), "8K".to_owned())].into(),
        };
        for (change, message, next) in [
            (
                create(Some(1 << 30), Some(4096), ("volblocksize", "8K")),
                "volblocksize is given twice: 8192 and 4096 bytes",
                "give it once, with -b or with -o volblocksize",
            ),
            (
                create(None, None, ("volblocksize", "8K")),
                "tank/v would be a folder, which has no volblocksize",
                "give the size of a volume, as in `sandstone volume create -V 100G -o volblocksize=8K tank/v`",
            ),
            (
                create(None, None, ("volsize", "8K")),
                "the size of a new volume is not given as a property",
                "use -V for it, as in `sandstone volume create -V 100G tank/v`",
            ),
            (
                clone("volblocksize"),
                "a clone has the volblocksize of its snapshot, because it shares the snapshot's blocks",
                "omit volblocksize; for another one make a volume with `sandstone volume create` and copy the data",
            ),
            (
                clone("volsize"),
                "a clone starts with the size of its snapshot",
                "omit volsize, and set it afterwards: `sandstone volume set volsize=SIZE CLONE`",
            ),
        ] {
            let error = with_what_is_made(&change).expect_err(message);
            assert_eq!((&*error.message, &*error.next), (message, next));
        }
    }
}
