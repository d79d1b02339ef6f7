//! Built-in profiles: the tests that people who measure storage run and compare.
//!
//! Accesses are aligned to their own size up to 4 KiB, as file systems align them. IOmeter without
//! an alignment goes to any 512 bytes. On disks with sectors of 4 KiB, this measures the read
//! before the write. A file that asks for it (`--profile FILE.icf`) is run as it says.

use super::data::DataPattern;
use super::workload::{Profile, Stream, Workload};
use ::iometer::access::{AccessLine, AccessSpecification, Assignment};
use model::quantity::format_size;

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;

/// Returns every built-in profile.
pub fn built_in() -> Vec<Profile> {
    vec![
        vmktree(),
        sequential(
            "seq-small",
            "Sequential, 4 to 32 KiB, read and write",
            &[4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB],
        ),
        sequential(
            "seq-big",
            "Sequential, 128 KiB to 1 MiB, read and write",
            &[128 * KIB, 256 * KIB, 512 * KIB, MIB],
        ),
        file_server(),
        crystal(),
        sqlio(),
        oltp(),
        dd(),
    ]
}

/// Finds the built-in profile of this name, in any case.
pub fn find(name: &str) -> Option<Profile> {
    built_in()
        .into_iter()
        .find(|profile| profile.name.eq_ignore_ascii_case(name))
}

fn profile(name: &str, about: &str, workloads: Vec<Workload>) -> Profile {
    Profile {
        name: name.into(),
        about: about.into(),
        workloads,
        parameters: None,
    }
}

fn line(size: u32, reads_percent: u8, random_percent: u8) -> AccessLine {
    AccessLine {
        align: size.min(4 * KIB),
        ..AccessLine::all(size, reads_percent, random_percent)
    }
}

fn stream(name: &str, line: AccessLine) -> Stream {
    Stream::new(AccessSpecification::single(name, line))
}

fn workload(name: &str, line: AccessLine) -> Workload {
    Workload::single(stream(name, line))
}

/// Returns a profile of accesses of one size, with these shares of reads and of random accesses in
/// percent.
pub fn of_one_size(block: u32, reads_percent: u8, random_percent: u8) -> Profile {
    let size = format_size(u64::from(block));
    let name = format!("{size} {}", mix(reads_percent, random_percent));
    let workload = workload(&name, line(block, reads_percent, random_percent));
    profile(&name, "", vec![workload])
}

/// Returns the shares of reads and of random accesses in words.
pub fn mix(reads_percent: u8, random_percent: u8) -> String {
    format!("{reads_percent}% read {random_percent}% random")
}

/// Returns the four tests of vmktree.org, by which users of ESXi compare their storage.
fn vmktree() -> Profile {
    profile(
        "vmktree",
        "The four IOmeter tests that ESXi users compare by",
        vec![
            workload("Max Throughput-100%Read", line(32 * KIB, 100, 0)),
            workload("RealLife-60%Rand-65%Read", line(8 * KIB, 65, 60)),
            workload("Max Throughput-50%Read", line(32 * KIB, 50, 0)),
            workload("Random-8k-70%Read", line(8 * KIB, 70, 100)),
        ],
    )
}

fn sequential(name: &str, about: &str, sizes: &[u32]) -> Profile {
    let both = sizes.iter().flat_map(|&size| {
        let shown = if size < MIB {
            format!("{} KiB", size / KIB)
        } else {
            format!("{} MiB", size / MIB)
        };
        [("read", 100), ("write", 0)].map(|(word, reads)| {
            workload(&format!("{shown} sequential {word}"), line(size, reads, 0))
        })
    });
    profile(name, about, both.collect())
}

/// Returns the mix that Intel shipped with IOmeter for file servers.
fn file_server() -> Profile {
    let shares = [
        (512, 10),
        (KIB, 5),
        (2 * KIB, 5),
        (4 * KIB, 60),
        (8 * KIB, 2),
        (16 * KIB, 4),
        (32 * KIB, 4),
        (64 * KIB, 10),
    ];
    let specification = AccessSpecification {
        name: "File Server".into(),
        assignment: Assignment::None,
        lines: shares
            .map(|(size, share)| line(size, 80, 100).share(share))
            .to_vec(),
    };
    profile(
        "fileserver",
        "Random accesses of 512 bytes to 64 KiB, 80 % reads",
        vec![Workload::single(Stream::new(specification))],
    )
}

