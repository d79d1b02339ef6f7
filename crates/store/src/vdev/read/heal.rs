//! The search for the right bytes of a block among copies and columns. Some of these are missing,
//! and some are wrong without saying so.
//!
//! A wrong column is found by trying: some columns are left out and rebuilt from parity, and the
//! checksum of the whole is compared. Choices are tried in the order of how much must have gone
//! wrong. No more than [`Limits::combinations`](crate::vdev::Limits::combinations) choices are tried.

use pages::Pages;
use smallvec::SmallVec;

use super::{CopyState, ReadOperation};
use crate::vdev::raidz;

/// A choice of the version that is believed of each column, if any.
type Choice<'a> = SmallVec<[Option<&'a Pages>; 8]>;

impl ReadOperation {
    /// Returns the block's payload, if the bytes that were read so far yield it. `budget` is the
    /// number of choices that may still be tried. If it is 0 afterwards, there may be more choices.
    pub(super) fn assemble(&self, budget: &mut u32) -> Option<Pages> {
        if let [copies] = &self.copies[..]
            && let [copy] = &copies[..]
        {
            let CopyState::Read(payload) = &copy.state else {
                return None;
            };
            return self.block.verify.accepts(payload).then(|| payload.clone());
        }
        let versions: SmallVec<[SmallVec<[&Pages; 1]>; 8]> = (0..self.copies.len())
            .map(|column| self.versions(column))
            .collect();
        if !self.block.verify.is_proof() {
            return self.decode(&versions.iter().map(|all| all.first().copied()).collect());
        }
        let mut chosen: SmallVec<[usize; 8]> = versions.iter().map(|_| 0).collect();
        loop {
            let choice: Choice<'_> = versions
                .iter()
                .zip(&chosen)
                .map(|(all, at)| all.get(*at).copied())
                .collect();
            if let Some(payload) = self.without_some(choice, budget) {
                return Some(payload);
            }
            // The next choice of versions is found like the next number on a counter.
            let column = (0..chosen.len()).find(|column| {
                let has_more = chosen[*column] + 1 < versions[*column].len();
                chosen[*column] = if has_more { chosen[*column] + 1 } else { 0 };
                has_more
            });
            if column.is_none() || *budget == 0 {
                return None;
            }
        }
    }

    /// Returns the different bytes that copies of a column had, those of trusted leaves first.
    fn versions(&self, column: usize) -> SmallVec<[&Pages; 1]> {
        let mut versions: SmallVec<[&Pages; 1]> = SmallVec::new();
        for is_trusted in [true, false] {
            for copy in self.copies[column]
                .iter()
                .filter(|copy| copy.is_trusted == is_trusted)
            {
                if let CopyState::Read(data) = &copy.state
                    && !versions.iter().any(|version| is_same(version, data))
                {
                    versions.push(data);
                }
            }
        }
        versions
    }

    fn decode(&self, choice: &Choice<'_>) -> Option<Pages> {
        if self.geometry.columns.len() == 1 {
            return choice[0].cloned();
        }
        raidz::decode(&self.geometry, choice)
    }

    fn attempt(&self, choice: &Choice<'_>, budget: &mut u32) -> Option<Pages> {
        *budget = budget.checked_sub(1)?;
        self.decode(choice)
            .filter(|payload| self.block.verify.accepts(payload))
    }

    /// Tries the choice as it is, then without any one column, any two, …
    fn without_some(&self, choice: Choice<'_>, budget: &mut u32) -> Option<Pages> {
        let (parity, data) = choice.split_at(self.geometry.parity);
        let spare = parity.iter().flatten().count();
        let lacking = data.iter().filter(|column| column.is_none()).count();
        let most = spare.checked_sub(lacking)?;
        for count in 0..=most {
            let mut left_out = Vec::with_capacity(count);
            if let Some(payload) = self.leave_out(&choice, count, 0, &mut left_out, budget) {
                return Some(payload);
            }
        }
        None
    }

    /// Tries all choices that lack `count` more columns from `first` on.
    fn leave_out(
        &self,
        choice: &Choice<'_>,
        count: usize,
        first: usize,
        left_out: &mut Vec<usize>,
        budget: &mut u32,
    ) -> Option<Pages> {
        if count == 0 {
            // If no data column is left out or rebuilt, the choice was tried before.
            let is_new = left_out.is_empty()
                || left_out
                    .iter()
                    .any(|column| *column >= self.geometry.parity)
                || choice[self.geometry.parity..].iter().any(Option::is_none);
            if !is_new {
                return None;
            }
            let mut choice = choice.clone();
            left_out.iter().for_each(|column| choice[*column] = None);
            return self.attempt(&choice, budget);
        }
        for column in first..choice.len() {
            if choice[column].is_none() || *budget == 0 {
                continue;
            }
            left_out.push(column);
            let found = self.leave_out(choice, count - 1, column + 1, left_out, budget);
            left_out.pop();
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

/// Reports whether two runs hold equal bytes. Both begin at pages.
pub(super) fn is_same(left: &Pages, right: &Pages) -> bool {
    left.len() == right.len()
        && left
            .chunks()
            .zip(right.chunks())
            .all(|(left, right)| left == right)
}
