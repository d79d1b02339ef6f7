//! Figures of data that was just written or received are shown at once, and equally by every view.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use super::process::Process;
use crate::pools::devices::{serve, write_all};
use crate::volumes::stream::{pipe, source};

/// Bytes that a piece of `write_all` takes.
const PIECE: u64 = 512 * 512;

/// Returns the text of `/metrics`.
pub(crate) fn metrics(process: &Process) -> String {
    let mut socket = UnixStream::connect(process.folder().join("control.sock")).unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    body.to_owned()
}

/// Returns the value of a sample, by its name and labels.
pub(crate) fn sample(metrics: &str, name: &str) -> f64 {
    let mut lines = metrics.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("no {name} in {metrics}"));
    line.parse().unwrap()
}

fn number(process: &Process, line: &str) -> u64 {
    let told = process.done(line);
    told.trim_end()
        .parse()
        .unwrap_or_else(|_| panic!("{line}: {told}"))
}

#[test]
fn what_was_just_written_is_told_at_once_by_all_that_tell_it() {
    let process = Process::start();
    process.done("pool create --size 512M tank mirror a b");
    let portal = serve(&process, "64M");
    write_all(portal, 0..8);
    let expected = 8 * PIECE;
    for line in [
        "volume list -H -p -o used tank/vm1",
        "volume list -H -p -o refer tank/vm1",
        "volume get -H -p -o value written tank/vm1",
        "volume get -H -p -o value logicalused tank/vm1",
        "volume list -H -p -o used tank",
        "lu list -H -p -o used vm1",
    ] {
        assert_eq!(number(&process, line), expected, "{line}");
    }
    let told = metrics(&process);
    let allocated = sample(&told, "sandstone_lu_allocated_bytes{lu=\"vm1\"}");
    assert_eq!(allocated, expected as f64);

    // An overwrite takes no more space. After a snapshot, the snapshot keeps the overwritten data.
    write_all(portal, 0..4);
    let refer = "volume list -H -p -o refer tank/vm1";
    assert_eq!(number(&process, refer), expected);
    process.done("volume snapshot tank/vm1@one");
    write_all(portal, 4..6);
    assert_eq!(number(&process, refer), expected);
    let of_snapshot = number(&process, "volume list -H -p -o used tank/vm1@one");
    assert_eq!(of_snapshot, 2 * PIECE);
}

#[test]
fn a_replica_tells_what_it_takes_as_soon_as_it_is_received() {
    let (from, to) = (source(), Process::start());
    to.done("pool create --size 256M tank a");
    pipe(
        &from,
        "volume send -R tank/vm1@two",
        &to,
        "volume receive tank/copy",
    );
    let refer = |process: &Process, name: &str| {
        number(process, &format!("volume list -H -p -o refer {name}"))
    };
    for snapshot in ["@one", "@two", ""] {
        let there = refer(&from, &format!("tank/vm1{snapshot}"));
        let here = refer(&to, &format!("tank/copy{snapshot}"));
        assert!(there > 0, "{snapshot}");
        assert_eq!(here, there, "{snapshot}");
    }
}

/// The free space of pools and folders can really be used: parity, slop and reservations are
/// already subtracted.
#[test]
fn pools_and_folders_tell_what_can_still_be_created_in_them() {
    let process = Process::start();
    process.done("pool create --size 256M tank raidz a b c");
    process.done("volume create tank/f");
    let avail = |name: &str| number(&process, &format!("volume list -H -p -o avail {name}"));
    let at_first = avail("tank");
    assert_eq!(avail("tank/f"), at_first);
    // Two of three disks hold data.
    assert!((400 << 20..512 << 20).contains(&at_first), "{at_first}");
    assert_eq!(number(&process, "volume list -H -p -o refer tank/f"), 0);
    process.done("volume create -V 100M tank/f/thick");
    let left = at_first - avail("tank");
    assert!((98 << 20..108 << 20).contains(&left), "{left}");
    process.done(&format!("volume create -V {} tank/f/all", avail("tank/f")));
    assert!(avail("tank") < 16 << 20);
    process.refused("volume create -V 32M tank/f/more");
}
