//! `ledger replicate`: copies the records that another process writes to a folder into a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use clap::Args;

use plan_ledger::internals::store::{
    AckMode, MonotonicClock, SideCar, StoreClient, StoreLag, StoreOpening,
};
use plan_ledger::log::LogReader;
use plan_ledger::{Environment, Error, ErrorKind};

use crate::options::{AsJson, LedgerOption, environment, parse_seconds};
use crate::output::{Code, Failure, print_message, print_result};
use plan_ledger_views::count;

use crate::protocol::{counted, size};
use crate::runner::StopRequest;
use crate::signals::StopSignals;

use super::super::lines::ReplicatedLine;
use super::super::option::StoreOption;
use super::super::patience::patient_client;
use super::super::probe::expect_fit;
use super::super::remote::{at_store, failure_at_store, unanswered};
use super::blobs::{missing_blobs, missing_text};
use super::findings::{CHECK_EVERY, Findings, RECHECK_EVERY};

const EXAMPLES: &str = "\
Examples:
  ledger replicate s3://my-ledgers/night &         beside `ledger run`: copy each second
  ledger replicate s3://my-ledgers/night --once    copy what there is, and end: for cron
  ledger replicate az://my-ledgers/night --every 10s --json

The folder stays as it is, and the process that writes it does not wait: if the machine is lost, so is what
was not copied yet. `ledger restore URL DIR` makes a folder of the copy. A signal ends it within a second,
after a last copy if there is time. When it starts and once a day it looks whether the store has lost something,
and repairs it from the folder. The exit code is 2 if there is no ledger, 4 if something is damaged,
6 if the store has records that the folder lacks, has another ledger or breaks a promise, or the folder is
bound to a store (its server copies it then), and 7 if the store does not answer for 30 s, or a signal came
before it had every record: what waits to be copied is safe in the folder, and the next start continues.";

/// The pause between two checks for a signal.
const TICK: Duration = Duration::from_millis(50);

/// How long a signal leaves for the last copy.
const LAST_COPY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplicateArgs {
    #[command(flatten)]
    store: StoreOption,
    #[command(flatten)]
    place: LedgerOption,
    /// How often to look for new records
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    every: u64,
    /// End when the store has everything
    #[arg(long)]
    once: bool,
    /// Do not test first whether the store keeps its promises
    #[arg(long)]
    no_probe: bool,
    #[command(flatten)]
    json: AsJson,
}

fn parse_interval(text: &str) -> Result<u64, String> {
    match parse_seconds(text)? {
        0 => Err("expected at least 1 s".to_owned()),
        seconds => Ok(seconds),
    }
}

