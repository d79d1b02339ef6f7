//! Pools made, shown, filled, renamed, forgotten and destroyed by the command line of the real
//! daemon.

use crate::pools::devices::{flat, serve, write_all};
use crate::process::Process;

#[test]
fn a_dry_run_shows_what_would_be() {
    let process = Process::start();
    let told = process.done("pool create -n --size 128M tank mirror a b spare c");
    let a = process.folder().join("a");
    assert!(
        told.starts_with("would create 'tank' with the following layout:\n\n\ttank\n\t  mirror\n")
    );
    assert!(told.contains(&format!("\t    {}\n", a.display())), "{told}");
    assert!(!a.exists());
    process.done("pool create --size 128M tank mirror a b");
    let told = process.done("pool add -n --size 128M tank mirror c d log e");
    assert!(told.contains("would update 'tank'"), "{told}");
    assert!(
        told.contains("\t  mirror-0\n") && told.contains("\tlogs\n"),
        "{told}"
    );
    let status = process.done("pool status tank");
    assert!(
        !status.contains("mirror-1") && !status.contains("logs"),
        "{status}"
    );
    process.done("volume create -s -V 8M tank/vm1");
    process.done("volume snapshot tank/vm1@one");
    process.done("lu create vm1 --volume tank/vm1");
    let told = process.done("pool destroy -n tank");
    for line in [
        "would destroy pool tank (",
        "would destroy volume tank/vm1\n",
        "would destroy snapshot tank/vm1@one\n",
        "refused while lu vm1 serves tank/vm1: `sandstone lu modify vm1 --volume POOL/NAME` points it elsewhere\n",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    process.done("volume get volsize tank/vm1");
    let refused = process.refused("pool destroy tank");
    assert!(
        refused.contains("would destroy volume tank/vm1"),
        "{refused}"
    );
    // The next step is none that is refused as well.
    assert!(refused.contains("logical units serve volumes"), "{refused}");
    assert!(!refused.contains("pool destroy -y"), "{refused}");
}

#[test]
fn properties_are_told_in_zpools_manner() {
    let process = Process::start();
    process.done("pool create --size 128M tank a");
    let all = process.done("pool get -H all tank");
    for choice in ["autoexpand", "autoreplace", "autotrim"] {
        assert!(
            all.contains(&format!("tank\t{choice}\toff\tdefault\n")),
            "{all}"
        );
    }
    assert!(all.contains("tank\thealth\tONLINE\t-\n"), "{all}");
    assert!(all.contains("tank\treadonly\toff\t-\n"), "{all}");
    let size = process.done("pool get -Hp -o value size tank");
    assert!(size.trim().parse::<u64>().unwrap() > 100 << 20, "{size}");
    let json = process.done("pool get --json guid,capacity tank");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["property"], "guid");
    let list = process.done("pool list -H -o name,guid,frag");
    let guid = json[0]["value"].as_str().unwrap();
    assert!(list.starts_with(&format!("tank\t{guid}\t")) && list.ends_with("%\n"));
    let list = process.done("pool list -v -H -o name,size,health");
    let path = process.folder().join("a");
    assert!(list.contains(&format!("  {}\t", path.display())), "{list}");
    let refused = process.refused("pool get colour tank");
    assert!(refused.contains("no property 'colour'"), "{refused}");
    let status = process.done("pool status -v tank");
    assert!(
        status.ends_with("errors: No known data errors\n"),
        "{status}"
    );
}

#[test]
fn pools_are_renamed_imported_together_and_forgotten() {
    let mut process = Process::start();
    for name in ["one", "two"] {
        std::fs::create_dir(process.folder().join(name)).unwrap();
        process.done(&format!("pool create --size 128M {name} {name}/disk"));
    }
    process.done("volume create -s -V 8M one/vm1");
    process.done("pool export one");
    process.done("pool import -d one one pond");
    assert!(process.done("volume list").contains("pond/vm1"));
    process.kill();
    process.restart();
    assert_eq!(process.done("pool list -H -o name"), "pond\ntwo\n");
    process.done("pool export pond");
    process.done("pool export two");
    let told = process.done("pool import -a -d one -d two");
    assert!(
        told.contains("imported pond") && told.contains("imported two"),
        "{told}"
    );
    process.kill();
    std::fs::remove_file(process.folder().join("two/disk")).unwrap();
    process.restart();
    assert_eq!(
        process.done("pool list -H -o name,health"),
        "pond\tONLINE\ntwo\tUNAVAIL\n"
    );
    let refused = flat(&process.refused("pool destroy -y two"));
    assert!(refused.contains("sandstone pool export two"), "{refused}");
    let told = process.done("pool export two");
    assert!(told.contains("it is forgotten"), "{told}");
    assert_eq!(process.done("pool list -H -o name"), "pond\n");
}

#[test]
fn a_pool_that_fills_says_so() {
    let process = Process::start();
    process.done("pool create --size 128M tank a");
    let portal = serve(&process, "200M");
    assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
    let capacity = || -> u64 {
        let told = process.done("pool get -Hp -o value allocated,size tank");
        let mut numbers = told.lines().map(|line| line.parse::<u64>().unwrap());
        let (used, size) = (numbers.next().unwrap(), numbers.next().unwrap());
        used * 100 / size
    };
    let mut written = 0;
    while capacity() < 82 {
        write_all(portal, written..written + 10);
        written += 10;
    }
    // The next checkpoint reports it.
    process.done("pool sync");
    let events = process.done("pool events -H -o event tank");
    assert!(events.contains("the pool is "), "{events}");
    let status = flat(&process.done("pool status tank"));
    assert!(status.contains("status: The pool is "), "{status}");
    assert!(status.contains("sandstone pool add tank VDEV"), "{status}");
}

#[test]
fn what_takes_no_changes_is_not_synced() {
    let process = Process::start();
    process.done("pool create --size 128M tank a");
    process.done("pool sync tank");
    let refused = flat(&process.refused("pool sync tank pond"));
    assert!(refused.contains("pond"), "{refused}");
    process.done("pool export tank");
    process.done("pool import -o readonly=on -d . tank");
    let refused = flat(&process.refused("pool sync tank"));
    assert!(
        refused.contains("pool tank was imported to be read only"),
        "{refused}"
    );
    // Without a name, the command means only the writable pools.
    process.done("pool sync");
}
