//! Reads a long range of a log in a separate thread, while the calling thread uses the records.
//!
//! Invariants:
//! - The calling thread gets the batches in order, and an error only after all batches before it,
//!   exactly as without another thread.
//! - At most [`AHEAD_MAX`] batches wait, so that memory does not grow with the log.
//! - The other thread has ended when [`read_ahead`] returns.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, available_parallelism, scope};

/// How many batches may wait.
const AHEAD_MAX: usize = 3;

/// The most records in a batch.
const RECORDS_MAX: usize = 256;
/// A batch with this many payload bytes is full.
const BYTES_MAX: usize = 128 << 10;

/// Whether a batch of so many records and payload bytes is full. A record of a large plan takes much
/// more memory than its payload, and several batches are in memory at a time.
pub(crate) fn is_full_batch(records: usize, bytes: usize) -> bool {
    records >= RECORDS_MAX || bytes >= BYTES_MAX
}

/// Receives the batches of a reading thread. `Break` ends the reading.
pub(crate) type BatchSink<'a, B> = &'a mut dyn FnMut(B) -> ControlFlow<()>;

/// Calls `read`, which passes batches on, and `apply` with each of them: `read` runs on another thread
/// if that is long and there is more than one processor. Returns the error of `read`, unless `apply`
/// ended the reading before.
pub(crate) fn read_ahead<B: Send, E: Send>(
    is_long: bool,
    read: impl Fn(BatchSink<'_, B>) -> Result<(), E> + Sync,
    mut apply: impl FnMut(B) -> ControlFlow<()>,
) -> Result<(), E> {
    let mut is_ended = false;
    let mut apply = |batch: B| {
        let flow = apply(batch);
        is_ended |= flow.is_break();
        flow
    };
    let is_alone = || available_parallelism().map_or(1, NonZeroUsize::get) == 1;
    let result =
        if is_long && !is_alone() { on_two_threads(&read, &mut apply) } else { read(&mut apply) };
    result.or_else(|error| if is_ended { Ok(()) } else { Err(error) })
}

fn on_two_threads<B: Send, E: Send>(
    read: &(impl Fn(BatchSink<'_, B>) -> Result<(), E> + Sync),
    apply: BatchSink<'_, B>,
) -> Result<(), E> {
    scope(|scope| {
        let (sender, receiver) = sync_channel(AHEAD_MAX);
        let reading = move || {
            read(&mut |batch| match sender.send(batch) {
                Ok(()) => ControlFlow::Continue(()),
                // The calling thread needs no more items.
                Err(_) => ControlFlow::Break(()),
            })
        };
        let Ok(reader) = Builder::new().name("read-ahead".to_owned()).spawn_scoped(scope, reading)
        else {
            // The system has no thread left.
            return read(apply);
        };
        // The loop consumes the receiver: after its end, the reading thread cannot wait for it.
        for batch in receiver {
            if apply(batch).is_break() {
                break;
            }
        }
        match reader.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the numbers from 0, then fails if told so; `apply` stops at `stop`.
    fn numbers(
        is_long: bool,
        (records, fails): (u64, bool),
        stop: u64,
    ) -> (Vec<u64>, Result<(), &'static str>) {
        let mut seen = Vec::new();
        let read = |sink: BatchSink<'_, u64>| {
            for number in 0..records {
                if sink(number).is_break() {
                    return Ok(());
                }
            }
            if fails { Err("no further") } else { Ok(()) }
        };
        let result = read_ahead(is_long, read, |number| {
            seen.push(number);
            if number == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (seen, result)
    }

    /// The same batches arrive, then the same error, with and without another thread.
    #[test]
    fn batches_and_the_error_arrive_in_order() {
        for (is_long, records) in [(false, 100), (true, 0), (true, 1), (true, 10_000)] {
            for (fails, expected) in [(false, Ok(())), (true, Err("no further"))] {
                let (seen, result) = numbers(is_long, (records, fails), u64::MAX);
                assert_eq!(seen, (0..records).collect::<Vec<_>>());
                assert_eq!(result, expected);
            }
        }
    }

    /// The reading thread waits for a full channel when the calling thread stops: it must not wait
    /// forever.
    #[test]
    fn reading_ends_when_the_calling_thread_stops() {
        for (is_long, stop) in [(false, 5), (true, 0), (true, 5), (true, 5_000)] {
            let (seen, result) = numbers(is_long, (10_000, true), stop);
            assert_eq!(seen, (0..=stop).collect::<Vec<_>>());
            assert_eq!(result, Ok(()));
        }
    }
}
