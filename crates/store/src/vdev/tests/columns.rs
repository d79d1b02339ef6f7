//! Tests of the columns of raidz against their definition: every sector once, parity as the right
//! sum, and any erasures rebuilt.

use std::collections::BTreeSet;

use pages::{PAGE_SIZE, Pages};
use proptest::prelude::*;

use super::rig::Random;
use crate::vdev::geometry::Column;
use crate::vdev::raidz;
use crate::vdev::raidz::parity;

/// Makes random bytes, all different.
fn noise(seed: u64, sectors: usize) -> Pages {
    let mut random = Random(seed);
    let mut bytes = vec![0; sectors * PAGE_SIZE];
    bytes
        .chunks_mut(8)
        .for_each(|part| part.copy_from_slice(&random.next().to_le_bytes()));
    Pages::from_bytes(&bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_block_takes_its_footprint_and_nothing_else(
        parity in 1..=3_u64, data in 1..14_u64, sector in 0..5000_u64, sectors in 1..300_u16,
    ) {
        let leaves = parity + data;
        let geometry = raidz::geometry(leaves, parity, sector, sectors);
        let footprint = raidz::footprint(leaves as u32, parity as u32, u32::from(sectors));
        let mut taken = BTreeSet::new();
        for Column { slot, sector, sectors } in geometry.columns.iter().chain(&geometry.padding) {
            let slot = u64::from(slot.expect("a column has a slot"));
            for row in *sector..sector + u64::from(*sectors) {
                prop_assert!(taken.insert(row * leaves + slot), "taken twice");
            }
        }
        let expected: BTreeSet<u64> = (sector..sector + u64::from(footprint)).collect();
        prop_assert_eq!(taken, expected);
        // No two columns lie on one leaf, so that the loss of a leaf is the loss of one column.
        let slots: BTreeSet<_> = geometry.columns.iter().map(|column| column.slot).collect();
        prop_assert_eq!(slots.len(), geometry.columns.len());
        prop_assert_eq!(geometry.parity, parity as usize);
        prop_assert!(footprint.is_multiple_of(parity as u32 + 1));
    }

    #[test]
    fn parity_is_the_sum_it_is_said_to_be(
        parity in 1..=3_u64, data in 1..8_u64, sectors in 1..12_u16, seed: u64,
    ) {
        let geometry = raidz::geometry(parity + data, parity, seed % 1000, sectors);
        let payload = noise(seed, usize::from(sectors));
        let columns: Vec<Vec<u8>> =
            geometry.encode(&payload).iter().map(Pages::to_vec).collect();
        let (sums, data) = columns.split_at(geometry.parity);
        prop_assert_eq!(&data.concat(), &payload.to_vec());
        for (number, sum) in sums.iter().enumerate() {
            for at in (0..sum.len()).step_by(61) {
                let terms = data.iter().rev().enumerate().map(|(exponent, column)| {
                    let factor = parity::power(1 << number, exponent);
                    parity::product(factor, column.get(at).copied().unwrap_or(0))
                });
                prop_assert_eq!(sum[at], terms.fold(0, |sum, term| sum ^ term));
            }
        }
    }

    #[test]
    fn any_erasures_up_to_the_parity_are_rebuilt(
        parity in 1..=3_u64, data in 1..8_u64, sectors in 1..12_u16, seed: u64,
    ) {
        let geometry = raidz::geometry(parity + data, parity, seed % 1000, sectors);
        let payload = noise(seed, usize::from(sectors));
        let columns = geometry.encode(&payload);
        for lost in 0..1_u32 << columns.len() {
            let is_lost = |column: usize| lost >> column & 1 == 1;
            let left: Vec<Option<&Pages>> = columns
                .iter()
                .enumerate()
                .map(|(at, column)| (!is_lost(at)).then_some(column))
                .collect();
            let is_too_much = lost.count_ones() as usize > geometry.parity;
            if lost.count_ones() as usize > geometry.parity + 1 {
                continue;
            }
            match raidz::decode(&geometry, &left) {
                Some(decoded) => prop_assert_eq!(decoded.to_vec(), payload.to_vec()),
                None => prop_assert!(is_too_much),
            }
        }
    }
}
