//! Tests of each promise and each lie of the disk.

use std::collections::BTreeSet;

use pages::Pages;

use super::*;
use crate::random::Random;

const SECTOR: u64 = SECTOR_SIZE as u64;

struct Bench {
    disk: Disk,
    now_us: u64,
    next_id: u64,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let disk = Disk::new(64, Behaviour::default(), Random::new(seed));
        let (now_us, next_id) = (0, 0);
        Self {
            disk,
            now_us,
            next_id,
        }
    }

    fn submit(&mut self, op: DeviceOp) -> u64 {
        self.next_id += 1;
        self.disk.submit(self.now_us, self.next_id, op);
        self.next_id
    }

    fn next(&mut self) -> Completion {
        self.now_us = self.disk.next_due_us().expect("something is in flight");
        self.disk.complete(self.now_us).expect("it is due")
    }

    fn run(&mut self, op: DeviceOp) -> DeviceOutcome {
        let id = self.submit(op);
        loop {
            let completion = self.next();
            if completion.id == id {
                return completion.outcome;
            }
        }
    }

    fn write(&mut self, sector: u64, byte: u8) -> DeviceOutcome {
        self.run(write(sector, byte, 1))
    }

    fn read(&mut self, sector: u64) -> Result<u8, DeviceErrorKind> {
        let op = DeviceOp::Read {
            offset: sector * SECTOR,
            len: SECTOR_SIZE as u32,
        };
        let data = self.run(op).map_err(|error| error.kind)?.to_vec();
        assert!(data.iter().all(|byte| *byte == data[0]), "one pattern");
        Ok(data[0])
    }
}

fn write(sector: u64, byte: u8, sectors: usize) -> DeviceOp {
    DeviceOp::Write {
        offset: sector * SECTOR,
        data: Pages::from_bytes(&vec![byte; sectors * SECTOR_SIZE]),
        durable: false,
    }
}

#[test]
fn a_durable_write_survives_and_nothing_older_comes_back_in_its_place() {
    for seed in 0..100 {
        let mut bench = Bench::new(seed);
        bench.disk.behaviour_mut().tearing = Tearing::Never;
        bench.run(write(1, 1, 3)).unwrap();
        let mut durable = write(2, 2, 1);
        if let DeviceOp::Write { durable, .. } = &mut durable {
            *durable = true;
        }
        bench.run(durable).unwrap();
        bench.disk.power_cut();
        assert_eq!(bench.read(2), Ok(2), "seed {seed}");
        assert!(matches!(bench.read(1), Ok(0 | 1)), "seed {seed}");
        assert!(matches!(bench.read(3), Ok(0 | 1)), "seed {seed}");
    }
}

#[test]
fn what_was_flushed_survives_and_the_rest_may_not() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..100 {
        let mut bench = Bench::new(seed);
        bench.disk.behaviour_mut().tearing = Tearing::Never;
        bench.write(1, 1).unwrap();
        bench.run(DeviceOp::Flush).unwrap();
        bench.write(1, 2).unwrap();
        bench.write(2, 3).unwrap();
        assert_eq!((bench.read(1), bench.read(2)), (Ok(2), Ok(3)));
        bench.disk.power_cut();
        outcomes.insert((bench.read(1).unwrap(), bench.read(2).unwrap()));
    }
    let all = BTreeSet::from([(1, 0), (1, 3), (2, 0), (2, 3)]);
    assert_eq!(outcomes, all, "every subset, and no other");
}

#[test]
fn a_flush_covers_only_what_was_answered_before_it_was_asked() {
    let lost = (0..200).any(|seed| {
        let mut bench = Bench::new(seed);
        let early = bench.submit(write(1, 1, 1));
        let flush = bench.submit(DeviceOp::Flush);
        let order = [bench.next().id, bench.next().id];
        bench.disk.power_cut();
        order == [early, flush] && bench.disk.snapshot().written().count() == 0
    });
    assert!(lost, "the write was in flight when the flush was asked for");
}

