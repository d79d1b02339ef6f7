//! The serial number of a disk that leaves a pool: shown, asked for, and compared. A redundant pool
//! survives a failed disk, and often not the pull of a healthy one in its place.

use maud::Markup;
use model::{Error, ErrorKind};

use crate::form::Field;

/// Name of the field.
pub(super) const FIELD: &str = "serial";
/// Fewest characters of a number's end that stand for the number.
const FEWEST: usize = 4;

/// A disk with the number that is printed on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Printed<'a> {
    /// Path of the disk.
    pub(super) name: &'a str,
    pub(super) serial: &'a str,
}

/// Asks for the number, with the answer that was given before.
pub(super) fn ask(old: &Printed<'_>, typed: &str) -> Markup {
    Field::new(FIELD, "Serial number of the disk that leaves")
        .value(typed)
        .hint(&format!(
            "Read it on the disk itself, and enter it or its last {FEWEST} characters. It has to be {}.",
            old.serial
        ))
        .text()
}

/// Compares what was typed with the number of the old disk. `others` may hold the old disk too.
///
/// # Errors
/// Nothing was typed, or it is the number of another disk, or of several.
pub(super) fn check(typed: &str, old: &Printed<'_>, others: &[Printed<'_>]) -> Result<(), Error> {
    let read = compared(typed);
    if read.is_empty() {
        return Err(Error::invalid(
            format!("the serial number of {} is not entered", old.name),
            "read it on the disk that you are going to pull, and enter it",
        ));
    }
    let is_of = |disk: &Printed<'_>| {
        let whole = compared(disk.serial);
        whole == read || (read.len() >= FEWEST && whole.ends_with(&read))
    };
    let is_other = |disk: &&Printed<'_>| compared(disk.serial) != compared(old.serial);
    let other = others.iter().filter(is_other).find(|disk| is_of(disk));
    match (is_of(old), other) {
        (true, None) => Ok(()),
        (true, Some(_)) if compared(old.serial) == read => Ok(()),
        (true, Some(other)) => Err(Error::invalid(
            format!(
                "the serial number of {} ends with {typed} too: it is {}",
                other.name, other.serial
            ),
            "enter the whole number",
        )),
        (false, Some(other)) => Err(Error::new(
            ErrorKind::Refused,
            format!(
                "{typed} is the serial number of {}, which is another disk: that of {} is {}",
                other.name, old.name, old.serial
            ),
            "pull no disk before the numbers agree; if the other disk is to be replaced, go back and choose it",
        )),
        (false, None) => Err(Error::new(
            ErrorKind::Refused,
            format!(
                "{typed} is not the serial number of {}, which is {}",
                old.name, old.serial
            ),
            "compare the number on the disk again, and pull no disk before both agree",
        )),
    }
}

/// Returns a number without case, blanks and hyphens, in which labels differ from what disks tell.
fn compared(serial: &str) -> String {
    let kept = serial.chars().filter(|it| it.is_alphanumeric());
    kept.flat_map(char::to_uppercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Printed<'static> = Printed {
        name: "/dev/sda",
        serial: "WD-WCC4N1234567",
    };
    const OTHERS: [Printed<'static>; 3] = [
        OLD,
        Printed {
            name: "/dev/sdb",
            serial: "WD-WCC4N7654321",
        },
        Printed {
            name: "/dev/sdc",
            serial: "S3Z8NB0K004567",
        },
    ];

    fn refused(typed: &str) -> String {
        let error = check(typed, &OLD, &OTHERS).expect_err(typed);
        assert!(!error.next.is_empty());
        error.message
    }

    #[test]
    fn the_number_or_its_end_is_taken_however_it_is_written() {
        for typed in [
            "WD-WCC4N1234567",
            "wd wcc4n1234567",
            "234567",
            " 4N1234567 ",
        ] {
            check(typed, &OLD, &OTHERS).expect(typed);
        }
        check("4567", &OLD, &[]).expect("no other disk ends so");
    }

    #[test]
    fn the_number_of_another_disk_is_named() {
        assert_eq!(
            refused("WD-WCC4N7654321"),
            "WD-WCC4N7654321 is the serial number of /dev/sdb, which is another disk: that of \
             /dev/sda is WD-WCC4N1234567"
        );
        assert!(refused("4321").contains("/dev/sdb"));
        assert!(refused("4567").contains("the serial number of /dev/sdc ends with 4567 too"));
    }

    #[test]
    fn nothing_and_wrong_numbers_are_refused() {
        for empty in ["", "  ", "--"] {
            assert!(refused(empty).contains("is not entered"), "{empty}");
        }
        for wrong in ["567", "WD-WCC4N123456", "9999", "X-WD-WCC4N1234567"] {
            assert!(
                refused(wrong).contains("is not the serial number of /dev/sda"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_short_number_counts_as_a_whole() {
        let short = Printed {
            name: "/dev/vda",
            serial: "d1",
        };
        check("D1", &short, &[short]).expect("it is the whole number");
        check("1", &short, &[short]).expect_err("it is a part");
    }

    #[test]
    fn the_question_shows_the_number_and_keeps_the_answer() {
        let shown = ask(&OLD, "12\"34").into_string();
        assert!(shown.contains("WD-WCC4N1234567"), "{shown}");
        assert!(shown.contains("name=\"serial\""), "{shown}");
        assert!(shown.contains("12&quot;34"), "{shown}");
    }
}
