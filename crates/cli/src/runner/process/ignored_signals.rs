//! Signals that this process ignored at its start (`nohup`); they stay ignored.

/// The signals that this process did not ignore at its start.
pub(crate) fn not_ignored<const N: usize>(signals: [i32; N]) -> impl Iterator<Item = i32> {
    let ignored = ignored_signals();
    signals.into_iter().filter(move |signal| ignored >> (signal - 1) & 1 == 0)
}

/// The signals that this process ignores, as a mask; empty if the system does not report it.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
