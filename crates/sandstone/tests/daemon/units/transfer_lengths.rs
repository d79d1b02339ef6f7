//! Every command that moves data, with all R and W bits and with fitting and unfitting transfer
//! lengths.
//!
//! The Expected Data Transfer Length fits the CDB or does not. The tests check the medium, the
//! status, the sense data and the residual (RFC 7143 §11.4.5).

use crate::raw_wire::{Answer, Wire};
use crate::served::{BLOCK, Served, TARGET, unit};
use model::config::BackendSpec;

/// Number of blocks that the commands of this table touch.
const BLOCKS: usize = 4;

/// The use that a command has for its data-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DataOutUse {
    /// Independent blocks: fewer are written if fewer are offered.
    Blocks,
    /// Bytes of blocks: as many are written as are offered.
    Bytes,
    /// The whole data or nothing; more is dropped.
    All,
    /// Exactly this length.
    Exact,
}

/// Data that a command moves by its CDB.
enum Moves {
    Nothing,
    In(usize),
    /// The data, and what the first blocks are like after it.
    Out(DataOutUse, Vec<u8>, Vec<u8>),
}

struct Case {
    name: &'static str,
    cdb: [u8; 16],
    moves: Moves,
}

fn case(name: &'static str, cdb: &[u8], moves: Moves) -> Case {
    let mut padded = [0; 16];
    padded[..cdb.len()].copy_from_slice(cdb);
    Case {
        name,
        cdb: padded,
        moves,
    }
}

