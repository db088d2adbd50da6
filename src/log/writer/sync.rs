//! The locks and threads of the writer: those of the standard library. In a build with
//! `--cfg schedules` the unit tests use those of `shuttle`, which runs one thread at a time and
//! decides at each lock which one continues (`tests/schedules/run`).

#[cfg(not(all(test, schedules)))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(all(test, schedules)))]
pub(crate) use std::thread;

#[cfg(all(test, schedules))]
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
#[cfg(all(test, schedules))]
pub(crate) use shuttle::thread;

/// A value that is set once, and that threads wait for.
#[cfg(not(all(test, schedules)))]
#[derive(Debug)]
pub(crate) struct Signal<T>(std::sync::OnceLock<T>);

#[cfg(not(all(test, schedules)))]
impl<T: Copy> Signal<T> {
    pub(crate) fn wait(&self) -> T {
        *self.0.wait()
    }

    /// Set the value; a second one is ignored.
    pub(crate) fn set(&self, value: T) {
        let _ = self.0.set(value);
    }

    /// The value, if it is set.
    #[cfg(test)]
    pub(crate) fn get(&self) -> Option<T> {
        self.0.get().copied()
    }
}

#[cfg(not(all(test, schedules)))]
impl<T> Default for Signal<T> {
    fn default() -> Self {
        Self(std::sync::OnceLock::new())
    }
}

/// The same with a lock that `shuttle` sees.
#[cfg(all(test, schedules))]
#[derive(Debug)]
pub(crate) struct Signal<T> {
    value: Mutex<Option<T>>,
    is_set: Condvar,
}

#[cfg(all(test, schedules))]
impl<T: Copy> Signal<T> {
    pub(crate) fn wait(&self) -> T {
        let mut value = self.value.lock().unwrap();
        loop {
            if let Some(value) = *value {
                return value;
            }
            value = self.is_set.wait(value).unwrap();
        }
    }

    pub(crate) fn set(&self, value: T) {
        let mut current = self.value.lock().unwrap();
        current.get_or_insert(value);
        self.is_set.notify_all();
    }

    pub(crate) fn get(&self) -> Option<T> {
        *self.value.lock().unwrap()
    }
}

#[cfg(all(test, schedules))]
impl<T> Default for Signal<T> {
    fn default() -> Self {
        Self { value: Mutex::new(None), is_set: Condvar::new() }
    }
}

/// Threads on one log, under many schedules. `tests/schedules/run` starts them.
#[cfg(test)]
mod tests {
    #![cfg(schedules)]

    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use shuttle::rand::Rng as _;
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    use shuttle::{Config, MaxSteps, Runner};

    use super::thread::{JoinHandle, spawn};
    use crate::error::{ErrorKind, Result};
    use crate::format::{Codec, NewRecord};
    use crate::log::{
        Ack, BackgroundWork, Batch, BatchKey, Durability, Log, LogOptions, SegmentSizes, Ticket,
        UidSource,
    };
    use crate::sim::{FaultAction, FaultEffect, FaultRule, Loss, Operation, OsError, SimDisk};

    const TIME: u64 = 1_700_000_000_000_000;

    fn number(name: &str, usual: u64) -> u64 {
        std::env::var(name).map_or(usual, |text| text.parse().unwrap())
    }

    /// Run a test under random schedules, and under schedules with one to three preemptions.
    fn explore(name: &str, test: fn()) {
        let count = usize::try_from(number("PLAN_LEDGER_SCHEDULES", 300)).unwrap();
        let seed = number("PLAN_LEDGER_SEED", 1);
        let mut config = Config::new();
        config.stack_size = 1 << 20;
        config.max_steps = MaxSteps::FailAfter(1_000_000);
        config.silence_warnings = true;
        let random = RandomScheduler::new_from_seed(seed, count);
        let ran = Runner::new(random, config.clone()).run(test);
        println!("schedules: {name}: {ran} random");
        let mut ran = 0;
        for depth in 1..=3 {
            let preempting = PctScheduler::new_from_seed(seed, depth, count);
            ran += Runner::new(preempting, config.clone()).run(test);
        }
        println!("schedules: {name}: {ran} preempting");
    }

