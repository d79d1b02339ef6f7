//! A pool of the earlier build beside one of this build. Each phase runs on one and the other in
//! turns, once for each round, and the medians are compared. The raw file beside them measures the
//! machine.
//!
//! Both builds use the same files, each turn in a process of its own. The place of a file below a
//! virtual machine's disk makes more of a difference than most changes. One raw file was 0.82 as
//! fast as another beside it.

use std::path::Path;

use super::phases::{Bench, NAMES};
use super::process::Loader;
use super::table::Table;
use super::{Folder, Options};

/// Compares `now` with `before`, two builds of the program `pool_load`.
pub(super) fn run(options: &Options, before: &Path, now: &Path) -> Result<(), String> {
    let one_round = Options {
        rounds: 1,
        ..options.clone()
    };
    let folder = Folder::make(&options.dir)?;
    let mut tables = [Table::new(options)?, Table::new(options)?];
    for name in NAMES.iter().filter(|name| options.wants(name)) {
        for round in 0..options.rounds {
            // The first of a pair finds the machine as the last one left it, so each is first
            // equally often.
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
