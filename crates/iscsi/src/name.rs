//! Rules for iSCSI names that other systems chose: the names that are used, and the comparison of
//! two names.
//!
//! RFC 7143 4.2.7 allows three forms (`iqn.`, `eui.`, `naa.`) in lower case. Systems in the field
//! use names of other forms, with capitals, underscores and blanks, and compare them byte by byte.
//! Nobody can rename them.
//!
//! [`check`] is the one rule for every name of a target or an initiator that another system chose.
//! All places that take a name use it: logins on both sides, discovery, hosts, maps, imports and
//! the benchmark. Each name that passes is kept, shown and sent byte for byte.
//!
//! # When two names are one
//! - **Targets, as an initiator.** Names are bytes. Two targets whose names differ in case are two
//!   targets.
//! - **Initiators and targets, as a target.** Names are compared without regard to the case of
//!   ASCII letters ([`is_same`]), as RFC 7143 4.2.7.1 demands. This holds for every decision alike.
//!   The patterns that let a host's members in and the exceptions that keep them out compare in
//!   this way. The check that no initiator is in two hosts does so too. So do the choice of the
//!   secret, and of the session that a login reinstates. Nobody gets past an exception, a secret or
//!   a reservation by another spelling. No two hosts can treat two spellings of one name
//!   differently.
//! - No name holds a wildcard. A pattern never stands for a name by accident, and every name can be
//!   a member of a host.

use std::fmt;

/// Length of the longest name in bytes (RFC 7143 4.2.7.1).
pub const MAX_LENGTH: usize = 223;

/// Reasons why a name is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFault {
    /// The name is empty.
    Empty,
    /// The name is longer than [`MAX_LENGTH`]. The number is its length in bytes.
    TooLong(usize),
    /// The name begins or ends with a blank, which nobody sees.
    OuterBlank,
    /// The name holds a character that cannot be shown, separates names in lists (`,`) or is a
    /// wildcard (`*`, `?`).
    Character(char),
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::TooLong(length) => write!(
                f,
                "it has {length} bytes, but at most {MAX_LENGTH} are allowed"
            ),
            Self::OuterBlank => f.write_str("it begins or ends with a blank"),
            Self::Character(',') => f.write_str("it holds a comma, which separates names"),
            Self::Character(wildcard @ ('*' | '?')) => {
                write!(f, "it holds {wildcard:?}, which is a wildcard")
            }
            Self::Character(c) => write!(f, "it holds {c:?}, which cannot be displayed"),
        }
    }
}

impl std::error::Error for NameFault {}

/// Checks a name that another system chose.
///
/// # Errors
/// The reason why the name is not used.
pub fn check(name: &str) -> Result<(), NameFault> {
    check_characters(name, |c| matches!(c, ',' | '*' | '?'))
}

/// Checks a pattern of names that other systems chose: `*` stands for any bytes, `?` for any one
/// byte.
///
/// # Errors
/// The reason why no name could match the pattern, or why it is no pattern.
pub fn check_pattern(pattern: &str) -> Result<(), NameFault> {
    check_characters(pattern, |c| c == ',')
}

fn check_characters(name: &str, separates: impl Fn(char) -> bool) -> Result<(), NameFault> {
    if name.is_empty() {
        return Err(NameFault::Empty);
    }
    if name.len() > MAX_LENGTH {
        return Err(NameFault::TooLong(name.len()));
    }
    if let Some(c) = name.chars().find(|&c| separates(c) || !is_shown(c)) {
        return Err(NameFault::Character(c));
    }
    if name.starts_with(' ') || name.ends_with(' ') {
        return Err(NameFault::OuterBlank);
    }
    Ok(())
}

/// Reports whether a character is shown as itself. All others would hide in a list, or change the
/// way the rest of a line is read.
fn is_shown(c: char) -> bool {
    matches!(c, '\'' | '"' | '\\') || c.escape_debug().len() == 1
}

/// Reports whether a target takes two names for one.
pub fn is_same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// Returns a name for tables whose keys are compared byte by byte. It is equal for names that [are
/// one](is_same).
pub fn folded(name: &str) -> String {
    name.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_bend_the_rfc_are_used() {
        for name in [
            "iqn.2026-01.org.example:disk",
            "iqn.2000-01.com.synology:DiskStation.Target-1.f0b0a1",
            "iqn.2015-1.workgroup:RAID.vg0.data1",
            "iqn.2004-04.com.vendor:ts-410:iscsi_backup.c4bb1a",
            "Target-911data",
            "disk one",
            "eui.0200",
            "eui.02004567a425678d",
            "naa.",
            "a/b=c;d(e)[f]{g}|h~i!j$k%l^m&n+o@p#q`r<s>t\"u'v\\w",
            "iqn.2026-01.org.example:Größe",
            &"n".repeat(MAX_LENGTH),
        ] {
            assert_eq!(check(name), Ok(()), "{name}");
            assert_eq!(check_pattern(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn every_refusal_names_its_reason() {
        let long = "n".repeat(MAX_LENGTH + 1);
        for (name, fault) in [
            ("", NameFault::Empty),
            (&long, NameFault::TooLong(MAX_LENGTH + 1)),
            (" disk", NameFault::OuterBlank),
            ("disk ", NameFault::OuterBlank),
            ("a,b", NameFault::Character(',')),
            ("a*", NameFault::Character('*')),
            ("a?", NameFault::Character('?')),
            ("a\0b", NameFault::Character('\0')),
            ("a\tb", NameFault::Character('\t')),
            ("a\nb", NameFault::Character('\n')),
            ("\x1b[2J", NameFault::Character('\x1b')),
            ("a\x7f", NameFault::Character('\x7f')),
            ("a\u{85}b", NameFault::Character('\u{85}')),
            ("a\u{a0}b", NameFault::Character('\u{a0}')),
            ("a\u{200b}b", NameFault::Character('\u{200b}')),
            ("a\u{202e}b", NameFault::Character('\u{202e}')),
            ("a\u{feff}", NameFault::Character('\u{feff}')),
        ] {
            assert_eq!(check(name), Err(fault), "{name:?}");
            assert!(!fault.to_string().contains(char::is_control), "{name:?}");
        }
        assert_eq!(check_pattern("iqn.*:disk?"), Ok(()));
        assert_eq!(check_pattern("iqn.*,x"), Err(NameFault::Character(',')));
    }

    proptest! {
        #[test]
        fn a_name_is_shown_as_it_is_and_one_with_every_spelling_of_it(name in "\\PC{0,40}|[ -~]{1,40}") {
            if check(&name).is_ok() {
                prop_assert!(!name.contains(|c: char| c.is_control() || c == ','));
                prop_assert_eq!(name.trim(), &name);
                prop_assert_eq!(check_pattern(&name), Ok(()));
                let other = name.to_ascii_uppercase();
                prop_assert!(check(&other).is_ok() && is_same(&name, &other));
                prop_assert_eq!(folded(&name), folded(&other));
            }
        }

        #[test]
        fn names_are_the_same_where_their_folded_forms_are(a in "[aAbB]{1,3}", b in "[aAbB]{1,3}") {
            prop_assert_eq!(is_same(&a, &b), folded(&a) == folded(&b));
        }
    }
}
