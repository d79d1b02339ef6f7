//! Tests of random streams of medium commands from several nexuses, against a plain model of the
//! blocks.

use proptest::prelude::*;
use scsi::Status;

use crate::harness::*;

const BLOCKS: u64 = 48;
const BLOCK: usize = 512;

#[derive(Clone, Debug)]
enum Op {
    Write {
        group: u8,
        lba: u64,
        count: u8,
        fill: u8,
    },
    Read {
        group: u8,
        lba: u64,
        count: u8,
    },
    WriteSame {
        lba: u64,
        count: u8,
        fill: u8,
        unmap: bool,
    },
    WriteZeroes {
        lba: u64,
        count: u8,
        unmap: bool,
    },
    Unmap {
        lba: u64,
        count: u8,
    },
    CompareAndWrite {
        lba: u64,
        count: u8,
        guess: u8,
        fill: u8,
    },
    OrWrite {
        lba: u64,
        count: u8,
        fill: u8,
    },
    WriteAtomic {
        lba: u64,
        count: u8,
        fill: u8,
    },
    WriteAndVerify {
        lba: u64,
        count: u8,
        fill: u8,
    },
    Verify {
        lba: u64,
        count: u8,
        guess: u8,
    },
}

fn any_op() -> impl Strategy<Value = Op> {
    let lba = || 0..BLOCKS + 2;
    let count = || 0_u8..12;
    // There are few values, so that comparisons succeed often enough.
    let fill = || 0_u8..4;
    prop_oneof![
        (0_u8..4, lba(), count(), fill()).prop_map(|(group, lba, count, fill)| Op::Write {
            group,
            lba,
            count,
            fill
        }),
        (0_u8..4, lba(), count()).prop_map(|(group, lba, count)| Op::Read { group, lba, count }),
        (lba(), count(), fill(), any::<bool>()).prop_map(|(lba, count, fill, unmap)| {
            Op::WriteSame {
                lba,
                count,
                fill,
                unmap,
            }
        }),
        (lba(), count(), any::<bool>()).prop_map(|(lba, count, unmap)| Op::WriteZeroes {
            lba,
            count,
            unmap
        }),
        (lba(), count()).prop_map(|(lba, count)| Op::Unmap { lba, count }),
        (lba(), count(), fill(), fill()).prop_map(|(lba, count, guess, fill)| {
            Op::CompareAndWrite {
                lba,
                count,
                guess,
                fill,
            }
        }),
        (lba(), count(), fill()).prop_map(|(lba, count, fill)| Op::OrWrite { lba, count, fill }),
        (lba(), count(), fill()).prop_map(|(lba, count, fill)| Op::WriteAtomic {
            lba,
            count,
            fill
        }),
        (lba(), count(), fill()).prop_map(|(lba, count, fill)| Op::WriteAndVerify {
            lba,
            count,
            fill
        }),
        (lba(), count(), fill()).prop_map(|(lba, count, guess)| Op::Verify { lba, count, guess }),
    ]
}

/// Returns the number of blocks that a command with this length byte means.
fn blocks(op: &Op) -> (u64, u64) {
    match *op {
        Op::Write {
            group: 0,
            lba,
            count: 0,
            ..
        }
        | Op::Read {
            group: 0,
            lba,
            count: 0,
        } => (lba, 256),
        Op::Write { lba, count, .. }
        | Op::Read { lba, count, .. }
        | Op::WriteSame { lba, count, .. }
        | Op::WriteZeroes { lba, count, .. }
        | Op::Unmap { lba, count }
        | Op::CompareAndWrite { lba, count, .. }
        | Op::OrWrite { lba, count, .. }
        | Op::WriteAtomic { lba, count, .. }
        | Op::WriteAndVerify { lba, count, .. }
        | Op::Verify { lba, count, .. } => (lba, u64::from(count)),
    }
}

fn transfer(group: u8, opcodes: [u8; 4], lba: u64, count: u8) -> Vec<u8> {
    match group {
        0 => vec![opcodes[0], 0, 0, lba as u8, count, 0],
        1 => cdb_10(opcodes[1], 0, lba as u32, count.into()),
        2 => cdb_12(opcodes[2], 0, lba as u32, count.into()),
        _ => cdb_16(opcodes[3], 0, lba, count.into()),
    }
}

