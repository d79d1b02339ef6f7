//! SecurityNegotiation stage of a login: AuthMethod and CHAP, seen from the target (RFC 7143 §12,
//! §6.3.2).

use super::policy::Authentication;
use crate::chap::{self, ChapAlgorithm, ChapChallenge, ChapError, Entropy};
use crate::text_keys::{TextOutput, parse_list};

/// Security keys of one text.
#[derive(Debug, Default)]
pub(super) struct SecurityKeys<'a> {
    auth_method: Option<&'a str>,
    chap_a: Option<&'a str>,
    chap_n: Option<&'a str>,
    chap_r: Option<&'a str>,
    chap_i: Option<&'a str>,
    chap_c: Option<&'a str>,
}

impl<'a> SecurityKeys<'a> {
    /// Takes a pair if its key is a security key. Returns `Some(false)` if the key came twice.
    pub(super) fn take(&mut self, key: &str, value: &'a str) -> Option<bool> {
        let slot = match key {
            "AuthMethod" => &mut self.auth_method,
            "CHAP_A" => &mut self.chap_a,
            "CHAP_N" => &mut self.chap_n,
            "CHAP_R" => &mut self.chap_r,
            "CHAP_I" => &mut self.chap_i,
            "CHAP_C" => &mut self.chap_c,
            _ => return None,
        };
        Some(slot.replace(value).is_none())
    }

    const fn has_proof(&self) -> bool {
        self.chap_n.is_some()
            || self.chap_r.is_some()
            || self.chap_i.is_some()
            || self.chap_c.is_some()
    }

    const fn is_empty(&self) -> bool {
        self.auth_method.is_none() && self.chap_a.is_none() && !self.has_proof()
    }
}

/// Reasons why the initiator is not authenticated.
#[derive(Debug)]
pub(super) enum SecurityError {
    /// The initiator offers no method that is acceptable here.
    NoCommonMethod,
    /// The initiator tries to leave the stage, or to skip it, without proof.
    NotAuthenticated,
    /// CHAP failed.
    Chap(ChapError),
}

impl From<ChapError> for SecurityError {
    fn from(error: ChapError) -> Self {
        Self::Chap(error)
    }
}

/// State of the stage.
#[derive(Debug)]
enum SecurityState {
    AwaitAuthMethod,
    AwaitChapAlgorithm,
    AwaitChapResponse(ChapChallenge),
    Done,
}

/// SecurityNegotiation stage.
#[derive(Debug)]
pub(super) struct SecurityNegotiation {
    authentication: Authentication,
    state: SecurityState,
    authenticated_as: Option<String>,
}

impl SecurityNegotiation {
    pub(super) const fn new(authentication: Authentication) -> Self {
        Self {
            authentication,
            state: SecurityState::AwaitAuthMethod,
            authenticated_as: None,
        }
    }

    /// Reports whether the stage may be left: all that is required has been proved.
    pub(super) const fn may_leave(&self) -> bool {
        match self.state {
            SecurityState::Done => true,
            SecurityState::AwaitAuthMethod => matches!(self.authentication, Authentication::None),
            SecurityState::AwaitChapAlgorithm | SecurityState::AwaitChapResponse(_) => false,
        }
    }

    /// Returns the CHAP name that was proved.
    pub(super) fn authenticated_as(&self) -> Option<&str> {
        self.authenticated_as.as_deref()
    }

    /// Takes the security keys of one text and answers.
    pub(super) fn receive(
        &mut self,
        keys: &SecurityKeys<'_>,
        wants_to_leave: bool,
        entropy: &mut dyn Entropy,
        out: &mut TextOutput,
    ) -> Result<(), SecurityError> {
        match &self.state {
            SecurityState::AwaitAuthMethod => {
                self.await_auth_method(keys, wants_to_leave, entropy, out)
            }
            SecurityState::AwaitChapAlgorithm => self.await_chap_algorithm(keys, entropy, out),
            SecurityState::AwaitChapResponse(challenge) => {
                let challenge = challenge.clone();
                self.await_chap_response(keys, &challenge, out)
            }
            SecurityState::Done if keys.is_empty() => Ok(()),
            SecurityState::Done => Err(ChapError::BadKey("security key").into()),
        }
    }

