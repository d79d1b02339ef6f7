//! Passwords of users: the rules for new ones, and their argon2id hashes.
//!
//! A hash takes 19 MiB and about 60 ms of a core. [`Hasher`] makes one at a time, so that a login
//! page never takes more than one core from the data path.

use std::sync::{Mutex, PoisonError};

use argon2::{Algorithm, Argon2, Params, Version};
use model::Error;
use serde::{Deserialize, Serialize};

use super::secret;

/// Fewest characters of a password.
pub(crate) const SHORTEST: usize = 10;
/// Most bytes of a password.
pub(crate) const LONGEST: usize = 256;

/// Memory of a hash in KiB.
const MEMORY: u32 = 19 * 1024;
/// Passes over the memory.
const PASSES: u32 = 2;
const BYTES: usize = 32;

/// Kept hash of a password, with the cost at which it was made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hash {
    /// Memory in KiB.
    memory: u32,
    /// Passes over the memory.
    passes: u32,
    /// Random digits.
    salt: String,
    hash: String,
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// Refuses a new password that is easily guessed.
///
/// # Errors
/// The password is too short, too long, or nearly the name of the user.
pub(crate) fn check(user: &str, password: &str) -> Result<(), Error> {
    let refuse = |message: String| {
        let next =
            format!("choose a password of {SHORTEST} to {LONGEST} characters, such as four words");
        Err(Error::invalid(message, next))
    };
    let characters = password.chars().count();
    if characters < SHORTEST {
        return refuse(format!(
            "the password has {characters} characters, which are too few"
        ));
    }
    if password.len() > LONGEST {
        return refuse(format!(
            "the password has {} bytes, which are too many",
            password.len()
        ));
    }
    let mut letters: Vec<char> = password.chars().collect();
    letters.sort_unstable();
    letters.dedup();
    if letters.len() < 4 {
        return refuse("the password repeats a few characters".to_owned());
    }
    if password.to_lowercase().contains(&user.to_lowercase()) && characters < user.len() + 8 {
        return refuse("the password is hardly more than the name of the user".to_owned());
    }
    Ok(())
}

/// Maker of hashes, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Hasher {
    turn: Mutex<()>,
}

impl Hasher {
    /// Returns the hash of a new password. This takes a core for about 60 ms.
    ///
    /// # Errors
    /// The kernel gives no random bytes, or no memory is left.
    pub(crate) fn hash(&self, password: &str) -> Result<Hash, Error> {
        let salt = secret::random::<16>().map_err(|error| failed(&error))?;
        let salt = secret::hex(&salt);
        let hash = self.compute(password, salt.as_bytes(), MEMORY, PASSES)?;
        Ok(Hash {
            memory: MEMORY,
            passes: PASSES,
            salt,
            hash: secret::hex(&hash),
        })
    }

    /// Reports whether the password is that of a hash. Without a hash, it takes the same time and
    /// is false: the time must not tell which names exist.
    ///
    /// # Errors
    /// No memory is left for the hash.
    pub(crate) fn is_right(&self, password: &str, of: Option<&Hash>) -> Result<bool, Error> {
        if password.len() > LONGEST {
            return Ok(false);
        }
        let Some(of) = of else {
            self.compute(password, &[0; 16], MEMORY, PASSES)?;
            return Ok(false);
        };
        let hash = self.compute(password, of.salt.as_bytes(), of.memory, of.passes)?;
        // The hash is of random salt, so the time of the comparison tells nothing of use.
        Ok(secret::hex(&hash) == of.hash)
    }

    fn compute(
        &self,
        password: &str,
        salt: &[u8],
        memory: u32,
        passes: u32,
    ) -> Result<[u8; BYTES], Error> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let params = Params::new(memory, passes, 1, Some(BYTES)).map_err(|error| failed(&error))?;
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let mut hash = [0; BYTES];
        argon2
            .hash_password_into(password.as_bytes(), salt, &mut hash)
            .map_err(|error| failed(&error))?;
        Ok(hash)
    }
}

fn failed(error: &dyn std::fmt::Display) -> Error {
    Error::new(
        model::ErrorKind::Unavailable,
        format!("the password could not be hashed: {error}"),
        "free memory on this machine, and try again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_by_its_hash_alone() {
        let hasher = Hasher::default();
        let hash = hasher.hash("four words are long").expect("hashed");
        let text = serde_json::to_string(&hash).expect("JSON");
        assert!(!text.contains("four"), "{text}");
        assert_eq!(format!("{hash:?}"), "…");
        let is_right = |password| hasher.is_right(password, Some(&hash)).expect("hashed");
        assert!(is_right("four words are long"));
        assert!(!is_right("four words are lonh"));
        assert!(!is_right(""));
        assert!(!is_right(&"x".repeat(LONGEST + 1)));
        assert!(!hasher.is_right("", None).expect("hashed"));
        let again = hasher.hash("four words are long").expect("hashed");
        assert_ne!(hash, again, "each hash has a salt of its own");
    }

    #[test]
    fn passwords_that_are_easily_guessed_are_refused() {
        for password in [
            "",
            "short",
            "aaaaaaaaaaaa",
            "abababababab",
            "administrator1",
        ] {
            let error = check("administrator", password).expect_err(password);
            assert!(error.next.contains("four words"), "{error}");
            assert!(password.is_empty() || !error.message.contains(password));
        }
        check("ann", &"é".repeat(129)).expect_err("too many bytes");
        check("ann", "correct horse").expect("is long enough");
        check("ann", "annual battery staple").expect("is more than the name");
    }
}
