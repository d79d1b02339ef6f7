//! Tests of what conditions tell an engineer on call to look at: with the names of real objects,
//! each command is typed as it is printed.

use alert::CONDITIONS;

use super::daemon::Daemon;

/// Returns the commands of Sandstone in a text.
fn commands(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted
        .filter_map(|it| it.strip_prefix("sandstone "))
        .collect()
}

/// Returns an object of a kind that the daemon of these tests has.
fn object(kind: &str) -> &'static str {
    match kind {
        "pool" => "tank",
        "device of a pool" => "tank /dev/sdb",
        "logical unit" => "vol1",
        "initiator" => "iqn.1998-01.com.vmware:esx1",
        "disk of this machine" => "/dev/sdb",
        "disk of another machine" => "naa.652534e0000000000000100000000001",
        "way out" => "ops",
        _ => "",
    }
}

#[test]
fn what_a_condition_says_to_look_at_can_be_looked_at() {
    let daemon = Daemon::with_one_of_each();
    let mut typed = 0;
    for condition in CONDITIONS {
        let look = condition.look_at(object(condition.object));
        for command in commands(&look) {
            let ran = daemon.run(command);
            // A test has no pool and no other machine: "there is none" is an answer too.
            let is_understood = ran.code != 2 && !ran.err.contains("there is no column");
            assert!(is_understood, "{}: {command}: {ran:?}", condition.id);
            typed += 1;
        }
    }
    assert!(typed >= CONDITIONS.len() / 2, "only {typed} commands");
}

#[test]
fn what_a_condition_says_about_an_object_names_it() {
    for condition in CONDITIONS {
        // Texts about a disk or a unit may speak of its pool, which the reader finds there.
        let own = match condition.object {
            "pool" | "device of a pool" => "POOL",
            "logical unit" => "LU",
            "initiator" => "INITIATOR",
            "way out" => "WAY",
            _ => continue,
        };
        let object = object(condition.object);
        let texts = [condition.look_at(object), condition.remedy_for(object)];
        for command in texts.iter().flat_map(|text| commands(text)) {
            let mut words = command.split(' ');
            let is_blank = words.any(|word| word == own);
            assert!(!is_blank, "{}: {command}", condition.id);
        }
    }
}