#[test]
fn torn_writes_are_torn_at_slices_and_at_sectors() {
    let slices_of = |tearing, seed| {
        let mut bench = Bench::new(seed);
        bench.disk.behaviour_mut().tearing = tearing;
        bench.submit(write(3, 9, 2));
        bench.disk.power_cut();
        let medium = bench.disk.snapshot();
        let bytes = [medium.sector(3).to_vec(), medium.sector(4).to_vec()].concat();
        let slices: Vec<u8> = bytes
            .chunks(SLICE_SIZE)
            .map(|slice| {
                assert!(slice.iter().all(|byte| *byte == slice[0]));
                slice[0]
            })
            .collect();
        slices
    };
    let torn = |tearing| {
        let mut kinds = BTreeSet::new();
        for seed in 0..300 {
            kinds.insert(slices_of(tearing, seed));
        }
        kinds
    };
    assert_eq!(torn(Tearing::Never).len(), 2);
    assert_eq!(torn(Tearing::Sectors).len(), 4);
    assert!(torn(Tearing::Slices).len() > 20);
}

#[test]
fn answers_come_in_any_order() {
    let orders: BTreeSet<Vec<u64>> = (0..50)
        .map(|seed| {
            let mut bench = Bench::new(seed);
            let writes = (0..3).map(|sector| write(sector, 1, 1));
            writes.for_each(|op| assert!(bench.submit(op) > 0));
            (0..3).map(|_| bench.next().id).collect()
        })
        .collect();
    assert_eq!(orders.len(), 6);
}

#[test]
fn lies_are_told_on_demand_and_counted() {
    let mut bench = Bench::new(1);
    bench.disk.arm(2, Fault::LostWrite);
    bench.write(1, 1).unwrap();
    bench.write(1, 2).unwrap();
    assert_eq!(bench.read(1), Ok(1), "the second was lost");
    bench.disk.arm(1, Fault::MisdirectedWrite);
    bench.write(1, 3).unwrap();
    assert_eq!(bench.read(1), Ok(1), "it landed elsewhere");
    assert_eq!(bench.disk.snapshot().written().count(), 2);
    bench.disk.arm(1, Fault::FailedRead);
    assert_eq!(bench.read(1), Err(DeviceErrorKind::Medium));
    assert_eq!(bench.read(1), Ok(1), "only once");
    bench.disk.ruin(1);
    assert_eq!(bench.read(1), Err(DeviceErrorKind::Medium));
    bench.write(1, 4).unwrap();
    assert_eq!(bench.read(1), Ok(4), "written anew");
    bench.disk.arm(1, Fault::FailedWrite);
    assert!(bench.write(1, 5).is_err());
    let before = bench.disk.snapshot().sector(1).to_vec();
    bench.disk.rot(1, 77);
    let after = bench.disk.snapshot().sector(1).to_vec();
    assert_eq!(before.iter().zip(&after).filter(|(a, b)| a != b).count(), 1);
    let struck = bench.disk.struck();
    let counts = (struck.lost_writes, struck.misdirected_writes);
    assert_eq!((counts, struck.failed_reads), ((1, 1), 2));
    assert_eq!((struck.failed_writes, struck.rotten_bits), (1, 1));
}

#[test]
fn flushes_lie_and_fail_each_in_its_way() {
    let after = |fault: Fault| {
        let (mut now, mut next_flush, mut lost) = (BTreeSet::new(), 0, BTreeSet::new());
        for seed in 0..60 {
            let mut bench = Bench::new(seed);
            bench.disk.behaviour_mut().tearing = Tearing::Never;
            bench.disk.arm(1, fault);
            bench.write(1, 1).unwrap();
            let first = bench.run(DeviceOp::Flush);
            assert_eq!(first.is_ok(), fault == Fault::LyingFlush);
            now.insert(bench.read(1).unwrap());
            let mut retried = bench.disk.clone();
            bench.disk.power_cut();
            lost.insert(bench.read(1).unwrap());
            retried.submit(bench.now_us, 99, DeviceOp::Flush);
            let due_us = retried.next_due_us().unwrap();
            retried.complete(due_us).unwrap().outcome.unwrap();
            retried.power_cut();
            next_flush += u64::from(retried.snapshot().sector(1)[0]);
        }
        (now.len() == 2, next_flush == 60, lost.len() == 2)
    };
    // The values say whether reads may see old bytes, whether the next flush helps, and whether a
    // power cut may lose data.
    assert_eq!(after(Fault::LyingFlush), (false, true, true));
    assert_eq!(after(Fault::FailedFlush(Dirty::Kept)), (false, true, true));
    assert_eq!(
        after(Fault::FailedFlush(Dirty::Dropped)),
        (true, false, true)
    );
    assert_eq!(
        after(Fault::FailedFlush(Dirty::Forgotten)),
        (false, false, true)
    );
}

