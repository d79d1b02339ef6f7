//! Sealed backups, which only a passphrase opens.
//!
//! Argon2id (RFC 9106) derives a key from the passphrase. It takes 64 MiB of memory, so that
//! guessing is expensive. ChaCha20-Poly1305 (RFC 8439) seals with the key: without it nothing can
//! be read, or changed unnoticed. Salt and nonce are random, and each key is used once.

use argon2::{Algorithm, Argon2, Params, Version};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};

use model::error::{Error, ErrorKind};
use state_folder::hex::{from_hex, to_hex};

/// Length of the shortest accepted passphrase, in bytes. It equals that of a CHAP secret, because
/// the passphrase guards CHAP secrets.
pub const SHORTEST_PASSPHRASE: usize = 12;

/// Memory cost of the second choice that RFC 9106 recommends (section 4).
const MEMORY_KIB: u32 = 64 << 10;
const PASSES: u32 = 3;
const LANES: u32 = 4;
/// Most memory that a file may ask for: its origin is not known yet.
const MOST_MEMORY_KIB: u32 = 1 << 20;
const MOST_PASSES: u32 = 64;
const MOST_LANES: u32 = 64;

const SALT_LEN: usize = 16;
const KEY_LEN: usize = 32;

/// Content of a sealed backup. Bytes are hexadecimal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sealed {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    salt: String,
    nonce: String,
    sealed: String,
}

impl Sealed {
    /// Seals `plain`.
    pub(super) fn new(plain: &[u8], passphrase: &str) -> Result<Self, Error> {
        if passphrase.len() < SHORTEST_PASSPHRASE {
            return Err(Error::invalid(
                format!(
                    "the passphrase needs at least {SHORTEST_PASSPHRASE} characters: a finder of the file \
                     may try any number of passphrases"
                ),
                "choose a longer passphrase, such as five random words",
            ));
        }
        let (salt, nonce) = (random::<SALT_LEN>()?, random::<NONCE_LEN>()?);
        let mut sealed = Self {
            memory_kib: MEMORY_KIB,
            passes: PASSES,
            lanes: LANES,
            salt: to_hex(&salt),
            nonce: to_hex(&nonce),
            sealed: String::new(),
        };
        let mut bytes = plain.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        sealed
            .key(passphrase, &salt)?
            .seal_in_place_append_tag(nonce, Aad::empty(), &mut bytes)
            .map_err(|_| {
                Error::invalid(
                    "the backup is too long to be sealed",
                    "report this as a defect",
                )
            })?;
        sealed.sealed = to_hex(&bytes);
        Ok(sealed)
    }

    /// Opens the seal of the file called `name`, which is whole.
    pub(super) fn open(&self, name: &str, passphrase: &str) -> Result<Vec<u8>, Error> {
        let strange = || {
            Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{name} is not damaged, but its seal has values that no version of Sandstone writes"
                ),
                "copy the file again from the original, or use another backup",
            )
        };
        let is_dear = self.memory_kib > MOST_MEMORY_KIB
            || self.passes > MOST_PASSES
            || self.lanes > MOST_LANES;
        let salt = from_hex(&self.salt).filter(|salt| salt.len() == SALT_LEN && !is_dear);
        let nonce = from_hex(&self.nonce).and_then(|nonce| nonce.try_into().ok());
        let sealed = from_hex(&self.sealed);
        let (Some(salt), Some(nonce), Some(mut bytes)) = (salt, nonce, sealed) else {
            return Err(strange());
        };
        let nonce = Nonce::assume_unique_for_key(nonce);
        let key = self.key(passphrase, &salt)?;
        let opened = key.open_in_place(nonce, Aad::empty(), &mut bytes);
        // The checksum of the file is right, so the passphrase is wrong.
        let plain = opened.map_err(|_| {
            Error::invalid(
                format!("the passphrase does not open {name}"),
                "type the passphrase with which the file was sealed; the file cannot be opened without it",
            )
        })?;
        Ok(plain.to_vec())
    }

    fn key(&self, passphrase: &str, salt: &[u8]) -> Result<LessSafeKey, Error> {
        let failed = |message: String| {
            Error::new(
                ErrorKind::Storage,
                format!("the key could not be derived from the passphrase: {message}"),
                "free some memory: the key takes 64 MiB for a moment",
            )
        };
        let params = Params::new(self.memory_kib, self.passes, self.lanes, Some(KEY_LEN));
        let params = params.map_err(|error| failed(error.to_string()))?;
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let mut key = [0; KEY_LEN];
        argon2
            .hash_password_into(passphrase.as_bytes(), salt, &mut key)
            .map_err(|error| failed(error.to_string()))?;
        let key =
            UnboundKey::new(&CHACHA20_POLY1305, &key).map_err(|error| failed(error.to_string()))?;
        Ok(LessSafeKey::new(key))
    }
}

fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|source| {
        Error::new(
            ErrorKind::Storage,
            format!("the operating system gave no random numbers: {source}"),
            "check /dev/urandom, then try again",
        )
    })?;
    Ok(bytes)
}
