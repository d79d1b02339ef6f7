//! Copies inside the server: EXTENDED COPY and tokens.
//!
//! They go between units on volumes of one pool, and from a snapshot.

use super::*;

/// Returns a third-party copy CDB with this operation code, service action and list identifier.
fn third_party(code: u8, action: u8, list_id: u32, len: usize) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[..2].copy_from_slice(&[code, action]);
    let at = if code == 0x83 && action >= 0x10 { 6 } else { 2 };
    cdb[at..at + 4].copy_from_slice(&list_id.to_be_bytes());
    cdb[10..14].copy_from_slice(&(len as u32).to_be_bytes());
    cdb
}

fn ranges(ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut bytes = ((ranges.len() * 16) as u16).to_be_bytes().to_vec();
    for (lba, blocks) in ranges {
        bytes.extend_from_slice(&lba.to_be_bytes());
        bytes.extend_from_slice(&blocks.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
    }
    bytes
}

fn with_data_length(mut list: Vec<u8>) -> Vec<u8> {
    let len = (list.len() - 2) as u16;
    list[..2].copy_from_slice(&len.to_be_bytes());
    list
}

/// Sends POPULATE TOKEN, then RECEIVE ROD TOKEN INFORMATION, and returns the token.
pub(crate) fn token(session: &mut Session, lun: u64, list_id: u32, from: &[(u64, u32)]) -> Vec<u8> {
    let list = with_data_length([vec![0; 14], ranges(from)].concat());
    let populate = third_party(0x83, 0x10, list_id, list.len());
    let told = session.write(lun, &populate, list).unwrap();
    assert_eq!(sense(&told), None, "{told:?}");
    let information = third_party(0x84, 0x07, list_id, 1024);
    let told = session.read(lun, &information, 1024).unwrap();
    assert_eq!(sense(&told), None, "{told:?}");
    assert_eq!(told.data_in[4..6], [0x10, 1], "done, without exception");
    told.data_in[38..].to_vec()
}

pub(crate) fn write_using(
    session: &mut Session,
    lun: u64,
    list_id: u32,
    token: &[u8],
    to: &[(u64, u32)],
) -> Outcome {
    let header = [&[0; 16][..], token, &[0; 6]].concat();
    let list = with_data_length([header, ranges(to)].concat());
    let write = third_party(0x83, 0x11, list_id, list.len());
    session.write(lun, &write, list).unwrap()
}

/// Sends EXTENDED COPY(LID1) of `blocks` blocks from one NAA to another.
fn extended_copy(session: &mut Session, naas: [&[u8]; 2], lbas: [u64; 2], blocks: u16) -> Outcome {
    let mut list = vec![1, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 0];
    for naa in naas {
        list.extend_from_slice(&[0xe4, 0, 0, 0, 1, 3, 0, 16]);
        list.extend_from_slice(naa);
        list.extend_from_slice(&[0; 4]);
        list.extend_from_slice(&512_u32.to_be_bytes());
    }
    list.extend_from_slice(&[0x02, 0, 0, 0x18, 0, 0, 0, 1, 0, 0]);
    list.extend_from_slice(&blocks.to_be_bytes());
    lbas.iter()
        .for_each(|lba| list.extend_from_slice(&lba.to_be_bytes()));
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
    session.write(0, &cdb, list).unwrap()
}

/// Returns the NAA of VPD page 83h.
fn naa(session: &mut Session, lun: u64) -> Vec<u8> {
    let page = vpd(session, lun, 0x83);
    assert_eq!(page[4..8], [1, 3, 0, 16]);
    page[8..24].to_vec()
}

#[test]
fn copies_never_leave_the_server() {
    let mut bench = Bench::new("--size 512M a b");
    bench.unit(0, "from --size 64M --volblocksize 16K");
    bench.unit(1, "to --size 64M --volblocksize 64K");
    let mut session = bench.log_in(1, 2);
    let data = noise(1000, 1);
    assert_eq!(sense(&write(&mut session, 0, 7, &data)), None);
    bench.process.done("volume snapshot tank/from@before");
    bench.unit(2, "before --volume tank/from@before");
    let told = session.read(0, &[0; 6], 0).unwrap();
    assert_eq!(sense(&told), Some([6, 0x3f, 0x0e]), "another LUN is there");
    session = bench.log_in(1, 3);
    let newer = noise(1000, 2);
    assert_eq!(sense(&write(&mut session, 0, 7, &newer)), None);

    let naas = [0, 1, 2].map(|lun| naa(&mut session, lun));
    let told = extended_copy(&mut session, [&naas[0], &naas[1]], [7, 100], 1000);
    assert_eq!(sense(&told), None, "{told:?}");
    assert_eq!(read(&mut session, 1, 100, 1000), newer);
    let told = extended_copy(&mut session, [&naas[2], &naas[1]], [7, 2100], 1000);
    assert_eq!(sense(&told), None, "{told:?}");
    assert_eq!(read(&mut session, 1, 2100, 1000), data);

    // A token of the unit, and one of its snapshot; holes are copied as zeros.
    let current = token(&mut session, 0, 1, &[(7, 1000), (50_000, 64)]);
    let told = write_using(&mut session, 1, 2, &current, &[(4099, 1064)]);
    assert_eq!(sense(&told), None, "{told:?}");
    let expected = [newer.clone(), vec![0; 64 * BLOCK]].concat();
    assert_eq!(read(&mut session, 1, 4099, 1064), expected);
    let before = token(&mut session, 2, 3, &[(7, 1000)]);
    let told = write_using(&mut session, 1, 4, &before, &[(8000, 1000)]);
    assert_eq!(sense(&told), None, "{told:?}");
    assert_eq!(read(&mut session, 1, 8000, 1000), data);

    // Copied data is as durable as written data.
    bench.process.kill();
    bench.process.restart();
    let mut session = bench.log_in(1, 3);
    assert_eq!(read(&mut session, 1, 100, 1000), newer);
    assert_eq!(read(&mut session, 1, 8000, 1000), data);
}

/// The volume shrinks for a moment and grows again: data behind that end is gone.
#[test]
fn a_volume_that_shrank_is_not_copied_by_a_token_of_before() {
    let bench = Bench::new("--size 512M a");
    bench.unit(0, "vm --size 64M");
    let mut session = bench.log_in(1, 1);
    let data = noise(8, 1);
    let last = 65_536 + 8;
    assert_eq!(sense(&write(&mut session, 0, last, &data)), None);
    let token = token(&mut session, 0, 1, &[(last, 8)]);
    for size in ["--shrink volsize=32M", "volsize=64M"] {
        bench.process.done(&format!("volume set {size} tank/vm"));
        let told = session.read(0, &[0; 6], 0).unwrap();
        assert_eq!(sense(&told), Some([6, 0x2a, 9]), "{size}");
    }
    assert_eq!(read(&mut session, 0, last, 8), vec![0; 8 * BLOCK]);
    let told = write_using(&mut session, 0, 2, &token, &[(0, 8)]);
    assert_eq!(sense(&told), Some([5, 0x23, 6]), "TOKEN REVOKED");
}