#[test]
fn disks_vanish_hang_and_come_back() {
    let mut bench = Bench::new(5);
    bench.write(1, 1).unwrap();
    bench.run(DeviceOp::Flush).unwrap();
    let old = bench.disk.snapshot();
    bench.write(1, 2).unwrap();
    bench.run(DeviceOp::Flush).unwrap();
    bench.disk.vanish();
    assert_eq!(bench.read(1), Err(DeviceErrorKind::Gone));
    bench.disk.come_back(Return::Unharmed);
    assert_eq!(bench.read(1), Ok(2));
    bench.submit(write(2, 7, 1));
    bench.disk.hang();
    assert_eq!(bench.disk.next_due_us(), None);
    bench.disk.come_back(Return::Unharmed);
    assert!(bench.next().outcome.is_ok(), "what it owed");
    bench.disk.come_back(Return::Old(old.clone()));
    assert_eq!((bench.read(1), bench.read(2)), (Ok(1), Ok(0)));
    bench.disk.come_back(Return::AfterPowerCut);
    assert_eq!(bench.read(1), Ok(1), "that was safe");
    let mixed: BTreeSet<(u8, u8)> = (0..40)
        .map(|seed| {
            let mut bench = Bench::new(seed);
            (1..3).for_each(|sector| bench.write(sector, 8).map(drop).unwrap());
            bench.disk.come_back(Return::Mixed(old.clone()));
            (bench.read(1).unwrap(), bench.read(2).unwrap())
        })
        .collect();
    assert_eq!(mixed, BTreeSet::from([(8, 8), (8, 0), (1, 8), (1, 0)]));
}

#[test]
fn a_program_that_ends_loses_only_what_was_not_answered() {
    let kept = (0..40).map(|seed| {
        let mut bench = Bench::new(seed);
        bench.write(1, 1).unwrap();
        bench.submit(write(2, 2, 1));
        bench.disk.detach();
        assert_eq!((bench.disk.in_flight(), bench.read(1)), (0, Ok(1)));
        bench.read(2).unwrap()
    });
    assert_eq!(kept.collect::<BTreeSet<u8>>(), BTreeSet::from([0, 2]));
}

#[test]
fn a_trim_may_keep_the_bytes() {
    for keeps in [false, true] {
        let mut bench = Bench::new(3);
        bench.disk.behaviour_mut().trim_keeps_bytes = keeps;
        bench.write(1, 1).unwrap();
        let (offset, len) = (SECTOR, SECTOR);
        bench.run(DeviceOp::Trim { offset, len }).unwrap();
        assert_eq!(bench.read(1), Ok(u8::from(keeps)));
    }
}

#[test]
fn a_trim_may_leave_what_nobody_wrote() {
    let mut bench = Bench::new(3);
    bench.disk.behaviour_mut().trim_garbles = true;
    bench.write(1, 1).unwrap();
    let (offset, len) = (SECTOR, 2 * SECTOR);
    bench.run(DeviceOp::Trim { offset, len }).unwrap();
    let page = bench.disk.snapshot().sector(1);
    assert!(!page.is_zero() && page.iter().any(|byte| *byte != page[0]));
    // Bytes that are written then are there.
    bench.write(1, 1).unwrap();
    assert_eq!(bench.read(1), Ok(1));
}

