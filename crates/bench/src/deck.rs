//! Yes or no in an exact share: of every hundred draws, as many say yes as the percentage demands.
//!
//! Independent draws would give the share only on average, and two runs of a workload would differ
//! in the number of reads they happened to draw. Cards from a shuffled deck of a hundred keep the
//! order random and the share exact. So runs differ only by what they ran on.

use super::random::Random;

/// Cards in a deck.
const CARDS: usize = 100;

/// A deck of numbers below 256, each with its share of the hundred cards.
#[derive(Clone, Debug)]
pub struct Deck {
    cards: [u8; CARDS],
    next: usize,
    /// Whether all cards are equal, so that nothing is drawn.
    same: bool,
}

impl Deck {
    /// Creates a deck in which number `i` stands on `shares[i]` cards.
    ///
    /// # Panics
    /// The shares do not add up to 100.
    pub fn of(shares: impl IntoIterator<Item = u8>) -> Self {
        let mut cards = [0; CARDS];
        let mut dealt = 0;
        for (number, share) in shares.into_iter().enumerate() {
            let end = dealt + usize::from(share);
            assert!(end <= CARDS, "shares of at most 100 percent");
            cards[dealt..end].fill(number as u8);
            dealt = end;
        }
        assert_eq!(dealt, CARDS, "shares of 100 percent");
        Self {
            same: cards[0] == cards[CARDS - 1],
            cards,
            next: CARDS,
        }
    }

    /// Creates a deck in which this percentage of cards says yes.
    pub fn yes(percent: u8) -> Self {
        Self::of([CARDS as u8 - percent, percent])
    }

    /// Draws the next number. After the last card the deck is shuffled again.
    #[inline]
    pub fn draw(&mut self, random: &mut Random) -> u8 {
        if self.same {
            return self.cards[0];
        }
        if self.next == CARDS {
            random.shuffle(&mut self.cards);
            self.next = 0;
        }
        let card = self.cards[self.next];
        self.next += 1;
        card
    }

    /// Reports whether the next card of a deck made by [`Deck::yes`] says yes.
    #[inline]
    pub fn says_yes(&mut self, random: &mut Random) -> bool {
        self.draw(random) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hundred_draws_have_the_exact_share_in_another_order() {
        let mut random = Random::new(1);
        for percent in [0, 1, 35, 50, 99, 100] {
            let mut deck = Deck::yes(percent);
            let mut rounds = Vec::new();
            for _ in 0..10 {
                let round: Vec<bool> = (0..100).map(|_| deck.says_yes(&mut random)).collect();
                let said = round.iter().filter(|said| **said).count();
                assert_eq!(said, usize::from(percent));
                rounds.push(round);
            }
            if percent % 100 > 1 {
                assert_ne!(rounds[0], rounds[1]);
            }
        }
    }
}
