//! Sources of property values, by the command line.
//!
//! A value is a default, was set here or above, or came with a stream. The tests also check the
//! effect of `volume inherit` on each source.

use std::process::{Command, Stdio};

use crate::process::Process;

/// Returns the value and source of a property of a dataset.
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

    // First one of them, then all below.
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
    // A source shows the present name.
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

/// Runs `send | receive` with the properties.
fn copy(process: &Process, snapshot: &str, receive: &str) {
    transfer(process, &format!("volume send -p {snapshot}"), receive);
}

/// Runs `send | receive`.
fn transfer(process: &Process, send: &str, receive: &str) {
    let verb = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sandstone"));
        command.arg("--state").arg(process.folder());
        command.args(line.split_whitespace());
        command
    };
    let mut sender = verb(send)
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

    // A local value comes before a received one, until it is given up.
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
    // Without -S the received value goes too.
    process.done("volume set compression=lz4 tank/copies/w");
    process.done("volume inherit compression tank/copies/w");
    assert_eq!(compression(), "off\tinherited from tank/copies");
    process.done("volume inherit -S compression tank/copies/w");
    assert_eq!(compression(), "off\tinherited from tank/copies");
    process.done("volume inherit -r compression tank/copies");
    assert!(compression().ends_with("\tdefault"), "{}", compression());

    // If nothing was received, -S behaves as without it. Below, each dataset decides for itself.
    copy(&process, "tank/f/v@one", "volume receive tank/copies/x");
    process.done("volume set my:note=mine tank/copies tank/copies/w tank/copies/x");
    process.done("volume inherit -r -S my:note tank/copies");
    let note = |name: &str| shown(&process, "my:note", &format!("tank/copies{name}"));
    assert_eq!(note(""), "-\t-");
    assert_eq!([note("/w"), note("/x")], ["sent\treceived"; 2]);

    // A property left out of the stream is inherited; a value given in its place is local.
    let receive = "volume receive -x compression -o my:note=own tank/copies/y";
    copy(&process, "tank/f/v@one", receive);
    let shown = |property| shown(&process, property, "tank/copies/y");
    assert!(shown("compression").ends_with("\tdefault"));
    assert_eq!(shown("my:note"), "own\tlocal");
}

/// Returns the properties of a dataset that came with a stream, and their values.
fn received(process: &Process, dataset: &str) -> Vec<String> {
    let told = process.done(&format!(
        "volume get -H -o property,value -s received all {dataset}"
    ));
    told.lines().map(|line| line.replace('\t', "=")).collect()
}

#[test]
fn the_newest_stream_with_properties_says_which_were_received() {
    let mut process = with_volumes();
    process.done("volume set compression=zstd-5 sync=always my:note=sent tank/f/v");
    process.done("volume snapshot tank/f/v@one");
    process.done("volume create tank/copies");
    copy(&process, "tank/f/v@one", "volume receive tank/copies/w");
    let all = ["sync=always", "compression=zstd-5", "my:note=sent"];
    let of_copy = |process: &Process| received(process, "tank/copies/w");
    let sorted = |mut of: Vec<String>| {
        of.sort();
        of
    };
    assert_eq!(
        sorted(of_copy(&process)),
        sorted(all.map(str::to_owned).into())
    );
    process.done("volume set sync=disabled tank/copies/w");

    // A stream without properties changes none.
    process.done("volume inherit sync tank/f/v");
    process.done("volume inherit my:note tank/f/v");
    process.done("volume set compression=lz4 my:other=x tank/f/v");
    process.done("volume snapshot tank/f/v@two");
    let next = "volume receive tank/copies/w";
    transfer(&process, "volume send -i @one tank/f/v@two", next);
    assert_eq!(
        shown(&process, "compression", "tank/copies/w"),
        "zstd-5\treceived"
    );
    assert_eq!(
        shown(&process, "my:note", "tank/copies/w"),
        "sent\treceived"
    );
    assert_eq!(shown(&process, "sync", "tank/copies/w"), "disabled\tlocal");

    // A stream with properties brings all of them.
    process.done("volume snapshot tank/f/v@three");
    transfer(&process, "volume send -p -i @two tank/f/v@three", next);
    let expected = ["compression=lz4", "my:other=x"];
    assert_eq!(of_copy(&process), expected);
    assert_eq!(shown(&process, "my:note", "tank/copies/w"), "-\t-");
    // A local value stays, and no received value lies behind it any more.
    assert_eq!(shown(&process, "sync", "tank/copies/w"), "disabled\tlocal");
    process.done("volume inherit -S sync tank/copies/w");
    assert_eq!(
        shown(&process, "sync", "tank/copies/w"),
        "standard\tdefault"
    );
    process.kill();
    process.restart();
    assert_eq!(of_copy(&process), expected);

    // A property left out of the stream counts as not sent.
    process.done("volume set my:third=y tank/f/v");
    process.done("volume snapshot tank/f/v@four");
    let without = "volume receive -x my:other tank/copies/w";
    transfer(&process, "volume send -p -i @three tank/f/v@four", without);
    assert_eq!(of_copy(&process), ["compression=lz4", "my:third=y"]);

    // The stream also tells that a property is no longer set.
    for property in ["compression", "my:other", "my:third"] {
        process.done(&format!("volume inherit {property} tank/f/v"));
    }
    process.done("volume snapshot tank/f/v@five");
    transfer(&process, "volume send -p -i @four tank/f/v@five", next);
    assert_eq!(of_copy(&process), Vec::<String>::new());
    process.kill();
    process.restart();
    assert_eq!(of_copy(&process), Vec::<String>::new());
    assert_eq!(
        shown(&process, "compression", "tank/copies/w"),
        "on\tdefault"
    );
}

#[test]
fn what_folders_pass_on_goes_again_with_the_next_stream_of_all() {
    let process = with_volumes();
    process.done("volume set compression=zstd-5 my:note=sent tank/f");
    process.done("volume snapshot -r tank/f@one");
    process.done("volume create tank/copies");
    let next = "volume receive tank/copies";
    transfer(&process, "volume send -R tank/f@one", next);
    let expected = ["compression=zstd-5", "my:note=sent"];
    assert_eq!(received(&process, "tank/copies/v"), expected);
    process.done("volume inherit my:note tank/f");
    process.done("volume snapshot -r tank/f@two");
    transfer(&process, "volume send -R -i @one tank/f@two", next);
    assert_eq!(received(&process, "tank/copies/v"), expected[..1]);
    process.done("volume inherit compression tank/f");
    process.done("volume snapshot -r tank/f@three");
    transfer(&process, "volume send -R -i @two tank/f@three", next);
    assert_eq!(received(&process, "tank/copies/v"), Vec::<String>::new());
}
