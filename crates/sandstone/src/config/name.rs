//! iSCSI names: what RFC 7143 4.2.7 allows, and their one normal form.
//!
//! A name is kept in lower case, so that comparing two of them is comparing bytes. Characters
//! outside ASCII, which RFC 3722 would permit after stringprep, are refused: no initiator in use
//! sends any, and two names that look alike must not be two names.

use std::fmt;

/// The longest iSCSI name in bytes (RFC 7143 4.2.7.1).
pub const MAX_LEN: usize = 223;

/// Why a string is not an iSCSI name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Nothing at all.
    Empty,
    /// Longer than [`MAX_LEN`].
    TooLong(usize),
    /// A character that no iSCSI name may hold.
    Character(char),
    /// Not `iqn.`, `eui.` or `naa.`.
    Type,
    /// `iqn.` must be followed by `yyyy-mm.`.
    Date,
    /// The date must be followed by a reversed domain name.
    Authority,
    /// `eui.` is followed by 16 hexadecimal digits.
    Eui,
    /// `naa.` is followed by 16 or 32 hexadecimal digits.
    Naa,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::TooLong(len) => write!(f, "it has {len} bytes; {MAX_LEN} are allowed"),
            Self::Character(c) => {
                write!(f, "it holds {c:?}; only a-z, 0-9, '-', '.' and ':' are allowed")
            }
            Self::Type => f.write_str("it begins with none of iqn., eui. and naa."),
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

/// The normal form of an iSCSI name: checked and in lower case.
pub fn normalise(name: &str) -> Result<String, NameError> {
    let name = characters(name, |c| matches!(c, '-' | '.' | ':'))?;
    check_type(&name)?;
    Ok(name)
}

/// The normal form of an initiator pattern: a name, or one with the wildcards `*` and `?`.
///
/// `_` is tolerated since initiators in the field send it against the standard.
pub fn normalise_pattern(pattern: &str) -> Result<String, NameError> {
    let pattern = characters(pattern, |c| matches!(c, '-' | '.' | ':' | '_' | '*' | '?'))?;
    if !pattern.contains(['*', '?']) {
        check_type(&pattern)?;
    }
    Ok(pattern)
}

fn characters(name: &str, allowed: impl Fn(char) -> bool) -> Result<String, NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > MAX_LEN {
        return Err(NameError::TooLong(name.len()));
    }
    match name
        .chars()
        .find(|&c| !(c.is_ascii_alphanumeric() || allowed(c)))
    {
        Some(c) => Err(NameError::Character(c)),
        None => Ok(name.to_ascii_lowercase()),
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

/// Checks what follows `iqn.`: `yyyy-mm.authority[:anything]` (RFC 7143 4.2.7.4).
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
    fn names_of_every_type_are_lowered() {
        assert_eq!(
            normalise("IQN.1998-01.com.VMware:Host-1").unwrap(),
            "iqn.1998-01.com.vmware:host-1"
        );
        assert_eq!(
            normalise("eui.02004567A425678D").unwrap(),
            "eui.02004567a425678d"
        );
        assert!(normalise("naa.52004567BA64678D").is_ok());
        assert!(normalise("naa.62004567BA64678D0123456789ABCDEF").is_ok());
        assert!(normalise("iqn.2001-04.com.example").is_ok());
        assert!(normalise("iqn.2001-04.com.example:").is_ok());
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
            assert_eq!(normalise(name), Err(error), "{name}");
        }
        assert_eq!(normalise(&"a".repeat(224)), Err(NameError::TooLong(224)));
    }

    #[test]
    fn patterns_may_hold_wildcards_and_underscores() {
        assert_eq!(normalise_pattern("IQN.1998-01.*").unwrap(), "iqn.1998-01.*");
        assert!(normalise_pattern("*").is_ok());
        assert!(normalise_pattern("iqn.1991-05.com.microsoft:win_1").is_ok());
        assert_eq!(normalise_pattern("host1"), Err(NameError::Type));
        assert_eq!(normalise_pattern("iqn.*|x"), Err(NameError::Character('|')));
    }
}
