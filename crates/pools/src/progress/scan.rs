//! Progress of scrubs and resilvers, in zpool's words.

use store::engine::{ScanKind, ScanState, ScanStatus};
use store::format::SECTOR_SIZE;

use model::date::utc;
use model::pool::scan::ScanView;
use model::quantity::format_size;

/// Describes a scan for programs. `now_us` is the engine's time.
pub(crate) fn view(scan: &ScanStatus, now_us: u64) -> ScanView {
    let bytes = |sectors: u64| sectors * SECTOR_SIZE as u64;
    let issued = bytes(scan.examined_sectors);
    let total = bytes(scan.total_sectors).max(issued);
    let seconds = match scan.state {
        ScanState::Running | ScanState::Paused => now_us.saturating_sub(scan.began_us) as f64 / 1e6,
        ScanState::Finished | ScanState::Canceled => {
            scan.ended_s.saturating_sub(scan.started_s) as f64
        }
    };
    let rate = if seconds > 0.0 {
        (issued as f64 / seconds) as u64
    } else {
        0
    };
    let is_running = scan.state == ScanState::Running;
    ScanView {
        kind: match scan.kind {
            ScanKind::Scrub => "scrub",
            ScanKind::Resilver => "resilver",
        }
        .to_owned(),
        state: match scan.state {
            ScanState::Running => "running",
            ScanState::Paused => "paused",
            ScanState::Finished => "finished",
            ScanState::Canceled => "canceled",
        }
        .to_owned(),
        started_s: scan.started_s,
        ended_s: scan.ended_s,
        scanned: bytes(scan.scanned_sectors),
        issued,
        total,
        repaired: scan.repaired_bytes,
        bad: scan.bad,
        errors: scan.unrecoverable,
        rate,
        left_s: (is_running && rate > 0).then(|| (total - issued).div_ceil(rate)),
        is_scrub_waiting: false,
    }
}

/// Describes a scrub that a resilver interrupted.
pub(crate) fn waiting(scrub: ScanState) -> &'static str {
    match scrub {
        ScanState::Paused => "a paused scrub starts again after the resilver, when it is resumed",
        _ => "an interrupted scrub starts again after the resilver",
    }
}

/// Describes a scan in zpool's words, in lines.
pub(crate) fn text(scan: &ScanStatus, now_us: u64) -> String {
    let seen = view(scan, now_us);
    let (is_scrub, errors) = (scan.kind == ScanKind::Scrub, scan.unrecoverable);
    let (began, ended) = (utc(scan.started_s), utc(scan.ended_s));
    let repaired = amount(seen.repaired);
    match scan.state {
        ScanState::Finished => {
            let took = clock(scan.ended_s.saturating_sub(scan.started_s));
            let what = if is_scrub {
                format!("scrub repaired {repaired}")
            } else {
                format!("resilvered {repaired}")
            };
            format!("{what} in {took} with {errors} errors on {ended}")
        }
        ScanState::Canceled if is_scrub => format!("scrub canceled on {ended}"),
        ScanState::Canceled => {
            format!("resilver canceled on {ended}: a device left, or did not take the rebuilt data")
        }
        ScanState::Running => format!(
            "{} in progress since {began}\n{}",
            seen.kind,
            progress(&seen, is_scrub)
        ),
        ScanState::Paused => {
            let progress = progress(&seen, is_scrub);
            format!("scrub paused; it was started on {began}\n{progress}")
        }
    }
}

fn progress(seen: &ScanView, is_scrub: bool) -> String {
    let size = amount;
    let is_running = seen.state == "running";
    let rate = if is_running {
        format!(" at {}/s", size(seen.rate))
    } else {
        String::new()
    };
    let repaired = if is_scrub { "repaired" } else { "resilvered" };
    let errors = match seen.errors {
        0 => String::new(),
        errors => format!(", {errors} errors"),
    };
    let left = match seen.left_s {
        Some(left) if is_running => format!(", {} to go", clock(left)),
        _ if is_running => ", no estimated time".to_owned(),
        _ => String::new(),
    };
    let percent = seen.issued as f64 * 100.0 / seen.total.max(1) as f64;
    format!(
        "{} / {total} scanned, {} / {total} issued{rate}\n{} {repaired}, {percent:.2}% done{errors}{left}",
        size(seen.scanned.min(seen.total)),
        size(seen.issued),
        size(seen.repaired),
        total = size(seen.total),
    )
}

/// Formats bytes as zpool does: no bytes are `0B`.
fn amount(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes}B"),
        _ => format_size(bytes),
    }
}

/// Formats a duration, for example `00:01:23` or `1 days 02:03:04`.
fn clock(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let text = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    match days {
        0 => text,
        days => format!("{days} days {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(kind: ScanKind, state: ScanState) -> ScanStatus {
        ScanStatus {
            kind,
            state,
            started_s: 1_700_000_000,
            ended_s: 1_700_000_083,
            scanned_sectors: 3 << 17,
            examined_sectors: 1 << 17,
            total_sectors: 1 << 19,
            bad: 3,
            repaired: 3,
            repaired_bytes: 12288,
            began_us: 1_000_000,
            unrecoverable: 0,
        }
    }

    #[test]
    fn scans_are_told_of_as_by_zpool() {
        let told = |kind, state| text(&status(kind, state), 3_000_000);
        assert_eq!(
            told(ScanKind::Scrub, ScanState::Running),
            "scrub in progress since 2023-11-14 22:13:20 UTC\n\
             1.50G / 2G scanned, 512M / 2G issued at 256M/s\n\
             12K repaired, 25.00% done, 00:00:06 to go"
        );
        assert_eq!(
            told(ScanKind::Scrub, ScanState::Finished),
            "scrub repaired 12K in 00:01:23 with 0 errors on 2023-11-14 22:14:43 UTC"
        );
        assert_eq!(
            told(ScanKind::Resilver, ScanState::Finished),
            "resilvered 12K in 00:01:23 with 0 errors on 2023-11-14 22:14:43 UTC"
        );
        assert_eq!(
            told(ScanKind::Scrub, ScanState::Canceled),
            "scrub canceled on 2023-11-14 22:14:43 UTC"
        );
        assert_eq!(
            told(ScanKind::Resilver, ScanState::Canceled),
            "resilver canceled on 2023-11-14 22:14:43 UTC: a device left, or did not take the rebuilt data"
        );
        let paused = told(ScanKind::Scrub, ScanState::Paused);
        assert!(
            paused.starts_with("scrub paused; it was started on 2023"),
            "{paused}"
        );
        assert!(paused.ends_with("12K repaired, 25.00% done"), "{paused}");
    }

    #[test]
    fn long_times_have_days() {
        assert_eq!([clock(59), clock(93_784)], ["00:00:59", "1 days 02:03:04"]);
    }
}
