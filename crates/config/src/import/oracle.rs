//! Tests that an import lets in nobody who was not let in before. Random files of SCST and LIO are
//! read twice: by the importers, and by the rules of the original programs, which are written down
//! here a second time.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::Imported;
use crate::access::{Authentication, access, discovery};
use crate::change::Change;
use crate::identity::Seed;
use model::{Config, Error};

mod lio;
mod scst;

/// Number of files of each kind in a run.
const FILES: u64 = 5_500;

const INITIATORS: [&str; 8] = [
    "x",
    "iqn.2001-04.x:a",
    "iqn.2001-04.x:b",
    "iqn.2001-04.x:ab",
    "iqn.2001-04.x:a1b",
    "iqn.2001-04.y:b",
    "iqn.2001-04.y:[b]",
    "iqn.2001-04.x:stranger",
];
const TARGETS: [&str; 3] = [
    "iqn.2003-01.san:t1",
    "iqn.2003-01.san:t2",
    "iqn.2003-01.san:t3",
];
const ADDRESSES: [&str; 3] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];

/// User and secret.
type Secret = (&'static str, &'static str);

/// Secrets, of which the last is too short for Sandstone.
const SECRETS: [Secret; 4] = [
    ("ann", "secret-of-ann"),
    ("bob", "secret-of-bob"),
    ("ann", "another-of-ann"),
    ("eve", "short"),
];

/// Unit that an initiator finds at a LUN.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    lun: u64,
    path: String,
    writable: bool,
}

/// Program that wrote a file.
trait Original {
    fn targets(&self) -> usize;
    fn text(&self) -> String;
    fn read(&self) -> Result<Imported, Error>;
    /// Returns the units that the initiator finds at the target, at this address and with this
    /// proof.
    fn sees(
        &self,
        initiator: &str,
        address: &str,
        target: usize,
        proof: Option<Secret>,
    ) -> Vec<Seen>;
    /// Reports whether the proof lets an initiator discover.
    fn discovers(&self, proof: Option<Secret>) -> bool;
    /// Returns the names that the file has for this initiator.
    fn names(&self, initiator: &str) -> Vec<String>;
}

/// Random numbers (xorshift).
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(super) fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    fn some<T: Clone>(&mut self, all: &[T], most: usize) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| self.of(all)).collect()
    }

    fn secret(&mut self) -> Secret {
        if self.one_in(8) {
            SECRETS[3]
        } else {
            self.of(&SECRETS[..3])
        }
    }
}

pub(super) fn dice(seed: u64) -> Dice {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..4 {
        dice.below(2);
    }
    dice
}

/// Counts of views in the original and the import. They show that not everything is left out.
#[derive(Default)]
struct Tally {
    before: usize,
    after: usize,
}

fn proofs() -> impl Iterator<Item = Option<Secret>> {
    SECRETS.into_iter().map(Some).chain([None])
}

fn proves(asked: &Authentication, proof: Option<Secret>) -> bool {
    match asked {
        Authentication::None => true,
        Authentication::Chap { initiator, .. } => {
            proof.is_some_and(|(user, secret)| initiator.user == user && initiator.secret == secret)
        }
    }
}

fn path(config: &Config, unit: &str) -> String {
    let place = config.unit(unit).unwrap().backend.place();
    place.unwrap().display().to_string()
}

fn compare(seed: u64, original: &dyn Original, tally: &mut Tally) {
    let text = original.text();
    let imported = match original.read() {
        Ok(imported) => imported,
        Err(error) => {
            return assert!(
                error.message.contains("discovery requires a CHAP login"),
                "{error}\n{text}"
            );
        }
    };
    let notes = &imported.notes;
    let config = Change::Replace(Box::new(imported.config.clone()))
        .applied(&Config::default(), Seed::fixed(1), false)
        .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}\n{notes:#?}"));
    let told = || format!("seed {seed}\n{text}\n{notes:#?}\n{config:#?}");
    for initiator in INITIATORS {
        for proof in proofs() {
            if discovery(&config, initiator).is_ok_and(|asked| proves(&asked, proof)) {
                assert!(
                    original.discovers(proof),
                    "{initiator} discovers with {proof:?}: {}",
                    told()
                );
            }
        }
        for (target, iqn) in TARGETS.iter().enumerate().take(original.targets()) {
            let (mut before, mut after) = (BTreeSet::new(), BTreeSet::new());
            for address in ADDRESSES {
                let portal: SocketAddr = format!("{address}:3260").parse().unwrap();
                let ours = access(&config, initiator, iqn, Some(portal));
                for proof in proofs() {
                    let had = original.sees(initiator, address, target, proof);
                    before.extend(had.iter().map(|seen| seen.path.clone()));
                    let Ok(ours) = &ours else { continue };
                    if !proves(&ours.authentication, proof) {
                        continue;
                    }
                    for lun in &ours.luns {
                        let path = path(&config, &lun.unit);
                        let was = had
                            .iter()
                            .find(|seen| seen.path == path && seen.lun == u64::from(lun.lun));
                        assert!(
                            was.is_some_and(|seen| seen.writable || lun.read_only),
                            "{initiator} at {iqn}, {address}, with {proof:?} sees {lun:?}, but saw {had:?}: {}",
                            told()
                        );
                        after.insert(path);
                    }
                }
            }
            tally.before += before.len();
            tally.after += after.len();
            // Every missing unit must be reported, by its target or by a name that the file has for
            // the initiator.
            let is_told = || {
                let mut names = original.names(initiator);
                names.push((*iqn).to_owned());
                let words = notes.iter().flat_map(|note| note.split_whitespace());
                let mut words = words.map(|word| word.trim_end_matches([',', ';', ':']));
                words.any(|word| names.iter().any(|name| name.eq_ignore_ascii_case(word)))
            };
            assert!(
                before.is_subset(&after) || is_told(),
                "{initiator} at {iqn} lost {before:?} but for {after:?} without a word: {}",
                told()
            );
        }
    }
}

#[test]
fn an_import_never_lets_in_more_than_scst_did() {
    let mut tally = Tally::default();
    for seed in 0..FILES {
        compare(seed, &scst::Conf::random(&mut dice(seed)), &mut tally);
    }
    assert!(
        tally.after * 3 > tally.before,
        "{} of {}",
        tally.after,
        tally.before
    );
}

#[test]
fn an_import_never_lets_in_more_than_lio_did() {
    let mut tally = Tally::default();
    for seed in 0..FILES {
        compare(seed, &lio::Saved::random(&mut dice(seed)), &mut tally);
    }
    assert!(
        tally.after * 3 > tally.before,
        "{} of {}",
        tally.after,
        tally.before
    );
}
