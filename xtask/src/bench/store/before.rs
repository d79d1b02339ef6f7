//! A pool of the build before beside one of this build: each phase is run by the one and the other in turns, as often as
//! rounds are wanted, and the medians are compared. The raw file stands beside them as a measure of the machine.

use std::path::Path;

use super::phases::{Bench, NAMES};
use super::process::Loader;
use super::table::Table;
use super::{Folder, Options};

/// Compares `now` with `before`, two programs `pool_load`.
pub(super) fn run(options: &Options, before: &Path, now: &Path) -> Result<(), String> {
    let one_round = |name: &str| Options {
        rounds: 1,
        dir: options.dir.join(name),
        ..options.clone()
    };
    let both = [one_round("before"), one_round("now")];
    let _folders = [Folder::make(&both[0].dir)?, Folder::make(&both[1].dir)?];
    let mut tables = [Table::new(options)?, Table::new(options)?];
    let mut benches = Vec::new();
    for ((options, table), program) in both.iter().zip(&mut tables).zip([before, now]) {
        benches.push(Bench {
            options,
            program: program.to_owned(),
            loader: Loader::start(program, &options.dir, options.cache)?,
            peer: None,
            table,
            has_files: false,
        });
    }
    for name in NAMES {
        for round in 0..options.rounds {
            // The first of a pair finds the machine as the last left it: each is the first as often.
            let turns = [round % 2, 1 - round % 2];
            turns
                .into_iter()
                .try_for_each(|turn| benches[turn].run(name))?;
        }
    }
    drop(benches);
    let [before, now] = tables;
    now.beside(before).print(options.json)
}
