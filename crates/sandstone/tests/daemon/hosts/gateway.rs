//! Logical unit over another daemon's: created by a URL, offline while its array is, grown with it.

use std::fs::OpenOptions;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{DEVICE, SIZE, back, front, run, until};
use crate::initiator::fake_target::{FakeTarget, World};
use crate::served::{
    BLOCK, Served, TARGET, cdb, log_in as session, read, sense, settings, unit, write,
};
use model::config::{BackendSpec, UnitSpec};

#[test]
fn a_disk_is_served_on_and_its_state_is_the_truth() {
    let (mut back, mut front) = (back(), front());
    let folder = front.folder().to_owned();
    let state = &*folder;
    let portal = back.portal;
    let url = format!("iscsi://{portal}/{TARGET}/0");
    let said = run(state, &format!("lu create gw --backend {url}")).good();
    assert!(said.contains("lu gw created"), "{said}");
    let listed = run(state, "lu list -H -p -o name,size,state,backend").good();
    assert_eq!(listed, format!("gw\t{SIZE}\tonline\tiscsi {DEVICE}\n"));
    run(state, "map add gw --every-host --lun 0").good();
    let data = vec![0x5a; 8 * BLOCK];
    {
        let mut connection = session(front.portal, settings(1));
        assert_eq!(write(&mut connection, 100, &data).status, Some(0));
        assert_eq!(read(&mut connection, 100, 8), data);
    }
    {
        // The unit has the blocks of its origin.
        let mut connection = session(back.portal, settings(2));
        assert_eq!(read(&mut connection, 100, 8), data);
    }
    // The array goes away and comes back.
    back.stop();
    let fault = until(state, "lu list -H -o state", "fault: all paths are down");
    assert!(fault.contains(&portal.to_string()), "{fault}");
    assert_eq!(run(state, "initiator device list -H -o dead").good(), "1\n");
    back.restart();
    until(state, "lu list -H -o state", "online\n");
    // A restart serves the unit again, also if the array comes later.
    back.stop();
    front.restart();
    let fault = run(state, "lu list -H -o state").good();
    assert!(fault.contains("no session shows"), "{fault}");
    back.restart();
    until(state, "lu list -H -o state", "online\n");
    let mut connection = session(front.portal, settings(1));
    assert_eq!(read(&mut connection, 100, 8), data);
    // The array's unit grows, and the gateway's unit with it.
    run(back.folder(), "lu modify vol --size 32M").good();
    run(state, "initiator rescan").good();
    until(state, "lu list -H -p -o size", &format!("{}\n", SIZE * 2));
    assert_eq!(
        write(
            &mut session(front.portal, settings(3)),
            SIZE / BLOCK as u64 + 5,
            &data
        )
        .status,
        Some(0)
    );
    let image = back.folder().join("volumes/vol.img");
    assert_eq!(
        OpenOptions::new()
            .read(true)
            .open(image)
            .unwrap()
            .metadata()
            .unwrap()
            .len(),
        SIZE * 2
    );
}

/// The array reports a failed flush once, and reports success from then on.
#[test]
fn writes_that_an_array_has_lost_are_seen_and_acknowledged() {
    let has_told = AtomicBool::new(false);
    let array = FakeTarget::start(World::of(&[1 << 20]), move |peer, command| {
        if command.opcode() != 0x91 || has_told.swap(true, Ordering::Relaxed) {
            return Ok(false);
        }
        peer.sense(command, [0x3, 0x0c, 0x00])
    });
    let front = front();
    let state = front.folder();
    let create = format!("lu create gw --backend {} --write-cache", array.url(""));
    run(state, &create).good();
    run(state, "map add gw --every-host --lun 0").good();
    let mut connection = session(front.portal, settings(1));
    let data = vec![0x5a; BLOCK];
    assert_eq!(sense(&write(&mut connection, 0, &data)), None);
    let mut flush = || {
        let flushed = connection.write(0, &cdb(0x91, 0, 0), Vec::new()).unwrap();
        sense(&flushed)
    };
    assert_eq!([flush(), flush()], [Some([3, 0x0c, 0]); 2]);
    let found = run(state, "lu list gw --json").good();
    assert!(
        found.contains("sandstone lu clear gw lost-writes"),
        "{found}"
    );
    assert!(found.contains("the target has lost writes"), "{found}");
    let ended = run(state, "lu clear gw lost-writes -y").good();
    assert!(ended.contains("acknowledged writes may be lost"), "{ended}");
    assert_eq!(flush(), None);
    let found = run(state, "lu list gw --json").good();
    assert!(!found.contains("lost"), "{found}");
}

#[test]
fn what_cannot_be_served_on_is_refused_with_the_next_step() {
    let (back, front) = (back(), front());
    let state = front.folder();
    let portal = back.portal;
    for (line, wanted) in [
        (
            format!("lu create a --backend {DEVICE}"),
            "sandstone initiator login",
        ),
        (
            format!("lu create a --backend iscsi://{portal}/{TARGET}/0 --dry-run"),
            "omit --dry-run",
        ),
        (
            format!("lu create a --backend iscsi://{portal}/{TARGET}/7"),
            "no disk as LUN 7",
        ),
    ] {
        let error = run(state, &line).bad();
        assert!(error.contains(wanted), "{line}: {error}");
    }
    assert_eq!(run(state, "lu create a --backend fast").code, 2);
    // The login that the last command made stays, as its error said.
    run(state, &format!("lu create a --backend {DEVICE}")).good();
    let error = run(state, &format!("lu create b --backend {DEVICE}")).bad();
    assert!(error.contains("both keep their data in"), "{error}");
    let error = run(state, "lu modify a --size 1G").bad();
    assert!(error.contains("grow it at its own array"), "{error}");
    // Deleting the unit leaves the disk alone.
    run(state, "lu delete a --yes").good();
    assert_eq!(
        run(state, "initiator device list -H -o device").good(),
        format!("{DEVICE}\n")
    );
}

