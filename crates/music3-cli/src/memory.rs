//! What this computer has: how much memory a run may take, and what it computes on.

use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

/// Returns the memory that is free for this program, the limits of a container included; `None` where the system does
/// not tell.
pub(crate) fn available_bytes() -> Option<u64> {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(memory);
    let free = system.available_memory();
    // What a container has cached of files can be taken back, so its limit is compared with what its programs hold.
    let in_container = system.cgroup_limits().map(|limits| limits.total_memory.saturating_sub(limits.rss));
    (free > 0).then(|| in_container.map_or(free, |limit| limit.min(free)))
}

/// Returns the most memory that this process has held so far; `None` where the system does not tell.
pub(crate) fn peak_bytes() -> Option<u64> {
    peak_of(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Reads the high-water mark of what lay in memory.
fn peak_of(status: &str) -> Option<u64> {
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(kilobytes.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Returns the processor's name and how many threads run on it at once.
pub(crate) fn processor() -> (String, usize) {
    let cpus = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
    let system = System::new_with_specifics(cpus);
    let name = system.cpus().first().map(|cpu| cpu.brand().trim().to_owned()).unwrap_or_default();
    (name, system.cpus().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_memory_is_free() {
        let free = available_bytes().expect("a system that tells");
        assert!((1 << 24..1 << 50).contains(&free), "{free} bytes");
    }

    #[test]
    fn reads_the_high_water_mark() {
        assert_eq!(peak_of("Name:\tmusic3\nVmHWM:\t   2048 kB\nVmRSS:\t 1 kB\n"), Some(2 << 20));
        assert_eq!(peak_of("VmRSS:\t 1 kB\n"), None);
    }
}
