//! The table of properties. A property with a meaning of zfs's has zfs's name. Help, completion and
//! every check read the table.

use std::fmt;

use super::error::{CatalogError, ErrorKind};

mod unknown;

/// A property of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the table describes each, below")]
pub enum Native {
    Type,
    Creation,
    Used,
    Available,
    Referenced,
    Compressratio,
    Origin,
    Volsize,
    Volblocksize,
    Refreservation,
    Compression,
    Checksum,
    Copies,
    Primarycache,
    Secondarycache,
    Sync,
    Readonly,
    SnapshotLimit,
    SnapshotCount,
    Logicalused,
    Logicalreferenced,
    Refcompressratio,
    Usedbydataset,
    Usedbysnapshots,
    Usedbychildren,
    Usedbyrefreservation,
    Written,
    Clones,
    Userrefs,
    Guid,
    ReceiveResumeToken,
    Createtxg,
}

/// Permission to change a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The administrator may change it at any time.
    Settable,
    /// The administrator may set it when the volume is made.
    AtCreation,
    /// Nobody may change it: it is computed.
    Computed,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct PropertyInfo {
    /// Property of the line.
    pub native: Native,
    /// Name of the property as it is written.
    pub name: &'static str,
    /// Values that may be written behind `=`, for help and completion.
    pub values: &'static str,
    /// Permission to change the property.
    pub change: Change,
    /// Whether datasets below inherit it.
    pub is_inheritable: bool,
    /// Kinds of datasets that have it: any of `f` (folder), `v` (volume), `s` (snapshot).
    pub has_it: &'static str,
    /// Default value, which holds if none was set; empty if there is no default.
    pub default: &'static str,
    /// Meaning of the property, in one line.
    pub help: &'static str,
}

const fn settable(
    native: Native,
    name: &'static str,
    values: &'static str,
    default: &'static str,
    help: &'static str,
) -> PropertyInfo {
    PropertyInfo {
        native,
        name,
        values,
        change: Change::Settable,
        is_inheritable: true,
        has_it: "fvs",
        default,
        help,
    }
}

const fn computed(
    native: Native,
    name: &'static str,
    has_it: &'static str,
    help: &'static str,
) -> PropertyInfo {
    PropertyInfo {
        native,
        name,
        values: "",
        change: Change::Computed,
        is_inheritable: false,
        has_it,
        default: "",
        help,
    }
}

impl PropertyInfo {
    /// Returns the property of a name; `None` for properties of users too.
    pub fn named(name: &str) -> Option<&'static Self> {
        PROPERTIES.iter().find(|info| info.name == name)
    }
}

/// All properties but those of users, in the order in which they are shown.
pub const PROPERTIES: &[PropertyInfo] = &[
    computed(Native::Type, "type", "fvs", "folder, volume or snapshot"),
    computed(
        Native::Creation,
        "creation",
        "fvs",
        "time at which it was made, in seconds since 1970",
    ),
    computed(
        Native::Used,
        "used",
        "fvs",
        "space that it takes with everything below it, reservations included",
    ),
    computed(
        Native::Available,
        "available",
        "fv",
        "space that its data can still take; for a folder, size of the largest volume that fits",
    ),
    computed(
        Native::Referenced,
        "referenced",
        "fvs",
        "space of the data that can be reached through it",
    ),
    computed(
        Native::Compressratio,
        "compressratio",
        "fvs",
        "bytes written per byte stored, for all data that it and its snapshots keep",
    ),
    computed(
        Native::Refcompressratio,
        "refcompressratio",
        "fvs",
        "bytes written per byte stored, for the data that can be reached through it",
    ),
    computed(
        Native::Origin,
        "origin",
        "v",
        "snapshot that the clone was made from",
    ),
    PropertyInfo {
        is_inheritable: false,
        has_it: "vs",
        ..settable(
            Native::Volsize,
            "volsize",
            "SIZE, a multiple of volblocksize",
            "",
            "size of the volume; it grows at once, and shrinks only with resize --shrink",
        )
    },
    PropertyInfo {
        change: Change::AtCreation,
        is_inheritable: false,
        has_it: "vs",
        ..settable(
            Native::Volblocksize,
            "volblocksize",
            "4K|8K|16K|32K|64K|128K",
            "",
            "size of the blocks in which the volume is stored; fixed when the volume is made",
        )
    },
    PropertyInfo {
        is_inheritable: false,
        has_it: "v",
        ..settable(
            Native::Refreservation,
            "refreservation",
            "none|auto|SIZE",
            "none",
            "space that is kept for the volume; auto keeps all of volsize, so that no write runs out of \
             space",
        )
    },
    settable(
        Native::Compression,
        "compression",
        "on|off|lz4|zstd|zstd-1..zstd-19",
        "on",
        "compression of new blocks; on means lz4, zstd means zstd-3",
    ),
    settable(
        Native::Checksum,
        "checksum",
        "on|off|xxh3|blake3",
        "on",
        "checksum of new blocks; on means xxh3; blake3 also resists forgery",
    ),
    settable(
        Native::Copies,
        "copies",
        "1|2",
        "1",
        "number of copies of new blocks; 2 survives bad sectors of disks without redundancy, at twice the \
         space",
    ),
    settable(
        Native::Primarycache,
        "primarycache",
        "all|metadata|none",
        "all",
        "data that is kept in memory: all, maps only, or not even the leaves of maps",
    ),
    settable(
        Native::Secondarycache,
        "secondarycache",
        "all|metadata|none",
        "all",
        "data that is kept on cache devices; maps never are, so metadata means the same as none",
    ),
    settable(
        Native::Sync,
        "sync",
        "standard|always|disabled",
        "standard",
        "when writes become durable: standard as the host asks, always at once, disabled at the next \
         checkpoint",
    ),
    settable(
        Native::Readonly,
        "readonly",
        "on|off",
        "off",
        "whether writes are refused",
    ),
    PropertyInfo {
        is_inheritable: false,
        has_it: "fv",
        ..settable(
            Native::SnapshotLimit,
            "snapshot_limit",
            "none|COUNT",
            "none",
            "number of snapshots that it and everything below it may have",
        )
    },
    computed(
        Native::SnapshotCount,
        "snapshot_count",
        "fv",
        "snapshots of it and of everything below it",
    ),
    computed(
        Native::Logicalused,
        "logicalused",
        "fv",
        "used, before compression, without reservations",
    ),
    computed(
        Native::Logicalreferenced,
        "logicalreferenced",
        "fvs",
        "referenced, before compression",
    ),
    computed(
        Native::Usedbydataset,
        "usedbydataset",
        "fv",
        "space that destroying it alone would free if it had no snapshots",
    ),
    computed(
        Native::Usedbysnapshots,
        "usedbysnapshots",
        "fv",
        "space that only its snapshots keep",
    ),
    computed(
        Native::Usedbychildren,
        "usedbychildren",
        "fv",
        "space that the datasets below it take",
    ),
    computed(
        Native::Usedbyrefreservation,
        "usedbyrefreservation",
        "fv",
        "space that is reserved for it and not used yet",
    ),
    computed(
        Native::Written,
        "written",
        "fvs",
        "space of the data that was written since the previous snapshot",
    ),
    computed(
        Native::Clones,
        "clones",
        "s",
        "volumes that were cloned from it",
    ),
    computed(
        Native::Userrefs,
        "userrefs",
        "s",
        "number of holds that keep it from being destroyed",
    ),
    computed(
        Native::Guid,
        "guid",
        "fvs",
        "number that stays with it when it is sent elsewhere",
    ),
    computed(
        Native::ReceiveResumeToken,
        "receive_resume_token",
        "v",
        "token with which 'volume send -t' continues an interrupted receive",
    ),
    computed(
        Native::Createtxg,
        "createtxg",
        "s",
        "last epoch whose blocks it holds",
    ),
];

