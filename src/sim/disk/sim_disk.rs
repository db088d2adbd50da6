//! The handle of a simulated disk, with its controls for crashes, faults and inspection.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::fault::{Fault, FaultRule};
use super::injected::InjectedFault;
use super::loss::{Loss, Profile};
use super::state::State;
use crate::sim::lock::lock;
use crate::storage::FilesystemKind;

/// A simulated disk. Clones are handles of the same disk.
#[derive(Debug, Clone)]
pub struct SimDisk(Arc<Mutex<State>>);

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(State::default())))
    }

    /// A copy with the same content, the same unsynced changes and the same planned faults.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self(Arc::new(Mutex::new(self.state().copy())))
    }

    /// Start recording crash points. A crash point is the state of the machine before a call,
    /// recorded if it has changed since the previous crash point.
    pub fn start_recording(&self) {
        self.state().recording = Some(Vec::new());
    }

    /// Stop recording, and take the crash points; the last one is the current state. Each is a
    /// separate disk with its open files and unsynced changes.
    #[must_use]
    pub fn stop_recording(&self) -> Vec<Self> {
        let mut state = self.state();
        state.record_crash_point();
        let points = state.recording.take().unwrap_or_default();
        points.into_iter().map(|point| Self(Arc::new(Mutex::new(point)))).collect()
    }

    /// Store a number that forks and crash points copy, such as the progress of a workload.
    pub fn set_mark(&self, mark: u64) {
        self.state().mark = mark;
    }

    /// The number that [`SimDisk::set_mark`] stored.
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.state().mark
    }

    /// Clear the list of injected faults and free deleted files, for long runs.
    pub fn clear_history(&self) {
        let mut state = self.state();
        state.injected.clear();
        state.free_deleted();
    }

    /// Cancel every planned crash, fault and limit. Effects that have already occurred remain.
    pub fn clear_faults(&self) {
        let mut state = self.state();
        state.crash_at = None;
        state.faults.clear();
        state.rules.clear();
        state.capacity = u64::MAX;
    }

    /// Hash of all files and folders, unsynced changes and unreadable sectors. Fully synced disks with
    /// the same hash behave the same. Does not count as a call.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.state().digest()
    }

    /// The number of calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// The number of calls that may have changed something. Crashes between two read-only calls leave
    /// the same disk.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Stop the machine before a call, by its number; the first call is 1.
    pub fn crash_at(&self, call: u64) {
        self.state().crash_at = Some(call);
    }

    /// Make one call fail.
    pub fn fail_at(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// Add a rule that makes calls fail or lie. Each rule counts independently. If several rules
    /// apply to a call, the first one decides, except for
    /// [`FaultAction::Slow`](super::FaultAction::Slow) and
    /// [`FaultAction::BitRot`](super::FaultAction::BitRot), which also let later rules apply.
    pub fn inject(&self, rule: FaultRule) {
        self.state().rules.push(rule);
    }

    /// The number of rules that may still apply.
    #[must_use]
    pub fn pending_rules(&self) -> usize {
        self.state().rules.len()
    }

    /// The injected faults of this disk and of its ancestors, in order.
    #[must_use]
    pub fn injected(&self) -> Vec<InjectedFault> {
        self.state().injected.clone()
    }

    /// The total delay of slow calls.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.state().delay
    }

    /// Limit the total length of all files.
    pub fn set_capacity(&self, capacity: u64) {
        self.state().capacity = capacity;
    }

    /// Report a class of file system.
    pub fn set_filesystem_kind(&self, filesystem: FilesystemKind) {
        self.state().filesystem = filesystem;
    }

    /// Behave like a device from now on.
    pub fn set_profile(&self, profile: Profile) {
        self.state().profile = profile;
    }

    /// Change the process id, as in the child after a fork. Nothing else changes.
    pub fn enter_child_process(&self) {
        self.state().process += 1;
    }

    /// Whether the machine stopped.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.state().is_down
    }

    /// The guarantees of the device.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.state().profile
    }

    /// The number of unsynced changes. A power loss can keep or lose each of them.
    #[must_use]
    pub fn unsynced(&self) -> usize {
        self.state().unsynced()
    }

    /// Kill the process that uses the disk. The cache stays; open files and locks become invalid. Faults
    /// planned for later calls stay.
    pub fn kill_process(&self) {
        self.state().kill();
    }

    /// Lose power and restart. Faults planned for later calls stay.
    pub fn lose_power(&self, loss: Loss) {
        self.state().lose_power(loss);
    }

    /// Drop the clean pages of the cache, so that hidden damage becomes visible.
    pub fn drop_cache(&self) {
        self.state().drop_cache();
    }

    /// Flip a durable bit of a file, which the seed selects. The cache hides it. Does not count as a
    /// call.
    pub fn flip_bit(&self, path: &Path, seed: u64) -> io::Result<()> {
        let mut state = self.state();
        let node = state.find(path)?;
        state.file(node)?;
        state.flip_bit(node, seed, None);
        Ok(())
    }

    /// Make the sectors of a range permanently unreadable: `EIO`. Does not count as a call.
    pub fn make_unreadable(&self, path: &Path, range: Range<u64>) -> io::Result<()> {
        self.state().file_at(path)?.make_unreadable(&range);
        Ok(())
    }

    /// The bytes of a file. Does not count as a call.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut state = self.state();
        let file = state.file_at(path)?;
        Ok(file.cached.read(0, usize::try_from(file.cached.length).map_err(io::Error::other)?))
    }

    /// Change bytes of a file durably, as another program would. Does not count as a call.
    pub fn overwrite(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let file = state.file_at(path)?;
        file.overwrite(offset, bytes);
        Ok(())
    }

    /// Truncate a file, or extend it with zeros, durably, as another program would. Does not count as a
    /// call.
    pub fn set_length(&self, path: &Path, length: u64) -> io::Result<()> {
        let mut state = self.state();
        let file = state.file_at(path)?;
        file.force_length(length);
        Ok(())
    }

    /// All files below a folder. Does not count as a call.
    #[must_use]
    pub fn files(&self, below: &Path) -> Vec<PathBuf> {
        self.state().files(below)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::format::{Codec, NewRecord};
    use crate::log::{Ack, Log, LogOptions, SegmentSizes, UidSource};

    fn options(disk: &SimDisk) -> LogOptions {
        let next = AtomicU64::new(1);
        let uids = UidSource::new(move || {
            let mut uid = [7; 16];
            uid[..8].copy_from_slice(&next.fetch_add(1, Ordering::Relaxed).to_le_bytes());
            uid
        });
        // Four records fill a segment.
        let segments = SegmentSizes { first: 8192, largest: 8192 };
        LogOptions { segments, ..LogOptions::new(Arc::new(disk.clone()), uids) }
    }

    /// Goal: threads share a disk and a log, and a power cut leaves everything that was acknowledged. It is
    /// small enough for Miri, which finds data races.
    #[test]
    fn acknowledged_records_of_threads_survive_a_power_cut() {
        let (disk, dir) = (SimDisk::new(), Path::new("/ledger"));
        let log = Log::create(dir, options(&disk), 5).unwrap();
        let append = &|number: u8| -> Vec<Ack> {
            let payload = vec![number; 1000];
            let record = NewRecord { kind: 1, codec: Codec::Raw, schema: 1, payload };
            (0..3).map(|_| log.append(std::slice::from_ref(&record), 5).unwrap()).collect()
        };
        let acks: Vec<Ack> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (1..=3).map(|number| scope.spawn(move || append(number))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let image = disk.fork();
        image.kill_process();
        image.lose_power(Loss::Everything);
        let (reopened, _) = Log::open(dir, options(&image), 5).unwrap();
        let reader = reopened.reader().unwrap();
        let mut seqs: Vec<u64> = acks.iter().map(|ack| ack.seq).collect();
        seqs.sort_unstable();
        assert_eq!(seqs, (1..=9).collect::<Vec<u64>>());
        for ack in acks {
            let found = reader.record(ack.seq).unwrap().unwrap();
            assert_eq!(found.chain, ack.chain, "record {}", ack.seq);
        }
    }
}
