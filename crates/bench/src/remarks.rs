//! Remarks that a reader needs to understand a run's figures: failures, an early end, a pace that
//! was not reached.

use super::reached::not_in_force;
use super::results::{Measurement, Run};
use super::verify::VerifyReport;

/// Returns the remarks on a run, each a sentence; an empty list if there is nothing to mind.
pub fn remarks(run: &Run) -> Vec<String> {
    let Measurement {
        unstarted,
        late,
        longest_gap_ns,
        ..
    } = run.measurement;
    let mut remarks = Vec::new();
    let failures = run.measurement.failures.iter();
    remarks.extend(failures.map(|failure| {
        format!(
            "{} requests failed ({}): {}",
            failure.count, failure.kind, failure.first
        )
    }));
    if let Some(reached) = &run.reached {
        remarks.extend(reached.missing());
    }
    remarks.extend(not_in_force(run));
    if run.measurement.gave_up {
        remarks.push("stopped early: every access failed".to_owned());
    }
    if run.measurement.interrupted {
        remarks.push("interrupted: the figures cover the time until then".to_owned());
    }
    if run.measurement.abandoned > 0 {
        remarks.push(format!(
            "NOT ENDED: {} accesses got no answer, even after the end of the run; no figure includes them, \
             and their writes may still reach the target: find out why it hangs before it is used again",
            run.measurement.abandoned
        ));
    }
    let cores = run.measurement.cpu_cores().unwrap_or(0.0);
    if cores > 0.95 * f64::from(run.measurement.workers) {
        remarks.push(
            "the load generator was busy all the time: more --workers may show more".to_owned(),
        );
    }
    if unstarted > 0 {
        remarks.push(format!(
            "the rate was not reached: {unstarted} accesses had not even started when the time was over"
        ));
    }
    if longest_gap_ns > 1_000_000_000 {
        remarks.push(format!(
            "no access ended for {:.1} s{}",
            longest_gap_ns as f64 / 1e9,
            if late > 0 {
                "; some accesses were still in flight when the time was over"
            } else {
                ""
            }
        ));
    }
    if let Some(report) = &run.measurement.verify {
        remarks.push(format!(
            "verified: {} blocks written, {} compared, {} wrong, {} read before they were written",
            report.written, report.checked, report.mismatches, report.unknown
        ));
        remarks.extend(
            report
                .details
                .iter()
                .map(|mismatch| format!("WRONG DATA: {mismatch}")),
        );
        remarks.extend(unproven(report));
    }
    remarks
}

/// Returns the reasons, beside wrong data, why verification is no proof.
pub fn unproven(report: &VerifyReport) -> Vec<String> {
    let mut reasons = Vec::new();
    if report.flush_failed {
        reasons.push("NOT VERIFIED: the target failed to make the data durable".to_owned());
    }
    if report.unread > 0 {
        reasons.push(format!(
            "NOT VERIFIED: {} blocks were written and not compared at the end",
            report.unread
        ));
    }
    if report.short_reads > 0 {
        reasons.push(format!(
            "NOT VERIFIED: {} reads were answered without the bytes that were asked for",
            report.short_reads
        ));
    }
    reasons
}
