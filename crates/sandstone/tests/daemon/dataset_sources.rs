//! Where the values of properties come from, by the command line: nobody set them, they were set here or above, or came
//! with a stream; and what `volume inherit` makes of that.

use std::process::{Command, Stdio};

use crate::process::Process;

/// A property's value and source, of a dataset.
fn shown(process: &Process, property: &str, dataset: &str) -> String {
    let told = process.done(&format!(
        "volume get -H -o value,source {property} {dataset}"
    ));
    told.trim_end_matches('\n').to_owned()
}

fn with_volumes() -> Process {
    let process = Process::start();
    process.done("pool create --size 256M tank a");
    process.done("volume create tank/f");
    process.done("volume create -s -V 16M tank/f/v");
    process
}

#[test]
fn values_are_by_default_local_or_inherited() {
    let process = with_volumes();
    let names = ["tank", "tank/f", "tank/f/v"];
    let all = |property: &str| names.map(|name| shown(&process, property, name));
    assert_eq!(all("sync"), ["standard\tdefault"; 3]);
    assert_eq!(shown(&process, "type", "tank/f/v"), "volume\t-");

    process.done("volume set sync=always my:note=x tank");
    let expected = [
        "always\tlocal",
        "always\tinherited from tank",
        "always\tinherited from tank",
    ];
    assert_eq!(all("sync"), expected);
    assert_eq!(
        shown(&process, "my:note", "tank/f/v"),
        "x\tinherited from tank"
    );

    process.done("volume set sync=disabled tank/f");
    let expected = [
        "always\tlocal",
        "disabled\tlocal",
        "disabled\tinherited from tank/f",
    ];
    assert_eq!(all("sync"), expected);
    process.done("volume set sync=standard tank/f/v");
    assert_eq!(shown(&process, "sync", "tank/f/v"), "standard\tlocal");

    // One of them, then all below.
    process.done("volume inherit sync tank/f/v");
    assert_eq!(all("sync"), expected);
    process.done("volume set sync=standard tank/f/v");
    process.done("volume inherit -r sync tank/f");
    let expected = [
        "always\tlocal",
        "always\tinherited from tank",
        "always\tinherited from tank",
    ];
    assert_eq!(all("sync"), expected);
    // A name is told as it is now.
    process.done("volume set checksum=off tank/f");
    process.done("volume rename tank/f tank/g");
    assert_eq!(
        shown(&process, "checksum", "tank/g/v"),
        "off\tinherited from tank/g"
    );

    let of = |sources: &str| {
        let told = process.done(&format!(
            "volume get -H -o property,source -s {sources} sync,checksum,compression,used tank/g/v"
        ));
        told.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let inherited = [
        "sync\tinherited from tank",
        "checksum\tinherited from tank/g",
    ];
    assert_eq!(of("inherited"), inherited);
    assert_eq!(of("default"), ["compression\tdefault"]);
    assert_eq!(of("none"), ["used\t-"]);
    assert_eq!(of("inherited,none").len(), 3);
    assert_eq!(of("local,received"), Vec::<String>::new());

    process.done("volume inherit -r sync tank");
    process.done("volume inherit my:note tank");
    for name in ["tank", "tank/g", "tank/g/v"] {
        assert_eq!(shown(&process, "sync", name), "standard\tdefault");
        assert_eq!(shown(&process, "my:note", name), "-\t-");
    }
    let text = process.refused("volume inherit volsize tank/g/v");
    assert!(text.contains("volsize"), "{text}");
    let text = process.refused("volume inherit sync tank/none");
    assert!(text.contains("tank/none"), "{text}");
}

/// `send | receive` with the properties.
fn copy(process: &Process, snapshot: &str, receive: &str) {
    let verb = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sandstone"));
        command.arg("--state").arg(process.folder());
        command.args(line.split_whitespace());
        command
    };
    let mut sender = verb(&format!("volume send -p {snapshot}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stream = sender.stdout.take().unwrap();
    let receiver = verb(receive).stdin(stream).status().unwrap();
    assert!(receiver.success() && sender.wait().unwrap().success());
}

#[test]
fn values_that_came_with_a_stream_hold_again_when_that_is_asked_for() {
    let process = with_volumes();
    process.done("volume set compression=zstd-5 my:note=sent tank/f/v");
    process.done("volume snapshot tank/f/v@one");
    process.done("volume create tank/copies");
    process.done("volume set compression=off tank/copies");
    copy(&process, "tank/f/v@one", "volume receive tank/copies/w");
    let compression = || shown(&process, "compression", "tank/copies/w");
    assert_eq!(compression(), "zstd-5\treceived");
    assert_eq!(
        shown(&process, "my:note", "tank/copies/w"),
        "sent\treceived"
    );
    let told = process.done("volume get -H -o property -s received all tank/copies/w");
    let told: Vec<&str> = told.lines().collect();
    assert_eq!(told, ["compression", "my:note"]);

    // What is set here goes before it, until it is given up.
    process.done("volume set compression=lz4 tank/copies/w");
    assert_eq!(compression(), "lz4\tlocal");
    process.done("volume inherit -S compression tank/copies/w");
    assert_eq!(compression(), "zstd-5\treceived");
    process.done("volume inherit -S compression tank/copies/w");
    assert_eq!(
        compression(),
        "zstd-5\treceived",
        "there is nothing more to give up"
    );
    // Without -S what was received goes too.
    process.done("volume set compression=lz4 tank/copies/w");
    process.done("volume inherit compression tank/copies/w");
    assert_eq!(compression(), "off\tinherited from tank/copies");
    process.done("volume inherit -S compression tank/copies/w");
    assert_eq!(compression(), "off\tinherited from tank/copies");
    process.done("volume inherit -r compression tank/copies");
    assert!(compression().ends_with("\tdefault"), "{}", compression());

    // Where nothing was received, -S does what it does without it; below, it is each one's own.
    copy(&process, "tank/f/v@one", "volume receive tank/copies/x");
    process.done("volume set my:note=mine tank/copies tank/copies/w tank/copies/x");
    process.done("volume inherit -r -S my:note tank/copies");
    let note = |name: &str| shown(&process, "my:note", &format!("tank/copies{name}"));
    assert_eq!(note(""), "-\t-");
    assert_eq!([note("/w"), note("/x")], ["sent\treceived"; 2]);

    // What is left out of the stream is inherited, what is put in its place is local.
    let receive = "volume receive -x compression -o my:note=own tank/copies/y";
    copy(&process, "tank/f/v@one", receive);
    let shown = |property| shown(&process, property, "tank/copies/y");
    assert!(shown("compression").ends_with("\tdefault"));
    assert_eq!(shown("my:note"), "own\tlocal");
}