/// Returns the tests of CrystalDiskMark, read then write, with the queue depths in their names.
fn crystal() -> Profile {
    let tests = [
        ("SEQ1M Q8T1", MIB, 0, 8),
        ("SEQ1M Q1T1", MIB, 0, 1),
        ("RND4K Q32T1", 4 * KIB, 100, 32),
        ("RND4K Q1T1", 4 * KIB, 100, 1),
    ];
    let directions = [("read", 100), ("write", 0)];
    let workloads = directions.iter().flat_map(|(word, reads)| {
        tests.iter().map(move |(name, size, random, queue)| {
            let mut stream = stream(&format!("{name} {word}"), line(*size, *reads, *random));
            stream.outstanding = Some(*queue);
            stream.workers = Some(1);
            Workload::single(stream)
        })
    });
    profile(
        "crystal",
        "The tests of CrystalDiskMark",
        workloads.collect(),
    )
}

/// Returns SQLIO's load from the field: 64 KiB writes to eight files.
fn sqlio() -> Profile {
    let mut stream = stream("64 KiB write; 8 files", line(64 * KIB, 0, 0));
    stream.sequences = 8;
    profile(
        "sqlio",
        "64 KiB writes, sequential in each of 8 files (2 GiB each with --working-set 16G)",
        vec![Workload::single(stream)],
    )
}

/// Returns the load of a database: random 8 KiB pages and, at the same time, its log, one write
/// after the other.
fn oltp() -> Profile {
    let mut data = stream("8 KiB random 70% read", line(8 * KIB, 70, 100));
    data.weight = 15;
    let mut log = stream("64 KiB log writes", line(64 * KIB, 0, 0));
    log.outstanding = Some(1);
    log.workers = Some(1);
    profile(
        "oltp",
        "A database: 8 KiB random accesses beside sequential 64 KiB log writes",
        vec![Workload {
            name: "OLTP".into(),
            streams: vec![data, log],
            data: None,
            amount: None,
        }],
    )
}

/// Returns the first test that everybody types: `dd if=/dev/zero bs=1M count=3K`, and with
/// `bs=64k`.
fn dd() -> Profile {
    let sizes = [("dd bs=1M", MIB), ("dd bs=64k", 64 * KIB)];
    let workloads = sizes.map(|(name, size)| {
        let mut stream = stream(name, line(size, 0, 0));
        stream.outstanding = Some(1);
        stream.workers = Some(1);
        Workload {
            data: Some(DataPattern::Zeros),
            amount: Some(3 << 30),
            ..Workload::single(stream)
        }
    });
    profile(
        "dd",
        "Sequential writes of zeros, one at a time, 3 GiB",
        workloads.to_vec(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_profile_runs_on_blocks_of_512() {
        let mut names = Vec::new();
        for profile in built_in() {
            assert!(!profile.workloads.is_empty() && !profile.about.is_empty());
            for workload in &profile.workloads {
                workload.check(512).expect("a built-in workload is right");
                names.push(workload.name.clone());
            }
            assert_eq!(find(&profile.name.to_uppercase()), Some(profile));
        }
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all, "results are told apart by these names");
        assert_eq!(find("nothing"), None);
    }

    #[test]
    fn the_profiles_are_those_of_the_field() {
        let counts: Vec<(String, usize)> = built_in()
            .into_iter()
            .map(|profile| (profile.name, profile.workloads.len()))
            .collect();
        let expected = [
            ("vmktree", 4),
            ("seq-small", 8),
            ("seq-big", 8),
            ("fileserver", 1),
            ("crystal", 8),
            ("sqlio", 1),
            ("oltp", 1),
            ("dd", 2),
        ];
        assert_eq!(
            counts,
            expected.map(|(name, count)| (name.to_owned(), count))
        );
        let real_life = &find("vmktree").expect("built in").workloads[1];
        let expected = AccessLine {
            align: 4096,
            ..AccessLine::all(8192, 65, 60)
        };
        assert_eq!(real_life.streams[0].specification.lines, [expected]);
    }
}