#[test]
fn a_daemon_does_not_serve_itself_on() {
    let own =
        crate::served::Served::start(vec![unit("vol", 1, BackendSpec::Memory { size: SIZE })]);
    let state = own.folder();
    super::log_in(&own, &own, 1);
    let error = run(state, &format!("lu create loop --backend {DEVICE}")).bad();
    assert!(
        error.contains("would be served from lu vol of this daemon"),
        "{error}"
    );
}

#[test]
fn blocks_that_do_not_fit_are_refused_and_those_that_do_are_served() {
    let large = UnitSpec {
        block_size: 4096,
        physical_block_size: 4096,
        ..unit("vol", 1, BackendSpec::Memory { size: SIZE })
    };
    let (back, front) = (Served::start(vec![large]), front());
    let state = front.folder();
    super::log_in(&front, &back, 1);
    let error = run(state, &format!("lu create a --backend {DEVICE}")).bad();
    assert!(error.contains("add --block-size 4096"), "{error}");
    run(
        state,
        &format!("lu create a --backend {DEVICE} --block-size 4096"),
    )
    .good();
}

#[test]
fn a_daemon_ends_although_its_array_is_gone_with_io_under_way() {
    let (mut back, mut front) = (back(), front());
    let folder = front.folder().to_owned();
    let state = &*folder;
    super::log_in(&front, &back, 1);
    run(state, &format!("lu create gw --backend {DEVICE}")).good();
    run(state, "map add gw --every-host --lun 0").good();
    let mut connection = session(front.portal, settings(1));
    back.stop();
    until(state, "lu list -H -o state", "fault: all paths are down");
    let waits = std::thread::spawn(move || {
        // The write is never acknowledged: the session ends, or the write fails.
        let cdb = crate::served::cdb(0x8a, 0, 1);
        if let Ok(outcome) = connection.write(0, &cdb, vec![1; BLOCK]) {
            assert_ne!(outcome.status, Some(0), "{outcome:?}");
        }
    });
    until(state, "initiator device list -H -o qued", "1");
    let queue = run(
        state,
        "initiator device list -H -o actv,qued,dqlen,%usd,load",
    )
    .good();
    assert_eq!(queue, "0\t1\t128\t0\t0.01\n");
    let lines = run(state, &format!("initiator device get -d {DEVICE}")).good();
    assert!(lines.contains("%USD, LOAD: 0, 0.01\n"), "{lines}");
    let json = run(state, "initiator device list --json").good();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let queue = &json[0]["state"]["nmp"]["queue"];
    assert_eq!(
        (&queue["used_percent"], &queue["load"]),
        (&0.0.into(), &(1.0 / 128.0).into())
    );
    let begun = Instant::now();
    front.stop();
    assert!(begun.elapsed() < Duration::from_secs(25));
    waits.join().unwrap();
}

#[test]
fn options_of_a_url_are_honoured_or_refused_by_name() {
    let (back, front) = (back(), front());
    let state = front.folder();
    let url = format!("iscsi://{}/{TARGET}/0", back.portal);
    let refused = [
        ("apd_timeout=5", "initiator adapter set --apd-timeout TIME"),
        (
            "fence_timeout=9000",
            "adapter set --fence-timeout TIME|never",
        ),
        (
            "fence_settle=0",
            "initiator adapter set --fence-settle TIME",
        ),
        ("initiator_name=iqn.2026-01.x:y", "adapter set --name IQN"),
    ];
    for (option, wanted) in refused {
        let error = run(state, &format!("lu create a --backend {url}?{option}")).bad();
        assert!(error.contains(wanted), "{option}: {error}");
    }
    assert_eq!(run(state, "initiator session list -H").good(), "");

    let options = "sessions=2&command_timeout=9&queue_depth=32&iops=1&max_io=64K";
    let said = run(state, &format!("lu create a --backend {url}?{options}")).good();
    assert!(said.contains(&format!("device {DEVICE}: ")), "{said}");
    assert!(said.contains("queue_depth 32"), "{said}");
    let device = run(state, "initiator device list -H -o psp,paths,dqlen").good();
    assert_eq!(device, "VMW_PSP_RR\t2\t32\n");
    assert_eq!(run(state, "initiator psp get -H -o iops").good(), "1\n");
    let times = run(state, "initiator session list -H -o times").good();
    assert!(times.contains("command=9s"), "{times}");

    run(state, "lu delete a --yes").good();
    let line = format!("lu create b --backend {url}?sessions=2&data_digest=crc32c");
    let error = run(state, &line).bad();
    assert!(
        error.contains(" already, and data_digest differs from the URL")
            && error.contains("sandstone initiator modify"),
        "{error}"
    );
    let line = format!("lu create b --backend {url}?{options}&queue_depth=64");
    let preview = run(state, &format!("{line} --dry-run")).good();
    assert!(preview.contains("32 -> 64"), "{preview}");
    run(state, &line).good();
    let device = run(state, "initiator device list -H -o dqlen").good();
    assert_eq!(device, "64\n");
}
