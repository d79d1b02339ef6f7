//! Extent of a login's offer. Most targets pick values from lists, but old ones refuse a list that
//! holds an unknown value. For old targets there is a second attempt, which offers one old value
//! for each key.
//!
//! A second attempt never asks for less proof. All that it offers was in the list of the first
//! attempt, and the target could have picked it there. CHAP stays CHAP, an algorithm that was not
//! configured is not offered, and a digest that is required stays required. An attacker who makes
//! the first attempt fail gains nothing.

use super::login::{LoginError, LoginSettings};
use crate::chap::{ChapAlgorithm, ChapError};
use crate::negotiation::{DigestPolicy, Limits, SessionParameters};
use crate::pdu::LoginStatus;

/// MaxRecvDataSegmentLength with which every old target can work, in bytes.
const OLD_SEGMENT: u32 = 64 << 10;

/// Extent of an offer: whether a login offers less than it could.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Whether to offer one method and one algorithm of authentication, in a stage that is not
    /// skipped.
    pub is_security_plain: bool,
    /// Whether to offer parameters no further than the defaults of RFC 7143, and no digest that is
    /// not required.
    pub are_parameters_plain: bool,
}

/// Point that a login reached before it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// Methods or algorithms were offered.
    SecurityOffer,
    /// A proof was sent, or none is left to send.
    Proof,
    /// Parameters were offered.
    Parameters,
}

impl Offer {
    /// Returns the next offer after a login with this offer failed. `error` is `None` if the target
    /// closed the connection. Returns `None` if another offer would change nothing.
    pub(super) fn after(
        self,
        reached: Reached,
        error: Option<&LoginError>,
        authenticates: bool,
    ) -> Option<Self> {
        if !error.is_none_or(|error| is_about_offers(error, authenticates)) {
            return None;
        }
        let next = match reached {
            Reached::Proof => self,
            Reached::SecurityOffer => Self {
                is_security_plain: true,
                ..self
            },
            // Without a proof to give, the first attempt skips the stage of authentication.
            Reached::Parameters => Self {
                is_security_plain: self.is_security_plain || !authenticates,
                are_parameters_plain: true,
            },
        };
        (next != self).then_some(next)
    }

    /// Describes in words the difference from the first offer.
    pub fn words(self, settings: &LoginSettings) -> String {
        let security = match settings.credential {
            Some(_) => {
                let algorithm = self.algorithms(&settings.algorithms);
                format!("only AuthMethod=CHAP and CHAP_A={algorithm}")
            }
            None => "AuthMethod=None first".to_owned(),
        };
        let parameters = "no parameters beyond the defaults of RFC 7143";
        match (self.is_security_plain, self.are_parameters_plain) {
            (false, false) => "all methods and parameters that this program knows".to_owned(),
            (true, false) => security,
            (false, true) => parameters.to_owned(),
            (true, true) => format!("{security} and {parameters}"),
        }
    }

    /// Returns AuthMethod of a login that has a proof to give. If the target must give one too, the
    /// login cannot do without.
    pub(super) const fn methods(self, is_mutual: bool) -> &'static str {
        if is_mutual || self.is_security_plain {
            "CHAP"
        } else {
            "CHAP,None"
        }
    }

    /// Returns CHAP_A: all configured algorithms, or the oldest one of them.
    pub(super) fn algorithms(self, configured: &[ChapAlgorithm]) -> String {
        let mut numbers: Vec<u8> = configured.iter().map(|a| *a as u8).collect();
        if self.is_security_plain
            && let Some(oldest) = numbers.iter().min().copied()
        {
            numbers = vec![oldest];
        }
        let numbers: Vec<String> = numbers.iter().map(u8::to_string).collect();
        numbers.join(",")
    }

    /// Returns the parameters to offer.
    pub(super) fn limits(self, configured: &Limits) -> Limits {
        let mut limits = configured.clone();
        if self.are_parameters_plain {
            let old = SessionParameters::default();
            limits.max_connections = old.max_connections;
            limits.initial_r2t = old.initial_r2t;
            limits.max_burst_length = limits.max_burst_length.min(old.max_burst_length);
            limits.first_burst_length = limits.first_burst_length.min(old.first_burst_length);
            limits.max_outstanding_r2t = old.max_outstanding_r2t;
            limits.protocol_level = old.protocol_level;
            limits.max_recv_data_segment_length =
                limits.max_recv_data_segment_length.min(OLD_SEGMENT);
            for digest in [&mut limits.header_digest, &mut limits.data_digest] {
                if *digest != DigestPolicy::Require {
                    *digest = DigestPolicy::Forbid;
                }
            }
        }
        limits
    }
}

