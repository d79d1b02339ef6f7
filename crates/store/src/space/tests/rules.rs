//! Tests of each rule of the space: where extents are taken, which sectors are kept back, which
//! requests are refused, and the costs.

use super::*;

/// Makes a vdev of which `percent` percent are in use at random.
fn random(sectors: u64, percent: u64) -> Space {
    let mut space = Space::new(&[sectors]);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for number in 0..space.pages(0) {
        let mut bytes = [0; PAGE_BYTES];
        for bit in 0..(sectors - u64::from(number) * PAGE_SECTORS).min(PAGE_SECTORS) as usize {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            bytes[bit / 8] |= u8::from(seed % 100 < percent) << (bit % 8);
        }
        space
            .load_page(Page { vdev: 0, number }, &bytes)
            .expect("a good page");
    }
    space
}

/// Counts how often an allocation lies before the last, until nothing is free.
fn descents(space: &mut Space, sectors: u32) -> u32 {
    let (mut descents, mut last) = (0, 0);
    while let Some(extent) = space.allocate(Stream::Data, 0, sectors, Purpose::Checkpoint) {
        descents += u32::from(extent.sector < last);
        last = extent.sector;
    }
    descents
}

#[test]
fn an_evenly_filled_vdev_is_swept_from_its_beginning_to_its_end() {
    for (percent, sectors) in [(0, 1), (0, 32), (70, 1), (70, 3), (95, 1)] {
        let mut space = random(1_000_000, percent);
        // The sweep goes around once more for regions of another sixteenth.
        let times = descents(&mut space, sectors);
        assert!(times <= 3, "{times} steps back at {percent} %");
        assert_eq!(
            space.allocate(Stream::Data, 0, sectors, Purpose::Young),
            None
        );
        let left = space.counts().available;
        assert!(sectors > 1 || left == 0, "{left} sectors were not found");
    }
}

#[test]
fn streams_have_regions_of_their_own_and_each_its_order() {
    let mut space = Space::new(&[1 << 20]);
    let (mut data, mut metadata) = (Vec::new(), Vec::new());
    for _ in 0..9_000 {
        data.extend(space.allocate(Stream::Data, 0, 3, Purpose::Young));
        metadata.extend(space.allocate(Stream::Metadata, 0, 1, Purpose::Checkpoint));
    }
    let region = |extent: &Extent| extent.sector / u64::from(LONGEST);
    assert!(data.is_sorted() && metadata.is_sorted());
    assert!(
        !metadata
            .iter()
            .any(|extent| data.iter().any(|of| region(of) == region(extent)))
    );
}

#[test]
fn the_emptiest_region_is_swept_first() {
    let mut space = random(100 * u64::from(LONGEST), 60);
    let whole = Extent {
        vdev: 0,
        sector: 41 * u64::from(LONGEST),
        sectors: LONGEST,
    };
    // Two checkpoints drop the sectors that are in use there.
    let bits: Vec<_> = (whole.sector..whole.end()).collect();
    for sector in bits {
        let extent = Extent {
            sector,
            sectors: 1,
            ..whole
        };
        if space.vdevs[0].sectors.count_busy(sector, 1) == 1 {
            space.drop_later(extent).expect("it is in use");
        }
    }
    for _ in 0..2 {
        space.begin_checkpoint();
        while let Some(page) = space.next_dirty_page() {
            space.write_page(page);
        }
        space.commit_checkpoint();
    }
    assert!(space.settle(usize::MAX));
    let extent = space.allocate(Stream::Data, 0, 32, Purpose::Young);
    assert_eq!(extent.map(|extent| extent.sector), Some(whole.sector));
}

#[test]
fn a_reserved_record_has_its_data_right_behind_it() {
    let mut space = random(1 << 18, 50);
    for _ in 0..1_000 {
        let record = space
            .reserve(Stream::Data, 0, 5, Purpose::Young)
            .expect("room");
        let data = space
            .allocate(Stream::Data, 0, 5, Purpose::Young)
            .expect("room");
        assert_eq!((record.sectors, record.end()), (1, data.sector));
    }
    // If no sector has room behind it, a sector is enough.
    while space.allocate(Stream::Data, 0, 2, Purpose::Young).is_some() {}
    assert!(space.reserve(Stream::Data, 0, 1, Purpose::Young).is_some());
}

