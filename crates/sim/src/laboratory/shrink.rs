//! Shortens a history that fails, so that a person can read it.

use super::{Failure, run};
use crate::history::{History, Step};
use crate::subject::Subject;

/// Finds a shorter history that fails too, and returns it with its failure.
///
/// The search leaves out the steps after the failure and then larger and smaller parts, and makes
/// crashes simpler. It runs `attempts` histories at most.
pub fn shrink<S: Subject>(
    setup: &S::Setup,
    history: &History,
    failure: Failure,
    attempts: u32,
) -> (History, Failure) {
    let mut search = Search {
        best: history.clone(),
        failure,
        left: attempts,
    };
    search.cut_tail::<S>(setup);
    let mut part = search.best.steps.len().div_ceil(2);
    while part > 0 && search.left > 0 {
        let before = search.best.steps.len();
        search.without_parts::<S>(setup, part);
        if search.best.steps.len() == before || part > 1 {
            part /= 2;
        }
    }
    search.simplify::<S>(setup);
    (search.best, search.failure)
}

/// Number of chance seeds that a shorter history is tried with.
const CHANCES: u64 = 6;

struct Search {
    best: History,
    failure: Failure,
    left: u32,
}

impl Search {
    /// Takes a history as the new best if it fails with the old seed of chance or with another.
    ///
    /// Other seeds are tried because with fewer steps every chance event differs.
    fn offer<S: Subject>(&mut self, setup: &S::Setup, steps: &[Step]) -> bool {
        for other in 0..CHANCES {
            if self.left == 0 {
                return false;
            }
            self.left -= 1;
            let history = History {
                steps: steps.to_vec(),
                chance: self.best.chance.wrapping_add(other),
                ..self.best.clone()
            };
            if let Err(failure) = run::<S>(setup, &history) {
                self.best = history;
                self.failure = failure;
                return true;
            }
        }
        false
    }

    /// Cuts the steps after the failure.
    ///
    /// The end of a history checks everything, so these steps are not needed. Often the step that
    /// failed is not needed either.
    fn cut_tail<S: Subject>(&mut self, setup: &S::Setup) {
        for extra in [0, 1] {
            let mut steps = self.best.steps.clone();
            steps.truncate(self.failure.step + extra);
            if steps.len() < self.best.steps.len() && self.offer::<S>(setup, &steps) {
                return;
            }
        }
    }

    fn without_parts<S: Subject>(&mut self, setup: &S::Setup, part: usize) {
        let mut at = 0;
        while at < self.best.steps.len() && self.left > 0 {
            let mut steps = self.best.steps.clone();
            steps.drain(at..(at + part).min(steps.len()));
            if !self.offer::<S>(setup, &steps) {
                at += part;
            }
        }
    }

    fn simplify<S: Subject>(&mut self, setup: &S::Setup) {
        for at in 0..self.best.steps.len() {
            if let Some(Step::PowerCut { again_after }) = self.best.steps.get(at)
                && !again_after.is_empty()
            {
                let mut steps = self.best.steps.clone();
                let again_after = Vec::new();
                steps[at] = Step::PowerCut { again_after };
                self.offer::<S>(setup, &steps);
            }
        }
    }
}
