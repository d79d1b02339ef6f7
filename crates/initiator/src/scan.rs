//! Scan of a session: finds its logical units by REPORT LUNS, and identifies each by a probe.
//!
//! A session that was lost is scanned again before any I/O goes down it. A LUN that belonged to one
//! device may belong to another by now.

use scsi::application_client::cdb::{self, Cdb};
use scsi::application_client::probe::{Portrait, Probe, ProbeError, ProbeProgress};
use scsi::application_client::report_luns;
use scsi::application_client::sense::{Reaction, SenseCode};

/// Most logical units of one target that are scanned.
pub(super) const MAX_LUNS: usize = 1024;
const FIRST_ALLOCATION: u32 = 4096;
/// Allocation length of REPORT LUNS for all LUNs that are scanned.
const MOST_ALLOCATION: u32 = 8 + 8 * MAX_LUNS as u32;
const MAX_TRIES: u8 = 12;

/// A scan under way.
#[derive(Debug)]
pub(super) struct Scan {
    stage: ScanStage,
    luns: Vec<u64>,
    found: Vec<Unit>,
    refused: Vec<(u64, ProbeError)>,
    left_out: usize,
}

#[derive(Debug)]
enum ScanStage {
    Luns { allocation: u32, tries: u8 },
    Unit { at: usize, probe: Probe },
}

/// Logical unit that a session shows.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) lun: u64,
    pub(super) portrait: Box<Portrait>,
}

/// Result of a scan.
#[derive(Debug)]
pub(super) struct Scanned {
    pub(super) units: Vec<Unit>,
    /// LUNs that exist but cannot be used, and why.
    pub(super) refused: Vec<(u64, ProbeError)>,
    /// Number of LUNs beyond those that are scanned.
    pub(super) left_out: usize,
}

/// Next step of a scan.
#[derive(Debug)]
pub(super) enum Next {
    /// Send [`Scan::command`]; if `later`, after a pause.
    Go {
        later: bool,
    },
    Over(Scanned),
}

impl Scan {
    /// Creates a scan of one LUN, or of all.
    pub(super) fn new(lun: Option<u16>) -> Self {
        let stage = match lun {
            None => ScanStage::Luns {
                allocation: FIRST_ALLOCATION,
                tries: 0,
            },
            Some(_) => ScanStage::Unit {
                at: 0,
                probe: Probe::default(),
            },
        };
        Self {
            stage,
            luns: lun.map(report_luns::from_number).into_iter().collect(),
            found: Vec::new(),
            refused: Vec::new(),
            left_out: 0,
        }
    }

    /// Returns LUN, CDB and length of the data.
    pub(super) fn command(&self) -> (u64, Cdb, u32) {
        match &self.stage {
            ScanStage::Luns { allocation, .. } => (0, cdb::report_luns(*allocation), *allocation),
            ScanStage::Unit { at, probe } => {
                let (cdb, length) = probe.next();
                (self.luns[*at], cdb, length)
            }
        }
    }

    pub(super) fn answer(&mut self, status: u8, sense: &[u8], data: &[u8]) -> Next {
        match &mut self.stage {
            ScanStage::Luns { allocation, tries } => {
                if status != 0 {
                    *tries += 1;
                    let reaction = SenseCode::decode(sense).map(|code| code.reaction());
                    let is_over = matches!(
                        reaction,
                        Some(Reaction::IllegalRequest | Reaction::UnitGone)
                    );
                    if !is_over && *tries < MAX_TRIES {
                        return Next::Go { later: status != 2 };
                    }
                    // SPC-4 obliges a target to support the command. A target without it has LUN 0
                    // at most.
                    self.luns = vec![0];
                } else if let Some(list) = report_luns::parse(data) {
                    let wanted = list.needed.min(MOST_ALLOCATION);
                    if wanted > *allocation {
                        *allocation = wanted;
                        return Next::Go { later: false };
                    }
                    let listed = (list.needed as usize).saturating_sub(8) / 8;
                    let unseen = listed.saturating_sub(list.luns.len());
                    self.luns = list.luns;
                    // A LUN that is listed twice counts once.
                    self.luns.sort_unstable();
                    self.luns.dedup();
                    self.left_out = unseen + self.luns.len().saturating_sub(MAX_LUNS);
                    self.luns.truncate(MAX_LUNS);
                }
                self.unit(0)
            }
            ScanStage::Unit { at, probe } => {
                let at = *at;
                match probe.answer(status, sense, data) {
                    Ok(ProbeProgress::Go { later }) => return Next::Go { later },
                    Ok(ProbeProgress::Known(portrait)) => {
                        let lun = self.luns[at];
                        self.found.push(Unit { lun, portrait });
                    }
                    Err(error) => self.refused.push((self.luns[at], error)),
                }
                self.unit(at + 1)
            }
        }
    }

    fn unit(&mut self, at: usize) -> Next {
        if at < self.luns.len() {
            self.stage = ScanStage::Unit {
                at,
                probe: Probe::default(),
            };
            return Next::Go { later: false };
        }
        Next::Over(Scanned {
            units: std::mem::take(&mut self.found),
            refused: std::mem::take(&mut self.refused),
            left_out: self.left_out,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the answer of a target with `count` LUNs, as far as it fits.
    fn listed(count: u32, allocation: u32) -> Vec<u8> {
        let mut data = (count * 8).to_be_bytes().to_vec();
        data.extend([0; 4]);
        let luns = (0..count).map(|lun| report_luns::from_number(lun as u16));
        data.extend(luns.flat_map(u64::to_be_bytes));
        data.truncate(allocation as usize);
        data
    }

    #[test]
    fn luns_beyond_those_that_are_looked_at_are_counted() {
        let mut scan = Scan::new(None);
        let (_, _, first) = scan.command();
        assert!(matches!(
            scan.answer(0, &[], &listed(5000, first)),
            Next::Go { later: false }
        ));
        let (_, _, all) = scan.command();
        assert_eq!(all, MOST_ALLOCATION);
        scan.answer(0, &[], &listed(5000, all));
        assert_eq!(scan.luns.len(), MAX_LUNS);
        assert_eq!(scan.left_out, 5000 - MAX_LUNS);
    }
}
