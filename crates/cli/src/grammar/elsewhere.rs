//! Words of zpool, zfs and targetcli that this program does not take, and advice on what to use
//! instead.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

const LEAVE_MOUNTS: &str = "omit it: nothing is mounted from a pool";
const LEAVE_ASHIFT: &str =
    "omit it: pools always write whole blocks of 4096 bytes, as zpool's ashift=12 does";
const NO_KEYS: &str = "datasets are not encrypted: make the pool on LUKS devices (/dev/mapper/NAME), or \
                       encrypt in the host";
const SHOWN: &str =
    "hosts get volumes as disks: `sandstone share NAME --volume POOL/VOLUME --host HOST`";
const ONE_FORM: &str = "omit it: a stream has one form, which every receiver takes";

/// Options by their verb, with advice on what to do instead.
const OPTIONS: &[(&str, &[&str], &str)] = &[
    (
        "pool create",
        &["-O"],
        "give datasets their properties afterwards: `sandstone volume set compression=zstd POOL`",
    ),
    ("pool create", &["-m", "-R", "-t", "-d"], LEAVE_MOUNTS),
    (
        "pool import",
        &["-D"],
        "the labels of a pool that was destroyed are wiped, so nothing is left to import: `sandstone volume receive` restores \
         volumes from streams",
    ),
    (
        "pool import",
        &["-N", "-R", "-t", "-c"],
        "omit it: nothing is mounted, and -d says where to look",
    ),
    ("pool import", &["-l"], NO_KEYS),
    ("pool add", &["-o"], LEAVE_ASHIFT),
    ("pool attach", &["-o", "-s"], LEAVE_ASHIFT),
    ("pool replace", &["-o", "-s"], LEAVE_ASHIFT),
    (
        "pool clear",
        &["-F"],
        "a damaged pool goes back to an earlier checkpoint at import: `sandstone pool export POOL`, then `sandstone pool import \
         -F -n POOL`",
    ),
    (
        "pool events",
        &["-f"],
        "`sandstone events -f` follows the events of all pools, and of everything else",
    ),
    ("volume create", &["-u"], LEAVE_MOUNTS),
    (
        "volume send",
        &["-w", "-c", "-L", "-e", "-D", "-b"],
        ONE_FORM,
    ),
    ("volume receive", &["-u", "-M"], LEAVE_MOUNTS),
    (
        "volume list",
        &["-d"],
        "use -r for all datasets below, and name where to begin: `sandstone volume list -r POOL/FOLDER`",
    ),
];

/// Verbs that users look for, by the verb above them, with advice on what to do instead.
const VERBS: &[(&str, &[&str], &str)] = &[
    (
        "pool",
        &["split"],
        "copy the volumes to another pool: `sandstone volume snapshot -r POOL@NAME`, then `sandstone volume send -R POOL@NAME`",
    ),
    (
        "pool",
        &["labelclear"],
        "`sandstone pool create -f` overwrites old labels; `wipefs -a DEVICE` clears a device that no pool uses",
    ),
    (
        "pool",
        &["initialize"],
        "omit it: space need not be initialized before it is used",
    ),
    (
        "pool",
        &["checkpoint"],
        "`sandstone volume snapshot -r POOL@NAME` keeps all volumes as they are; `sandstone pool import -F -n POOL` lists the \
         checkpoints that an exported pool can go back to",
    ),
    (
        "pool",
        &["reopen"],
        "a device that comes back is used automatically; `sandstone pool online POOL DEVICE` tries one at once",
    ),
    (
        "pool",
        &["wait"],
        "-w of `sandstone pool scrub`, `pool trim`, `pool attach` and `pool replace` waits until it is done",
    ),
    (
        "pool",
        &["resilver"],
        "a resilver begins automatically: `sandstone pool status` shows its progress",
    ),
    (
        "pool",
        &["version"],
        "`sandstone --version`, and `sandstone pool upgrade` for the features of pools",
    ),
    (
        "volume",
        &["mount", "umount", "unmount", "share", "unshare"],
        SHOWN,
    ),
    ("volume", &["load-key", "unload-key", "change-key"], NO_KEYS),
    (
        "volume",
        &["bookmark", "redact"],
        "keep the snapshot that the next stream begins at: `sandstone volume hold TAG SNAPSHOT`",
    ),
    (
        "volume",
        &["diff"],
        "`sandstone volume send -n -v -i OLD NEW` shows how much was written between two snapshots",
    ),
    (
        "volume",
        &[
            "allow",
            "unallow",
            "userspace",
            "groupspace",
            "projectspace",
        ],
        "every operator acts as the user of the daemon: there are no permissions per dataset",
    ),
    (
        "",
        &["backstores", "backstore", "disk", "disks"],
        "`sandstone lu list`, and `sandstone lu create`",
    ),
    (
        "",
        &["iscsi", "tpg", "tpgs", "portals"],
        "`sandstone target list`, and `sandstone target portal add`",
    ),
    (
        "",
        &["acl", "acls", "ini_group"],
        "`sandstone host list`, and `sandstone host create`",
    ),
    (
        "",
        &["luns", "lun"],
        "`sandstone map list`, and `sandstone map add`",
    ),
    (
        "",
        &["saveconfig", "write_config"],
        "every change is saved at once; `sandstone config show` prints the configuration",
    ),
    (
        "",
        &["restoreconfig"],
        "`sandstone config import FILE` reads the files of LIO and SCST, and `sandstone config apply FILE` \
         those of Sandstone",
    ),
    (
        "",
        &["ls", "info"],
        "`sandstone status`, and `sandstone lu list`",
    ),
    ("", &["help"], "`sandstone --help`, or `sandstone man VERB`"),
];

