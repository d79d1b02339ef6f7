//! Figures that the kernel reports about a process: CPU time and resident memory.

use std::fs;

/// Returns the CPU time of all threads of the process, in seconds.
///
/// `schedstat` counts nanoseconds, and `stat` counts hundredths of a second. The first is used if
/// the kernel offers it.
pub(super) fn cpu_s(pid: u32) -> Result<f64, String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .map_err(|e| format!("the target is gone: {e}"))?;
    let mut total_ns = 0_u64;
    let mut is_exact = true;
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("schedstat")) {
            Ok(text) => {
                total_ns += text
                    .split(' ')
                    .next()
                    .and_then(|ns| ns.parse::<u64>().ok())
                    .unwrap_or(0)
            }
            Err(_) => is_exact = false,
        }
    }
    if is_exact && total_ns > 0 {
        Ok(total_ns as f64 / 1e9)
    } else {
        ticks_s(pid)
    }
}

/// Returns user and system time from `stat`, in seconds. Threads that ended count too.
pub(super) fn ticks_s(pid: u32) -> Result<f64, String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))
        .map_err(|e| format!("the target is gone: {e}"))?;
    parse_ticks(&text)
        .map(|ticks| ticks as f64 / 100.0)
        .ok_or_else(|| format!("/proc/{pid}/stat is not as expected"))
}

/// Reads fields 14 and 15. The second field is the name in parentheses, which may hold any text.
fn parse_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// Returns the resident memory in KiB.
pub(super) fn resident_kib(pid: u32) -> Result<u64, String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))
        .map_err(|e| format!("the target is gone: {e}"))?;
    parse_resident(&text).ok_or_else(|| format!("/proc/{pid}/status has no VmRSS"))
}

fn parse_resident(status: &str) -> Option<u64> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = "42 (a b) c) S 1 42 42 0 -1 4194304 100 0 0 0 123 77 0 0 20 0 1 0 5 6 7";
        assert_eq!(parse_ticks(stat), Some(200));
        assert_eq!(parse_ticks("42 (a"), None);
    }

    #[test]
    fn resident_memory_is_found_by_name() {
        assert_eq!(
            parse_resident("VmPeak:\t 9 kB\nVmRSS:\t  1234 kB\n"),
            Some(1234)
        );
        assert_eq!(parse_resident("VmPeak:\t 9 kB\n"), None);
    }

    #[test]
    fn this_process_has_used_cpu_and_memory() {
        let pid = std::process::id();
        assert!(cpu_s(pid).is_ok_and(|s| s > 0.0));
        assert!(resident_kib(pid).is_ok_and(|kib| kib > 100));
    }
}