#[test]
fn a_record_has_one_block_behind_it_where_runs_are_short() {
    // There is no run of 17 sectors here.
    let mut space = random(1 << 18, 85);
    for _ in 0..1_000 {
        let record = space
            .reserve(Stream::Data, 0, 16, Purpose::Young)
            .expect("room");
        let data = space
            .allocate(Stream::Data, 0, 1, Purpose::Young)
            .expect("room");
        assert_eq!((record.sectors, record.end()), (1, data.sector));
    }
}

#[test]
fn what_is_given_back_is_taken_next_if_it_was_the_last() {
    let mut space = Space::new(&[1 << 16]);
    let run = |space: &mut Space, wanted| {
        space
            .allocate_run(Stream::Data, 0, 1, wanted, Purpose::Young)
            .expect("room")
    };
    let first = run(&mut space, 100);
    space.give_back(Extent {
        sector: 60,
        sectors: 40,
        ..first
    });
    assert_eq!(run(&mut space, 8).sector, 60);
    // Space behind the stream waits until the stream comes around.
    space.give_back(Extent {
        sector: 0,
        sectors: 60,
        ..first
    });
    assert_eq!(run(&mut space, 8).sector, 68);
}

#[test]
fn a_page_that_changes_after_it_was_written_comes_again() {
    let mut space = Space::new(&[1 << 16]);
    let take = |space: &mut Space, purpose| {
        space
            .allocate(Stream::Metadata, 0, 1, purpose)
            .expect("room");
    };
    let page = Page { vdev: 0, number: 0 };
    take(&mut space, Purpose::Checkpoint);
    space.begin_checkpoint();
    assert_eq!(
        (space.dirty_pages(), space.next_dirty_page()),
        (1, Some(page))
    );
    take(&mut space, Purpose::Checkpoint);
    assert_eq!(space.next_dirty_page(), None, "it has a place");
    assert_eq!(space.write_page(page)[0], 0b11);
    take(&mut space, Purpose::Young);
    assert_eq!(space.next_dirty_page(), None, "young sectors are not in it");
    take(&mut space, Purpose::Checkpoint);
    assert_eq!(space.next_dirty_page(), Some(page));
    assert_eq!(space.write_page(page)[0], 0b1011);
    space.commit_checkpoint();
    assert!(space.settle(usize::MAX));
    space.begin_checkpoint();
    assert_eq!(space.next_dirty_page(), Some(page));
    assert_eq!(space.write_page(page)[0], 0b1111);
}

#[test]
fn vdevs_get_shares_by_their_free_space() {
    let mut space = Space::new(&[30_000, 10_000, 60_000]);
    let mut turns = [0; 3];
    for _ in 0..1_000 {
        turns[usize::from(space.choose_vdev(1, |_| true).expect("room"))] += 1;
    }
    assert_eq!(turns, [300, 100, 600]);
    assert_eq!(space.choose_vdev(1, |vdev| vdev == 1), Some(1));
    assert_eq!(space.choose_vdev(30_001, |vdev| vdev != 2), None);
}