impl Native {
    /// Returns the property's line in the table.
    pub fn info(self) -> &'static PropertyInfo {
        let line = PROPERTIES.iter().find(|info| info.native == self);
        line.expect("every property has its line, as a test counts")
    }
}

/// Length of the longest name of a user property.
pub const MAX_USER_NAME: usize = 255;

/// A property: of the table, or of users (`module:name`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// A property of the table.
    Native(Native),
    /// A property that users keep beside a dataset.
    User(String),
}

impl Property {
    /// Returns the property of this name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] if there is no such property and users cannot have one of that
    /// name.
    pub fn parse(name: &str) -> Result<Self, CatalogError> {
        if let Some(info) = PropertyInfo::named(name) {
            return Ok(Self::Native(info.native));
        }
        let is_allowed = |c: char| {
            c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, ':' | '+' | '.' | '_' | '-')
        };
        if !name.contains(':') {
            let message = format!("there is no property '{name}'");
            let next = unknown::next(name);
            return Err(CatalogError::new(ErrorKind::InvalidValue, message, next));
        }
        let message = if name.len() > MAX_USER_NAME {
            format!("the property's name is longer than {MAX_USER_NAME} bytes")
        } else if name.starts_with('-') || !name.chars().all(is_allowed) {
            format!("'{name}' is not a valid name of a user property")
        } else {
            return Ok(Self::User(name.to_owned()));
        };
        Err(CatalogError::new(
            ErrorKind::InvalidValue,
            message,
            "names of your own contain ':' and otherwise only lowercase letters, digits and + . _ -",
        ))
    }

    /// Reports whether the property goes with a stream: it is set by hand, and it does not concern
    /// a pool's space.
    pub fn travels(&self) -> bool {
        match self {
            Self::Native(
                Native::Refreservation | Native::Volsize | Native::SnapshotLimit | Native::Copies,
            ) => false,
            Self::Native(native) => native.info().change == Change::Settable,
            Self::User(_) => true,
        }
    }

    /// Reports whether datasets below inherit the property.
    pub fn is_inheritable(&self) -> bool {
        match self {
            Self::Native(native) => native.info().is_inheritable,
            Self::User(_) => true,
        }
    }
}

impl From<Native> for Property {
    fn from(native: Native) -> Self {
        Self::Native(native)
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native(native) => f.write_str(native.info().name),
            Self::User(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_property_has_exactly_one_line() {
        for info in PROPERTIES {
            assert_eq!(info.native.info().name, info.name);
            assert_eq!(Property::parse(info.name), Ok(info.native.into()));
            assert_eq!(Property::Native(info.native).to_string(), info.name);
            assert!(!info.help.is_empty() && !info.has_it.is_empty());
            assert_eq!(info.values.is_empty(), info.change == Change::Computed);
        }
        // The discriminant of the last variant counts the others.
        assert_eq!(PROPERTIES.len(), Native::Createtxg as usize + 1);
    }

    #[test]
    fn users_have_their_own_names() {
        for name in ["com.acme:owner", "a:", ":", "backup:last+full_1-2"] {
            assert_eq!(Property::parse(name), Ok(Property::User(name.to_owned())));
        }
        let long = format!("a:{}", "b".repeat(MAX_USER_NAME));
        for name in ["owner", "", "A:b", "a b:c", "-a:b", &long] {
            let error = Property::parse(name).expect_err(name);
            assert_eq!(error.kind, ErrorKind::InvalidValue, "{name}");
            assert_eq!(
                error.next.contains("names of your own"),
                name.contains(':'),
                "{name}"
            );
        }
    }
}
