//! The search around the end of the log for proof that something durable is missing there (step 4
//! of section 8.1).

use std::collections::BTreeSet;

use super::labels::ReadLabels;
use super::log::Place;
use super::record::Record;
use super::vdevs::Vdevs;

/// Number of sectors before a place, and behind it, that are searched.
const AROUND: u64 = 2047;

/// Reports whether a record behind the end of the log proves that the missing group was durable.
/// `known` are the places of the records before, in their order.
pub(super) fn is_durable_missing(
    vdevs: &Vdevs<'_>,
    found: &ReadLabels<'_>,
    end: &Place,
    known: &[u64],
) -> bool {
    let vdev = |address: u64| address >> 48;
    let mut centres = vec![end.address];
    for address in known.iter().rev() {
        if centres.iter().all(|centre| vdev(*centre) != vdev(*address)) {
            centres.push(*address);
        }
    }
    let around = centres.iter().flat_map(|centre| {
        let first = (centre & !(0xffff << 48)).saturating_sub(AROUND);
        (vdev(*centre) << 48 | first)..=centre + AROUND
    });
    let mut wanted: Vec<u64> = around.collect();
    let mut seen = BTreeSet::new();
    while let Some(address) = wanted.pop() {
        if !seen.insert(address) {
            continue;
        }
        let records = vdevs.copies_of_whole_leaves(address).into_iter();
        for record in records.filter_map(|sector| Record::parse(&sector, found)) {
            let is_missing_one = (record.seq, record.previous) == (end.seq, end.previous);
            if record.seq > end.seq && record.durable_seq >= end.seq {
                return true;
            }
            if record.seq > end.seq || is_missing_one {
                wanted.push(record.next);
            }
        }
    }
    false
}
