//! Files that users name, read whole. A device or an endless pipe in place of a file must not take
//! all memory of a machine that serves disks.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use model::quantity::format_size;

/// Most bytes of a secret, with the lines behind it.
pub(crate) const SECRET: u64 = 64 << 10;
/// Most bytes of settings, certificates and keys.
pub(crate) const SETTINGS: u64 = 4 << 20;
/// Most bytes of a configuration, a profile or saved results.
pub(crate) const DOCUMENT: u64 = 256 << 20;

/// Reads a file of at most `most` bytes. `-` is standard input.
///
/// # Errors
/// The file cannot be read, or is longer.
pub(crate) fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    match path == Path::new("-") {
        true => all_of(io::stdin().lock(), most),
        false => all_of(File::open(path)?, most),
    }
}

/// Reads a file as [`bytes`] does, as text.
///
/// # Errors
/// The file cannot be read, is longer, or is not written in UTF-8.
pub(crate) fn text(path: &Path, most: u64) -> io::Result<String> {
    let text = String::from_utf8(bytes(path, most)?);
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

fn all_of(source: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is longer than {}", format_size(most)),
        )),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_without_an_end_is_refused_and_a_file_of_the_limit_is_not() {
        let error = bytes(Path::new("/dev/zero"), 1000).expect_err("no end");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(all_of(&[7; 1000][..], 1000).expect("fits").len(), 1000);
        assert!(all_of(&[7; 1001][..], 1000).is_err());
    }
}
