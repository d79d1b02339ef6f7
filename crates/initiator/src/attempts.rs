//! The attempts of one login: after one that failed for what it offered comes another that offers
//! less ([`iscsi::initiator::Offer`]), on a new connection. If all fail, the error names the first
//! and the last.

use iscsi::initiator::Offer;

use super::link::{Link, LinkError};

/// The attempts so far, and the next offer.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// To be offered by the next attempt.
    pub(super) offer: Offer,
    /// The offer in words, after an attempt that failed.
    words: Option<String>,
    first: Option<LinkError>,
}

impl Attempts {
    /// An attempt over this link has failed. `Ok`: the next one offers less, and should follow at
    /// once.
    ///
    /// # Errors
    /// Nothing is left to offer; the next login begins with everything again.
    pub(super) fn failed(&mut self, link: &Link, error: LinkError) -> Result<(), LinkError> {
        let Some((offer, words)) = link.second_offer(&error) else {
            return Err(self.give_up(error));
        };
        tracing::info!(%error, "login failed for what it offered; again with {words}");
        self.offer = offer;
        self.words = Some(words);
        self.first.get_or_insert(error);
        Ok(())
    }

    /// Whether an attempt has failed, and another is under way.
    pub(super) fn has_failed(&self) -> bool {
        self.first.is_some()
    }

    /// No attempt is left: the error for people.
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

    /// An attempt has succeeded. Returns its offer in words, if it was not the first one. The proof
    /// that the target took is offered by the next login too. Parameters, on which speed depends,
    /// are all offered again: their attempt may have failed for a connection that broke.
    pub(super) fn succeeded(&mut self) -> Option<String> {
        self.first = None;
        self.offer.are_parameters_plain = false;
        self.words.take()
    }
}
