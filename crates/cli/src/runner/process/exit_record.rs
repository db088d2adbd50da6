//! Exit records: the end of a command, written by its supervisor.
//!
//! The runner creates the file and fills it with spaces before the command starts, so that a full
//! disk cannot prevent the record. The supervisor writes the record, syncs it and renames the file.
//! A record under its final name is therefore complete, and so is the output that was synced before
//! it. If the runner was killed, or could not store the receipt, the next runner reads the record.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;

use plan_ledger::plan::Micros;

use crate::runner::own_folder::OwnFolder;

/// The length of a record in bytes: the last ones are spaces.
pub(crate) const RECORD_LENGTH: usize = 64;

/// The suffix of a record's file before the command has ended.
pub(crate) const RESERVED: &str = "exit.part";

/// A shell exits with this number plus that of the signal that ended its command.
const SIGNAL_BASE: i32 = 128;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandEnd {
    /// It started and ended.
    Ended(ExitStatus),
    /// The operating system did not start it, for this reason (`errno`).
    NotStarted(i32),
}

/// The record of a command that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExitRecord {
    pub(crate) end: CommandEnd,
    /// How long it ran.
    pub(crate) duration: Micros,
    /// Whether the disk of its output was full when it ended.
    pub(crate) is_disk_full: bool,
    /// The time limit in seconds, if the supervisor ended it for that.
    pub(crate) timed_out: Option<u32>,
}

impl ExitRecord {
    /// The record in a file; `None` if it does not exist.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(path).ok()?)
    }

    /// The exit status, if the command reported one. If a signal ended the command, or its shell reports a signal, the
    /// command was stopped with its runner, and reported nothing.
    pub(crate) fn reported(&self) -> Option<ExitStatus> {
        match self.end {
            CommandEnd::Ended(status) if status.code()? <= SIGNAL_BASE => Some(status),
            CommandEnd::Ended(_) | CommandEnd::NotStarted(_) => None,
        }
    }

    /// Write the record into the reserved file of that folder, and give it its final name.
    pub(crate) fn write(self, folder: &OwnFolder, name: &Path) -> io::Result<()> {
        let reserved = name.with_extension(RESERVED);
        let mut file = folder.write(&reserved)?;
        file.write_all(format!("{:<1$}", self.text(), RECORD_LENGTH).as_bytes())?;
        file.sync_data()?;
        folder.rename(&reserved, name)
    }

    fn text(self) -> String {
        let (word, number) = match self.end {
            CommandEnd::Ended(status) => match status.code() {
                Some(code) => ("code", code),
                None => ("signal", status.signal().unwrap_or_default()),
            },
            CommandEnd::NotStarted(errno) => ("errno", errno),
        };
        let full = if self.is_disk_full { " full" } else { "" };
        let limit = self.timed_out.map(|seconds| format!(" timeout {seconds}"));
        format!("{word} {number} {}{full}{}\n", self.duration, limit.unwrap_or_default())
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let (word, number) = (words.next()?, words.next()?.parse::<i32>().ok()?);
        let duration = words.next()?.parse().ok()?;
        let end = match word {
            "code" => CommandEnd::Ended(ExitStatus::from_raw(number.checked_shl(8)?)),
            "signal" => CommandEnd::Ended(ExitStatus::from_raw(number)),
            "errno" => CommandEnd::NotStarted(number),
            _ => return None,
        };
        let (mut is_disk_full, mut timed_out) = (false, None);
        while let Some(word) = words.next() {
            match word {
                "full" => is_disk_full = true,
                "timeout" => timed_out = Some(words.next()?.parse().ok()?),
                _ => return None,
            }
        }
        Some(Self { end, duration, is_disk_full, timed_out })
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a record can be read back, and no other text is a record.

    use super::*;

    #[test]
    fn record_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("7.exit");
        for (raw, is_disk_full) in [(0, false), (3 << 8, true), (9, false), (255 << 8, false)] {
            let end = CommandEnd::Ended(ExitStatus::from_raw(raw));
            let timed_out = is_disk_full.then_some(u32::MAX);
            let record = ExitRecord { end, duration: 1_234_567, is_disk_full, timed_out };
            fs::write(path.with_extension(RESERVED), [b' '; RECORD_LENGTH]).unwrap();
            assert_eq!(ExitRecord::read(&path).map(|record| record.duration), None);
            let own = OwnFolder::open(folder.path()).unwrap();
            record.write(&own, Path::new("7.exit")).unwrap();
            assert_eq!(ExitRecord::read(&path), Some(record));
            assert_eq!(fs::metadata(&path).unwrap().len(), 64);
            fs::remove_file(&path).unwrap();
        }
        let refused = ExitRecord {
            end: CommandEnd::NotStarted(11),
            duration: Micros::MAX,
            is_disk_full: true,
            timed_out: Some(u32::MAX),
        };
        assert!(refused.text().len() <= RECORD_LENGTH);
        assert_eq!(ExitRecord::parse(&refused.text()), Some(refused));
    }

    #[test]
    fn anything_else_is_no_record() {
        for text in [
            "",
            &" ".repeat(RECORD_LENGTH),
            "code",
            "code x 1",
            "code 0",
            "exit 0 1",
            "code 0 1 x",
            "code 0 1 timeout",
        ] {
            assert_eq!(ExitRecord::parse(text), None, "{text:?}");
        }
    }
}
