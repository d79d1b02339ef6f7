//! Damaged files of SCST.

use super::parse::{Node, parse};
use super::tests::MACHINE;
use super::*;
use crate::import::mutations::{FILES, check, mutated, refused_line, tells_of};
use crate::import::oracle::dice;

const SAMPLES: [&str; 2] = [include_str!("scst.conf"), include_str!("truenas.conf")];

/// Words that cannot be the value of a switch, a number or an identity.
const GARBAGE: [&str; 6] = [
    "banana",
    "-1",
    "99999999999999999999",
    "1x",
    "banana split",
    "\"banana\\\"",
];

#[test]
fn changed_files_are_refused_with_a_line_or_all_their_objects_are_accounted_for() {
    for seed in 0..FILES {
        let text = mutated(SAMPLES[(seed % 2) as usize], &mut dice(seed));
        let imported = read(&text, &MACHINE);
        check(&text, &imported);
        let Ok(imported) = imported else { continue };
        let root = parse(&text).unwrap();
        let devices = root
            .all("HANDLER")
            .flat_map(|handler| handler.all("DEVICE"));
        let drivers = root.all("TARGET_DRIVER");
        let (iscsi, others): (Vec<_>, Vec<_>) = drivers.partition(|d| d.arg(0) == "iscsi");
        let targets = iscsi.into_iter().flat_map(|driver| driver.all("TARGET"));
        for node in devices.chain(targets).chain(others) {
            let name = node.arg(0);
            assert!(
                tells_of(&imported, &[name, &super::super::plain_name(name)]),
                "{name} is gone: {text}\n{:#?}",
                imported.notes
            );
        }
    }
}

#[test]
fn a_value_is_understood_or_named_or_refused_with_its_line() {
    for sample in SAMPLES {
        let lines: Vec<&str> = sample.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            // The name of a group only matters for the order.
            if words.len() < 2 || ["#", "GROUP"].contains(&words[0]) {
                continue;
            }
            for garbage in GARBAGE {
                let value = words[1..].iter().find(|word| **word != "{").unwrap();
                let mut changed = lines.clone();
                let new = line.replacen(value, garbage, 1);
                changed[index] = &new;
                let text = changed.join("\n");
                match read(&text, &MACHINE) {
                    Err(error) => {
                        assert_eq!(refused_line(&error), Some(index + 1), "{new}: {error}");
                    }
                    Ok(imported) => {
                        let shown = garbage.trim_matches(['"', '\\']).split(' ').next().unwrap();
                        let around = around(&parse(sample).unwrap(), index + 1);
                        let mut words = vec![shown];
                        words.extend(around.iter().map(String::as_str));
                        assert!(
                            tells_of(&imported, &words),
                            "{new} vanished: {:#?}",
                            imported.notes
                        );
                    }
                }
            }
        }
    }
}

/// Returns the drivers and devices around a line that the sample itself omits.
fn around(root: &Node, line: usize) -> Vec<String> {
    let devices = root
        .all("HANDLER")
        .flat_map(|handler| handler.all("DEVICE"));
    let drivers = root.all("TARGET_DRIVER");
    let left_out = devices
        .filter(|device| ["gone", "null"].contains(&device.arg(0)))
        .chain(drivers.filter(|driver| driver.arg(0) != "iscsi"));
    let around = left_out.filter(|node| node.line < line && line <= node.last_line());
    around
        .map(|node| format!("{} was left out", node.arg(0)))
        .collect()
}

impl Node {
    fn last_line(&self) -> usize {
        self.children
            .iter()
            .map(Node::last_line)
            .fold(self.line, usize::max)
    }
}
