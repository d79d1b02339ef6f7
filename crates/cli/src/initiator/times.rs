//! Times as users type and see them: the times of the adapter, and those of a login.

use clap::Args;

use control::answer::AdapterView;
use model::initiator::view::SessionTimes;
use model::initiator::{AdapterTimes, FenceTimeout};
use model::quantity::{format_time, parse_time};

/// Times of the whole adapter.
#[derive(Debug, Default, Args)]
pub(super) struct Times {
    /// Time that I/O waits while all paths are down before it fails (Misc.APDTimeout) [default:
    /// 140s]
    #[arg(long, value_name = "TIME", value_parser = whole_seconds, help_heading = "Times")]
    apd_timeout: Option<u32>,
    /// Time that a lost session's writes hold back overlapping ones if nobody confirms that the
    /// session is over; never: until somebody does [default: 140s]
    #[arg(long, value_name = "TIME|never", value_parser = fence, help_heading = "Times")]
    fence_timeout: Option<FenceTimeout>,
    /// Time that they hold them back after the target has said that the session is over, because
    /// some targets still perform writes then [default: by vendor; Sandstone 0s, IET and tgt 5s,
    /// others 1s]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Times")]
    fence_settle: Option<u32>,
    /// Silence with commands outstanding before a ping [default: 250ms]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Times")]
    ping_after: Option<u32>,
    /// Silence after a ping before a session is given up [default: 450ms]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Times")]
    dead_after: Option<u32>,
    /// Silence of an idle session before a ping [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Times")]
    idle_ping_after: Option<u32>,
    /// Silence after a ping before a session without any other path is given up [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Times")]
    dead_after_alone: Option<u32>,
    /// Time after a first failed login before the next; doubles with each further one [default:
    /// 100ms]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Times")]
    retry_first: Option<u32>,
    /// Longest time between two logins [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Times")]
    retry_most: Option<u32>,
}

impl Times {
    pub(super) fn spec(&self) -> AdapterTimes {
        AdapterTimes {
            apd_timeout_s: self.apd_timeout,
            fence_timeout_ms: self.fence_timeout,
            fence_settle_ms: self.fence_settle,
            ping_after_ms: self.ping_after,
            dead_after_ms: self.dead_after,
            idle_ping_after_ms: self.idle_ping_after,
            dead_after_alone_ms: self.dead_after_alone,
            retry_first_ms: self.retry_first,
            retry_most_ms: self.retry_most,
        }
    }
}

/// Reads a time with its unit, in milliseconds.
fn time(text: &str) -> Result<u32, String> {
    milliseconds(text, None)
}

/// Reads a time in milliseconds, which is the default unit.
pub(super) fn bare_milliseconds(text: &str) -> Result<u32, String> {
    milliseconds(text, Some(1))
}

/// Reads a time in whole seconds, which is the default unit.
pub(super) fn bare_seconds(text: &str) -> Result<u16, String> {
    let seconds = seconds(text, Some(1000))?;
    u16::try_from(seconds).map_err(|_| format!("{text:?} is too long"))
}

fn whole_seconds(text: &str) -> Result<u32, String> {
    seconds(text, None)
}

fn fence(text: &str) -> Result<FenceTimeout, String> {
    match text {
        "never" => Ok(FenceTimeout::NEVER),
        _ => match time(text) {
            Ok(ms) => Ok(FenceTimeout::After(ms)),
            Err(error) => Err(format!("{error}, or never")),
        },
    }
}

fn milliseconds(text: &str, bare: Option<u64>) -> Result<u32, String> {
    let ms = parse_time(text, bare)?;
    u32::try_from(ms).map_err(|_| format!("{text:?} is too long"))
}

fn seconds(text: &str, bare: Option<u64>) -> Result<u32, String> {
    let ms = milliseconds(text, bare)?;
    if !ms.is_multiple_of(1000) {
        return Err(format!("{text:?} is not a whole number of seconds"));
    }
    Ok(ms / 1000)
}

/// Returns a fence timeout as users type it.
pub(super) fn shown_fence(ms: Option<u64>) -> String {
    ms.map_or_else(|| "never".to_owned(), format_time)
}

/// Returns the name and value of each time of the adapter.
pub(super) fn lines(adapter: &AdapterView) -> Vec<(&'static str, String)> {
    let (times, chosen) = (&adapter.times, &adapter.chosen_times);
    let line = |name, value: String, is_chosen| {
        let whence = if is_chosen { "" } else { " (by default)" };
        (name, format!("{value}{whence}"))
    };
    let wait = |name, ms: Option<u32>, chosen: Option<u32>| {
        let value = format_time(ms.unwrap_or_default().into());
        line(name, value, chosen.is_some())
    };
    let fence = times.fence_timeout_ms.and_then(FenceTimeout::milliseconds);
    let settle = times.fence_settle_ms.map(|ms| format_time(ms.into()));
    let apd_ms = u64::from(times.apd_timeout_s.unwrap_or_default()) * 1000;
    vec![
        line(
            "APD Timeout",
            format_time(apd_ms),
            chosen.apd_timeout_s.is_some(),
        ),
        line(
            "Fence Timeout",
            shown_fence(fence.map(u64::from)),
            chosen.fence_timeout_ms.is_some(),
        ),
        line(
            "Fence Settle",
            settle.unwrap_or_else(|| "by vendor".to_owned()),
            chosen.fence_settle_ms.is_some(),
        ),
        wait("Ping After", times.ping_after_ms, chosen.ping_after_ms),
        wait("Dead After", times.dead_after_ms, chosen.dead_after_ms),
        wait(
            "Idle Ping After",
            times.idle_ping_after_ms,
            chosen.idle_ping_after_ms,
        ),
        wait(
            "Dead After, Alone",
            times.dead_after_alone_ms,
            chosen.dead_after_alone_ms,
        ),
        wait("First Retry", times.retry_first_ms, chosen.retry_first_ms),
        wait("Longest Retry", times.retry_most_ms, chosen.retry_most_ms),
    ]
}

/// Returns the times of a session in one column.
pub(super) fn column(times: &SessionTimes) -> String {
    let each = [
        ("ping", times.ping_after_ms),
        ("dead", times.dead_after_ms),
        ("idle", times.idle_ping_after_ms),
        ("alone", times.dead_after_alone_ms),
        ("login", times.login_timeout_s * 1000),
        ("command", times.command_timeout_s * 1000),
    ];
    let each = each.map(|(name, ms)| format!("{name}={}", format_time(ms)));
    each.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_unit_is_refused_where_it_could_be_taken_for_another() {
        assert_eq!(time("60s"), Ok(60_000));
        assert!(time("60").is_err_and(|error| error.contains("ms, s, m or h")));
        assert_eq!(bare_milliseconds("60"), Ok(60));
        assert_eq!(bare_seconds("60"), Ok(60));
        assert_eq!(bare_seconds("2m"), Ok(120));
        assert!(bare_seconds("1500ms").is_err_and(|error| error.contains("whole")));
        assert!(bare_seconds("100h").is_err_and(|error| error.contains("too long")));
        assert_eq!(fence("never"), Ok(FenceTimeout::NEVER));
        assert_eq!(fence("3m"), Ok(FenceTimeout::After(180_000)));
        assert!(fence("always").is_err_and(|error| error.ends_with("or never")));
    }
}
