//! Watches the output of a job for lines that it prints over and over.
//!
//! The streams are read as they grow, at most [`READ_MAX`] bytes of each in one pass, so large output is read later,
//! and never held in memory. A new line on one stream ends the repetition on the other: a job that prints a heartbeat
//! and its progress repeats nothing.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use plan_ledger_views::Repeat;

use crate::runner::process::limits::cycles::Cycles;
use crate::runner::process::limits::line::line_hash;

/// The number of bytes of a stream that one pass reads.
const READ_MAX: u64 = 32 << 10;

/// The number of bytes of a line that are compared; of a longer one also the length.
const LINE_LENGTH_MAX: usize = 16 << 10;

/// The number of characters of a line that are kept for people.
const SHOWN_MAX: usize = 200;

/// After this many times, repeated lines are noted.
pub(crate) const NOTED_TIMES: u64 = 20;

/// Watches the streams of a job.
pub(super) struct RepeatWatch([Stream; 2]);

/// A stream, as far as it was read.
struct Stream {
    path: PathBuf,
    position: u64,
    /// The line that is not complete, up to its longest length.
    line: Vec<u8>,
    /// The number of its bytes that are not kept.
    cut: u64,
    /// The last line.
    last: Vec<u8>,
    cycles: Cycles,
}

impl RepeatWatch {
    /// Watch these files from their present ends on.
    pub(super) fn new(files: [PathBuf; 2]) -> Self {
        Self(files.map(|path| Stream {
            position: path.metadata().map_or(0, |file| file.len()),
            path,
            line: Vec::new(),
            cut: 0,
            last: Vec::new(),
            cycles: Cycles::default(),
        }))
    }

    /// Reads the output since the last pass, up to these lengths of the streams.
    pub(super) fn look(&mut self, lengths: [u64; 2]) {
        let [out, err] = &mut self.0;
        let [out_length, err_length] = lengths;
        let (out_is_new, err_is_new) = (out.read(out_length), err.read(err_length));
        if out_is_new {
            err.cycles.restart();
        }
        if err_is_new {
            out.cycles.restart();
        }
    }

    /// The lines that are repeated now, if they were printed at least that often.
    pub(super) fn repeated(&self, times_min: u64) -> Option<Repeat> {
        let repeat = |stream: &Stream| {
            let cycle = stream.cycles.repeated(times_min)?;
            let line = String::from_utf8_lossy(&stream.last);
            let line = line.trim().chars().take(SHOWN_MAX).collect();
            Some(Repeat { lines: cycle.lines, times: cycle.times, line })
        };
        self.0.iter().find_map(repeat)
    }
}

impl Stream {
    /// Reads the output since the last pass. Returns whether a line of it is new.
    fn read(&mut self, length: u64) -> bool {
        if length <= self.position {
            return false;
        }
        let Ok(mut file) = File::open(&self.path) else { return false };
        let mut printed = Vec::new();
        let read = file
            .seek(SeekFrom::Start(self.position))
            .and_then(|_| file.take(READ_MAX).read_to_end(&mut printed));
        // Output that cannot be read now is read in the next pass.
        let Ok(read) = read else { return false };
        self.position = self.position.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        self.add(&printed)
    }

    fn add(&mut self, printed: &[u8]) -> bool {
        let mut is_new = false;
        let mut pieces = printed.split(|byte| *byte == b'\n');
        let unfinished = pieces.next_back();
        for piece in pieces {
            self.extend(piece);
            is_new |= self.end_line();
        }
        self.extend(unfinished.unwrap_or_default());
        is_new
    }

    fn extend(&mut self, piece: &[u8]) {
        let room = LINE_LENGTH_MAX.saturating_sub(self.line.len());
        let (kept, rest) = piece.split_at(piece.len().min(room));
        self.line.extend_from_slice(kept);
        self.cut = self.cut.saturating_add(u64::try_from(rest.len()).unwrap_or(u64::MAX));
    }

    fn end_line(&mut self) -> bool {
        let line = std::mem::take(&mut self.line);
        let cut = std::mem::take(&mut self.cut);
        let Some(hash) = line_hash(&line) else { return false };
        let is_new = self.cycles.add(hash ^ cut);
        self.last = line;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> (tempfile::TempDir, RepeatWatch, [PathBuf; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let files = ["out", "err"].map(|name| folder.path().join(name));
        for path in &files {
            std::fs::write(path, "").unwrap();
        }
        (folder, RepeatWatch::new(files.clone()), files)
    }

    fn print(path: &PathBuf, text: &str) {
        use std::io::Write as _;
        let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn look(watch: &mut RepeatWatch, files: &[PathBuf; 2]) -> Option<Repeat> {
        watch.look(files.each_ref().map(|path| path.metadata().unwrap().len()));
        watch.repeated(5)
    }

    #[test]
    fn repetition_is_found_across_looks_and_ends_with_a_new_line() {
        let (_folder, mut watch, files) = watch();
        for _ in 0..4 {
            print(&files[1], "try\nno ro");
            assert_eq!(look(&mut watch, &files), None);
            print(&files[1], "ute\n\n");
            look(&mut watch, &files);
        }
        print(&files[1], "try\nno route\n");
        let found = look(&mut watch, &files).unwrap();
        assert_eq!(found.to_string(), "the same 2 lines 5 times in a row: no route");
        print(&files[1], "connected\n");
        assert_eq!(look(&mut watch, &files), None);
    }

    #[test]
    fn progress_on_one_stream_ends_the_repetition_on_the_other() {
        let (_folder, mut watch, files) = watch();
        for row in 0..9 {
            print(&files[1], "still at work\n");
            print(&files[0], &format!("row {row}\n"));
            assert_eq!(look(&mut watch, &files), None);
        }
        print(&files[1], &"still at work\n".repeat(5));
        assert!(look(&mut watch, &files).is_some());
    }

    /// A pass reads a part of large output, and every line of it is compared in the end.
    #[test]
    fn large_output_is_read_in_parts() {
        let (_folder, mut watch, files) = watch();
        let long = "x".repeat(LINE_LENGTH_MAX + 100);
        print(&files[0], &format!("{long}a\n{long}\n").repeat(6));
        let mut looks = 0;
        let found = loop {
            looks += 1;
            if let Some(found) = look(&mut watch, &files) {
                break found;
            }
            assert!(looks < 100, "it is not found");
        };
        assert!(looks > 1, "one look read everything");
        assert_eq!((found.lines, found.line.len()), (2, SHOWN_MAX));
        let Stream { line, last, .. } = &watch.0[0];
        assert!(line.len() <= LINE_LENGTH_MAX && last.len() <= LINE_LENGTH_MAX);
    }
}