pub(crate) fn replicate(args: &ReplicateArgs) -> Result<Code, Failure> {
    let dir = &args.place.dir;
    let signals = StopSignals::register(dir)?;
    let (is_stopped, shipped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let copying = Copying {
        args: args.clone(),
        is_stopped: Arc::clone(&is_stopped),
        shipped: Arc::clone(&shipped),
    };
    let url = args.store.url()?.to_string();
    let (done, finished) = channel();
    let run = move || done.send(copying.run());
    // A side-car has no lock and acknowledges nothing, so the process may end at any time.
    Builder::new()
        .name("replicate".to_owned())
        .spawn(run)
        .map_err(|error| Error::new(ErrorKind::Io, format!("cannot start a thread: {error}")))?;
    let mut stopped: Option<Instant> = None;
    loop {
        match finished.recv_timeout(TICK) {
            Ok(copied) => return copied.map_err(|failure| failure_at_store(failure, &url)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let message = "the thread that copies to the store panicked";
                return Err(Error::new(ErrorKind::Io, message).into());
            }
        }
        if stopped.is_none() && signals.request() != StopRequest::None {
            stopped = Some(Instant::now());
            is_stopped.store(true, Ordering::Release);
        }
        if stopped.is_some_and(|stopped| stopped.elapsed() >= LAST_COPY) {
            return stopped_early(args, &url, shipped.load(Ordering::Acquire));
        }
    }
}

/// The end of a copy that a signal stopped before it was done. The store may have all records, and lack an object that
/// only saves requests.
fn stopped_early(args: &ReplicateArgs, url: &str, shipped_seq: u64) -> Result<Code, Failure> {
    let dir = &args.place.dir;
    let reader = LogReader::open(&environment().storage, dir)?;
    let durable_seq = reader.head().map_or(0, |head| head.durable_seq);
    if shipped_seq > 0 && shipped_seq >= durable_seq {
        print_message(&format!(
            "stopped by a signal: {url} has every record, up to {shipped_seq}, and may lack a segment object, a part \
             of one or a snapshot, which the next start uploads"
        ));
        return Ok(Code::Success);
    }
    let message = match shipped_seq {
        0 => format!("stopped by a signal before {url} had everything"),
        seq => format!(
            "stopped by a signal before {url} had everything: it has the records up to {seq} of {durable_seq}"
        ),
    };
    let hint = "the other records are safe in the folder; start this command again to continue";
    Err(Error::new(ErrorKind::Io, message).with_hint(hint).at_path(dir).into())
}

/// The thread that copies. A request that gets no answer, or a long shipment, does not delay the end of the process.
struct Copying {
    args: ReplicateArgs,
    is_stopped: Arc<AtomicBool>,
    /// The last record that the store has; 0 before that is known.
    shipped: Arc<AtomicU64>,
}

impl Copying {
    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// Upload segments and a snapshot; before the end, all that there are. Without its object, a segment is restored from its
    /// slots.
    fn upload(&self, car: &mut SideCar, url: &str, is_last: bool) {
        while !self.is_stopped() {
            match car.upload_segments() {
                Ok(count) if count > 0 && is_last => {}
                Ok(_) => return,
                Err(error) => {
                    if !is_outage(&error) {
                        let error = at_store(error, url);
                        print_message(&format!("cannot upload a segment: {error}"));
                    }
                    return;
                }
            }
        }
    }

    /// Whether the store has every blob that a record names; reports those that both it and the folder lack.
    fn has_all_blobs(
        &self,
        client: &StoreClient,
        environment: &Environment,
    ) -> Result<bool, Failure> {
        let mut missing = Vec::new();
        for blob in missing_blobs(&self.args.place.dir, environment)? {
            let found = client.objects().get(&blob.object, Some(0..1));
            if found.map_err(|why| unanswered(&why, client.url()))?.is_none() {
                missing.push(blob);
            }
        }
        if !missing.is_empty() {
            print_message(&missing_text(&missing, client.url()));
        }
        Ok(missing.is_empty())
    }

    fn run(self) -> Result<Code, Failure> {
        let args = &self.args;
        let dir = &args.place.dir;
        let (store, environment) = (args.store.open()?, environment());
        if !args.no_probe {
            expect_fit(&store, &environment)?;
        }
        let client = patient_client(&store, &environment);
        let start = Instant::now();
        let opening = StoreOpening {
            // A side-car acknowledges nothing.
            ack: AckMode::Local,
            node: environment.ids.next_id(),
            time: environment.clock.now(),
            clock: MonotonicClock::new(move || start.elapsed()),
        };
        let mut car = SideCar::open(dir, &environment.storage, &client, &opening)?;
        let (mut known, mut is_first) = (last_seq(&car), true);
        let (findings, mut check_at) = (Findings::default(), Instant::now());
        loop {
            let is_last = args.once || self.is_stopped();
            let shipped = car.ship();
            self.shipped.store(last_seq(&car), Ordering::Release);
            let lag = shipped.map_err(|error| behind(error, &car.lag(), client.url()))?;
            self.upload(&mut car, client.url(), is_last);
            if Instant::now() >= check_at {
                let is_whole = check(&mut car, &findings, client.url(), is_last)?;
                check_at = Instant::now() + if is_whole { CHECK_EVERY } else { RECHECK_EVERY };
                for line in findings.news(None, &store.url.to_string()) {
                    print_result(args.json.0, &line, &line.text())?;
                }
            }
            let seq = last_seq(&car);
            if is_first || seq > known {
                let line = ReplicatedLine {
                    bytes: lag.bytes,
                    dir: dir.display().to_string(),
                    oldest_micros: u64::try_from(lag.age.as_micros()).unwrap_or(u64::MAX),
                    records: lag.records,
                    seq,
                    shipped: seq.saturating_sub(known),
                    url: store.url.to_string(),
                };
                print_result(args.json.0, &line, &text(&line))?;
            }
            (known, is_first) = (seq, false);
            if is_last {
                let has_all = !args.once || self.has_all_blobs(&client, &environment)?;
                let is_whole = findings.count() == 0 && has_all;
                return Ok(if is_whole { Code::Success } else { Code::Damaged });
            }
            let until = Instant::now() + Duration::from_secs(args.every);
            while Instant::now() < until && !self.is_stopped() {
                std::thread::sleep(TICK);
            }
        }
    }
}

/// Check that the store could restore the ledger, and repair it. Returns whether it is complete. If a check fails, it
/// is repeated; the failure of the last one is reported.
///
/// # Errors
/// `Diverged` if another process took over in the store.
fn check(car: &mut SideCar, findings: &Findings, url: &str, is_last: bool) -> Result<bool, Error> {
    Ok(match car.check_store() {
        Ok(damage) => {
            findings.take_in(damage);
            findings.count() == 0
        }
        Err(error) if error.kind() == ErrorKind::Diverged => return Err(error),
        Err(error) => {
            if is_last || !is_outage(&error) {
                let error = at_store(error, url);
                print_message(&format!("cannot check whether the store is whole: {error}"));
            }
            false
        }
    })
}

fn last_seq(car: &SideCar) -> u64 {
    car.end().position.next_seq.saturating_sub(1)
}

fn is_outage(error: &Error) -> bool {
    // The error of a file has the reason of the operating system.
    let is_unanswered = error.kind() == ErrorKind::Io && std::error::Error::source(error).is_none();
    is_unanswered || error.kind() == ErrorKind::OutcomeUnknown
}

/// The error of a store that does not answer, with the records that wait.
fn behind(error: Error, lag: &StoreLag, url: &str) -> Failure {
    let error = at_store(error, url);
    if !is_outage(&error) || lag.records == 0 {
        return error.into();
    }
    let StoreLag { age, records, bytes } = *lag;
    let message = format!(
        "{} ({}) are only in the folder, the oldest for {} s: {}",
        counted(records, "record"),
        size(bytes),
        age.as_secs(),
        error.without_hint()
    );
    let again = "start this command again to continue";
    let hint = error.hint().map_or_else(|| again.to_owned(), |hint| format!("{hint}; {again}"));
    Error::new(ErrorKind::Io, message).with_hint(hint).into()
}

fn text(line: &ReplicatedLine) -> String {
    let ReplicatedLine { bytes, dir, records, seq, shipped, url, .. } = line;
    let lag = match records {
        0 => String::new(),
        records => format!(", {} ({}) wait", counted(*records, "record"), size(*bytes)),
    };
    format!(
        "{dir}: record {} is in {url}, {} copied{lag}",
        count(*seq),
        counted(*shipped, "record")
    )
}
