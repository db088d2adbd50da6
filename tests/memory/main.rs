//! Memory limits of the engine, for any bytes on disk.
//!
//! A separate test binary, because its allocator counts the allocations of the whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plan_ledger::OnAmbiguous;
use plan_ledger::internals::format::{Codec, HEAD_SIZE, NewRecord, PAYLOAD_LENGTH_MAX, Uid};
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::internals::storage::{DiskStorage, Storage};
use plan_ledger::log::{Log, LogItem, LogOptions, LogReader, UidSource};

/// The largest allocation since it was last set to zero.
static LARGEST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[expect(unsafe_code, reason = "the trait requires it; every call is forwarded unchanged")]
// SAFETY: every call is forwarded to the system allocator with unchanged arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: forwarded unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: forwarded unchanged.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        // SAFETY: forwarded unchanged.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: forwarded unchanged.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The tests of this binary run one at a time: they share the counter.
static SERIAL: Mutex<()> = Mutex::new(());

fn serialize() -> MutexGuard<'static, ()> {
    SERIAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The record limit and 1 MiB.
const BOUND: usize = (16 << 20) + (1 << 20);

fn largest_of<T>(act: impl FnOnce() -> T) -> (usize, T) {
    LARGEST.store(0, Ordering::Relaxed);
    let result = act();
    (LARGEST.load(Ordering::Relaxed), result)
}

fn options(storage: Arc<dyn Storage>, seed: u8) -> LogOptions {
    let next = AtomicU64::new(0);
    let uids = UidSource::new(move || {
        let mut uid: Uid = [seed; 16];
        let number = next.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        uid.iter_mut().zip(number).for_each(|(byte, new)| *byte = new ^ seed);
        uid
    });
    LogOptions::new(storage, uids)
}

fn record(size: usize, fill: u8) -> NewRecord {
    NewRecord { kind: 1, codec: Codec::Raw, schema: 1, payload: vec![fill; size] }
}

fn mix(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Open, read and diagnose: everything that parses bytes from the disk.
fn read_everything(disk: &SimDisk, dir: &Path) {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    if let Ok(reader) = LogReader::open(&storage, dir) {
        for item in reader.walk(1) {
            if !matches!(
                item,
                Ok(LogItem::Record(..) | LogItem::Damage(_) | LogItem::OpenEnd { .. })
            ) {
                break;
            }
        }
    }
    let _ = plan_ledger::log::opening_verdict(&*storage, dir);
    drop(Log::open(dir, options(storage, 99), 5));
}

/// Goal: no bytes on disk, wrong lengths included, make the engine allocate more at once than the
/// largest record and 1 MiB (H4).
/// Method: replace random bytes of a log on a simulated disk, thousands of times, preferably where
/// lengths and offsets are stored.
#[test]
fn h4_no_bytes_on_disk_ask_for_more_than_a_record() {
    let _guard = serialize();
    let (disk, dir) = (SimDisk::new(), Path::new("/ledger"));
    let log = Log::create(dir, options(Arc::new(disk.clone()), 1), 1).unwrap();
    for number in 0..40_usize {
        log.append(&[record(number * 700, 0xA5)], 2).unwrap();
    }
    drop(log);
    let files = disk.files(dir);
    let mut worst = 0;
    for seed in 0..3000_u64 {
        let disk = disk.fork();
        for nth in 0..=mix(seed) % 3 {
            let random = mix(seed * 8 + nth + 1);
            let picked = usize::try_from(random).unwrap_or(0) % files.len();
            let path = files.get(picked).unwrap();
            let length = u64::try_from(disk.read(path).unwrap().len()).unwrap().max(1);
            // Often a header or the start of a frame; otherwise anywhere.
            let offset = match random >> 32 & 3 {
                0 => mix(random) % 256,
                1 => 4096 + mix(random) % 128,
                2 => (4096 + mix(random) % 70_000) / 64 * 64 + mix(random + 1) % 48,
                _ => mix(random),
            } % length;
            let bytes = match random >> 40 & 3 {
                0 => u32::MAX.to_le_bytes().to_vec(),
                1 => (PAYLOAD_LENGTH_MAX - 1).to_le_bytes().to_vec(),
                2 => u64::MAX.to_le_bytes().to_vec(),
                _ => mix(random + 2).to_le_bytes().to_vec(),
            };
            disk.overwrite(path, offset, &bytes).unwrap();
        }
        let (largest, ()) = largest_of(|| read_everything(&disk, dir));
        worst = worst.max(largest);
        assert!(largest <= BOUND, "seed {seed}: allocated {largest} bytes at once");
    }
    // The largest allocations: the pages of a segment on the simulated disk.
    assert!(worst > HEAD_SIZE, "nothing was measured");
}

/// Goal: reading records of the largest size holds one of them at a time.
#[test]
fn the_largest_records_are_read_one_at_a_time() {
    let _guard = serialize();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = folder.path().join("a.ledger");
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    let log = Log::create(&dir, options(storage.clone(), 1), 1).unwrap();
    let size = usize::try_from(PAYLOAD_LENGTH_MAX).unwrap();
    for fill in 1..=3 {
        log.append(&[record(size, fill)], 2).unwrap();
    }
    drop(log);
    let (largest, count) = largest_of(|| {
        let (log, _) = Log::open(&dir, options(storage.clone(), 2), 5).unwrap();
        let own = log.reader().unwrap().records(1).map(Result::unwrap).count();
        drop(log);
        let reader = LogReader::open(&storage, &dir).unwrap();
        own + reader.walk(1).map(Result::unwrap).count()
    });
    assert_eq!(count, 6);
    assert!(largest <= BOUND, "allocated {largest} bytes at once");
}

/// Goal: the range that a fence discards is scanned and hashed in windows, whatever its length.
/// Method: one batch of 48 MiB whose first record is damaged, without a HEAD that proves whether it was
/// acknowledged: the policy fences off all of it. First, the other records are intact, and the scan
/// reads them one at a time. Then none has a valid header, and the scan reads only a window.
#[test]
fn a_large_range_is_discarded_in_windows() {
    let _guard = serialize();
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    for (damaged, bound) in [(1, BOUND), (usize::MAX, 1 << 20)] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let dir = folder.path().join("a.ledger");
        let log = Log::create(&dir, options(storage.clone(), 1), 1).unwrap();
        log.append(&[record(10, 1)], 2).unwrap();
        log.append(&[2, 3, 4].map(|fill| record(15 << 20, fill)), 3).unwrap();
        log.close().unwrap();
        let reader = LogReader::open(&storage, &dir).unwrap();
        let frames: Vec<_> = reader.records(2).map(|found| found.unwrap().offset).collect();
        assert_eq!(frames.len(), 3);
        let path = reader.segments().pop().unwrap().path;
        drop(reader);
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        for offset in frames.iter().take(damaged) {
            file.write_all_at(&[0xFF; 8], *offset).unwrap();
        }
        std::fs::write(dir.join("HEAD"), [0; HEAD_SIZE]).unwrap();
        let forced = LogOptions { on_ambiguous: OnAmbiguous::Fence, ..options(storage.clone(), 2) };
        let (largest, report) = largest_of(|| Log::open(&dir, forced, 5).unwrap().1);
        let discarded: u64 = report.discarded.iter().map(|range| range.length).sum();
        assert!(discarded > 45 << 20, "only {discarded} bytes were discarded");
        eprintln!("{discarded} bytes discarded: allocated {largest} bytes at once");
        assert!(largest <= bound, "allocated {largest} bytes at once");
    }
}

