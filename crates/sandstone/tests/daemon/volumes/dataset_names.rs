//! Folders that `-p` creates, and datasets that move, by the command line.
//!
//! One volume's data is read over iSCSI after its move.

use super::stream::{assert_holds, written};
use crate::pools::devices::flat;
use crate::process::Process;

fn listed(process: &Process) -> Vec<String> {
    let told = process.done("volume list -H -o name,type -t folder,volume");
    told.lines().map(|line| line.replace('\t', " ")).collect()
}

#[test]
fn missing_folders_are_made_where_that_is_asked_for() {
    let process = Process::start();
    process.done("pool create --size 256M tank a");
    let before = listed(&process);
    for line in [
        "create -s -V 16M tank/a/b/v",
        "create tank/a/b",
        "create -p -s -V 16M tank/a/b/@",
    ] {
        process.refused(&format!("volume {line}"));
    }
    let text = flat(&process.refused("volume create -s -V 16M tank/a/b/v"));
    for said in [
        "the folder 'tank/a/b' does not exist",
        "nothing was changed",
        "use -p to make all missing folders",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert_eq!(listed(&process), before);

    process.done("volume create -p -s -V 16M -o my:note=x -o compression=off tank/a/b/v");
    process.done("volume create -p -o my:note=y tank/a/c/d");
    let expected = [
        "tank folder",
        "tank/a folder",
        "tank/a/b folder",
        "tank/a/b/v volume",
        "tank/a/c folder",
        "tank/a/c/d folder",
    ];
    assert_eq!(listed(&process), expected);
    // Properties are set on the dataset that was asked for, and not on folders that were made on
    // the way.
    let notes = process.done("volume get -H -o name,value,source my:note tank/a/b tank/a/b/v");
    assert_eq!(notes, "tank/a/b\t-\t-\ntank/a/b/v\tx\tlocal\n");
    let notes = process.done("volume get -H -o name,value,source my:note tank/a/c tank/a/c/d");
    assert_eq!(notes, "tank/a/c\t-\t-\ntank/a/c/d\ty\tlocal\n");
    let told = process.done("volume get -H -o value,source compression tank/a/b/v");
    assert_eq!(told, "off\tlocal\n");

    // All or nothing: a refused command leaves no folder.
    for (line, told) in [
        ("create -p -V 10G tank/x/y/big", "nothing was changed"),
        ("create -p -o compression=bogus tank/x/y", "bogus"),
        ("create -p -s -V 16M tank/a/b/v/w", "tank/a/b/v"),
        ("create -s -V 16M tank/a/b/v", "exists"),
        ("clone tank/a/b/v@none tank/x/y", "tank/a/b/v@none"),
    ] {
        let text = flat(&process.refused(&format!("volume {line}")));
        assert!(text.contains(told), "{line}: {text}");
        assert_eq!(listed(&process), expected, "{line}");
    }
    process.done("volume snapshot tank/a/b/v@one");
    process.refused("volume clone tank/a/b/v@one tank/x/y");
    process.done("volume clone -p tank/a/b/v@one tank/x/y");
    assert_eq!(listed(&process)[6..], ["tank/x folder", "tank/x/y volume"]);
}

#[test]
fn what_moves_takes_its_data_and_snapshots_along() {
    let mut process = Process::start();
    process.done("pool create --size 256M tank a");
    process.done("volume create tank/old");
    written(&process, "tank/old/v");
    process.done("volume set my:note=kept tank/old/v");
    process.done("volume set my:above=old tank/old");
    process.done("volume snapshot tank/old/v@one");
    let guid = process.done("volume get -H -o value guid tank/old/v@one");
    process.done("lu delete --yes vm1");
    let before = listed(&process);

    let text = flat(&process.refused("volume rename tank/old/v tank/new/deep/w"));
    for said in [
        "the folder 'tank/new/deep' does not exist",
        "nothing was changed",
        "use -p to make all missing folders",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    for (line, told) in [
        ("-p tank/old tank/old/v/x", "tank/old/v"),
        ("-p tank/old tank/old/a/b", "cannot move into itself"),
        ("-p tank/old/v pond/a/v", "pond"),
        ("-p tank/none tank/a/b", "tank/none"),
        ("-p tank/old/v@one tank/a/b@one", "only the part behind '@'"),
        ("-p tank/old/v tank/old/v", "exists"),
    ] {
        let text = flat(&process.refused(&format!("volume rename {line}")));
        assert!(text.contains(told), "{line}: {text}");
        assert_eq!(listed(&process), before, "{line}");
    }

    process.done("volume rename -p tank/old/v tank/new/deep/w");
    let expected = [
        "tank folder",
        "tank/new folder",
        "tank/new/deep folder",
        "tank/new/deep/w volume",
        "tank/old folder",
    ];
    assert_eq!(listed(&process), expected);
    process.kill();
    process.restart();
    assert_eq!(listed(&process), expected);
    assert_holds(&process, "tank/new/deep/w", 5);
    assert_holds(&process, "tank/new/deep/w@one", 5);
    let of = |property: &str, name: &str| {
        process.done(&format!("volume get -H -o value {property} {name}"))
    };
    assert_eq!(of("guid", "tank/new/deep/w@one"), guid);
    assert_eq!(of("my:note", "tank/new/deep/w"), "kept\n");
    assert_eq!(
        of("my:above", "tank/new/deep/w"),
        "-\n",
        "it lies elsewhere"
    );
    process.refused("volume get guid tank/old/v");

    // A folder moves with everything in it.
    process.done("volume rename -p tank/new tank/a/b/c");
    assert_eq!(
        listed(&process),
        [
            "tank folder",
            "tank/a folder",
            "tank/a/b folder",
            "tank/a/b/c folder",
            "tank/a/b/c/deep folder",
            "tank/a/b/c/deep/w volume",
            "tank/old folder",
        ]
    );
    assert_holds(&process, "tank/a/b/c/deep/w@one", 5);
}

#[test]
fn what_was_to_be_made_with_p_may_be_there_already() {
    let process = Process::start();
    process.done("pool create --size 256M tank a");
    process.done("volume create -p -s -V 16M -b 8K -o my:note=x tank/a/v");
    process.done("volume snapshot tank/a/v@one");
    let all = || process.done("volume get -H -p -t all all");
    let history = || process.done("pool history -H tank");
    let before = (all(), history());
    for line in [
        "-p tank",
        "-p tank/a",
        "-p -V 16M tank/a/v",
        "-p -V 16M -b 8K tank/a/v",
        "-p -s -V 16777216 tank/a/v",
    ] {
        let told = flat(&process.done(&format!("volume create {line}")));
        let name = line.split(' ').next_back().unwrap();
        let said = format!("note: '{name}' exists already; nothing was changed");
        assert!(told.contains(&said), "{line}: {told}");
        assert_eq!((all(), history()), before, "{line}");
    }
    // Properties are not set on an existing dataset.
    let told = flat(&process.done("volume create -p -V 16M -o my:note=y tank/a/v"));
    assert!(
        told.contains(
            "my:note=y is not set on the existing dataset: use `sandstone volume set my:note=y tank/a/v`"
        ),
        "{told}"
    );
    assert_eq!((all(), history()), before);
    let told = process.done("volume create -p -V 16M -o my:note=x tank/a/v");
    assert!(!told.contains("my:note"), "{told}");

    for (line, said) in [
        (
            "-p tank/a/v",
            "'tank/a/v' exists already and is a volume, not a folder",
        ),
        (
            "-p -V 16M tank/a",
            "'tank/a' exists already and is a folder, not a volume",
        ),
        (
            "-p -V 32M tank/a/v",
            "'tank/a/v' exists already with volsize 16M, not 32M",
        ),
        (
            "-p -V 16M -b 16K tank/a/v",
            "'tank/a/v' exists already with volblocksize 8K, not 16K",
        ),
        ("-V 16M tank/a/v", "'tank/a/v' exists already"),
        ("tank/a", "'tank/a' exists already"),
    ] {
        let text = flat(&process.refused(&format!("volume create {line}")));
        for said in [said, "nothing was changed", "another name"] {
            assert!(text.contains(said), "{line}: {said}: {text}");
        }
        assert_eq!((all(), history()), before, "{line}");
    }
    let text = flat(&process.refused("volume create -p -V 32M tank/a/v"));
    assert!(text.contains("volume resize tank/a/v 32M"), "{text}");
}

#[test]
fn what_was_to_be_cloned_with_p_may_be_there_already() {
    let process = Process::start();
    process.done("pool create --size 256M tank a");
    process.done("volume create -p -s -V 16M tank/a/v");
    process.done("volume snapshot tank/a/v@one");
    process.done("volume snapshot tank/a/v@two");
    process.done("volume clone -p -o my:note=x tank/a/v@one tank/b/c/clone");
    let all = || process.done("volume get -H -p -t all all");
    let history = || process.done("pool history -H tank");
    let before = (all(), history());
    let told = flat(&process.done("volume clone -p tank/a/v@one tank/b/c/clone"));
    let said = "note: 'tank/b/c/clone' exists already; nothing was changed";
    assert!(told.contains(said), "{told}");
    assert_eq!((all(), history()), before);
    // Properties are not set on an existing dataset.
    let told = process.done("volume clone -p -o my:note=y tank/a/v@one tank/b/c/clone");
    let said = "my:note=y is not set on the existing dataset: use `sandstone volume set my:note=y tank/b/c/clone`";
    assert!(flat(&told).contains(said), "{told}");
    let told = process.done("volume clone -p -o my:note=x tank/a/v@one tank/b/c/clone");
    assert!(!told.contains("my:note"), "{told}");
    for (line, said) in [
        (
            "-p tank/a/v@two tank/b/c/clone",
            "'tank/b/c/clone' exists already and is a clone of 'tank/a/v@one', not of 'tank/a/v@two'",
        ),
        (
            "-p tank/a/v@one tank/a/v",
            "'tank/a/v' exists already and is a separate volume, not a clone of 'tank/a/v@one'",
        ),
        (
            "-p tank/a/v@one tank/b",
            "'tank/b' exists already and is a folder, not a clone of 'tank/a/v@one'",
        ),
        (
            "-p tank/a/v@none tank/b/c/clone",
            "'tank/a/v@none' does not exist",
        ),
        (
            "tank/a/v@one tank/b/c/clone",
            "'tank/b/c/clone' exists already",
        ),
    ] {
        let text = flat(&process.refused(&format!("volume clone {line}")));
        for said in [said, "nothing was changed"] {
            assert!(text.contains(said), "{line}: {said}: {text}");
        }
        assert_eq!((all(), history()), before, "{line}");
    }
}

#[test]
fn a_name_with_an_empty_part_is_told_whole() {
    let process = Process::start();
    process.done("pool create --size 256M tank a");
    process.done("volume create -p -s -V 16M tank/a/v");
    process.done("volume snapshot tank/a/v@one");
    let before = listed(&process);
    for (line, name) in [
        ("create tank/", "tank/"),
        ("create tank//x", "tank//x"),
        ("create -p tank/x//y", "tank/x//y"),
        ("create -s -V 16M tank/x/", "tank/x/"),
        ("create /tank/x", "/tank/x"),
        ("snapshot tank/a/v@", "tank/a/v@"),
        ("snapshot tank/a//v@two", "tank/a//v@two"),
        ("clone tank/a/v@one tank//c", "tank//c"),
        ("rename tank/a tank//b", "tank//b"),
        ("rename tank//a tank/b", "tank//a"),
        ("rename tank/a/v@one @", "@"),
        ("set sync=always tank/", "tank/"),
        ("inherit sync tank/", "tank/"),
        ("resize tank/a//v 32M", "tank/a//v"),
        ("rollback tank/a/v/@one", "tank/a/v/@one"),
        ("destroy -y tank/a/", "tank/a/"),
        ("hold keep tank//a@one", "tank//a@one"),
        ("send tank/a//v@one", "tank/a//v@one"),
        ("send -i tank//v@one tank/a/v@one", "tank//v@one"),
        ("receive tank//w", "tank//w"),
        ("receive -A tank/a/v/", "tank/a/v/"),
    ] {
        let text = flat(&process.refused(&format!("volume {line}")));
        let said = format!("'{name}' has an empty part");
        assert!(text.contains(&said), "{line}: {text}");
        assert!(text.contains("nothing was changed"), "{line}: {text}");
        assert_eq!(listed(&process), before, "{line}");
    }
    for line in ["list tank//a", "get all tank//a"] {
        let text = flat(&process.refused(&format!("volume {line}")));
        assert!(text.contains("'tank//a' does not exist"), "{line}: {text}");
    }
    let text = flat(&process.refused("lu create u --size 16M --volume tank//u"));
    assert!(text.contains("'tank//u' has an empty part"), "{text}");
}