/// Reports whether a failure may be due to the offer, and not to the names of initiator or target.
fn is_about_offers(error: &LoginError, authenticates: bool) -> bool {
    match error {
        // Without a proof to give, this means that the target demands one.
        LoginError::Refused(LoginStatus::AUTHENTICATION_FAILURE) => authenticates,
        LoginError::Refused(status) => matches!(
            *status,
            LoginStatus::INITIATOR_ERROR
                | LoginStatus::MISSING_PARAMETER
                | LoginStatus::INVALID_DURING_LOGIN
        ),
        LoginError::Chap(error) => {
            matches!(error, ChapError::NoCommonAlgorithm | ChapError::BadKey(_))
        }
        LoginError::Authentication(_) | LoginError::Negotiation(_) => true,
        LoginError::Redirected { .. }
        | LoginError::Text(_)
        | LoginError::Pdu(_)
        | LoginError::Protocol(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chap::ChapCredential;
    use crate::pdu::Isid;

    fn settings(algorithms: &[ChapAlgorithm]) -> LoginSettings {
        let mut settings = LoginSettings::new("iqn.x", None, Isid([0; 6]));
        settings.algorithms = algorithms.to_vec();
        settings.credential = Some(ChapCredential {
            name: "user".into(),
            secret: b"secret".to_vec(),
        });
        settings
    }

    #[test]
    fn no_offer_holds_what_was_not_configured() {
        use ChapAlgorithm::{Md5, Sha1, Sha3_256, Sha256};
        for (configured, all, plain) in [
            (&[Sha3_256, Sha1, Md5, Sha256][..], "8,6,5,7", "5"),
            (&[Sha3_256, Sha256], "8,7", "7"),
            (&[Sha256], "7", "7"),
            (&[Md5], "5", "5"),
        ] {
            let first = Offer::default();
            let second = first
                .after(Reached::SecurityOffer, None, true)
                .expect("one");
            assert_eq!(first.algorithms(configured), all);
            assert_eq!(second.algorithms(configured), plain);
            assert_eq!(second.methods(false), "CHAP");
            assert_eq!(second.methods(true), "CHAP");
            let words = second.words(&settings(configured));
            assert_eq!(words, format!("only AuthMethod=CHAP and CHAP_A={plain}"));
        }
    }

    #[test]
    fn a_required_digest_stays_required_and_limits_only_shrink() {
        let plain = Offer {
            are_parameters_plain: true,
            ..Offer::default()
        };
        let configured = Limits {
            header_digest: DigestPolicy::Require,
            data_digest: DigestPolicy::Allow,
            max_burst_length: 4096,
            immediate_data: false,
            ..Limits::default()
        };
        let limits = plain.limits(&configured);
        assert_eq!(limits.header_digest, DigestPolicy::Require);
        assert_eq!(limits.data_digest, DigestPolicy::Forbid);
        assert_eq!(
            (limits.max_burst_length, limits.first_burst_length),
            (4096, 65_536)
        );
        assert!(limits.initial_r2t && !limits.immediate_data);
        assert_eq!(Offer::default().limits(&configured), configured);
    }

    #[test]
    fn attempts_end_and_a_refused_proof_is_not_tried_again() {
        let refused = LoginError::Refused(LoginStatus::AUTHENTICATION_FAILURE);
        for error in [None, Some(&refused)] {
            for authenticates in [false, true] {
                for reached in [Reached::SecurityOffer, Reached::Parameters] {
                    let mut attempts = 1;
                    let mut offer = Offer::default();
                    while let Some(next) = offer.after(reached, error, authenticates) {
                        offer = next;
                        attempts += 1;
                    }
                    assert!(attempts <= 3, "{attempts}");
                }
                let proof = Offer::default().after(Reached::Proof, error, authenticates);
                assert_eq!(proof, None);
            }
        }
        for status in [
            LoginStatus::AUTHORIZATION_FAILURE,
            LoginStatus::NOT_FOUND,
            LoginStatus::OUT_OF_RESOURCES,
        ] {
            let error = LoginError::Refused(status);
            let next = Offer::default().after(Reached::Parameters, Some(&error), false);
            assert_eq!(next, None, "{status}");
        }
        // If the target demands a proof, another offer does not help an initiator without a secret.
        let next = Offer::default().after(Reached::Parameters, Some(&refused), false);
        assert_eq!(next, None);
    }
}
