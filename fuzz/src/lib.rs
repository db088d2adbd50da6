//! One entry for both builds: under the fuzzer a target is called with its inputs; on stable it
//! replays the files and folders that the command line names.

use std::path::{Path, PathBuf};

/// The `main` of a fuzz target with that body.
#[macro_export]
macro_rules! target {
    ($body:expr) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|data: &[u8]| { ($body)(data) });

        #[cfg(not(fuzzing))]
        fn main() {
            $crate::replay($body);
        }
    };
}

/// Call the body with every input that the command line names. No input at all is a mistake of
/// the caller, and fails.
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
        body(&std::fs::read(file).expect("a readable input"));
    }
    println!("{} inputs replayed", files.len());
}