#[test]
fn faults_are_told_and_change_nothing() {
    let mut space = Space::new(&[10_000]);
    let extent = |sector, sectors| Extent {
        vdev: 0,
        sector,
        sectors,
    };
    let before = space.counts();
    for beyond in [
        extent(9_999, 2),
        extent(u64::MAX, 1),
        Extent {
            vdev: 1,
            ..extent(0, 1)
        },
    ] {
        assert_eq!(
            space.mark_allocated(beyond, Purpose::Young),
            Err(Fault::Beyond(beyond))
        );
        assert_eq!(space.drop_later(beyond), Err(Fault::Beyond(beyond)));
        assert_eq!(space.load_deferred(beyond), Err(Fault::Beyond(beyond)));
    }
    let free = extent(4_000, 200);
    assert_eq!(space.drop_later(free), Err(Fault::NotAllocated(free)));
    assert_eq!(space.load_deferred(free), Err(Fault::NotAllocated(free)));
    assert_eq!(space.counts(), before);
    let mut bytes = [0; PAGE_BYTES];
    bytes[10_000 / 8] = 1;
    assert!(
        space
            .load_page(Page { vdev: 0, number: 0 }, &bytes)
            .is_err()
    );
    assert!(
        space
            .load_page(
                Page {
                    vdev: 0,
                    number: u32::MAX
                },
                &bytes
            )
            .is_err()
    );
    assert!(
        space
            .load_page(Page { vdev: 7, number: 0 }, &bytes)
            .is_err()
    );
    assert_eq!(space.counts(), before);
    let text = Fault::DoubleAllocation(extent(5, 2)).to_string();
    assert_eq!(text, "sectors 5..7 of top-level vdev 0 are already in use");
}

/// The pool was opened from a checkpoint. A later checkpoint was durable, and is lost.
#[test]
fn what_a_checkpoint_dropped_may_be_in_use_again_by_the_log_behind_a_later_one() {
    let extent = |sector, sectors| Extent {
        vdev: 0,
        sector,
        sectors,
    };
    let mut space = Space::new(&[10_000]);
    let mut bytes = [0; PAGE_BYTES];
    bytes[..4].fill(0xff);
    let page = Page { vdev: 0, number: 0 };
    space.load_page(page, &bytes).expect("a good page");
    space
        .load_deferred(extent(0, 16))
        .expect("it is in use there");
    space
        .load_deferred(extent(20, 4))
        .expect("it is in use there");
    // Sectors that the checkpoint keeps are in use, whatever the log says.
    let kept = extent(15, 2);
    assert_eq!(
        space.mark_allocated(kept, Purpose::Young),
        Err(Fault::DoubleAllocation(kept))
    );
    assert_eq!(space.counts().deferred, 20);
    let again = extent(4, 8);
    assert_eq!(space.mark_allocated(again, Purpose::Young), Ok(()));
    assert_eq!(
        space.mark_allocated(again, Purpose::Young),
        Err(Fault::DoubleAllocation(again))
    );
    // The other extents that it dropped are free as well: the later checkpoint was durable.
    let counts = space.counts();
    assert_eq!((counts.deferred, counts.allocated), (0, 12 + 8));
}

#[test]
fn what_is_dropped_twice_is_not_given_to_two() {
    let mut space = Space::new(&[10_000]);
    let extent = space
        .allocate(Stream::Data, 0, 8, Purpose::Young)
        .expect("room");
    space.drop_later(extent).expect("it is in use");
    space.drop_later(extent).expect("not found yet");
    for _ in 0..3 {
        space.begin_checkpoint();
        assert_eq!(space.drop_later(extent).is_err(), space.double_drops() > 0);
        while let Some(page) = space.next_dirty_page() {
            space.write_page(page);
        }
        space.commit_checkpoint();
        space.settle(usize::MAX);
        assert_eq!(space.drop_later(extent), Err(Fault::NotAllocated(extent)));
    }
    assert!(space.double_drops() > 0);
}

#[test]
fn fragmentation_is_that_of_zpool() {
    let mut space = Space::new(&[1 << 16]);
    assert_eq!((space.fragmentation(0), space.longest_run(0)), (0, LONGEST));
    for sector in (0..1 << 16).step_by(2) {
        let extent = Extent {
            vdev: 0,
            sector,
            sectors: 1,
        };
        space
            .mark_allocated(extent, Purpose::Checkpoint)
            .expect("it is free");
    }
    assert_eq!((space.fragmentation(0), space.longest_run(0)), (95, 1));
    assert_eq!(space.allocate(Stream::Data, 0, 2, Purpose::Young), None);
}

