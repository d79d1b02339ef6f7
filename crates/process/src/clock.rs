//! The error of this machine's clock, as the kernel bounds it (adjtimex).
#![allow(unsafe_code)]

use std::time::Duration;

/// Returns the most by which the clock may be off. `None` means that the kernel does not tell, as
/// in some containers.
///
/// A client of a time server sets the bound whenever the server has answered. In between, the
/// kernel adds half a millisecond to it each second, up to 16 s.
pub fn max_error() -> Option<Duration> {
    // SAFETY: the structure has only integers, of which zero is a value. Mode 0 changes nothing:
    // the kernel writes the structure, which is ours for the whole call.
    let (result, answer) = unsafe {
        let mut answer: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&raw mut answer), answer)
    };
    if result < 0 {
        return None;
    }
    u64::try_from(answer.maxerror)
        .ok()
        .map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_bounds_the_error_by_at_most_16_s() {
        // A container may be refused an answer.
        assert!(max_error().is_none_or(|error| error <= Duration::from_secs(16)));
    }
}
