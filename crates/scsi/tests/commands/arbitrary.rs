//! Tests of arbitrary bytes. Whatever an initiator sends, every command ends with a status that
//! makes sense, no step leaves the medium, and nothing panics.

use proptest::prelude::*;
use scsi::command_table::TABLE;
use scsi::{BlockRange, Status};

use crate::extended_copy::{copy_cdb, cscd, lid1, lid4, segment};
use crate::harness::*;
use crate::token::{self, populate_list, token_of, write_list};

/// Generates a CDB of a known command whose fields are mostly small, mostly within the bits that
/// the command knows.
fn cdbs() -> impl Strategy<Value = Vec<u8>> {
    (
        0..TABLE.len(),
        prop::collection::vec(
            prop_oneof![5 => Just(0u8), 3 => 0..9u8, 2 => any::<u8>()],
            16..40,
        ),
        prop::bool::weighted(0.9),
    )
        .prop_map(|(index, random, masked)| {
            let command = &TABLE[index];
            let mut cdb: Vec<u8> = command
                .usage
                .iter()
                .zip(random.iter().cycle())
                .map(|(mask, byte)| if masked { byte & mask } else { *byte })
                .collect();
            cdb[0] = command.opcode;
            match command.service_action {
                Some(action) if command.opcode == 0x7F => {
                    cdb[7] = command.usage[7];
                    cdb[8..10].copy_from_slice(&action.to_be_bytes());
                }
                // Other service actions are five bits wide.
                Some(action) => cdb[1] = cdb[1] & 0xE0 | action as u8,
                None => {}
            }
            cdb
        })
}

/// Generates data-out like a parameter list, with small numbers in the length fields.
fn data_out() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![6 => Just(0u8), 3 => 0..40u8, 1 => any::<u8>()];
    prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(byte.clone(), 0..64),
        prop::collection::vec(byte, 512..1024),
    ]
}

fn device() -> (Initiator, Initiator) {
    let device = Device::new(&[config(1), config(2)]);
    device.units[0].enable_tokens([1; 16]);
    (device.login(1, 1), device.login(2, 2))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_command_ends_with_a_status_that_makes_sense(
        script in prop::collection::vec((any::<bool>(), cdbs(), data_out()), 1..30),
    ) {
        let (a, b) = device();
        for (first, cdb, data_out) in script {
            let response = if first { &a } else { &b }.run(&cdb, &data_out);
            match response.status {
                Status::CheckCondition => prop_assert!(response.sense.len() >= 8),
                _ => prop_assert!(response.sense.is_empty()),
            }
        }
        // The unit still answers after any input.
        prop_assert_eq!(a.run(&[0x12, 0, 0, 0, 36, 0], &[]).data_in.len(), 36);
    }

    #[test]
    fn damaged_third_party_copies_never_leave_the_view(
        which in 0..4usize,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        naa in prop::bool::weighted(0.3),
    ) {
        let device = Device::new(&[config(1), config(2), config(3)]);
        for unit in &device.units {
            unit.enable_tokens([1; 16]);
        }
        let all = BlockRange::new(0, BLOCKS).unwrap();
        let secret = vec![0xEE; BLOCKS as usize * 512];
        device.write(&device.units[2], all, &secret);
        let mut a = device.login(1, 1);
        a.hidden.push(2);
        // One descriptor leads to the hidden unit: its own designator stands in place of a visible
        // one.
        let target = config(if naa { 3 } else { 2 }).naa;
        let cscds = [cscd(&config(1).naa, 512), cscd(&target, 512)];
        let segments = [segment((0, 0), (1, 8), 64), segment((1, 0), (0, 100), 64)];
        let mut token = token_of(&a, 1, &[(0, 16), (100, 16)]);
        if naa {
            token[24..40].copy_from_slice(&target);
        }
        let (mut cdb, mut list) = match which {
            0 => (copy_cdb(0, 0), lid1(1, 0, &cscds, &segments)),
            1 => (copy_cdb(1, 0), lid4(1, &cscds, &segments)),
            2 => (token::cdb(0x10, 2, 0), populate_list(&[(0, 16), (100, 16)])),
            _ => (token::cdb(0x11, 2, 0), write_list(&token, 0, &[(0, 8), (64, 24)])),
        };
        for (index, byte) in damage {
            *index.get_mut(&mut list) = byte;
        }
        let [high, low] = (list.len() as u16).to_be_bytes();
        cdb[12..14].copy_from_slice(&[high, low]);
        let response = a.run(&cdb, &list);
        prop_assert_eq!(response.status == Status::CheckCondition, !response.sense.is_empty());
        prop_assert_eq!(device.read(&device.units[2], all), secret);
        for seen in 0..2 {
            let unit = &device.units[seen];
            prop_assert!(!device.read(unit, all).contains(&0xEE), "read from outside the view");
        }
    }

    #[test]
    fn any_bytes_at_all_are_a_command(
        cdb in prop::collection::vec(any::<u8>(), 0..40),
        data_out in data_out(),
    ) {
        let (a, _) = device();
        let response = a.run(&cdb, &data_out);
        prop_assert_eq!(response.status == Status::CheckCondition, !response.sense.is_empty());
    }
}