#[test]
fn a_tebibyte_takes_64_mebibytes_of_memory() {
    let space = Space::new(&[1 << 28]);
    let memory = space.memory();
    assert!((64 << 20..65 << 20).contains(&memory), "{memory} bytes");
}

#[test]
#[ignore = "a measurement: cargo test --release -p store space -- --ignored --nocapture"]
fn allocating_4_kib_of_a_tebibyte_at_70_percent_takes_under_100_ns() {
    for (percent, sectors) in [(70, 1), (70, 4), (70, 8), (95, 1)] {
        let mut space = random(1 << 28, percent);
        let begin = std::time::Instant::now();
        let mut count = 0_u64;
        while count < 40_000_000
            && space
                .allocate(Stream::Data, 0, sectors, Purpose::Young)
                .is_some()
        {
            count += 1;
        }
        let each = begin.elapsed().as_nanos() as f64 / count as f64;
        println!("{percent} % full, {sectors} sectors: {each:.1} ns each, {count} of them");
        assert!(sectors > 1 || each < 100.0);
    }
}

#[test]
#[ignore = "a measurement: cargo test --release -p store space -- --ignored --nocapture"]
fn settling_a_dropped_block_takes_under_a_microsecond() {
    let mut space = random(1 << 28, 70);
    let mut seed = 1_u64;
    let mut drops = 0;
    let clock = std::time::Instant::now;
    let mut next = || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        seed >> 36
    };
    let begin = clock();
    for _ in 0..2_000_000 {
        let extent = Extent {
            vdev: 0,
            sector: next(),
            sectors: 1,
        };
        drops += u32::from(space.drop_later(extent).is_ok());
    }
    println!("{:?} to drop {drops} blocks", begin.elapsed());
    let mut settling = std::time::Duration::ZERO;
    for _ in 0..2 {
        space.begin_checkpoint();
        while let Some(page) = space.next_dirty_page() {
            space.write_page(page);
        }
        space.commit_checkpoint();
        let begin = clock();
        while !space.settle(1_000) {}
        settling += begin.elapsed();
    }
    println!(
        "{settling:?} to settle them; {} bytes of memory",
        space.memory()
    );
    assert!(drops > 1_000_000 && settling.as_nanos() < u128::from(drops) * 1_000);
}

#[test]
fn data_never_takes_what_is_kept_for_metadata() {
    for size in [3000_u64, 3 * u64::from(REGION), 9000] {
        for kept in [100_u64, 5000] {
            let kept = kept.min(size / 2);
            let mut space = Space::new(&[size]);
            space.keep_for_metadata(0, kept);
            let mut taken = 0;
            while let Some(extent) = space.allocate(Stream::Data, 0, 1, Purpose::Young) {
                assert!(extent.end() <= size - kept, "{extent:?}");
                taken += 1;
            }
            assert_eq!(taken, size - kept);
            assert_eq!(space.allocate(Stream::Data, 0, 7, Purpose::Young), None);
            let last = space.allocate(Stream::Metadata, 0, 5, Purpose::Checkpoint);
            assert!(last.is_some_and(|extent| extent.sector >= size - kept));
            // Space that becomes free in front is found again.
            let freed = Extent {
                vdev: 0,
                sector: 40,
                sectors: 9,
            };
            space.give_back(freed);
            let again = space.allocate(Stream::Data, 0, 9, Purpose::Young);
            assert_eq!(again, Some(freed));
        }
    }
}

/// Takes all sectors that one stream gets, a few at a time.
fn take_all(space: &mut Space, stream: Stream, sectors: u32) -> Vec<Extent> {
    std::iter::from_fn(|| space.allocate(stream, 0, sectors, Purpose::Checkpoint)).collect()
}

/// Returns the sectors of the first vdev's tail.
fn tail_of(space: &Space) -> u64 {
    space.size(0) - u64::from(space.vdevs[0].tail()) * u64::from(REGION)
}

