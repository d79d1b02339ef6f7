//! Provisioning of a unit's volume as the unit reports it, and the commands that free space.

use super::*;

#[test]
fn the_volume_is_told_as_it_is() {
    let bench = Bench::new("--size 512M a");
    bench.unit(
        0,
        "wide --size 64M --volblocksize 64K --physical-block-size 64K",
    );
    bench.unit(
        1,
        "small --size 64M --volblocksize 4K --physical-block-size 4K",
    );
    bench.unit(2, "thick --size 64M --thin no");
    let mut session = bench.log_in(1, 3);
    let capacity = |session: &mut Session, lun| {
        let mut cdb = cdb(0x9e, 0, 32);
        cdb[1] = 0x10;
        ask(session, lun, &cdb)
    };
    // Last LBA, block length; logical blocks per physical block; LBPME, LBPRZ.
    let told = capacity(&mut session, 0);
    assert_eq!(told[..12], [0, 0, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 2, 0]);
    assert_eq!(told[12..16], [0, 7, 0xc0, 0]);
    assert_eq!(capacity(&mut session, 1)[12..16], [0, 3, 0xc0, 0]);
    // Only values that ESXi and SQL Server support, unless the user asks for others.
    assert_eq!(capacity(&mut session, 2)[12..16], [0, 3, 0, 0]);
    // LBPU, LBPWS, LBPWS10, LBPRZ; thin.
    assert_eq!(vpd(&mut session, 0, 0xb2), [0, 0xb2, 0, 4, 11, 0xe4, 2, 0]);
    assert_eq!(vpd(&mut session, 2, 0xb2), [0, 0xb2, 0, 4, 0, 0, 0, 0]);
    let limits = vpd(&mut session, 0, 0xb0);
    let number = |at: usize| u32::from_be_bytes(limits[at..at + 4].try_into().unwrap());
    assert_eq!(limits[6..8], [0, 128], "optimal granularity: volblocksize");
    assert_eq!(number(12), 2048, "optimal transfer: 1 MiB");
    assert_eq!((number(28), number(32)), (128, 0x8000_0000), "unmap");
    // A log record holds 1 MiB; an unaligned write touches one block more.
    assert_eq!(number(44), 15 * 128, "atomic");
    let limits = vpd(&mut session, 1, 0xb0);
    assert_eq!(limits[6..8], [0, 8]);
    assert_eq!(limits[28..36], [0, 0, 0, 8, 0x80, 0, 0, 0]);
}

#[test]
fn unmap_and_write_same_free_blocks_and_the_map_tells() {
    let bench = Bench::new("--size 512M a");
    bench.unit(0, "vm --size 64M --volblocksize 16K");
    let mut session = bench.log_in(1, 1);
    assert_eq!(lba_status(&mut session, 0, 0), [(0, 131_072, 1)]);
    for mebibyte in 0..4 {
        let data = noise(2048, mebibyte);
        assert_eq!(sense(&write(&mut session, 0, mebibyte * 2048, &data)), None);
    }
    let all = [(0, 8192, 0), (8192, 131_072 - 8192, 1)];
    assert_eq!(lba_status(&mut session, 0, 0), all);
    // A block that is unmapped in part stays mapped, and reads as zeros there.
    assert_eq!(sense(&unmap(&mut session, 0, 40, 64)), None);
    let told = lba_status(&mut session, 0, 0);
    assert_eq!(told[..3], [(0, 64, 0), (64, 32, 1), (96, 8096, 0)]);
    let found = read(&mut session, 0, 0, 128);
    let mut expected = noise(2048, 0);
    expected[40 * BLOCK..104 * BLOCK].fill(0);
    assert_eq!(found, expected[..128 * BLOCK]);
    // WRITE SAME(16) with UNMAP, and with zeros; one with a pattern maps.
    let mut same = cdb(0x93, 2048, 2048);
    same[1] = 0x08;
    let told = session.write(0, &same, vec![0; BLOCK]).unwrap();
    assert_eq!(sense(&told), None);
    let same = cdb(0x93, 4096, 2048);
    let told = session.write(0, &same, vec![0; BLOCK]).unwrap();
    assert_eq!(sense(&told), None);
    let same = cdb(0x93, 16_384, 32);
    let told = session.write(0, &same, vec![7; BLOCK]).unwrap();
    assert_eq!(sense(&told), None);
    let told = lba_status(&mut session, 0, 2048);
    assert_eq!(
        told[..4],
        [
            (2048, 4096, 1),
            (6144, 2048, 0),
            (8192, 8192, 1),
            (16_384, 32, 0)
        ]
    );
    assert_eq!(read(&mut session, 0, 2048, 2048), vec![0; 2048 * BLOCK]);
    // Writing zeros takes no space either.
    assert_eq!(
        sense(&write(&mut session, 0, 6144, &vec![0; 2048 * BLOCK])),
        None
    );
    assert_eq!(lba_status(&mut session, 0, 6144)[0], (6144, 10_240, 1));
}

/// An atomic write is there whole or not at all, wherever the daemon is killed; and the limits
/// hold.
#[test]
fn an_atomic_write_is_whole_after_a_kill() {
    let mut bench = Bench::new("--size 512M a");
    bench.unit(0, "vm --size 64M --volblocksize 4K --write-cache");
    let mut session = bench.log_in(1, 1);
    let most = u32::from_be_bytes(vpd(&mut session, 0, 0xb0)[44..48].try_into().unwrap());
    assert_eq!(most, 81 * 8);
    let atomic = |lba: u64, blocks: u16| {
        let mut cdb = cdb(0x9c, lba, 0);
        cdb[12..14].copy_from_slice(&blocks.to_be_bytes());
        cdb
    };
    let too_long = session.write(0, &atomic(0, 649), vec![0; 649 * BLOCK]);
    assert_eq!(sense(&too_long.unwrap()), Some([5, 0x24, 0]));
    for round in 0..8_u8 {
        for tag in 0..20_u8 {
            // Unaligned, so that it touches 82 blocks of the volume.
            let told = session.write(0, &atomic(1, 648), vec![1 + tag; 648 * BLOCK]);
            assert_eq!(sense(&told.unwrap()), None);
            if tag == 2 * round {
                // The kill meets the volume at different moments after the writes.
                std::thread::sleep(std::time::Duration::from_millis(round.into()));
            }
        }
        bench.process.kill();
        bench.process.restart();
        session = bench.log_in(1, 1);
        let found = read(&mut session, 0, 1, 648);
        assert!(found.iter().all(|byte| *byte == found[0]), "torn");
    }
}
