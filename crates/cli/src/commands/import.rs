//! `ledger import`: creates a ledger from an export.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use plan_ledger::internals::ledger;
use plan_ledger::{Error, ErrorKind};

use crate::options::{create_parents, environment};
use crate::output::{Code, Failure, LongTask, ProgressUnit, print_message, print_text};
use crate::protocol::counted;

const EXAMPLES: &str = "\
Examples:
  ledger import backup.jsonl --ledger restored
  ssh host ledger export .ledger | ledger import - --ledger copy

The new ledger has its own identifier and the same chain value at every record. Every record is
checked against the chain; an export that was changed or truncated leaves nothing behind. (Only the
member `event` of a record, its text for readers, is not read.) The export of a pruned ledger has the
state before its first record, and is imported with it.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArgs {
    /// The output of `ledger export`; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The new ledger's folder, which must not exist or be empty
    #[arg(long, value_name = "NEW")]
    ledger: PathBuf,
}

pub(crate) fn import(args: &ImportArgs) -> Result<Code, Failure> {
    let environment = environment();
    let failed = |error| Failure::of_input(Error::io("read", &args.file, error));
    let input = if args.file == Path::new("-") {
        File::from(rustix::io::dup(io::stdin()).map_err(io::Error::from).map_err(failed)?)
    } else {
        File::open(&args.file).map_err(failed)?
    };
    create_parents(&args.ledger)?;
    let length = input.metadata().map_or(0, |file| file.len());
    let task = LongTask::start(ProgressUnit::Bytes, &args.ledger)?;
    let input = StoppableReader { input, task: &task, done: 0, length };
    let mut input = BufReader::with_capacity(BUFFER_SIZE, input);
    let imported = ledger::import(&args.ledger, &mut input, &environment);
    task.finish();
    if imported.is_err() && task.is_stopped() {
        print_message("import stopped: nothing was written");
        return Ok(Code::Waiting);
    }
    // An invalid line is the fault of the file: no ledger is damaged.
    let imported = imported.map_err(|error| match error.kind() {
        ErrorKind::Corrupt => Failure::of_input(error),
        _ => error.into(),
    })?;
    if imported.blobs_missing > 0 {
        let missing = counted(imported.blobs_missing, "blob");
        print_message(&format!("{missing} missing: the exported ledger did not have them"));
    }
    print_text(&format!(
        "{}: {} records and {} blobs, head {}:{}\n",
        args.ledger.display(),
        imported.records,
        imported.blobs,
        imported.ack.seq,
        imported.ack.chain
    ))?;
    Ok(Code::Success)
}

const BUFFER_SIZE: usize = 1 << 18;

/// How long a read of a slow input waits before it looks for a signal again.
const SIGNAL_CHECK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// An input that fails once the task is stopped, also while it waits for another program.
struct StoppableReader<'a> {
    input: File,
    task: &'a LongTask,
    done: u64,
    length: u64,
}

impl Read for StoppableReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.task.is_stopped() {
                return Err(io::Error::other("stopped"));
            }
            if is_readable(&self.input)? {
                let count = self.input.read(buffer)?;
                self.done += u64::try_from(count).unwrap_or_default();
                self.task.show("importing", self.done, self.length.max(self.done));
                return Ok(count);
            }
        }
    }
}

/// Whether a read would not wait.
fn is_readable(input: &File) -> io::Result<bool> {
    let mut inputs = [PollFd::new(input, PollFlags::IN)];
    match poll(&mut inputs, Some(&SIGNAL_CHECK)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
