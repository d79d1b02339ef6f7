//! CHAP: each side proves that it knows a secret without sending it (RFC 7143 §12.1.3, RFC 1994).
//!
//! Random numbers come in through [`Entropy`]. Comparisons of secrets' hashes take equal time
//! whatever the result.

use std::fmt;

use md5::Md5;
use sha1::Sha1;
use sha2::Sha256;
use sha3::{Digest, Sha3_256};
use subtle::ConstantTimeEq;

use crate::text_keys::{hex, parse_binary, parse_list, parse_number};

/// Longest challenge in bytes, decoded (RFC 7143 §12.1.3).
pub const MAX_CHALLENGE_LENGTH: usize = 1024;

/// Source of unpredictable bytes: the operating system's in production, a seed in tests.
pub trait Entropy {
    /// Fills `bytes`.
    fn fill(&mut self, bytes: &mut [u8]);
}

/// Hash for CHAP_A, numbered by IANA's "PPP Authentication Algorithms".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChapAlgorithm {
    /// MD5, the only one that RFC 7143 demands, for clients that know nothing better.
    Md5 = 5,
    /// SHA-1.
    Sha1 = 6,
    /// SHA-256.
    Sha256 = 7,
    /// SHA3-256.
    Sha3_256 = 8,
}

impl ChapAlgorithm {
    /// All algorithms, the strongest first.
    pub const ALL: [Self; 4] = [Self::Sha3_256, Self::Sha256, Self::Sha1, Self::Md5];

    /// Returns the algorithm with IANA's number.
    pub const fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            5 => Self::Md5,
            6 => Self::Sha1,
            7 => Self::Sha256,
            8 => Self::Sha3_256,
            _ => return None,
        })
    }

    /// Returns the algorithm's name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha3_256 => "sha3-256",
        }
    }

    /// Returns the algorithms of these names, each once. Returns `None` if a name is unknown or
    /// there twice, or if there is none.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Vec<Self>> {
        let mut algorithms = Vec::new();
        for name in names {
            let known = Self::ALL.into_iter().find(|known| known.name() == name)?;
            if algorithms.contains(&known) {
                return None;
            }
            algorithms.push(known);
        }
        (!algorithms.is_empty()).then_some(algorithms)
    }

    /// Picks the first algorithm that we know from a CHAP_A list in the initiator's order of
    /// preference.
    pub fn select(list: &str) -> Option<Self> {
        parse_list(list).find_map(|item| Self::from_number(parse_number(item)?))
    }

    /// Returns the length of a response in bytes.
    pub const fn response_length(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 | Self::Sha3_256 => 32,
        }
    }

    /// Returns the length of the challenges made here: as long as the hash, so that the challenge
    /// is no weaker.
    const fn challenge_length(self) -> usize {
        self.response_length()
    }

    /// Computes the response: hash(identifier, secret, challenge).
    pub fn respond(self, identifier: u8, secret: &[u8], challenge: &[u8]) -> Vec<u8> {
        fn hash<D: Digest>(identifier: u8, secret: &[u8], challenge: &[u8]) -> Vec<u8> {
            D::new()
                .chain_update([identifier])
                .chain_update(secret)
                .chain_update(challenge)
                .finalize()
                .to_vec()
        }
        match self {
            Self::Md5 => hash::<Md5>(identifier, secret, challenge),
            Self::Sha1 => hash::<Sha1>(identifier, secret, challenge),
            Self::Sha256 => hash::<Sha256>(identifier, secret, challenge),
            Self::Sha3_256 => hash::<Sha3_256>(identifier, secret, challenge),
        }
    }
}

/// CHAP name and its secret. `Debug` never prints the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ChapCredential {
    /// CHAP_N.
    pub name: String,
    /// Secret that only the two sides know.
    pub secret: Vec<u8>,
}

impl fmt::Debug for ChapCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChapCredential")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Reasons why authentication failed. They are for the log: the peer is told nothing of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChapError {
    /// No algorithm is common to both sides.
    NoCommonAlgorithm,
    /// A CHAP key, of this name, is missing, out of turn, malformed or too long.
    BadKey(&'static str),
    /// CHAP_R does not have the length of the hash.
    WrongResponseLength,
    /// The name is not the expected one.
    WrongName,
    /// The response does not prove the secret.
    WrongResponse,
    /// The peer sent our own challenge back, to make us answer it.
    ReflectedChallenge,
    /// The peer asks for a proof and there is no secret to prove.
    NoSecretToProve,
}

