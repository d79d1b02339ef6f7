//! Folders that are made on the way with `-p`, and datasets that move: by the command line, and with a volume whose
//! data is read over iSCSI after it moved.

use super::stream::{assert_holds, written};
use crate::pool_devices::flat;
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
        "use -p to make all that are missing",
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
    // What is set is set on what was asked for, and not on what was made on the way.
    let notes = process.done("volume get -H -o name,value,source my:note tank/a/b tank/a/b/v");
    assert_eq!(notes, "tank/a/b\t-\t-\ntank/a/b/v\tx\tlocal\n");
    let notes = process.done("volume get -H -o name,value,source my:note tank/a/c tank/a/c/d");
    assert_eq!(notes, "tank/a/c\t-\t-\ntank/a/c/d\ty\tlocal\n");
    let told = process.done("volume get -H -o value,source compression tank/a/b/v");
    assert_eq!(told, "off\tlocal\n");

    // All or nothing: no folder stays of what is refused.
    for (line, told) in [
        ("create -p -V 10G tank/x/y/big", "nothing was changed"),
        ("create -p -o compression=bogus tank/x/y", "bogus"),
        ("create -p -s -V 16M tank/a/b/v/w", "tank/a/b/v"),
        ("create -p -s -V 16M tank/a/b/v", "exists"),
        ("create -p tank/x//y", "a part of the name is empty"),
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
    let text = flat(&process.refused("volume rename -p tank/old/v tank/new/deep/w"));
    assert!(text.contains("lu vm1 serves it"), "{text}");
    process.done("lu delete --yes vm1");
    let before = listed(&process);

    let text = flat(&process.refused("volume rename tank/old/v tank/new/deep/w"));
    for said in [
        "the folder 'tank/new/deep' does not exist",
        "nothing was changed",
        "use -p to make all that are missing",
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

    // A folder moves with all that is in it.
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