fn writes() -> Vec<Case> {
    let two = || vec![b'b'; 2 * BLOCK];
    let blocks = || Moves::Out(DataOutUse::Blocks, two(), two());
    let bytes = || Moves::Out(DataOutUse::Bytes, two(), two());
    let list = |len| Moves::Out(DataOutUse::All, vec![0; len], Vec::new());
    let same = || Moves::Out(DataOutUse::Exact, vec![b'b'; BLOCK], two());
    let compared = [[b'a'; BLOCK], [b'b'; BLOCK]].concat();
    let or = || Moves::Out(DataOutUse::All, two(), vec![b'a' | b'b'; 2 * BLOCK]);
    let verified = || Moves::Out(DataOutUse::All, vec![b'a'; 2 * BLOCK], Vec::new());
    let twelve = |opcode, flags| [opcode, flags, 0, 0, 0, 0, 0, 0, 0, 2];
    let sixteen = |opcode, flags| [opcode, flags, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    let mut caw = [0; 16];
    (caw[0], caw[13]) = (0x89, 1);
    let mut cases = vec![
        case("WRITE(6)", &[0x0a, 0, 0, 0, 2], bytes()),
        case("WRITE(12)", &twelve(0xaa, 0), bytes()),
        case("WRITE(16)", &sixteen(0x8a, 0), bytes()),
        case("WRITE SAME(16)", &sixteen(0x93, 0), same()),
        case("ORWRITE(16)", &sixteen(0x8b, 0), or()),
        case(
            "COMPARE AND WRITE",
            &caw,
            Moves::Out(DataOutUse::Exact, compared, vec![b'b'; BLOCK]),
        ),
        case("VERIFY(12)", &twelve(0xaf, 2), verified()),
        case("VERIFY(16)", &sixteen(0x8f, 2), verified()),
        case("MODE SELECT(6)", &[0x15, 0x10, 0, 0, 4], list(4)),
        case(
            "SET TARGET PORT GROUPS",
            &[0xa4, 10, 0, 0, 0, 0, 0, 0, 0, 4],
            list(4),
        ),
    ];
    for (name, opcode, flags, moves) in [
        ("WRITE(10)", 0x2a, 0, bytes()),
        ("WRITE AND VERIFY(10)", 0x2e, 0, blocks()),
        ("WRITE AND VERIFY(10), compared", 0x2e, 2, blocks()),
        ("WRITE SAME(10)", 0x41, 0, same()),
        ("VERIFY(10)", 0x2f, 2, verified()),
    ] {
        cases.push(case(name, &[opcode, flags, 0, 0, 0, 0, 0, 0, 2], moves));
    }
    for (opcode, flags) in [(0x8e, 0), (0x8e, 2)] {
        cases.push(case(
            "WRITE AND VERIFY(16)",
            &sixteen(opcode, flags),
            blocks(),
        ));
        cases.push(case("WRITE AND VERIFY(12)", &twelve(0xae, flags), blocks()));
    }
    for (name, opcode, action, len) in [
        ("MODE SELECT(10)", 0x55, 0x10, 8),
        ("UNMAP", 0x42, 0, 8),
        ("PERSISTENT RESERVE OUT", 0x5f, 6, 24),
    ] {
        let cdb = [opcode, action, 0, 0, 0, 0, 0, 0, len];
        let mut parameters = vec![0; usize::from(len)];
        if opcode == 0x42 {
            parameters[1] = 6;
        }
        let moves = Moves::Out(DataOutUse::All, parameters, Vec::new());
        cases.push(case(name, &cdb, moves));
    }
    cases
}

/// Returns commands that give data, with an allocation length that fits exactly.
fn reads() -> Vec<Case> {
    let two = Moves::In(2 * BLOCK);
    let sixteen = |opcode, action, len| [opcode, action, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, len];
    let ten = |opcode, b1, b2, len| [opcode, b1, b2, 0, 0, 0, 0, 0, len];
    let twelve = |opcode, b1, len| [opcode, b1, 0, 0, 0, 0, 0, 0, 0, len];
    vec![
        case("READ(6)", &[0x08, 0, 0, 0, 2], Moves::In(2 * BLOCK)),
        case("READ(10)", &ten(0x28, 0, 0, 2), Moves::In(2 * BLOCK)),
        case("READ(12)", &twelve(0xa8, 0, 2), Moves::In(2 * BLOCK)),
        case("READ(16)", &sixteen(0x88, 0, 2), two),
        case("INQUIRY", &[0x12, 0, 0, 0, 36], Moves::In(36)),
        case("INQUIRY, page 83h", &[0x12, 1, 0x83, 0, 20], Moves::In(20)),
        case("REQUEST SENSE", &[0x03, 0, 0, 0, 18], Moves::In(18)),
        case("MODE SENSE(6)", &[0x1a, 8, 0x3f, 0, 16], Moves::In(16)),
        case("MODE SENSE(10)", &ten(0x5a, 8, 0x3f, 16), Moves::In(16)),
        case("READ CAPACITY(10)", &[0x25], Moves::In(8)),
        case("READ CAPACITY(16)", &sixteen(0x9e, 0x10, 32), Moves::In(32)),
        case("GET LBA STATUS", &sixteen(0x9e, 0x12, 24), Moves::In(24)),
        case("LOG SENSE", &ten(0x4d, 0, 0x59, 40), Moves::In(40)),
        case("READ DEFECT DATA(10)", &ten(0x37, 0, 0, 4), Moves::In(4)),
        case("PERSISTENT RESERVE IN", &ten(0x5e, 0, 0, 8), Moves::In(8)),
        case("REPORT LUNS", &twelve(0xa0, 0, 16), Moves::In(16)),
        case(
            "REPORT TARGET PORT GROUPS",
            &twelve(0xa3, 10, 12),
            Moves::In(12),
        ),
        case(
            "REPORT SUPPORTED OPERATION CODES",
            &twelve(0xa3, 12, 40),
            Moves::In(40),
        ),
        case("RECEIVE COPY RESULTS", &sixteen(0x84, 3, 16), Moves::In(16)),
        case("TEST UNIT READY", &[0], Moves::Nothing),
        case("SYNCHRONIZE CACHE(10)", &[0x35], Moves::Nothing),
        case("WRITE(10) of nothing", &[0x2a], Moves::Nothing),
        case("READ(10) of nothing", &[0x28], Moves::Nothing),
        case("INQUIRY, none allocated", &[0x12], Moves::Nothing),
    ]
}

const REFUSED: (u8, (u8, u8)) = (2, (0x0e, 0x03));

/// Returns the last column of the table: status, sense, residual, bytes of data-in, and the written
/// part.
fn expected(
    case: &Case,
    read: bool,
    write: bool,
    edtl: usize,
) -> ((u8, (u8, u8)), i64, usize, usize) {
    let good = (0, (0, 0));
    let under = -(edtl as i64);
    match &case.moves {
        Moves::Nothing => (good, under, 0, 0),
        Moves::In(bytes) if read && !write || edtl == 0 => {
            (good, *bytes as i64 - edtl as i64, (*bytes).min(edtl), 0)
        }
        // Data-in was not announced: none moves.
        Moves::In(_) => (good, under, 0, 0),
        Moves::Out(kind, data, _) if write => {
            let over = data.len() as i64 - edtl as i64;
            match *kind {
                DataOutUse::Exact if over < 0 => (REFUSED, under, 0, 0),
                _ if over <= 0 => (good, over, 0, data.len()),
                DataOutUse::Bytes => (good, over, 0, edtl),
                DataOutUse::Blocks if edtl.is_multiple_of(BLOCK) => (good, over, 0, edtl),
                _ => (REFUSED, over, 0, 0),
            }
        }
        // Data-out was not announced: none moves.
        Moves::Out(_, data, _) if edtl == 0 => (REFUSED, data.len() as i64, 0, 0),
        Moves::Out(..) => (REFUSED, under, 0, 0),
    }
}

fn lengths(bytes: usize) -> Vec<usize> {
    let mut lengths = vec![0, 1, 200, bytes, bytes + 1, bytes + BLOCK, 10_000];
    lengths.extend(
        [1, BLOCK - 1, BLOCK]
            .iter()
            .filter_map(|less| bytes.checked_sub(*less)),
    );
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

#[test]
fn what_moved_is_told_for_every_command_direction_and_length() {
    let served = Served::start(vec![unit("unit", 1, BackendSpec::Memory { size: 1 << 20 })]);
    let mut wire = Wire::log_in(served.portal, TARGET);
    wire.command([0; 16], (false, false), 0, &[], false);
    let mut write_all = [0; 16];
    (write_all[0], write_all[8]) = (0x2a, BLOCKS as u8);
    let mut read_all = write_all;
    read_all[0] = 0x28;
    let whole = (BLOCKS * BLOCK) as u32;
    for case in writes().iter().chain(&reads()) {
        let (data, after) = match &case.moves {
            Moves::Out(_, data, after) => (&data[..], &after[..]),
            _ => (&[][..], &[][..]),
        };
        let bytes = match case.moves {
            Moves::In(bytes) => bytes,
            _ => data.len(),
        };
        for (read, write) in [(true, false), (false, true), (false, false), (true, true)] {
            for edtl in lengths(bytes) {
                for immediate in [false, true] {
                    let before = wire.command(
                        write_all,
                        (false, true),
                        whole,
                        &[b'a'; BLOCKS * BLOCK],
                        false,
                    );
                    assert_eq!((before.status, before.residual), (0, 0));
                    let mut offer = data.to_vec();
                    offer.resize(edtl, b'x');
                    let offer = if write { &offer[..] } else { &[] };
                    let at = format!(
                        "{}, R={read} W={write} EDTL={edtl} immediate={immediate}",
                        case.name
                    );
                    let answer =
                        wire.command(case.cdb, (read, write), edtl as u32, offer, immediate);
                    let ((status, asc), residual, data_in, moved) =
                        expected(case, read, write, edtl);
                    assert_eq!((answer.status, answer.asc), (status, asc), "{at}");
                    assert_eq!(answer.residual, residual, "{at}");
                    assert_eq!(answer.data.len(), data_in, "{at}");
                    // A block that is repeated lands more than once, a parameter list nowhere.
                    let landed = if moved == data.len() {
                        after.len()
                    } else {
                        moved
                    };
                    let mut medium = vec![b'a'; BLOCKS * BLOCK];
                    medium[..landed].copy_from_slice(&after[..landed]);
                    let Answer { data: found, .. } =
                        wire.command(read_all, (true, false), whole, &[], false);
                    assert!(found == medium, "{at}: another medium");
                }
            }
        }
    }
}