/// Makes a vdev of 32 regions whose tail has room for `runs` nodes of five sectors.
fn with_tail(runs: u64) -> Space {
    let mut space = Space::new(&[32 * u64::from(REGION)]);
    space.count_node_runs(&[5], 0);
    space.keep_tail(0, runs..runs + 1);
    space
}

#[test]
fn data_goes_into_the_tail_when_nothing_else_is_left() {
    let mut space = with_tail(1500);
    let tail = 2 * u64::from(REGION);
    assert_eq!(tail_of(&space), tail);
    let before = space.size(0) - tail;
    let reserved = space.reserve(Stream::Data, 0, 16, Purpose::Checkpoint);
    assert!(reserved.is_some_and(|extent| extent.end() < before));
    let taken = take_all(&mut space, Stream::Data, 1);
    assert_eq!(
        taken.len() as u64,
        space.size(0) - 1,
        "all of it is for data in the end"
    );
    let (first, last) = taken.split_at(before as usize - 1);
    assert!(first.iter().all(|extent| extent.end() <= before));
    assert!(last.iter().all(|extent| extent.sector >= before));
    // Space that becomes free before the tail comes first again.
    let free = |sector| Extent {
        vdev: 0,
        sector,
        sectors: 3,
    };
    space.give_back(free(before + 10));
    assert!(
        space
            .reserve(Stream::Data, 0, 16, Purpose::Checkpoint)
            .is_some()
    );
    space.give_back(free(40));
    let again = space.allocate(Stream::Data, 0, 2, Purpose::Checkpoint);
    assert_eq!(again.map(|extent| extent.sector), Some(40));
}

#[test]
fn metadata_goes_into_the_tail_first_and_then_anywhere() {
    let mut space = with_tail(1500);
    let before = space.size(0) - tail_of(&space);
    let taken = take_all(&mut space, Stream::Metadata, 4);
    assert_eq!(taken.len() as u64 * 4, space.size(0));
    let in_tail = (tail_of(&space) / 4) as usize;
    let (first, last) = taken.split_at(in_tail);
    assert!(first.iter().all(|extent| extent.sector >= before));
    assert!(last.iter().all(|extent| extent.end() <= before));
}

#[test]
fn a_tail_changes_only_where_it_has_far_too_few_runs_or_far_too_many() {
    let mut space = with_tail(1500);
    let region = u64::from(REGION);
    for (runs, regions) in [
        (1000..1700, 2),
        (1700..2000, 3),
        (1000..2500, 3),
        (100..1000, 1),
        // At most an eighth is kept from data then.
        (100_000..200_000, 4),
        (0..100_000, 4),
        (0..1, 0),
    ] {
        space.keep_tail(0, runs.clone());
        assert_eq!(tail_of(&space), regions * region, "{runs:?}");
    }
    // Nodes that lie there make the tail longer.
    space.keep_tail(0, 700..900);
    let nodes =
        (0..500).filter_map(|_| space.allocate(Stream::Metadata, 0, 5, Purpose::Checkpoint));
    assert_eq!(nodes.count(), 500);
    assert_eq!(tail_of(&space), region);
    space.keep_tail(0, 700..900);
    assert_eq!(tail_of(&space), 2 * region);
}

#[test]
fn a_vdev_of_few_regions_has_no_tail() {
    let mut space = Space::new(&[7 * u64::from(REGION)]);
    space.count_node_runs(&[5], 0);
    space.keep_tail(0, 100..200);
    assert_eq!(tail_of(&space), 0);
    assert_eq!(
        take_all(&mut space, Stream::Data, 1).len() as u64,
        space.size(0)
    );
}