impl fmt::Display for ChapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCommonAlgorithm => {
                f.write_str("initiator and target have no CHAP algorithm in common")
            }
            Self::BadKey(key) => write!(f, "{key} is missing, malformed or out of turn"),
            Self::WrongResponseLength => f.write_str("CHAP_R does not have the length of the hash"),
            Self::WrongName => f.write_str("unknown CHAP name"),
            Self::WrongResponse => f.write_str("wrong CHAP response: the secrets differ"),
            Self::ReflectedChallenge => f.write_str("the CHAP challenge was reflected"),
            Self::NoSecretToProve => {
                f.write_str("mutual CHAP was requested, but no secret is configured for it")
            }
        }
    }
}

impl std::error::Error for ChapError {}

/// Challenge that this side has sent.
#[derive(Clone)]
pub struct ChapChallenge {
    algorithm: ChapAlgorithm,
    identifier: u8,
    challenge: Vec<u8>,
}

impl fmt::Debug for ChapChallenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChapChallenge")
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

impl ChapChallenge {
    /// Makes a new challenge from fresh random bytes.
    pub fn new(algorithm: ChapAlgorithm, entropy: &mut dyn Entropy) -> Self {
        let mut identifier = [0];
        entropy.fill(&mut identifier);
        let mut challenge = vec![0; algorithm.challenge_length()];
        entropy.fill(&mut challenge);
        Self {
            algorithm,
            identifier: identifier[0],
            challenge,
        }
    }

    /// Returns CHAP_A.
    pub const fn algorithm(&self) -> ChapAlgorithm {
        self.algorithm
    }

    /// Returns CHAP_I.
    pub const fn identifier(&self) -> u8 {
        self.identifier
    }

    /// Returns CHAP_C as text.
    pub fn challenge_text(&self) -> String {
        hex(&self.challenge)
    }

    /// Checks the peer's CHAP_N and CHAP_R against the expected name and secret.
    ///
    /// # Errors
    /// The first fault found.
    pub fn verify(
        &self,
        expected: &ChapCredential,
        name: &str,
        response: &str,
    ) -> Result<(), ChapError> {
        let length = self.algorithm.response_length();
        // The limit is one byte above the length of a response. So "too long" differs from
        // "malformed", and no more is decoded.
        let response = parse_binary(response, length + 1).ok_or(ChapError::BadKey("CHAP_R"))?;
        if response.len() != length {
            return Err(ChapError::WrongResponseLength);
        }
        let right = self
            .algorithm
            .respond(self.identifier, &expected.secret, &self.challenge);
        let proved = bool::from(right.ct_eq(&response));
        if !bool::from(expected.name.as_bytes().ct_eq(name.as_bytes())) {
            return Err(ChapError::WrongName);
        }
        if proved {
            Ok(())
        } else {
            Err(ChapError::WrongResponse)
        }
    }
}

