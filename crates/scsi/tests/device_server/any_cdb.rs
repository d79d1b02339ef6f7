//! Tests of any bytes as a CDB, with any data: nothing panics, nothing leaves the capacity, every
//! answer is well formed.

use proptest::prelude::*;
use scsi::command_table::TABLE;
use scsi::{Command, Response, Start, Status, TaskAttribute, start_without_unit};

use crate::harness::*;

/// Generates bytes that mostly begin like a CDB of the table.
fn any_cdb() -> impl Strategy<Value = Vec<u8>> {
    let known = (
        0..TABLE.len(),
        proptest::collection::vec(any::<u8>(), 31),
        any::<bool>(),
    );
    let known = known.prop_map(|(index, noise, sparse)| {
        let command = &TABLE[index];
        let mut cdb = command.usage.to_vec();
        for (byte, noise) in cdb.iter_mut().zip(&noise).skip(1) {
            *byte = if sparse { *noise & 0x03 } else { *noise };
        }
        if let Some(action) = command.service_action {
            cdb[1] = cdb[1] & 0xe0 | action as u8;
        }
        cdb
    });
    prop_oneof![
        8 => known,
        1 => proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

fn assert_well_formed(response: &Response) -> Result<(), TestCaseError> {
    let has_sense = response.status == Status::CheckCondition;
    prop_assert_eq!(has_sense, !response.sense.is_empty());
    if has_sense {
        prop_assert!(response.sense[0] & 0x7f == 0x70 || response.sense[0] == 0x72);
        prop_assert!(response.sense.len() <= 64);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_command_is_answered(
        cdbs in proptest::collection::vec(any_cdb(), 1..6),
        data in proptest::collection::vec(any::<u8>(), 0..600),
        descriptor_sense in any::<bool>(),
    ) {
        let bench = Harness::new(scsi::logical_unit::UnitConfig { blocks: 64, ..config() });
        let nexus = bench.login(1);
        if descriptor_sense {
            let page = [0, 0, 0, 0, 0x0a, 10, 0x06, 0x10, 0, 0, 0, 0, 0, 0, 0, 0];
            assert_good(bench.run(&nexus, &[0x15, 0x10, 0, 0, 16, 0], &page));
        }
        for cdb in cdbs {
            let response = bench.run(&nexus, &cdb, &data);
            assert_well_formed(&response)?;
        }
    }

    /// Tests a CDB as it arrives, not padded to 16 bytes.
    #[test]
    fn a_cut_cdb_is_answered(cdb in any_cdb(), len in 0_usize..16) {
        let bench = Harness::new(config());
        let nexus = bench.login(1);
        let cut = &cdb[..cdb.len().min(len)];
        let command = Command {
            cdb: cut,
            attribute: TaskAttribute::Simple,
            data_out_len: Some(0),
            data_in_len: 0,
        };
        match nexus.start(&command, &View(&bench)) {
            Start::Respond(response) => assert_well_formed(&response)?,
            Start::Read { range, .. } | Start::Write { range, .. } => {
                prop_assert!(range.end() <= 2048);
            }
            Start::Task(_) => {}
        }
        match start_without_unit(&command, &View(&bench)) {
            Start::Respond(response) => assert_well_formed(&response)?,
            other => prop_assert!(false, "{:?}", other),
        }
    }
}

#[test]
fn the_table_is_consistent() {
    for command in TABLE {
        let bench_len = scsi::cdb::Cdb(&[command.opcode]).expected_len();
        assert_eq!(bench_len, Some(command.usage.len()), "{}", command.name);
        assert_eq!(command.usage[0], command.opcode, "{}", command.name);
        let action = command.usage[1] & 0x1f;
        assert!(
            command
                .service_action
                .is_none_or(|found| found == u16::from(action))
        );
    }
    let keys: Vec<_> = TABLE
        .iter()
        .map(|it| (it.opcode, it.service_action))
        .collect();
    assert!(
        keys.windows(2).all(|two| two[0] < two[1]),
        "sorted, no duplicates"
    );
}
