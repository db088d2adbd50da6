//! The entry point of fuzz targets: under the fuzzer, a target is called with generated inputs; on
//! stable, it replays the files and folders on the command line. In both cases no input may cause a
//! single allocation larger than the largest record and 1 MiB.

pub mod slow;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The largest allocation since it was last set to zero.
static LARGEST: AtomicUsize = AtomicUsize::new(0);
/// The record limit and 1 MiB.
const BOUND: usize = (16 << 20) + (1 << 20);

struct Counting;

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

/// The `main` of a fuzz target.
#[macro_export]
macro_rules! target {
    ($body:expr) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|data: &[u8]| { $crate::bounded($body, data) });

        #[cfg(not(fuzzing))]
        fn main() {
            $crate::replay($body);
        }
    };
}

/// Call the target with an input, and check its allocations.
pub fn bounded(body: impl Fn(&[u8]), data: &[u8]) {
    LARGEST.store(0, Ordering::Relaxed);
    body(data);
    let largest = LARGEST.load(Ordering::Relaxed);
    assert!(largest <= BOUND, "asked for {largest} bytes at once");
}

/// Call the target with every input on the command line. No input is an error.
pub fn replay(body: impl Fn(&[u8])) {
    let mut files: Vec<PathBuf> = Vec::new();
    for argument in std::env::args_os().skip(1) {
        let path = Path::new(&argument);
        if path.is_dir() {
            let entries = std::fs::read_dir(path).expect("a readable corpus folder");
            files.extend(entries.map(|entry| entry.expect("a readable entry").path()));
        } else {
            files.push(path.to_owned());
        }
    }
    files.sort();
    assert!(!files.is_empty(), "name the files or folders to replay");
    for file in &files {
        let data = std::fs::read(file).expect("a readable input");
        bounded(&body, &data);
    }
    println!("{} inputs replayed", files.len());
}

/// An input as a sequence of fields. Fields past its end are zero.
pub struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    /// The next bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let (now, rest) = self.0.split_at(self.0.len().min(N));
        self.0 = rest;
        let mut bytes = [0; N];
        bytes[..now.len()].copy_from_slice(now);
        bytes
    }

    /// The next number.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// The next number.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// The next number.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// The next byte.
    pub fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    /// One of several values.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::from(self.u8()) % of.len()]
    }

    /// Up to `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let (now, rest) = self.0.split_at(self.0.len().min(count));
        self.0 = rest;
        now.to_vec()
    }
}

/// The largest exact integer of JSON. No sequence number or offset is larger, and a plan with a larger
/// number is rejected.
const EXACT: u64 = 1 << 53;

/// Whether bytes are JSON without numbers that are too large to round-trip.
pub fn is_exact(bytes: &[u8]) -> bool {
    fn holds(value: &serde_json::Value) -> bool {
        match value {
            serde_json::Value::Number(number) => number.as_u64().is_none_or(|it| it <= EXACT),
            serde_json::Value::Array(items) => items.iter().all(holds),
            serde_json::Value::Object(members) => members.values().all(holds),
            _ => true,
        }
    }
    serde_json::from_slice(bytes).is_ok_and(|value| holds(&value))
}
