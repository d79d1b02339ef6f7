//! Reports as `iostat -x` of Solaris prints them, to the letter: other programs read them.
//!
//! The wait queue holds commands whose data arrives or that wait for others; the active queue holds
//! those at the device and those whose answer leaves. `%w` and `%b` count overlapping commands
//! once for each, up to 100.

use std::fmt::Write as _;

use crate::figures::rates::Activity;

/// Form of a report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Whether the device comes last, and each queue has its service time (`-n`).
    pub(super) names_last: bool,
    /// Whether amounts are in megabytes (`-M`).
    pub(super) megabytes: bool,
    /// Whether columns are separated by commas (`-r`).
    pub(super) raw: bool,
}

impl Layout {
    /// Returns the lines of a report.
    pub(super) fn report(self, rates: &[Activity]) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", self.title());
        let _ = writeln!(out, "{}", self.header());
        for unit in rates {
            let _ = writeln!(out, "{}", self.line(unit));
        }
        out
    }

    fn title(self) -> &'static str {
        match (self.raw, self.names_last) {
            (true, _) => "extended device statistics",
            (false, true) => "                    extended device statistics              ",
            (false, false) => "                 extended device statistics              ",
        }
    }

    fn header(self) -> &'static str {
        match (self.raw, self.names_last, self.megabytes) {
            (true, true, false) => "r/s,w/s,kr/s,kw/s,wait,actv,wsvc_t,asvc_t,%w,%b,device",
            (true, true, true) => "r/s,w/s,Mr/s,Mw/s,wait,actv,wsvc_t,asvc_t,%w,%b,device",
            (true, false, false) => "device,r/s,w/s,kr/s,kw/s,wait,actv,svc_t,%w,%b",
            (true, false, true) => "device,r/s,w/s,Mr/s,Mw/s,wait,actv,svc_t,%w,%b",
            (false, true, false) => {
                "    r/s    w/s   kr/s   kw/s wait actv wsvc_t asvc_t  %w  %b device"
            }
            (false, true, true) => {
                "    r/s    w/s   Mr/s   Mw/s wait actv wsvc_t asvc_t  %w  %b device"
            }
            (false, false, false) => "device    r/s    w/s   kr/s   kw/s wait actv  svc_t  %w  %b ",
            (false, false, true) => "device    r/s    w/s   Mr/s   Mw/s wait actv  svc_t  %w  %b ",
        }
    }

    fn line(self, unit: &Activity) -> String {
        let scale = match self.megabytes {
            true => f64::from(1 << 20),
            false => 1024.0,
        };
        let (reads, writes) = (unit.reads.per_s, unit.writes.per_s);
        let (read, written) = (
            unit.reads.bytes_per_s / scale,
            unit.writes.bytes_per_s / scale,
        );
        let (wait, active) = (unit.both.waiting, unit.both.active);
        let ms = |ns: Option<f64>| ns.unwrap_or(0.0) / 1e6;
        let waited = ms(unit.both.wire_in_ns) + ms(unit.both.queue_ns);
        let served = ms(unit.both.device_ns) + ms(unit.both.reply_ns);
        let both = waited + served;
        let percent = |queue: f64| (queue.min(1.0) * 100.0).round();
        let (waits, busy) = (percent(wait), percent(active));
        let name = &unit.name;
        match (self.raw, self.names_last) {
            (true, true) => format!(
                "{reads:.1},{writes:.1},{read:.1},{written:.1},{wait:.1},{active:.1},{waited:.1},\
                 {served:.1},{waits},{busy},{name}"
            ),
            (true, false) => format!(
                "{name},{reads:.1},{writes:.1},{read:.1},{written:.1},{wait:.1},{active:.1},\
                 {both:.1},{waits},{busy}"
            ),
            (false, true) => format!(
                " {reads:6.1} {writes:6.1} {read:6.1} {written:6.1} {wait:4.1} {active:4.1} \
                 {waited:6.1} {served:6.1} {waits:3} {busy:3} {name}"
            ),
            (false, false) => format!(
                "{name:<8.8} {reads:6.1} {writes:6.1} {read:6.1} {written:6.1} {wait:4.1} \
                 {active:4.1} {both:6.1} {waits:3} {busy:3} "
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::rates::Rates;

    fn unit() -> Activity {
        let reads = Rates {
            per_s: 800.0,
            bytes_per_s: 800.0 * 8192.0,
            ..Rates::default()
        };
        let both = Rates {
            per_s: 800.0,
            wire_in_ns: Some(100_000.0),
            queue_ns: Some(400_000.0),
            device_ns: Some(2_000_000.0),
            reply_ns: Some(500_000.0),
            waiting: 0.4,
            active: 2.0,
            ..reads.clone()
        };
        Activity {
            name: "vm1-of-esx".into(),
            interval_s: 1.0,
            reads,
            writes: Rates::default(),
            both,
            ..Activity::default()
        }
    }

    fn layout(names_last: bool, megabytes: bool, raw: bool) -> Layout {
        Layout {
            names_last,
            megabytes,
            raw,
        }
    }

    #[test]
    fn lines_are_those_of_solaris() {
        let expected = "                 extended device statistics              \n\
            device    r/s    w/s   kr/s   kw/s wait actv  svc_t  %w  %b \n\
            vm1-of-e  800.0    0.0 6400.0    0.0  0.4  2.0    3.0  40 100 \n";
        assert_eq!(layout(false, false, false).report(&[unit()]), expected);
        let expected = "                    extended device statistics              \n    \
            r/s    w/s   Mr/s   Mw/s wait actv wsvc_t asvc_t  %w  %b device\n  \
            800.0    0.0    6.2    0.0  0.4  2.0    0.5    2.5  40 100 vm1-of-esx\n";
        assert_eq!(layout(true, true, false).report(&[unit()]), expected);
    }

    #[test]
    fn raw_lines_have_commas() {
        let expected = "extended device statistics\n\
            r/s,w/s,kr/s,kw/s,wait,actv,wsvc_t,asvc_t,%w,%b,device\n\
            800.0,0.0,6400.0,0.0,0.4,2.0,0.5,2.5,40,100,vm1-of-esx\n";
        assert_eq!(layout(true, false, true).report(&[unit()]), expected);
        let report = layout(false, true, true).report(&[unit()]);
        assert!(
            report.ends_with("vm1-of-esx,800.0,0.0,6.2,0.0,0.4,2.0,3.0,40,100\n"),
            "{report}"
        );
    }
}
