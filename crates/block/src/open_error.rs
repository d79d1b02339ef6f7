//! Errors of opening a backend, shared by block devices and the registry of backends.

use std::fmt;
use std::io;

use hint::Place;

/// Error of opening, creating or extending a backend. It tells the problem, that nothing was
/// changed, and what to try next.
#[derive(Debug)]
pub struct OpenError {
    message: String,
    next: String,
    source: Option<io::Error>,
}

impl OpenError {
    /// Creates an error from a problem and the step to try next.
    pub fn new(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            next: next.into(),
            source: None,
        }
    }

    /// Creates an error from an error of the kernel at a place.
    pub fn system(message: impl Into<String>, source: io::Error, place: Place<'_>) -> Self {
        Self {
            next: place.next(&source),
            source: Some(source),
            message: message.into(),
        }
    }

    /// Returns the problem, without the step to try next.
    pub fn message(&self) -> String {
        match &self.source {
            Some(source) => format!("{}: {source}", self.message),
            None => self.message.clone(),
        }
    }

    /// Returns the step to try next, as a clause without a full stop.
    pub fn next(&self) -> &str {
        &self.next
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (message, next) = (self.message(), &self.next);
        write!(f, "{message}; nothing was changed; {next}")
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// Refuses a length that is no multiple of the block size, if no other size is given. Otherwise the
/// rest would be left out, and nobody would know.
pub fn whole_blocks(name: &str, len: u64, block_size: u32, is_file: bool) -> Result<(), OpenError> {
    let block = u64::from(block_size);
    let rest = len % block;
    if rest == 0 {
        return Ok(());
    }
    let cut = if is_file {
        format!(
            "truncate -s {} {name} adds zeros, truncate -s {} {name} cuts it",
            len - rest + block,
            len - rest
        )
    } else {
        "make it longer or shorter".to_owned()
    };
    let next = if len.is_multiple_of(512) {
        format!("use blocks of 512 bytes (--block-size 512), or {cut}")
    } else {
        cut
    };
    Err(OpenError::new(
        format!(
            "{name} is {len} bytes long, which is not a multiple of its blocks of {block_size}: the last \
             {rest} bytes would be left out"
        ),
        next,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_part_of_a_block_is_refused_with_what_to_do() {
        whole_blocks("x", 1 << 20, 4096, true).expect("whole");
        let told = |len, block_size, is_file| {
            let error = whole_blocks("x.img", len, block_size, is_file).expect_err("a rest");
            (error.message(), error.next().to_owned())
        };
        let (message, next) = told(1_000_300, 512, true);
        assert_eq!(
            message,
            "x.img is 1000300 bytes long, which is not a multiple of its blocks of 512: the last 364 bytes would be left out"
        );
        assert_eq!(
            next,
            "truncate -s 1000448 x.img adds zeros, truncate -s 999936 x.img cuts it"
        );
        let (_, next) = told((1 << 20) + 512, 4096, false);
        assert_eq!(
            next,
            "use blocks of 512 bytes (--block-size 512), or make it longer or shorter"
        );
    }
}