    fn await_auth_method(
        &mut self,
        keys: &SecurityKeys<'_>,
        wants_to_leave: bool,
        entropy: &mut dyn Entropy,
        out: &mut TextOutput,
    ) -> Result<(), SecurityError> {
        if keys.has_proof() {
            return Err(ChapError::BadKey("CHAP response").into());
        }
        let Some(offered) = keys.auth_method else {
            if keys.chap_a.is_some() {
                return Err(ChapError::BadKey("CHAP_A").into());
            }
            // Without AuthMethod the initiator proposes None by silence.
            let stuck = wants_to_leave && !self.may_leave();
            return if stuck {
                Err(SecurityError::NotAuthenticated)
            } else {
                Ok(())
            };
        };
        let offers = |method| parse_list(offered).any(|item| item == method);
        match self.authentication {
            Authentication::None if offers("None") => {
                out.push("AuthMethod", "None");
                self.state = SecurityState::Done;
                Ok(())
            }
            Authentication::Chap { .. } if offers("CHAP") => {
                out.push("AuthMethod", "CHAP");
                self.state = SecurityState::AwaitChapAlgorithm;
                // Some initiators send CHAP_A along.
                if keys.chap_a.is_some() {
                    self.await_chap_algorithm_of(keys, entropy, out)
                } else {
                    Ok(())
                }
            }
            _ => Err(SecurityError::NoCommonMethod),
        }
    }

    fn await_chap_algorithm(
        &mut self,
        keys: &SecurityKeys<'_>,
        entropy: &mut dyn Entropy,
        out: &mut TextOutput,
    ) -> Result<(), SecurityError> {
        if keys.auth_method.is_some() || keys.has_proof() {
            return Err(ChapError::BadKey("CHAP_A").into());
        }
        self.await_chap_algorithm_of(keys, entropy, out)
    }

    fn await_chap_algorithm_of(
        &mut self,
        keys: &SecurityKeys<'_>,
        entropy: &mut dyn Entropy,
        out: &mut TextOutput,
    ) -> Result<(), SecurityError> {
        let list = keys.chap_a.ok_or(ChapError::BadKey("CHAP_A"))?;
        let algorithm = ChapAlgorithm::select(list).ok_or(ChapError::NoCommonAlgorithm)?;
        let challenge = ChapChallenge::new(algorithm, entropy);
        out.push("CHAP_A", algorithm as u8);
        out.push("CHAP_I", challenge.identifier());
        out.push("CHAP_C", challenge.challenge_text());
        self.state = SecurityState::AwaitChapResponse(challenge);
        Ok(())
    }

    fn await_chap_response(
        &mut self,
        keys: &SecurityKeys<'_>,
        challenge: &ChapChallenge,
        out: &mut TextOutput,
    ) -> Result<(), SecurityError> {
        let Authentication::Chap { initiator, target } = &self.authentication else {
            return Err(SecurityError::NoCommonMethod);
        };
        if keys.auth_method.is_some() || keys.chap_a.is_some() {
            return Err(ChapError::BadKey("CHAP_A").into());
        }
        let name = keys.chap_n.ok_or(ChapError::BadKey("CHAP_N"))?;
        let response = keys.chap_r.ok_or(ChapError::BadKey("CHAP_R"))?;
        // The initiator proves itself first: nothing is answered to a stranger (RFC 7143 §9.2.1).
        challenge.verify(initiator, name, response)?;
        match (keys.chap_i, keys.chap_c) {
            (None, None) => {}
            (Some(identifier), Some(theirs)) => {
                let credential = target.as_ref().ok_or(ChapError::NoSecretToProve)?;
                let proof = chap::answer(
                    challenge.algorithm(),
                    identifier,
                    theirs,
                    credential,
                    Some(challenge),
                )?;
                out.push("CHAP_N", &credential.name);
                out.push("CHAP_R", proof);
            }
            (None, Some(_)) => return Err(ChapError::BadKey("CHAP_I").into()),
            (Some(_), None) => return Err(ChapError::BadKey("CHAP_C").into()),
        }
        self.authenticated_as = Some(name.to_owned());
        self.state = SecurityState::Done;
        Ok(())
    }
}
