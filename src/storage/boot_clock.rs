//! The boot clock of this machine: it counts the time since the machine was booted, also while it
//! sleeps, and cannot be set.

/// The identifier of the current boot, and the microseconds since then; `None` without such a clock.
#[cfg(target_os = "linux")]
#[must_use]
pub fn boot_clock() -> Option<([u8; 16], u64)> {
    use rustix::time::{ClockId, clock_gettime};

    static BOOT: std::sync::OnceLock<Option<[u8; 16]>> = std::sync::OnceLock::new();
    let boot = (*BOOT.get_or_init(boot_id))?;
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(now.tv_sec).ok()?, u64::try_from(now.tv_nsec).ok()?);
    Some((boot, seconds.saturating_mul(1_000_000).saturating_add(nanos / 1000)))
}

#[cfg(target_os = "linux")]
fn boot_id() -> Option<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let boot = u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()?;
    (boot != 0).then(|| boot.to_le_bytes())
}

/// This system has no clock whose readings two processes can compare.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn boot_clock() -> Option<([u8; 16], u64)> {
    None
}