#[test]
fn near_a_place_the_shortest_run_is_taken_from_its_end() {
    let mut space = Space::new(&[1 << 16]);
    let place = Address::new(0, 10_000);
    let near = |space: &mut Space, sectors| {
        let found = space.allocate_near(place, 100, sectors, Purpose::Young);
        found.map(|extent| extent.sector)
    };
    assert_eq!(near(&mut space, 2), Some(10_098), "all is one run");
    let taken = |sector, sectors| Extent {
        vdev: 0,
        sector,
        sectors,
    };
    for extent in [taken(9_000, 960), taken(9_963, 30), taken(9_994, 104)] {
        let marked = space.mark_allocated(extent, Purpose::Young);
        marked.expect("it is free");
    }
    // Sectors 9960, 9961, 9962 and 9993 are free.
    let found = [1, 2, 1, 1].map(|sectors| near(&mut space, sectors));
    assert_eq!(found, [Some(9_993), Some(9_960), Some(9_962), None]);
    let beyond = space.allocate_near(Address::new(0, (1 << 16) - 1), 100, 1, Purpose::Young);
    assert_eq!(beyond.map(|extent| extent.sector), Some((1 << 16) - 1));
}

/// Makes a vdev of 64 sectors, of which only these runs are free.
fn full_but(runs: &[(u64, u32)]) -> Space {
    let mut space = Space::new(&[64]);
    let of = |(sector, sectors)| Extent {
        vdev: 0,
        sector,
        sectors,
    };
    space
        .mark_allocated(of((0, 64)), Purpose::Young)
        .expect("it is free");
    runs.iter().for_each(|run| space.give_back(of(*run)));
    space
}

#[test]
fn near_a_place_no_run_is_broken_that_somebody_needs() {
    let mut space = full_but(&[(10, 4), (20, 2)]);
    space.count_node_runs(&[4], 2);
    let mut near = || {
        let found = space.allocate_near(Address::new(0, 30), 64, 1, Purpose::Young);
        found.map(|extent| extent.sector)
    };
    assert_eq!([near(), near(), near()], [Some(21), Some(20), None]);
}

#[test]
fn what_is_kept_and_not_used_is_known_to_no_checkpoint() {
    let mut space = Space::new(&[64]);
    let kept = space
        .allocate_near(Address::new(0, 30), 64, 1, Purpose::Young)
        .expect("all is free");
    let bit = |page: [u8; PAGE_BYTES]| page[kept.sector as usize / 8] >> (kept.sector % 8) & 1;
    for _ in 0..3 {
        space.begin_checkpoint();
        space.make_young(kept);
        while let Some(page) = space.next_dirty_page() {
            assert_eq!(bit(space.write_page(page)), 0);
        }
        space.commit_checkpoint();
        while !space.settle(1) {}
        assert_eq!(space.counts().allocated, 1);
    }
    space.give_back(kept);
    assert_eq!(space.counts().available, 64);
}

/// Streams go forwards, so the sectors stay near for longest.
#[test]
fn near_a_place_the_last_of_runs_that_are_as_short_is_taken() {
    let mut space = full_but(&[(5, 1), (25, 1), (50, 1)]);
    let mut near = || {
        let found = space.allocate_near(Address::new(0, 30), 26, 1, Purpose::Young);
        found.map(|extent| extent.sector)
    };
    assert_eq!(
        [near(), near(), near(), near()],
        [Some(50), Some(25), Some(5), None]
    );
}

#[test]
fn a_second_copy_lies_as_far_away_while_all_else_is_being_trimmed() {
    for sectors in [300, 3_000, 50_000] {
        let mut space = Space::new(&[sectors]);
        let first = space
            .allocate(Stream::Metadata, 0, 2, Purpose::Checkpoint)
            .expect("room");
        let mut trimming = space.clone();
        let (mut from, mut held) = (0, 0);
        while from < sectors {
            let (runs, next) = trimming.hold(0, Untold::From(from), 1, 32);
            held += runs.iter().map(|run| u64::from(run.sectors)).sum::<u64>();
            from = next;
        }
        assert_eq!((held, trimming.counts()), (sectors - 2, space.counts()));
        let second = |space: &mut Space| {
            let (stream, purpose) = (Stream::Metadata, Purpose::Checkpoint);
            space.allocate_apart(Claim::Pieces, stream, first, 2, purpose)
        };
        let expected = second(&mut space);
        assert!(expected.is_some());
        assert_eq!(second(&mut trimming), expected, "of {sectors}");
    }
}