#[test]
fn few_loose_writes_are_cut_in_every_way_and_many_at_their_edges() {
    let media = |writes: u64, limit| {
        let mut bench = Bench::new(9);
        (0..writes).for_each(|at| bench.write(at, 1).map(drop).unwrap());
        let images = bench.disk.cut();
        let images = images.images(limit, Tearing::Never, &mut Random::new(1));
        let sets = images.iter().map(|image| image.medium.written().collect());
        let sets: BTreeSet<Vec<u64>> = sets.collect();
        (sets.len(), images.len())
    };
    assert_eq!(media(4, 16), (16, 16));
    let (distinct, count) = media(20, 40);
    assert!((20..=40).contains(&distinct) && count <= 40, "{distinct}");
}

#[test]
fn a_seed_is_one_disk() {
    let life = || {
        let mut bench = Bench::new(42);
        bench.disk.behaviour_mut().chances.failed_write = 300;
        bench.disk.behaviour_mut().chances.bit_rot = 300;
        for at in 0..60 {
            let _ = bench.run(write(at % 7, at as u8, 3));
            let (offset, len) = (0, SECTOR_SIZE as u32);
            let _ = bench.run(DeviceOp::Read { offset, len });
        }
        bench.disk.power_cut();
        let medium = bench.disk.snapshot();
        let bytes = medium.written().map(|at| medium.sector(at).to_vec());
        (bytes.collect::<Vec<_>>(), bench.disk.struck(), bench.now_us)
    };
    assert_eq!(life(), life());
}

/// The writes that a flush covers have one fate, and those after it another. Of both, everything is
/// found, nothing, and parts, at sectors and within them.
#[test]
fn cuts_at_flushes_keep_lose_and_tear_what_the_flush_covers_and_what_came_later() {
    let outcome = |tearing, seed| {
        let mut bench = Bench::new(seed);
        bench.run(write(1, 1, 4)).unwrap();
        bench.submit(DeviceOp::Flush);
        bench.submit(write(9, 2, 4));
        let image = bench
            .disk
            .cut()
            .image_at_flush(tearing, &mut Random::new(seed));
        let part = |first: u64| {
            let sectors = (first..first + 4).map(|at| image.medium.sector(at));
            let bytes: Vec<u8> = sectors.flat_map(|of| of.to_vec()).collect();
            let slices: Vec<bool> = bytes.chunks(SLICE_SIZE).map(|of| of[0] != 0).collect();
            let whole: Vec<bool> = slices.chunks(8).map(|of| of.iter().all(|is| *is)).collect();
            let none = |of: &[bool]| of.iter().all(|is| !is);
            match slices
                .chunks(8)
                .all(|of| none(of) || of.iter().all(|is| *is))
            {
                _ if none(&slices) => "lost",
                true if whole.iter().all(|is| *is) => "kept",
                true if whole.is_sorted_by(|one, other| one >= other) => "first",
                true if whole.is_sorted() => "last",
                true => "some",
                false => "within",
            }
        };
        let (covered, later) = (part(1), part(9));
        let is_torn = |of: &str| !["kept", "lost"].contains(&of);
        let torn = u64::from(is_torn(covered)) + u64::from(is_torn(later));
        assert_eq!(image.torn_writes, torn, "{covered}, {later}");
        let within = u64::from(covered == "within") + u64::from(later == "within");
        assert_eq!(image.torn_sectors, within, "{covered}, {later}");
        (covered, later)
    };
    let all = |tearing| (0..1000).map(|seed| outcome(tearing, seed)).collect();
    let fine: BTreeSet<(&str, &str)> = all(Tearing::Slices);
    assert!(fine.len() >= 28, "of 36 there are {fine:?}");
    let never: BTreeSet<(&str, &str)> = all(Tearing::Never);
    assert_eq!(never.len(), 4, "{never:?}");
    let coarse: BTreeSet<(&str, &str)> = all(Tearing::Sectors);
    assert!(coarse.iter().all(|of| of.0 != "within" && of.1 != "within"));
}
