//! Second factor: a code of six digits that changes every 30 s (TOTP, RFC 6238), and recovery codes
//! for a lost phone.
//!
//! Each code is accepted once, so a code read over the shoulder is worth nothing.

use std::io;

use model::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use state_folder::{SecretKey, is_sealed};
use totp_rs::{Builder, Secret, Totp};

use super::secret;

/// Number of recovery codes.
const RECOVERY_CODES: usize = 10;
/// Random bytes of a recovery code.
const RECOVERY_BYTES: usize = 10;

/// Second factor of a user, as it is kept.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecondFactor {
    /// Shared secret in base32. It is sealed, unless it was enrolled just now or is of an older
    /// version.
    secret: String,
    /// Step of the last accepted code. Codes up to it are used up.
    #[serde(default)]
    used: u64,
    /// Digests of the recovery codes that are left.
    #[serde(default)]
    recovery: Vec<String>,
}

impl std::fmt::Debug for SecondFactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// Secret that a user enters in an app, before the first code proves that the app has it.
#[derive(Clone, PartialEq, Eq)]
pub struct Enrolment {
    /// Secret in base32.
    pub secret: String,
    /// Address that apps read from a QR code.
    pub uri: String,
}

impl Enrolment {
    /// Makes a secret for a user of this machine.
    ///
    /// # Errors
    /// The kernel gives no random bytes.
    pub fn new(user: &str, machine: &str) -> Result<Self, Error> {
        let bytes = secret::random::<20>().map_err(|error| no_random_bytes(&error))?;
        let secret = Secret::new_stack(bytes).to_base32();
        let plain =
            |text: &str| text.replace(|it: char| !it.is_ascii_alphanumeric() && it != '-', "_");
        let uri = format!(
            "otpauth://totp/Sandstone%20{}:{}?secret={secret}&issuer=Sandstone%20{}",
            plain(machine),
            plain(user),
            plain(machine)
        );
        Ok(Self { secret, uri })
    }
}

fn no_random_bytes(error: &getrandom::Error) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the kernel gives no random bytes: {error}"),
        "try again later",
    )
}

fn totp(secret: &str) -> Option<Totp> {
    let secret = Secret::try_from_base32(secret).ok()?;
    Builder::new().with_secret(secret).build().ok()
}

impl SecondFactor {
    /// Returns the factor of a secret, once a code of it is right, with its recovery codes. These
    /// are never shown again.
    ///
    /// # Errors
    /// The code is wrong, or the kernel gives no random bytes.
    pub(crate) fn enrol(secret: &str, code: &str, now: u64) -> Result<(Self, Vec<String>), Error> {
        let step = totp(secret).and_then(|totp| totp.check(code.trim(), now));
        let Some(step) = step else {
            return Err(Error::invalid(
                "the code does not belong to the secret",
                "enter the code that the app shows now; the clocks of the phone and of this machine must agree",
            ));
        };
        let code = |_| {
            let bytes = secret::random::<RECOVERY_BYTES>()?;
            let text = secret::hex(&bytes);
            Ok(format!("{}-{}", &text[..10], &text[10..]))
        };
        let codes: Result<Vec<String>, getrandom::Error> = (0..RECOVERY_CODES).map(code).collect();
        let codes = codes.map_err(|error| no_random_bytes(&error))?;
        let factor = Self {
            secret: secret.to_owned(),
            used: step,
            recovery: codes.iter().map(|code| secret::digest(code)).collect(),
        };
        Ok((factor, codes))
    }

    /// Reports whether the secret is sealed.
    pub(crate) fn is_sealed(&self) -> bool {
        is_sealed(&self.secret)
    }

    /// Seals the secret, unless it is sealed.
    ///
    /// # Errors
    /// The system gives no random bytes, or a new key cannot be stored.
    pub(crate) fn seal(&mut self, key: &SecretKey) -> io::Result<()> {
        if !self.is_sealed() {
            self.secret = key.seal(&self.secret)?;
        }
        Ok(())
    }

    /// Reports whether the key does not open the secret. Only recovery codes are then accepted.
    pub(crate) fn is_closed(&self, key: &SecretKey) -> bool {
        self.opened(key).is_none()
    }

    fn opened(&self, key: &SecretKey) -> Option<String> {
        match self.is_sealed() {
            true => key.unseal(&self.secret),
            false => Some(self.secret.clone()),
        }
    }