    fn dir() -> &'static Path {
        Path::new("/ledger")
    }

    fn options(disk: &SimDisk) -> LogOptions {
        let next = AtomicU64::new(1);
        let uids = UidSource::new(move || {
            let mut uid = [7; 16];
            uid[..8].copy_from_slice(&next.fetch_add(1, Ordering::Relaxed).to_le_bytes());
            uid
        });
        // A few batches fill a segment.
        let segments = SegmentSizes { first: 8192, largest: 8192 };
        LogOptions { segments, ..LogOptions::new(Arc::new(disk.clone()), uids) }
    }

    fn record(number: u8, size: usize) -> NewRecord {
        NewRecord { kind: 1, codec: Codec::Raw, schema: 1, payload: vec![number | 1; size] }
    }

    /// The result that a thread got, and the disk after a power cut at that moment.
    struct Told {
        ack: Ack,
        image: SimDisk,
    }

    fn told(disk: &SimDisk, ack: Ack) -> Told {
        let image = disk.fork();
        image.clear_faults();
        image.kill_process();
        image.lose_power(Loss::Everything);
        Told { ack, image }
    }

    /// Everything that was acknowledged is on the disk that the power cut left.
    fn check(told: &[Told]) {
        for Told { ack, image } in told {
            let (log, _) = Log::open(dir(), options(image), TIME).unwrap();
            let found = log.reader().unwrap().record(ack.seq).unwrap().unwrap();
            assert_eq!(found.chain, ack.chain, "record {}", ack.seq);
        }
    }

    fn join<T>(threads: Vec<JoinHandle<T>>) -> Vec<T> {
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }

    /// One thread appends, one submits and waits in the opposite order, one writes without waiting and
    /// flushes.
    fn work(log: &Log, disk: &SimDisk, thread: u8) -> Result<Vec<Told>> {
        let size = 1500;
        let first = Batch::new(vec![record(thread, size)], TIME);
        let second = Batch::new(vec![record(thread, size), record(thread, 40)], TIME);
        let acks = match thread % 3 {
            0 => {
                let first = told(disk, log.append(&first.records, TIME)?);
                return Ok(vec![first, told(disk, log.append(&second.records, TIME)?)]);
            }
            1 => {
                let (early, late) = (log.submit(&first)?, log.submit(&second)?);
                [log.wait(late)?, log.wait(early)?]
            }
            _ => {
                let ticket = log.submit(&Batch { durability: Durability::Buffered, ..first })?;
                let all = log.flush()?;
                [all, log.wait(ticket)?]
            }
        };
        Ok(acks.into_iter().map(|ack| told(disk, ack)).collect())
    }

    /// Start three threads on a new log; returns the result of each.
    fn race(disk: &SimDisk, background_work: BackgroundWork) -> (Arc<Log>, Vec<Result<Vec<Told>>>) {
        let options = LogOptions { background_work, ..options(disk) };
        let log = Arc::new(Log::create(dir(), options, TIME).unwrap());
        let threads = (0..3)
            .map(|number| {
                let (log, disk) = (log.clone(), disk.clone());
                spawn(move || work(&log, &disk, number))
            })
            .collect();
        let results = join(threads);
        (log, results)
    }

    fn acknowledged_records_are_durable(background_work: BackgroundWork) {
        let disk = SimDisk::new();
        let (log, results) = race(&disk, background_work);
        let told: Vec<Told> = results.into_iter().flat_map(Result::unwrap).collect();
        check(&told);
        let last = log.last_durable().seq;
        assert_eq!(last, 7, "a record was lost or written twice");
        Arc::into_inner(log).unwrap().close().unwrap();
        disk.lose_power(Loss::Everything);
        let (log, _) = Log::open(dir(), options(&disk), TIME).unwrap();
        assert_eq!(log.last_durable().seq, last);
    }

    #[test]
    fn acknowledged_records_are_durable_under_every_schedule() {
        explore("acknowledged records are durable", || {
            acknowledged_records_are_durable(BackgroundWork::Inline);
        });
    }

    #[test]
    fn background_thread_disturbs_no_append() {
        explore("with the background thread", || {
            acknowledged_records_are_durable(BackgroundWork::Thread);
        });
    }

    /// A sync, a write or a rotation fails, at any moment: each thread gets a result, no record that was
    /// acknowledged is lost, and the log accepts nothing afterwards.
    #[test]
    fn failed_call_ends_every_wait() {
        explore("a call fails", || {
            let disk = SimDisk::new();
            let mut random = shuttle::rand::thread_rng();
            let failure = FaultAction::Error(OsError::Io, FaultEffect::Nothing);
            let operation =
                if random.gen_range(0..3) == 0 { Operation::Write } else { Operation::Sync };
            let log = Arc::new(Log::create(dir(), options(&disk), TIME).unwrap());
            let nth = random.gen_range(1..10);
            disk.inject(FaultRule::next(failure).of(operation).nth(nth));
            let threads = (0..3)
                .map(|number| {
                    let (log, disk) = (log.clone(), disk.clone());
                    spawn(move || {
                        let mut all = Vec::new();
                        for _ in 0..2 {
                            match work(&log, &disk, number) {
                                Ok(told) => all.extend(told),
                                Err(error) => return (all, Some(error)),
                            }
                        }
                        (all, None)
                    })
                })
                .collect();
            for (told, error) in join(threads) {
                check(&told);
                let Some(error) = error else { continue };
                let again = log.append(&[record(9, 40)], TIME);
                let is_definite = matches!(error.kind(), ErrorKind::Io | ErrorKind::DiskFull);
                assert!(again.is_err() || is_definite, "{error}, and the log accepts records");
            }
        });
    }

    /// As in a server: one thread submits, another waits for the tickets and answers, a third appends. Each
    /// ticket is answered once, in order, when its record is durable, also if a sync fails.
    #[test]
    fn one_thread_waits_for_the_tickets_of_another() {
        explore("a queue of tickets", || {
            let disk = SimDisk::new();
            let log = Arc::new(Log::create(dir(), options(&disk), TIME).unwrap());
            let mut random = shuttle::rand::thread_rng();
            let failure = FaultAction::Error(OsError::Io, FaultEffect::Nothing);
            // Beyond the last call: no failure.
            let nth = random.gen_range(1..8);
            disk.inject(FaultRule::next(failure).of(Operation::Sync).nth(nth));
            let (sender, submitted) = shuttle::sync::mpsc::channel::<Vec<Ticket>>();
            let submitter = {
                let log = log.clone();
                spawn(move || {
                    let mut count = 0;
                    for number in 0..3_u8 {
                        let batch = |part| Batch::new(vec![record(number * 2 + part, 700)], TIME);
                        let tickets = [log.submit(&batch(0)), log.submit(&batch(1))];
                        let tickets: Vec<_> = tickets.into_iter().filter_map(Result::ok).collect();
                        count += tickets.len();
                        sender.send(tickets).unwrap();
                    }
                    count
                })
            };
            let answerer = {
                let (log, disk) = (log.clone(), disk.clone());
                spawn(move || {
                    let (mut done, mut count) = (Vec::new(), 0);
                    while let Ok(tickets) = submitted.recv() {
                        for ticket in tickets {
                            count += 1;
                            if let Ok(ack) = log.wait(ticket) {
                                done.push(told(&disk, ack));
                            }
                        }
                    }
                    (done, count)
                })
            };
            let appender = {
                let (log, disk) = (log.clone(), disk.clone());
                spawn(move || log.append(&[record(9, 40)], TIME).map(|ack| told(&disk, ack)))
            };
            let submitted = submitter.join().unwrap();
            let (mut done, answered) = answerer.join().unwrap();
            assert_eq!(answered, submitted, "a ticket was not answered");
            assert!(done.is_sorted_by_key(|told| told.ack.seq));
            done.extend(appender.join().unwrap());
            check(&done);
        });
    }

    /// Two threads send the same request: it is written once, and both get the same answer.
    #[test]
    fn key_is_written_once() {
        explore("two batches of one key", || {
            let disk = SimDisk::new();
            let log = Arc::new(Log::create(dir(), options(&disk), TIME).unwrap());
            let key = BatchKey::new(b"a request").unwrap().for_request(b"claim");
            let threads = (0..2)
                .map(|_| {
                    let batch = Batch::new(vec![record(1, 40)], TIME);
                    let batch = Batch { key: Some(key.clone()), ..batch };
                    let (log, disk) = (log.clone(), disk.clone());
                    spawn(move || {
                        let ticket = log.submit(&batch).unwrap();
                        let first = ticket.first_seq();
                        (first, told(&disk, log.wait(ticket).unwrap()))
                    })
                })
                .collect();
            let (firsts, told): (Vec<u64>, Vec<Told>) = join(threads).into_iter().unzip();
            assert_eq!(firsts, [1, 1]);
            check(&told);
            assert_eq!(log.last_durable().seq, 2);
        });
    }
}
