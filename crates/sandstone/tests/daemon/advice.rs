//! Tests that each refusal names the helpful next step at the place of the refusal.

use crate::process::Process;
use crate::served::TARGET;

/// Returns the lines of a refusal: the error, and the step to try next.
fn told(process: &Process, line: &str) -> (String, String) {
    let text = process.refused(line);
    let part = |start: &str| {
        let lines = text.lines();
        let found = lines.filter_map(|line| line.trim_start().strip_prefix(start));
        found.map(str::trim).next().unwrap_or_default().to_owned()
    };
    (part("sandstone: "), part("next:"))
}

#[test]
fn a_device_that_is_in_use_is_told_by_who_has_it() {
    let process = Process::start();
    let folder = process.folder().canonicalize().unwrap();
    let at = |name: &str| folder.join(name).display().to_string();
    process.done("pool create --size 128M tank mirror a b");
    process.done("lu create vm1 --file u.img --size 128M");
    let (pool, unit) = (at("a"), at("u.img"));
    let of_pool = format!("{pool} is a device of pool tank");
    for line in [
        format!("pool create other {pool}"),
        format!("pool create -f other {pool}"),
        format!("pool create -n other {pool}"),
        format!("pool add tank spare {pool}"),
        format!("pool attach tank b {pool}"),
        format!("lu create second --file {pool} --size 128M"),
    ] {
        let (message, next) = told(&process, &line);
        assert!(message.ends_with(&of_pool), "{line}: {message}");
        assert!(
            next.contains("`sandstone pool status tank`"),
            "{line}: {next}"
        );
    }
    for line in [
        format!("pool create other {unit}"),
        format!("pool create -n -f other {unit}"),
        format!("pool add -f tank mirror {unit} c"),
    ] {
        let (message, next) = told(&process, &line);
        assert_eq!(
            message,
            format!("{unit} holds the data of lu vm1"),
            "{line}"
        );
        assert_eq!(
            next,
            "choose another device: `sandstone lu list -o name,backend` shows the devices of logical units"
        );
    }
}

#[test]
fn an_address_of_another_machine_is_no_question_of_who_listens() {
    let process = Process::start();
    let (message, next) = told(
        &process,
        &format!("target create {TARGET} --portal 192.0.2.1:3260"),
    );
    assert!(message.contains("it cannot be bound"), "{message}");
    assert_eq!(
        next,
        "this machine has no address 192.0.2.1: `ip -br addr` lists its addresses"
    );
}

#[test]
fn properties_are_taken_where_zfs_takes_them_or_told_where_they_are() {
    let process = Process::start();
    process.done("pool create --size 256M tank mirror a d");
    process.done("volume create -s -V 64M -o volblocksize=8K tank/v");
    let told_of = process.done("volume get -H -o value volblocksize tank/v");
    assert_eq!(told_of.trim(), "8K");
    let all = process.done("volume list -H -o space tank/v");
    assert_eq!(all.trim_end().split('\t').count(), 7, "{all}");
    for (line, message, next) in [
        (
            "volume set quota=1G tank",
            "there is no property 'quota'",
            "folders have no quota: volsize bounds each volume, and `pool list` shows the free space",
        ),
        (
            "pool set ashift=12 tank",
            "pools have no settable property 'ashift'",
            "omit it: pools always write whole blocks of 4096 bytes, as zpool's ashift=12 does",
        ),
        (
            "volume create -o volblocksize=8K tank/folder",
            "tank/folder would be a folder, which has no volblocksize",
            "give the size of a volume, as in `sandstone volume create -V 100G -o volblocksize=8K tank/folder`",
        ),
    ] {
        assert_eq!(
            told(&process, line),
            (message.to_owned(), next.to_owned()),
            "{line}"
        );
    }
    let (is_done, text) = process.verb("pool add -o ashift=12 tank mirror b c");
    assert!(
        !is_done && text.contains("next:  omit it: pools always write"),
        "{text}"
    );
    process.done("pool offline tank d");
    let events = process.done("pool events");
    let header: Vec<&str> = events.split_whitespace().take(3).collect();
    assert_eq!(header, ["TIME", "POOL", "EVENT"], "{events}");
}