/// Returns the CDB and its data-out.
fn encode(op: &Op) -> (Vec<u8>, Vec<u8>) {
    let (_, len) = blocks(op);
    let filled = |fill: u8| vec![fill; len as usize * BLOCK];
    match *op {
        Op::Write {
            group,
            lba,
            count,
            fill,
        } => (
            transfer(group, [0x0a, 0x2a, 0xaa, 0x8a], lba, count),
            filled(fill),
        ),
        Op::Read { group, lba, count } => (
            transfer(group, [0x08, 0x28, 0xa8, 0x88], lba, count),
            Vec::new(),
        ),
        Op::WriteSame {
            lba,
            count,
            fill,
            unmap,
        } => (
            cdb_16(0x93, u8::from(unmap) << 3, lba, count.into()),
            vec![fill; BLOCK],
        ),
        Op::WriteZeroes { lba, count, unmap } => (
            cdb_16(0x93, u8::from(unmap) << 3 | 1, lba, count.into()),
            Vec::new(),
        ),
        Op::Unmap { lba, count } => {
            let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
            list.extend_from_slice(&lba.to_be_bytes());
            list.extend_from_slice(&[0, 0, 0, count, 0, 0, 0, 0]);
            (cdb_10(0x42, 0, 0, 24), list)
        }
        Op::CompareAndWrite {
            lba,
            count,
            guess,
            fill,
        } => {
            let mut cdb = cdb_16(0x89, 0, lba, 0);
            cdb[13] = count;
            (cdb, [filled(guess), filled(fill)].concat())
        }
        Op::OrWrite { lba, count, fill } => (cdb_16(0x8b, 0, lba, count.into()), filled(fill)),
        Op::WriteAtomic { lba, count, fill } => (cdb_16(0x9c, 0, lba, count.into()), filled(fill)),
        Op::WriteAndVerify { lba, count, fill } => {
            (cdb_16(0x8e, 2, lba, count.into()), filled(fill))
        }
        Op::Verify { lba, count, guess } => (cdb_16(0x8f, 2, lba, count.into()), filled(guess)),
    }
}

/// Returns the result of the command by the model: the sense key of its failure, or its data-in.
fn apply(op: &Op, model: &mut [u8]) -> Result<Vec<u8>, u8> {
    let (lba, count) = blocks(op);
    if lba + count > BLOCKS {
        return Err(5);
    }
    let same = matches!(op, Op::WriteSame { .. } | Op::WriteZeroes { .. });
    if same && count == 0 {
        return Err(5);
    }
    let span = &mut model[lba as usize * BLOCK..(lba + count) as usize * BLOCK];
    match *op {
        Op::Read { .. } => return Ok(span.to_vec()),
        Op::Write { fill, .. }
        | Op::WriteSame { fill, .. }
        | Op::WriteAtomic { fill, .. }
        | Op::WriteAndVerify { fill, .. } => span.fill(fill),
        Op::WriteZeroes { .. } | Op::Unmap { .. } => span.fill(0),
        Op::CompareAndWrite { guess, fill, .. } => {
            if span.iter().any(|&byte| byte != guess) {
                return Err(0x0e);
            }
            span.fill(fill);
        }
        Op::OrWrite { fill, .. } => span.iter_mut().for_each(|byte| *byte |= fill),
        Op::Verify { guess, .. } => {
            if span.iter().any(|&byte| byte != guess) {
                return Err(0x0e);
            }
        }
    }
    Ok(Vec::new())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_blocks_are_what_the_model_says(
        ops in proptest::collection::vec((0_usize..3, any_op()), 1..60),
    ) {
        let bench = Harness::new(scsi::logical_unit::UnitConfig { blocks: BLOCKS, ..config() });
        let nexuses = [bench.login(1), bench.login(2), bench.login(3)];
        let mut model = vec![0; BLOCKS as usize * BLOCK];
        for (who, op) in &ops {
            let (cdb, data) = encode(op);
            let response = bench.run(&nexuses[*who], &cdb, &data);
            match apply(op, &mut model) {
                Ok(data_in) => {
                    prop_assert_eq!(response.status, Status::Good, "{:?} {:?}", op, response);
                    prop_assert_eq!(response.data_in, data_in);
                }
                Err(key) => prop_assert_eq!(sense_of(&response).0, key, "{:?}", op),
            }
        }
        prop_assert_eq!(&*bench.disk().bytes.borrow(), &model);
    }
}
