//! Secrets that the daemon makes itself. They are random and long, so that only their digest is
//! kept, and a plain digest is enough.

use ring::digest::{SHA256, digest as digest_of};

/// Random bytes in a secret.
const BYTES: usize = 32;

/// Returns a new secret, as lower-case hexadecimal digits behind a prefix.
///
/// # Errors
/// The kernel gives no random bytes.
pub(crate) fn new(prefix: &str) -> Result<String, getrandom::Error> {
    Ok(format!("{prefix}{}", hex(&random::<BYTES>()?)))
}

/// Returns random bytes of the kernel.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Returns the digest under which a secret is kept.
///
/// Digests may be compared like any text. The time of a comparison tells at most a digest, from
/// which nobody finds the secret.
pub(crate) fn digest(secret: &str) -> String {
    hex(digest_of(&SHA256, secret.as_bytes()).as_ref())
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut out, byte| {
        // A String takes all that is written.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_have_256_bits() {
        let one = new("sst_").expect("random bytes");
        assert_eq!(one.len(), 4 + 64);
        assert!(one.starts_with("sst_"));
        assert_ne!(one, new("sst_").expect("random bytes"));
    }

    #[test]
    fn a_digest_is_sha_256() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest("abc"), expected);
    }
}
