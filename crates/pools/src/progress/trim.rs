//! Progress of trims, as programs read it and in the words of events.

use store::engine::{TrimState, TrimStatus};

use model::pool::trim::TrimView;
use model::quantity::format_size;

/// Describes a trim for programs.
pub(crate) fn view(trim: &TrimStatus) -> TrimView {
    TrimView {
        state: match trim.state {
            TrimState::Running => "running",
            TrimState::Suspended => "suspended",
            TrimState::Finished => "finished",
            TrimState::Canceled => "canceled",
        }
        .to_owned(),
        percent: (trim.position * 100).checked_div(trim.total).unwrap_or(100) as u8,
        bytes: trim.bytes,
        failed: trim.failed,
        rate: trim.rate,
        started_s: trim.started_s,
        ended_s: trim.ended_s,
    }
}

/// Describes a device that cannot trim.
pub(crate) fn unsupported() -> TrimView {
    TrimView {
        state: "unsupported".to_owned(),
        ..TrimView::default()
    }
}

/// Words the start, pause or end of a device's trim.
pub(crate) fn event(state: TrimState, bytes: u64) -> String {
    let amount = match bytes {
        0..1024 => format!("{bytes}B"),
        _ => format_size(bytes),
    };
    match state {
        TrimState::Running => "trimming began".to_owned(),
        TrimState::Suspended => format!("trimming is suspended; {amount} were trimmed"),
        TrimState::Finished => format!("all free space is trimmed, {amount}"),
        TrimState::Canceled => format!("trimming is canceled; {amount} were trimmed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::pool::trim::text;

    fn trim(state: TrimState) -> TrimView {
        view(&TrimStatus {
            leaf: 7,
            state,
            position: 3 << 18,
            total: 1 << 20,
            bytes: 5 << 20,
            failed: 0,
            rate: None,
            started_s: 1_700_000_000,
            ended_s: 1_700_000_083,
        })
    }

    #[test]
    fn trims_are_told_of_as_by_zpool() {
        let told = |state| text(Some(&trim(state)));
        assert_eq!(
            told(TrimState::Running),
            "(75% trimmed, started at 2023-11-14 22:13:20 UTC)"
        );
        assert_eq!(
            told(TrimState::Suspended),
            "(75% trimmed, suspended, started at 2023-11-14 22:13:20 UTC)"
        );
        assert_eq!(
            told(TrimState::Finished),
            "(100% trimmed, completed at 2023-11-14 22:14:43 UTC)"
        );
        assert_eq!(
            told(TrimState::Canceled),
            "(75% trimmed, canceled at 2023-11-14 22:14:43 UTC)"
        );
        assert_eq!(text(Some(&unsupported())), "(trim unsupported)");
        assert_eq!(text(None), "(untrimmed)");
    }

    #[test]
    fn what_a_device_refused_is_told() {
        let failed = TrimView {
            failed: 3,
            ..trim(TrimState::Running)
        };
        assert!(
            text(Some(&failed)).contains("3 times refused"),
            "{}",
            text(Some(&failed))
        );
    }
}
