//! How much memory a run may take.

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_memory_is_free() {
        let free = available_bytes().expect("a system that tells");
        assert!((1 << 24..1 << 50).contains(&free), "{free} bytes");
    }
}
