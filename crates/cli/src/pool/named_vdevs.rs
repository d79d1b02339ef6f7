//! zpool's way of naming devices for a pool: `mirror a b log c cache d spare e`.

use std::path::{Path, PathBuf};

use super::absolute;
use model::Error;
use model::pool::vdev_request::{VdevKind, VdevRequest};

/// Vdevs that the words name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NamedVdevs {
    /// Vdevs for blocks.
    pub(super) vdevs: Vec<VdevRequest>,
    /// Vdevs behind `log`.
    pub(super) logs: Vec<VdevRequest>,
    /// Devices behind `cache`.
    pub(super) caches: Vec<PathBuf>,
    /// Devices behind `spare`.
    pub(super) spares: Vec<PathBuf>,
}

/// Part of the pool that the next words are for, until a word changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Blocks,
    Log,
    Cache,
    Spare,
}

impl NamedVdevs {
    /// Reads the words. A word that names a kind begins a vdev; each path before any kind is a vdev
    /// of its own. As with zpool, all words behind `log` are for the log, until `cache` or `spare`.
    /// The next kind of vdev ends `cache` and `spare`.
    ///
    /// # Errors
    /// A word means nothing, or nothing at its place.
    pub(super) fn read(words: &[String]) -> Result<Self, Error> {
        let mut named = Self::default();
        let (mut part, mut is_group) = (Part::Blocks, false);
        for word in words {
            let kind = match word.as_str() {
                "mirror" => VdevKind::Mirror,
                "raidz" | "raidz1" => VdevKind::Raidz1,
                "raidz2" => VdevKind::Raidz2,
                "raidz3" => VdevKind::Raidz3,
                "log" | "cache" | "spare" => {
                    is_group = false;
                    part = match word.as_str() {
                        "log" => Part::Log,
                        "cache" => Part::Cache,
                        _ => Part::Spare,
                    };
                    continue;
                }
                "special" | "dedup" => {
                    return Err(Error::invalid(
                        format!("{word} vdevs are not supported"),
                        "make the pool without them",
                    ));
                }
                path => {
                    named.add(part, is_group, absolute(Path::new(path))?);
                    continue;
                }
            };
            if part != Part::Log {
                part = Part::Blocks;
            }
            is_group = true;
            named.list(part).push(VdevRequest {
                kind,
                paths: Vec::new(),
            });
        }
        Ok(named)
    }

    fn list(&mut self, part: Part) -> &mut Vec<VdevRequest> {
        match part {
            Part::Log => &mut self.logs,
            Part::Blocks | Part::Cache | Part::Spare => &mut self.vdevs,
        }
    }

    fn add(&mut self, part: Part, is_group: bool, path: PathBuf) {
        match part {
            Part::Cache => self.caches.push(path),
            Part::Spare => self.spares.push(path),
            Part::Blocks | Part::Log => match self.list(part).last_mut().filter(|_| is_group) {
                Some(group) => group.paths.push(path),
                None => self.list(part).push(VdevRequest {
                    kind: VdevKind::Disk,
                    paths: vec![path],
                }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::VdevKind::{Disk, Mirror, Raidz1, Raidz2};
    use super::*;

    fn read(words: &str) -> Result<NamedVdevs, Error> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        NamedVdevs::read(&words)
    }

    fn kinds(vdevs: &[VdevRequest]) -> Vec<(VdevKind, usize)> {
        vdevs.iter().map(|v| (v.kind, v.paths.len())).collect()
    }

    #[test]
    fn vdevs_are_written_as_for_zpool() {
        let parsed = |words| kinds(&read(words).expect("vdevs").vdevs);
        assert_eq!(parsed("/a /b"), [(Disk, 1), (Disk, 1)]);
        assert_eq!(
            parsed("mirror /a /b mirror /c /d"),
            [(Mirror, 2), (Mirror, 2)]
        );
        assert_eq!(
            parsed("/a raidz /b /c raidz2 /d /e /f"),
            [(Disk, 1), (Raidz1, 2), (Raidz2, 3)]
        );
        let error = read("/a special /b").expect_err("none");
        assert!(error.message.contains("special vdevs"), "{error}");
    }

    #[test]
    fn logs_caches_and_spares_stand_behind_their_words() {
        let named =
            read("mirror /a /b log mirror /c /d cache /e /f spare /g mirror /h /i log /j /k");
        let named = named.expect("vdevs");
        assert_eq!(kinds(&named.vdevs), [(Mirror, 2), (Mirror, 2)]);
        assert_eq!(kinds(&named.logs), [(Mirror, 2), (Disk, 1), (Disk, 1)]);
        assert_eq!((named.caches.len(), named.spares.len()), (2, 1));
        let alone = read("cache /x").expect("a cache");
        assert_eq!(alone.caches, [PathBuf::from("/x")]);
    }
}