/// Anonymous memory of this process in bytes.
fn anonymous() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// Goal: opening and reading a large log takes little anonymous memory: under 256 MiB for 4 GiB.
/// Method: another thread samples the memory of the process. `PLAN_LEDGER_BIG_LEDGER=4096` sets the size
/// of the log in MiB; the default is 192. The limit is the same for any size.
#[test]
fn a_large_log_is_opened_and_walked_in_little_memory() {
    let _guard = serialize();
    let Some(_) = anonymous() else {
        eprintln!("skipped: this system does not report anonymous memory");
        return;
    };
    let size = std::env::var("PLAN_LEDGER_BIG_LEDGER").ok().and_then(|size| size.parse().ok());
    let (mebibytes, folder) =
        (size.unwrap_or(192_usize), tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let dir = folder.path().join("a.ledger");
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    let log = Log::create(&dir, options(storage.clone(), 1), 1).unwrap();
    let batch: Vec<NewRecord> = (0..16).map(|fill| record(60 << 10, fill + 1)).collect();
    for _ in 0..mebibytes {
        log.append(&batch, 2).unwrap();
    }
    drop((log, batch));

    let before = anonymous().unwrap();
    let (stop, peak) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(0_u64)));
    let watcher = {
        let (stop, peak) = (stop.clone(), peak.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let now = anonymous().unwrap_or(0);
                let mut peak = peak.lock().unwrap();
                *peak = now.max(*peak);
                drop(peak);
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        })
    };
    let (log, _) = Log::open(&dir, options(storage.clone(), 2), 5).unwrap();
    let own = log.reader().unwrap().records(1).map(Result::unwrap).count();
    drop(log);
    let seen = LogReader::open(&storage, &dir).unwrap().walk(1).map(Result::unwrap).count();
    stop.store(true, Ordering::Relaxed);
    watcher.join().unwrap();
    assert_eq!((own, seen), (mebibytes * 16, mebibytes * 16));
    let peak = *peak.lock().unwrap();
    assert!(peak > 0, "nothing was measured");
    let grown = peak.saturating_sub(before);
    eprintln!("{mebibytes} MiB: anonymous memory grew by {} KiB", grown / 1024);
    assert!(grown < 64 << 20, "{mebibytes} MiB of log: anonymous memory grew by {grown} bytes");
}