/// Answers a peer's CHAP_I and CHAP_C with the CHAP_R to send.
///
/// `ours` is the challenge that this side has sent or will send in this login. A peer that returns
/// it wants this side to do its work.
///
/// # Errors
/// Malformed or oversized keys, or a reflected challenge.
pub fn answer(
    algorithm: ChapAlgorithm,
    identifier: &str,
    challenge: &str,
    credential: &ChapCredential,
    ours: Option<&ChapChallenge>,
) -> Result<String, ChapError> {
    let identifier = parse_number(identifier)
        .and_then(|number| u8::try_from(number).ok())
        .ok_or(ChapError::BadKey("CHAP_I"))?;
    let challenge =
        parse_binary(challenge, MAX_CHALLENGE_LENGTH).ok_or(ChapError::BadKey("CHAP_C"))?;
    if ours.is_some_and(|ours| ours.challenge == challenge) {
        return Err(ChapError::ReflectedChallenge);
    }
    Ok(hex(&algorithm.respond(
        identifier,
        &credential.secret,
        &challenge,
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counter(u8);

    impl Entropy for Counter {
        fn fill(&mut self, bytes: &mut [u8]) {
            for byte in bytes {
                *byte = self.0;
                self.0 = self.0.wrapping_add(1);
            }
        }
    }

    fn credential() -> ChapCredential {
        ChapCredential {
            name: "user".into(),
            secret: b"secret-of-12".to_vec(),
        }
    }

    #[test]
    fn known_answers() {
        // Made with: printf '\x01secretABC' | md5sum, sha1sum, sha256sum, openssl dgst -sha3-256
        let answers = [
            (ChapAlgorithm::Md5, "7f1ba987f5150bc1ea5e5b043c6e8080"),
            (
                ChapAlgorithm::Sha1,
                "7261acaa56fb5389d7de60d809fe7d99b4ec67b7",
            ),
            (
                ChapAlgorithm::Sha256,
                "f5f6d0918690d7423a92e694d605aff897155a9d2a366276c0989eeda3d9f7fa",
            ),
            (
                ChapAlgorithm::Sha3_256,
                "cd6f63713b951b240af14cd6283ab66ad23ca6e99fc51d911721aca21114016f",
            ),
        ];
        for (algorithm, answer) in answers {
            assert_eq!(
                hex(&algorithm.respond(1, b"secret", b"ABC")),
                format!("0x{answer}")
            );
        }
    }

    #[test]
    fn every_algorithm_proves_the_secret_and_nothing_else_does() {
        for algorithm in ChapAlgorithm::ALL {
            let challenge = ChapChallenge::new(algorithm, &mut Counter(7));
            let text = challenge.challenge_text();
            let id = challenge.identifier().to_string();
            let response = answer(algorithm, &id, &text, &credential(), None).unwrap();
            assert_eq!(challenge.verify(&credential(), "user", &response), Ok(()));
            assert_eq!(
                challenge.verify(&credential(), "User", &response),
                Err(ChapError::WrongName)
            );
            let wrong = ChapCredential {
                secret: b"other".to_vec(),
                ..credential()
            };
            assert_eq!(
                challenge.verify(&wrong, "user", &response),
                Err(ChapError::WrongResponse)
            );
            let long = format!("{response}00");
            assert_eq!(
                challenge.verify(&credential(), "user", &long),
                Err(ChapError::WrongResponseLength)
            );
            let short = &response[..response.len() - 2];
            assert_eq!(
                challenge.verify(&credential(), "user", short),
                Err(ChapError::WrongResponseLength)
            );
            let huge = format!("0x{}", "0".repeat(4000));
            assert_eq!(
                challenge.verify(&credential(), "user", &huge),
                Err(ChapError::BadKey("CHAP_R"))
            );
            let reflected = answer(algorithm, &id, &text, &credential(), Some(&challenge));
            assert_eq!(reflected, Err(ChapError::ReflectedChallenge));
        }
    }

    #[test]
    fn selects_the_first_known_algorithm() {
        assert_eq!(ChapAlgorithm::select("99,7,5"), Some(ChapAlgorithm::Sha256));
        assert_eq!(ChapAlgorithm::select("5"), Some(ChapAlgorithm::Md5));
        assert_eq!(ChapAlgorithm::select("0,1,x,"), None);
    }

    #[test]
    fn names_are_of_algorithms_and_each_stands_once() {
        for algorithm in ChapAlgorithm::ALL {
            assert_eq!(
                ChapAlgorithm::named([algorithm.name()]),
                Some(vec![algorithm])
            );
        }
        let both = ChapAlgorithm::named(["sha256", "md5"]);
        assert_eq!(both, Some(vec![ChapAlgorithm::Sha256, ChapAlgorithm::Md5]));
        for bad in [&[][..], &["MD5"], &["md5", "md5"], &["none"], &[""]] {
            assert_eq!(ChapAlgorithm::named(bad.iter().copied()), None, "{bad:?}");
        }
    }

    #[test]
    fn hostile_challenges_are_refused() {
        let refused = |identifier, challenge: &str| {
            answer(
                ChapAlgorithm::Md5,
                identifier,
                challenge,
                &credential(),
                None,
            )
            .unwrap_err()
        };
        assert_eq!(refused("256", "0x00"), ChapError::BadKey("CHAP_I"));
        assert_eq!(refused("-1", "0x00"), ChapError::BadKey("CHAP_I"));
        assert_eq!(refused("1", ""), ChapError::BadKey("CHAP_C"));
        assert_eq!(
            refused("1", &format!("0x{}", "00".repeat(1025))),
            ChapError::BadKey("CHAP_C")
        );
        assert_eq!(
            refused("1", &format!("0b{}", "AAAA".repeat(342))),
            ChapError::BadKey("CHAP_C")
        );
        assert!(
            answer(
                ChapAlgorithm::Md5,
                "1",
                &format!("0x{}", "00".repeat(1024)),
                &credential(),
                None
            )
            .is_ok()
        );
    }

    #[test]
    fn debug_does_not_print_secrets() {
        assert!(!format!("{:?}", credential()).contains("115"));
        assert_eq!(
            format!("{:?}", credential()),
            "ChapCredential { name: \"user\", .. }"
        );
    }
}
