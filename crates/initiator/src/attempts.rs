//! The attempts of one login. If the target failed an attempt because of its offer, the next one
//! offers less ([`iscsi::initiator::Offer`]), on a new connection. If all fail, the error names the
//! first and the last.

use iscsi::initiator::Offer;

use super::link::{Link, LinkError};

/// Attempts so far, and the next offer.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// Offer for the next attempt.
    pub(super) offer: Offer,
    /// Offer in words, after an attempt that failed.
    words: Option<String>,
    first: Option<LinkError>,
}

impl Attempts {
    /// Notes that an attempt over this link has failed. `Ok`: the next attempt offers less, and
    /// should follow at once.
    ///
    /// # Errors
    /// No smaller offer is left. The next login begins with the full offer again.
    pub(super) fn failed(&mut self, link: &Link, error: LinkError) -> Result<(), LinkError> {
        let Some((offer, words)) = link.second_offer(&error) else {
            return Err(self.give_up(error));
        };
        tracing::info!(%error, "the login failed because of its offer; trying again with {words}");
        self.offer = offer;
        self.words = Some(words);
        self.first.get_or_insert(error);
        Ok(())
    }

    /// Reports whether an attempt has failed, and another is under way.
    pub(super) fn has_failed(&self) -> bool {
        self.first.is_some()
    }

    /// Ends the attempts, and returns the error for the user.
    pub(super) fn give_up(&mut self, last: LinkError) -> LinkError {
        let given_up = std::mem::take(self);
        match (given_up.first, given_up.words) {
            (Some(first), Some(offer)) => LinkError::Again {
                first: Box::new(first),
                offer,
                last: Box::new(last),
            },
            _ => last,
        }
    }

    /// Notes that an attempt has succeeded. Returns its offer in words, if it was not the first
    /// attempt. The next login offers the accepted authentication too. It offers all parameters
    /// again, because speed depends on them, and their attempt may have failed for a broken
    /// connection.
    pub(super) fn succeeded(&mut self) -> Option<String> {
        self.first = None;
        self.offer.are_parameters_plain = false;
        self.words.take()
    }
}
