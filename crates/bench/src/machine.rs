//! Facts about the machine of a result, and the processor time that the run took.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::results::{CpuTime, Machine};

/// Describes this machine. Facts that it does not tell are left empty.
pub fn this_machine() -> Machine {
    let first_line = |path: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().next().unwrap_or_default().trim().to_owned()
    };
    let field = |path: &str, name: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        let value = value
            .unwrap_or_default()
            .trim_start_matches([' ', '\t', ':']);
        value.trim().to_owned()
    };
    let memory = field("/proc/meminfo", "MemTotal");
    let kib: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
    Machine {
        host: first_line("/proc/sys/kernel/hostname"),
        kernel: format!(
            "{} {}",
            first_line("/proc/sys/kernel/ostype"),
            first_line("/proc/sys/kernel/osrelease")
        ),
        processor: field("/proc/cpuinfo", "model name"),
        cores: std::thread::available_parallelism().map_or(0, |count| count.get() as u32),
        memory: kib * 1024,
    }
}

/// Returns the processor time of this process so far, without the time over which it was counted.
pub(super) fn cpu_time() -> CpuTime {
    let ns = |time: TimeVal| time.tv_sec() as u64 * 1_000_000_000 + time.tv_usec() as u64 * 1000;
    match getrusage(UsageWho::RUSAGE_SELF) {
        Ok(usage) => CpuTime {
            user_ns: ns(usage.user_time()),
            system_ns: ns(usage.system_time()),
            elapsed_ns: 0,
        },
        // Every kernel supports this call.
        Err(_) => CpuTime::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_known() {
        let machine = this_machine();
        assert!(machine.kernel.starts_with("Linux "), "{machine:?}");
        assert!(machine.cores > 0 && machine.memory > 1 << 20, "{machine:?}");
    }

    #[test]
    fn work_takes_processor_time() {
        let before = cpu_time();
        let mut random = crate::random::Random::new(1);
        let sum = |time: CpuTime| time.user_ns + time.system_ns;
        while sum(cpu_time()) < sum(before) + 10_000_000 {
            std::hint::black_box(random.next_u64());
        }
    }
}