/// Removes clap's advice if it cannot help, and returns ours.
pub(crate) fn next(error: &mut Error, root: &Command, args: &[OsString]) -> Option<String> {
    let path = path(root, args);
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.clone()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let word = word(ContextKind::InvalidArg)?;
            let next = of_option(&path, &word);
            if word.starts_with('-') {
                // Nobody means to pass an option as a value here.
                error.remove(ContextKind::Suggested);
            }
            next.map(str::to_owned)
        }
        ErrorKind::InvalidSubcommand => {
            let word = word(ContextKind::InvalidSubcommand)?;
            of_verb(root, &path, &word)
        }
        _ => None,
    }
}

/// Returns the verb of a command line, in words.
fn path(root: &Command, args: &[OsString]) -> String {
    let (mut command, mut path) = (root, Vec::new());
    for word in args.iter().skip(1).filter_map(|word| word.to_str()) {
        if let Some(verb) = command.find_subcommand(word) {
            path.push(verb.get_name());
            command = verb;
        }
    }
    path.join(" ")
}

fn of_option(path: &str, word: &str) -> Option<&'static str> {
    let found = OPTIONS
        .iter()
        .find(|(verb, options, _)| *verb == path && options.contains(&word));
    found.map(|(_, _, next)| *next)
}

/// Returns the command to use in place of a verb: one of ours with its name elsewhere, or one of
/// the table.
fn of_verb(root: &Command, path: &str, word: &str) -> Option<String> {
    let found = VERBS
        .iter()
        .find(|(verb, words, _)| *verb == path && words.contains(&word));
    if let Some((_, _, next)) = found {
        return Some((*next).to_owned());
    }
    let has_it = |group: &&Command| group.find_subcommand(word).is_some();
    let groups = root.get_subcommands().filter(has_it);
    let there: Vec<String> = groups
        .map(|group| format!("`sandstone {} {word}`", group.get_name()))
        .collect();
    (!there.is_empty()).then(|| there.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built() -> Command {
        let mut root = crate::command();
        root.build();
        root
    }

    fn find<'a>(root: &'a Command, path: &str) -> &'a Command {
        let mut words = path.split_whitespace();
        words
            .try_fold(root, |command, word| command.find_subcommand(word))
            .expect(path)
    }

    /// Checks that every command that a text names in backticks exists.
    fn check_commands(root: &Command, text: &str) {
        let quoted = text.split('`').skip(1).step_by(2);
        for line in quoted.filter_map(|quoted| quoted.strip_prefix("sandstone ")) {
            let mut command = root;
            for word in line.split_whitespace() {
                match command.find_subcommand(word) {
                    Some(verb) => command = verb,
                    None => break,
                }
            }
            let is_verb = command.get_name() != root.get_name() || line.starts_with("--");
            assert!(is_verb, "'sandstone {line}' of: {text}");
        }
    }

    #[test]
    fn what_stands_elsewhere_is_not_here_and_is_there() {
        let root = built();
        for (path, options, next) in OPTIONS {
            let verb = find(&root, path);
            for option in *options {
                let letter = option.chars().nth(1);
                let mut own = verb.get_arguments();
                assert!(own.all(|own| own.get_short() != letter), "{path} {option}");
            }
            check_commands(&root, next);
        }
        for (path, words, next) in VERBS {
            let verb = find(&root, path);
            for word in *words {
                assert!(verb.find_subcommand(word).is_none(), "{path} {word}");
            }
            check_commands(&root, next);
        }
    }

    fn told(line: &str) -> (String, Option<String>) {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let mut error = crate::command()
            .try_get_matches_from(&args)
            .expect_err(line);
        let next = next(&mut error, &built(), &args);
        (error.render().to_string(), next)
    }

    #[test]
    fn habits_of_zpool_and_zfs_are_told_where_to_look() {
        for (line, expected) in [
            (
                "sandstone pool add -o ashift=12 tank /dev/sdb",
                LEAVE_ASHIFT,
            ),
            ("sandstone pool import -D", OPTIONS[2].2),
            ("sandstone zpool split tank other", VERBS[0].2),
            ("sandstone zfs mount tank", SHOWN),
            ("sandstone --state /s zfs load-key tank", NO_KEYS),
            (
                "sandstone acls",
                "`sandstone host list`, and `sandstone host create`",
            ),
            (
                "sandstone snapshot tank/vm1@a",
                "`sandstone volume snapshot`",
            ),
            ("sandstone scrub tank", "`sandstone pool scrub`"),
            (
                "sandstone pool snapshot tank@a",
                "`sandstone volume snapshot`",
            ),
        ] {
            let (text, next) = told(line);
            assert_eq!(next.as_deref(), Some(expected), "{line}: {text}");
            assert!(!text.contains("as a value"), "{line}: {text}");
        }
    }

    #[test]
    fn an_option_that_nobody_knows_is_not_told_to_be_a_value() {
        let (text, next) = told("sandstone pool list -Z");
        assert_eq!(next, None);
        assert!(text.contains("unexpected argument '-Z'"), "{text}");
        assert!(!text.contains("as a value"), "{text}");
    }
}
