//! Hints for a property that datasets do not have: the nearest name, or the place where an
//! administrator who knows zfs finds it here.

use super::{Change, PROPERTIES};

/// Properties of zfs's datasets and zpool's pools that no dataset has here, and their replacements.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &[
            "quota",
            "refquota",
            "userquota",
            "groupquota",
            "filesystem_limit",
        ],
        "folders have no quota: volsize bounds each volume, and `pool list` shows the free space",
    ),
    (
        &["reservation"],
        "use refreservation of the volume: it keeps space for the volume",
    ),
    (
        &["dedup"],
        "the pool does not deduplicate blocks: compression=zstd saves space, and clones share blocks",
    ),
    (
        &[
            "encryption",
            "keyformat",
            "keylocation",
            "keystatus",
            "pbkdf2iters",
            "encryptionroot",
        ],
        "datasets are not encrypted: make the pool on LUKS devices (/dev/mapper/NAME), or encrypt in the \
         host",
    ),
    (
        &["recordsize"],
        "volumes have volblocksize, which is set when a volume is made: volume create -b 64K",
    ),
    (
        &["ashift"],
        "omit it: pools always write whole blocks of 4096 bytes, as zpool does with ashift=12",
    ),
    (
        &["autotrim", "autoexpand", "autoreplace", "multihost"],
        "it is a property of the pool: pool set NAME=VALUE POOL",
    ),
    (
        &[
            "size",
            "capacity",
            "health",
            "free",
            "allocated",
            "fragmentation",
            "freeing",
        ],
        "it is a figure of the pool: pool get NAME POOL, or pool list",
    ),
    (
        &[
            "mountpoint",
            "canmount",
            "mounted",
            "atime",
            "relatime",
            "xattr",
            "acltype",
            "aclmode",
            "aclinherit",
            "casesensitivity",
            "normalization",
            "utf8only",
            "snapdir",
            "exec",
            "setuid",
            "devices",
            "dnodesize",
            "vscan",
            "nbmand",
            "overlay",
        ],
        "a property of file systems: the host makes its file system on the volume, and share shows the \
         volume to a host",
    ),
    (
        &["sharenfs", "sharesmb", "shareiscsi"],
        "share a volume over iSCSI with: share NAME --volume POOL/NAME --host HOST",
    ),
    (
        &["volmode", "snapdev"],
        "map the volume to make it a disk of a host: lu create --volume POOL/NAME, for a snapshot \
         POOL/NAME@SNAPSHOT",
    ),
    (
        &[
            "logbias",
            "special_small_blocks",
            "redundant_metadata",
            "prefetch",
        ],
        "omit it: log devices take every durable write, and maps are always stored twice",
    ),
];

/// Returns the step to try instead of this name.
pub(super) fn next(name: &str) -> String {
    let known = ELSEWHERE.iter().find(|(names, _)| names.contains(&name));
    if let Some((_, next)) = known {
        return (*next).to_owned();
    }
    let settable = PROPERTIES
        .iter()
        .filter(|info| info.change != Change::Computed);
    let settable: Vec<&str> = settable.map(|info| info.name).collect();
    let meant = match nearest(name) {
        Some(near) => format!("did you mean {near}? "),
        None => String::new(),
    };
    format!(
        "{meant}settable properties are {}; volume get all lists the others; a name of your own contains a \
         colon, as in my:note",
        settable.join(", ")
    )
}

/// Returns the one name that a slip of two letters turns into this one.
fn nearest(name: &str) -> Option<&'static str> {
    let far = |info: &super::PropertyInfo| distance(name, info.name);
    let near = PROPERTIES.iter().min_by_key(|info| far(info))?;
    (far(near) <= 2 && name.len() > 3).then_some(near.name)
}

/// Returns how many letters must be changed, added or left out to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (line, letter) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = line + 1;
        for (at, other) in b.iter().enumerate() {
            let changed = corner + usize::from(letter != *other);
            corner = row[at + 1];
            row[at + 1] = changed.min(corner + 1).min(row[at] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_property_that_there_is_stands_elsewhere() {
        let elsewhere = ELSEWHERE.iter().flat_map(|(names, _)| *names);
        for name in elsewhere {
            assert!(PROPERTIES.iter().all(|info| info.name != *name), "{name}");
        }
    }

    #[test]
    fn a_slip_is_told_the_nearest_and_everything_else_what_there_is() {
        assert_eq!([distance("", "ab"), distance("kitten", "sitting")], [2, 3]);
        let all = "settable properties are volsize, volblocksize, refreservation, compression, checksum, copies, primarycache, \
                   secondarycache, sync, readonly, snapshot_limit; volume get all lists the others; a name of your own contains \
                   a colon, as in my:note";
        assert_eq!(
            next("compresion"),
            format!("did you mean compression? {all}")
        );
        assert_eq!(next("colour"), all);
        assert_eq!(next(""), all);
        assert_eq!(
            next("quota"),
            "folders have no quota: volsize bounds each volume, and `pool list` shows the free space"
        );
    }
}
