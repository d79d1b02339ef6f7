//! iSCSI names: the names that this machine makes, and the names that other systems chose.
//!
//! A name made here ([`own`]) has the form of RFC 7143 4.2.7 and is in lower case. A name from
//! another system is kept byte for byte, by the rule of [`iscsi::name`]. This applies to targets to
//! log in to, to initiators that log in, and to imported targets. The rule also decides whether two
//! names are equal.

use std::fmt;

use iscsi::name::MAX_LENGTH;
pub use iscsi::name::{check as foreign, check_pattern as pattern, folded, is_same};

/// Reason why a string is not an iSCSI name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The name is empty.
    Empty,
    /// The name is longer than [`MAX_LENGTH`].
    TooLong(usize),
    /// The name has a character that no iSCSI name may hold.
    Character(char),
    /// The name does not begin with `iqn.`, `eui.` or `naa.`.
    Type,
    /// The name lacks `yyyy-mm.` after `iqn.`.
    Date,
    /// The name lacks a reversed domain name after the date.
    Authority,
    /// The name lacks 16 hexadecimal digits after `eui.`.
    Eui,
    /// The name lacks 16 or 32 hexadecimal digits after `naa.`.
    Naa,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::TooLong(len) => write!(f, "it has {len} bytes; at most {MAX_LENGTH} are allowed"),
            Self::Character(c) => {
                write!(f, "it holds {c:?}; only a-z, 0-9, '-', '.' and ':' are allowed")
            }
            Self::Type => f.write_str("it does not begin with iqn., eui. or naa."),
            Self::Date => f.write_str("iqn. must be followed by a year and month, as in iqn.2024-08."),
            Self::Authority => f.write_str(
                "the date must be followed by a reversed domain name, as in iqn.2024-08.com.example",
            ),
            Self::Eui => f.write_str("eui. must be followed by exactly 16 hexadecimal digits"),
            Self::Naa => f.write_str("naa. must be followed by 16 or 32 hexadecimal digits"),
        }
    }
}

impl std::error::Error for NameError {}

/// Returns a name that is to be made here, checked and in lower case.
///
/// # Errors
/// The standard does not allow the name.
pub fn own(name: &str) -> Result<String, NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > MAX_LENGTH {
        return Err(NameError::TooLong(name.len()));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':');
    if let Some(c) = name.chars().find(|&c| !allowed(c)) {
        return Err(NameError::Character(c));
    }
    let name = folded(name);
    check_type(&name)?;
    Ok(name)
}

/// Returns a line about a usable name that bends the standard. Another system may compare such a
/// name by rules of its own.
pub fn oddity(name: &str) -> Option<String> {
    let why = match own(name) {
        Ok(normal) if normal == name => return None,
        Ok(_) => "it holds capitals".to_owned(),
        Err(error) => error.to_string(),
    };
    let name = shown(name);
    Some(format!(
        "{name} breaks the naming rules of RFC 7143 ({why}); it is used unchanged"
    ))
}

/// Reports whether a word begins like an iSCSI name. If so, it means an iSCSI name and no object of
/// this daemon.
pub fn begins_as_name(word: &str) -> bool {
    let folded = folded(word);
    ["iqn.", "eui.", "naa."]
        .iter()
        .any(|form| folded.starts_with(form))
}

/// Returns the name as one word of a sentence or a shell, in quotes if it would otherwise fall
/// apart.
pub fn shown(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_.:@%+=/".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        return name.to_owned();
    }
    match name.contains(['"', '\\', '$', '`', '!']) {
        true => format!("'{}'", name.replace('\'', "'\\''")),
        false => format!("\"{name}\""),
    }
}

fn check_type(name: &str) -> Result<(), NameError> {
    let hex = |s: &str| s.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some(rest) = name.strip_prefix("iqn.") {
        check_iqn(rest)
    } else if let Some(rest) = name.strip_prefix("eui.") {
        if rest.len() == 16 && hex(rest) {
            Ok(())
        } else {
            Err(NameError::Eui)
        }
    } else if let Some(rest) = name.strip_prefix("naa.") {
        if matches!(rest.len(), 16 | 32) && hex(rest) {
            Ok(())
        } else {
            Err(NameError::Naa)
        }
    } else {
        Err(NameError::Type)
    }
}

/// Checks the part after `iqn.`: `yyyy-mm.authority[:anything]` (RFC 7143 4.2.7.4).
fn check_iqn(rest: &str) -> Result<(), NameError> {
    let (date, rest) = rest.split_once('.').ok_or(NameError::Date)?;
    let (year, month) = date.split_once('-').ok_or(NameError::Date)?;
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let month_ok = month.len() == 2 && matches!(month.parse::<u8>(), Ok(1..=12));
    if year.len() != 4 || !digits(year) || !month_ok {
        return Err(NameError::Date);
    }
    let authority = rest
        .split_once(':')
        .map_or(rest, |(authority, _)| authority);
    let label = |s: &str| !s.is_empty() && !s.starts_with('-') && !s.ends_with('-');
    if authority.split('.').all(label) {
        Ok(())
    } else {
        Err(NameError::Authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_names_are_of_every_type_and_lowered() {
        assert_eq!(
            own("IQN.1998-01.com.VMware:Host-1").unwrap(),
            "iqn.1998-01.com.vmware:host-1"
        );
        assert_eq!(own("eui.02004567A425678D").unwrap(), "eui.02004567a425678d");
        assert!(own("naa.52004567BA64678D").is_ok());
        assert!(own("naa.62004567BA64678D0123456789ABCDEF").is_ok());
        assert!(own("iqn.2001-04.com.example").is_ok());
        assert!(own("iqn.2001-04.com.example:").is_ok());
    }

    #[test]
    fn every_refusal_names_its_reason() {
        let cases = [
            ("", NameError::Empty),
            ("disk1", NameError::Type),
            ("iqn.2001-13.com.example", NameError::Date),
            ("iqn.201-01.com.example", NameError::Date),
            ("iqn.2001-1.com.example", NameError::Date),
            ("iqn.2001-04", NameError::Date),
            ("iqn.2001-04.", NameError::Authority),
            ("iqn.2001-04.com..example:x", NameError::Authority),
            ("iqn.2001-04.com.example:a_b", NameError::Character('_')),
            ("iqn.2001-04.com.example:a b", NameError::Character(' ')),
            ("iqn.2001-04.com.exämple", NameError::Character('ä')),
            ("eui.0200", NameError::Eui),
            ("naa.0200", NameError::Naa),
        ];
        for (name, error) in cases {
            assert_eq!(own(name), Err(error), "{name}");
        }
        assert_eq!(own(&"a".repeat(224)), Err(NameError::TooLong(224)));
    }

    #[test]
    fn an_odd_name_is_told_once_and_the_rest_is_not() {
        assert_eq!(oddity("iqn.2001-04.com.example:x"), None);
        for odd in [
            "IQN.2001-04.com.example:x",
            "iqn.2015-1.workgroup:x",
            "a_b",
            "eui.02",
        ] {
            let told = oddity(odd).expect(odd);
            assert!(told.starts_with(odd) && !told.contains('\n'), "{told}");
        }
    }

    #[test]
    fn a_name_is_one_word_of_a_shell() {
        for (name, word) in [
            ("iqn.2001-04.com.example:a_b", "iqn.2001-04.com.example:a_b"),
            ("a disk", "\"a disk\""),
            ("it's", "\"it's\""),
            ("a$b'c", "'a$b'\\''c'"),
            ("a;b", "\"a;b\""),
        ] {
            assert_eq!(shown(name), word);
        }
    }
}
