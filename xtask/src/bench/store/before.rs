//! A pool of the build before beside one of this build: each phase is run by the one and the other in turns, as often as
//! rounds are wanted, and the medians are compared. The raw file stands beside them as a measure of the machine.
//!
//! Both builds use the same files, each turn in a process of its own: where a file lies below a virtual machine's disk
//! makes more of a difference than most changes. One raw file was 0.82 as fast as another beside it.

use std::path::Path;

use super::phases::{Bench, NAMES};
use super::process::Loader;
use super::table::Table;
use super::{Folder, Options};

/// Compares `now` with `before`, two programs `pool_load`.
pub(super) fn run(options: &Options, before: &Path, now: &Path) -> Result<(), String> {
    let one_round = Options {
        rounds: 1,
        ..options.clone()
    };
    let folder = Folder::make(&options.dir)?;
    let mut tables = [Table::new(options)?, Table::new(options)?];
    for name in NAMES.iter().filter(|name| options.wants(name)) {
        for round in 0..options.rounds {
            // The first of a pair finds the machine as the last left it: each is the first as often.
            for turn in [round % 2, 1 - round % 2] {
                folder.clear_states();
                let program = [before, now][turn];
                let mut bench = Bench {
                    options: &one_round,
                    program: program.to_owned(),
                    loader: Loader::start(program, &options.dir, options.cache)?,
                    peer: None,
                    table: &mut tables[turn],
                    has_files: false,
                };
                bench.run(name)?;
            }
        }
    }
    let [before, now] = tables;
    now.beside(before).print(options.json)
}