    /// Accepts a code, and uses it up. The factor must be kept afterwards.
    pub(crate) fn accept(&mut self, code: &str, now: u64, key: &SecretKey) -> bool {
        let code = code.trim();
        let totp = self.opened(key).and_then(|secret| totp(&secret));
        let step = totp.and_then(|totp| totp.check(code, now));
        if let Some(step) = step.filter(|step| *step > self.used) {
            self.used = step;
            return true;
        }
        let digest = secret::digest(&code.to_lowercase());
        let before = self.recovery.len();
        self.recovery.retain(|kept| *kept != digest);
        self.recovery.len() < before
    }

    /// Returns the number of recovery codes that are left.
    pub(crate) fn recovery_codes(&self) -> usize {
        self.recovery.len()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    pub(crate) fn code(secret: &str, at: u64) -> String {
        totp(secret).expect("a secret").generate(at).to_string()
    }

    fn key() -> SecretKey {
        SecretKey::of(&[7; 32])
    }

    fn enrolled() -> (SecondFactor, Vec<String>, String) {
        let enrolment = Enrolment::new("ann", "san1").expect("random bytes");
        let secret = enrolment.secret;
        let enrolled = SecondFactor::enrol(&secret, &code(&secret, NOW), NOW);
        let (factor, codes) = enrolled.expect("the code is right");
        (factor, codes, secret)
    }

    #[test]
    fn codes_are_those_of_rfc_6238() {
        let secret = Secret::new_stack(*b"12345678901234567890").to_base32();
        for (at, expected) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (2_000_000_000, "279037"),
        ] {
            assert_eq!(code(&secret, at), expected);
        }
    }

    #[test]
    fn a_code_is_accepted_once_and_near_its_time() {
        let (mut factor, _, secret) = enrolled();
        let first = code(&secret, NOW);
        assert!(
            !factor.accept(&first, NOW, &key()),
            "it proved the enrolment"
        );
        let next = code(&secret, NOW + 30);
        assert!(factor.accept(&next, NOW + 30, &key()));
        assert!(!factor.accept(&next, NOW + 31, &key()), "it is used up");
        let later = code(&secret, NOW + 600);
        assert!(
            !factor.accept(&later, NOW + 30, &key()),
            "its time has not come"
        );
        assert!(factor.accept(&format!(" {later} "), NOW + 629, &key()));
        for wrong in ["", "000000x", "12345", "١٢٣٤٥٦"] {
            assert!(!factor.accept(wrong, NOW + 900, &key()), "{wrong}");
        }
    }

    #[test]
    fn each_recovery_code_works_once() {
        let (mut factor, codes, _) = enrolled();
        assert_eq!(codes.len(), RECOVERY_CODES);
        let kept = serde_json::to_string(&factor).expect("JSON");
        for (used, code) in codes.iter().enumerate() {
            assert!(!kept.contains(code), "only digests are kept");
            assert!(factor.accept(&code.to_uppercase(), NOW, &key()));
            assert!(!factor.accept(code, NOW, &key()));
            assert_eq!(factor.recovery_codes(), RECOVERY_CODES - used - 1);
        }
    }

    #[test]
    fn a_wrong_code_enrols_nothing() {
        let enrolment = Enrolment::new("ann/ä?&", "san 1").expect("random bytes");
        assert!(
            enrolment
                .uri
                .starts_with("otpauth://totp/Sandstone%20san_1:ann____?secret=")
        );
        let right = code(&enrolment.secret, NOW);
        let wrong = if right == "000000" {
            "000001"
        } else {
            "000000"
        };
        SecondFactor::enrol(&enrolment.secret, wrong, NOW).expect_err("it is wrong");
        SecondFactor::enrol("not base32!", &right, NOW).expect_err("there is no secret");
    }

    #[test]
    fn a_sealed_secret_takes_codes_with_its_key_alone() {
        let (mut factor, codes, secret) = enrolled();
        factor.seal(&key()).expect("sealed");
        assert!(factor.is_sealed());
        let kept = serde_json::to_string(&factor).expect("JSON");
        assert!(!kept.contains(&secret), "{kept}");
        let once = factor.clone();
        factor.seal(&key()).expect("is sealed already");
        assert!(factor == once, "it is sealed once");
        let next = code(&secret, NOW + 30);
        let other = SecretKey::of(&[8; 32]);
        assert!(factor.is_closed(&other) && !factor.is_closed(&key()));
        assert!(!factor.accept(&next, NOW + 30, &other));
        assert!(factor.accept(&next, NOW + 30, &key()));
        assert!(
            factor.accept(&codes[0], NOW, &other),
            "recovery codes need no key"
        );
    }
}
