//! A first line with a generation and a checksum, which tells a whole file from a torn, damaged or
//! foreign one.
//!
//! ```text
//!     {"sandstone": "pools", "format": 1, "generation": 7, "crc32": "0f1e2d3c", "content":
//!     [ … ]
//!     }
//! ```
//! The CRC-32 covers the generation and everything after the first line. The whole file is JSON, so
//! that an administrator can read it.

use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Reason why the bytes of a file do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// Reason, as a clause without a full stop.
    pub reason: String,
    /// Whether a newer version of the program wrote the file. The file may then be whole and
    /// useful.
    pub is_newer: bool,
}

impl From<String> for Unfit {
    fn from(reason: String) -> Self {
        Self {
            reason,
            is_newer: false,
        }
    }
}

impl From<&str> for Unfit {
    fn from(reason: &str) -> Self {
        reason.to_owned().into()
    }
}

const FORMAT: u32 = 1;
/// Text that follows the head in the first line and opens the content.
const OPEN: &str = ", \"content\":";

#[derive(Serialize, Deserialize)]
struct Head {
    sandstone: String,
    format: u32,
    generation: u64,
    crc32: String,
}

fn checksum(generation: u64, rest: &str) -> String {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&generation.to_le_bytes());
    hasher.update(rest.as_bytes());
    format!("{:08x}", hasher.finalize())
}

/// Encodes a file of `kind`.
///
/// # Errors
/// JSON cannot hold the content.
pub fn seal_json(kind: &str, generation: u64, content: &impl Serialize) -> io::Result<Vec<u8>> {
    let rest = format!("{}\n}}\n", serde_json::to_string_pretty(content)?);
    let head = serde_json::to_string(&Head {
        sandstone: kind.to_owned(),
        format: FORMAT,
        generation,
        crc32: checksum(generation, &rest),
    })?;
    let head = head.trim_end_matches('}');
    Ok(format!("{head}{OPEN}\n{rest}").into_bytes())
}

/// Decodes the generation and content of a file of `kind`.
///
/// # Errors
/// The bytes are torn, damaged, of another kind, or of a newer version.
pub fn open_json<T: DeserializeOwned>(kind: &str, bytes: &[u8]) -> Result<(u64, T), Unfit> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is damaged: it is not text")?;
    let (first, rest) = text.split_once('\n').ok_or("it is empty or torn")?;
    let first = first.strip_suffix(OPEN).map(|head| format!("{head}}}"));
    let head = first.and_then(|head| serde_json::from_slice::<Head>(head.as_bytes()).ok());
    let head = head
        .filter(|head| head.sandstone == kind)
        .ok_or("it is damaged: its first line is not valid")?;
    if head.format > FORMAT {
        return Err(Unfit {
            reason: "it was written by a newer version of Sandstone".to_owned(),
            is_newer: true,
        });
    }
    if head.format != FORMAT || head.crc32 != checksum(head.generation, rest) {
        return Err("its checksum does not match: it is torn, damaged or edited by hand".into());
    }
    let body = rest.trim_end().strip_suffix('}').unwrap_or_default();
    let content = serde_json::from_slice(body.as_bytes())
        .map_err(|error| format!("its content cannot be read: {error}"))?;
    Ok((head.generation, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> Vec<u8> {
        seal_json("words", 7, &["one", "two"]).expect("JSON")
    }

    #[test]
    fn what_was_sealed_is_opened_and_is_json() {
        let opened = open_json::<Vec<String>>("words", &sealed());
        assert_eq!(opened, Ok((7, vec!["one".into(), "two".into()])));
        let whole: serde_json::Value = serde_json::from_slice(&sealed()).expect("JSON");
        assert_eq!(whole["content"][1], "two");
    }

    #[test]
    fn every_cut_and_every_flipped_byte_is_told() {
        let whole = sealed();
        for cut in 0..whole.len() {
            let opened = open_json::<Vec<String>>("words", &whole[..cut]);
            opened.expect_err(&format!("cut at {cut}"));
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            let opened = open_json::<Vec<String>>("words", &bytes);
            opened.expect_err(&format!("byte {at}"));
        }
    }

    #[test]
    fn another_files_content_and_a_newer_one_are_told() {
        let other = open_json::<Vec<String>>("other", &sealed());
        assert!(!other.expect_err("another kind").is_newer);
        let text = String::from_utf8(sealed()).expect("text");
        let newer = text.replace("\"format\":1", "\"format\":2");
        let opened = open_json::<Vec<String>>("words", newer.as_bytes());
        assert!(opened.expect_err("newer").is_newer);
    }
}
