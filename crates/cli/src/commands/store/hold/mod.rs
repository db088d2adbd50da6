//! Holds a ledger with its log in a store: opens it there, or stands by until its owner is gone,
//! and shows signs of life.
//!
//! `signs` has the hints that a process writes about itself, `watch` decides whether the owner is gone, `standby`
//! follows and waits, and `life`, `shipper` and `check` are the threads of an owner. `contact` records when the store
//! answered. `view` is the state that other parts of the program and the `health_file` show. `before_epoch` refuses a
//! start that would fail after an epoch was opened.
//!
//! Invariants:
//! - Safety depends only on the opening slot (`format/store.md`). Decisions in this folder only choose when to try.
//! - A process that was replaced never takes over again: it reports this, and ends.

mod before_epoch;
mod check;
mod contact;
mod health_file;
mod life;
mod shipper;
mod signs;
mod standby;
mod view;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clap::Args;

use plan_ledger::internals::format::Uid;
use plan_ledger::internals::store::{
    AckMode, BoundLog, FolderProgress, LedgerIdentity, MonotonicClock, Objects, StoreClient,
    StoreKeeper, StoreOpening, Unclear, has_log, open_bound, restore,
};
use plan_ledger::log::Keeper as _;
use plan_ledger::{Environment, Error, ErrorKind, Ledger};

use crate::options::{create_parents, parse_seconds};
use crate::output::{Failure, print_message, progress_bar};
use crate::protocol::{counted, hex, ledger_option, quoted, this_machine};
use crate::server::{expect_not_gone, open_in_turn};

use super::copy::{
    Findings, is_free, missing_blobs, missing_text, print_derived_damage, records_about,
    with_rejoin,
};
use super::held::{Held, HeldLog, HttpAddress, StoreNews, StoreView};
use super::lines::{HeldStoreJson, StandbyLine, StoreLagLine, StoreNewsLine, StoreOwnerJson};
use super::open::{OpenStore, open};
use super::option::parse_url;
use super::patience::patient_client;
use super::probe::expect_fit;
use super::remote::{at_store, failure_at_store};
use super::url::StoreUrl;

use check::{Checker, Checking, needs_whole_store, refused};
use contact::{Contact, NotedObjects};
use health_file::HealthFile;
pub(crate) use health_file::store_health;
use life::{Life, Living, SIGN_EVERY};
use shipper::{Haste, Shipper};
use signs::{Owner, OwnerState, Successor};
use standby::{Ended, Ready, Standby};
use view::{OwnerView, StandbyView};
use watch::{Seen, Watch};

/// The shortest lease in seconds: two signs of life, and time for their requests.
const LEASE_MIN: u64 = 5;

/// The pause between two checks of an owner that may be alive.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// The hint of the process that last served a ledger; `None` without a hint.
pub(super) fn owner_of(objects: &dyn Objects) -> Result<Option<StoreOwnerJson>, Unclear> {
    let owner = Seen::owner(objects)?.owner;
    Ok(owner.map(|owner| StoreOwnerJson {
        ack: owner.ack,
        epoch: owner.epoch,
        free: owner.state == OwnerState::Free,
        http: owner.http,
        node: owner.node,
        process: owner.process,
    }))
}

const STORE_HELP: &str =
    "Keep the log in this store: s3://BUCKET/PREFIX, az://, gs:// or file:///FOLDER";

/// How a process keeps the log in a store.
#[derive(Debug, Args)]
#[command(next_help_heading = "Object store")]
pub(crate) struct HoldOptions {
    #[arg(long, value_name = "URL", help = STORE_HELP)]
    store: Option<String>,
    /// How long the owner may show no sign of life before it is replaced
    #[arg(long, value_name = "TIME", default_value = "6s", value_parser = parse_lease, requires = "store")]
    lease: u64,
    /// When a result counts as saved: once the store has it (store), once it is on this disk and the store lacks
    /// nothing older than a bound (bounded:5s), or once it is on this disk (local)
    #[arg(long, value_name = "MODE", default_value = "store", value_parser = parse_ack, requires = "store")]
    ack: AckMode,
    /// How long to wait for one answer of the store
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_seconds, requires = "store")]
    store_timeout: u64,
    /// How much of the store to read and verify each day, one object after the other: a size such as 1GiB, or off
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_scrub, requires = "store")]
    store_scrub: u64,
    /// Do not test first whether the store keeps its promises
    #[arg(long, requires = "store")]
    no_probe: bool,
    /// Send requests to the store without encryption also to other machines
    #[arg(long, requires = "store")]
    store_allow_http: bool,
}

impl HoldOptions {
    /// Whether the log is kept in a store.
    pub(crate) fn is_given(&self) -> bool {
        self.store.is_some()
    }
}

fn parse_lease(text: &str) -> Result<u64, String> {
    match parse_seconds(text)? {
        seconds if seconds >= LEASE_MIN => Ok(seconds),
        _ => Err(format!(
            "a lease has at least {LEASE_MIN} s, since an owner shows a sign of life every {} s",
            SIGN_EVERY.as_secs()
        )),
    }
}

/// A mode: `store`, `bounded`, `bounded:TIME` or `local`.
fn parse_ack(text: &str) -> Result<AckMode, String> {
    let (word, bound) = text.split_once(':').map_or((text, None), |(word, it)| (word, Some(it)));
    match (word, bound) {
        ("store", None) => Ok(AckMode::Store),
        ("local", None) => Ok(AckMode::Local),
        ("bounded", None) => Ok(AckMode::Bounded(AckMode::BOUND)),
        ("bounded", Some(bound)) => match parse_seconds(bound)? {
            0 => Err("a bound has at least 1 s; without one, use `store`".to_owned()),
            seconds => Ok(AckMode::Bounded(Duration::from_secs(seconds))),
        },
        _ => Err("expected store, bounded, bounded:TIME such as bounded:5s, or local".to_owned()),
    }
}

/// A number of bytes: `1GiB`, `100MiB`, or 0 for `off`.
fn parse_scrub(text: &str) -> Result<u64, String> {
    if text == "off" {
        return Ok(0);
    }
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let parsed = units.iter().find_map(|(unit, shift)| {
        let number: u64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
        number.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
    });
    parsed.ok_or_else(|| "expected a size such as 100MiB or 1GiB, or off".to_owned())
}

/// The store lags when the oldest record that it lacks has this age.
fn lags_from(ack: AckMode) -> Duration {
    match ack {
        AckMode::Bounded(bound) => bound,
        AckMode::Local | AckMode::Store => AckMode::BOUND,
    }
}

/// The way in which a process gets a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// It makes sure that no other process holds it.
    Look,
    /// The same, and it creates the ledger if neither the store nor the folder has one.
    Create,
    /// It stands by until the owner is gone.
    StandBy,
}

/// The ledger that this process holds in a store.
struct HeldInStore {
    dir: PathBuf,
    keeper: Arc<StoreKeeper>,
    shipper: Option<Shipper>,
    findings: Arc<Findings>,
    checker: Option<Checker>,
    /// Whether the start has checked that the store is complete.
    is_checked: bool,
    scrub_bytes: u64,
    /// Whether the last message was that the store lags.
    is_lagging: bool,
    objects: Arc<dyn Objects>,
    identity: LedgerIdentity,
    owner: Owner,
    node: Uid,
    json: HeldStoreJson,
    contact: Arc<Contact>,
    lease: Duration,
    successor: Arc<OnceLock<Successor>>,
    life: Option<Life>,
    health: HealthFile,
}

/// Hold a ledger with its log in a store, after standing by with `--standby`. `news` receives
/// reports. `None` if the process is asked to stop first.
pub(crate) fn hold(
    (options, before): (&HoldOptions, Before),
    dir: &Path,
    environment: &Environment,
    is_stopped: &dyn Fn() -> bool,
    news: &mut StoreNews<'_>,
) -> Result<Option<Held>, Failure> {
    let url = parse_url(options.store.as_deref().unwrap_or_default())?;
    let held = hold_at(&url, (options, before), dir, environment, is_stopped, news);
    held.map_err(|failure| failure_at_store(failure, &url.to_string()))
}

fn hold_at(
    url: &StoreUrl,
    (options, before): (&HoldOptions, Before),
    dir: &Path,
    environment: &Environment,
    is_stopped: &dyn Fn() -> bool,
    news: &mut StoreNews<'_>,
) -> Result<Option<Held>, Failure> {
    let mut store =
        open(url, Duration::from_secs(options.store_timeout), options.store_allow_http)?;
    store.check()?;
    let contact = Contact::new();
    store.objects = NotedObjects::wrap(store.objects, &contact);
    if !options.no_probe {
        expect_fit(&store, environment)?;
    }
    let client = patient_client(&store, environment);
    let place = Place {
        dir,
        environment,
        store: &store,
        client: &client,
        node: environment.ids.next_id(),
        lease: Duration::from_secs(options.lease),
        ack: options.ack,
        scrub_bytes: options.store_scrub,
        contact,
        is_stopped,
    };
    let is_known = place.make_folder(before)?;
    if before == Before::StandBy {
        let standby = place.standby();
        let view: Arc<dyn StoreView> = Arc::<StandbyView>::clone(&standby.view);
        let mut ready = |progress: &FolderProgress| news(place.standby_line(progress), &view);
        let ended = standby.wait(&mut ready);
        return match ended.map_err(|failure| place.with_rejoin(failure))? {
            Ended::Stopped => Ok(None),
            Ended::Gone(gone, ready) => {
                before_epoch::check_followed(dir, environment)?;
                print_message(&format!("taking over: {gone}"));
                place.take_over(Some(*ready)).map(Some)
            }
        };
    }
    if is_known && !place.expect_no_live_owner()? {
        return Ok(None);
    }
    before_epoch::check(dir, environment, &client, is_known)?;
    place.take_over(None).map(Some)
}

/// A folder, and the store of its ledger.
struct Place<'a> {
    dir: &'a Path,
    environment: &'a Environment,
    store: &'a OpenStore,
    client: &'a StoreClient,
    node: Uid,
    lease: Duration,
    ack: AckMode,
    scrub_bytes: u64,
    contact: Arc<Contact>,
    is_stopped: &'a dyn Fn() -> bool,
}

impl<'a> Place<'a> {
    /// The error of a folder that has diverged, with a hint.
    fn with_rejoin(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Ledger(error) => with_rejoin(error, self.client.url(), self.dir).into(),
            failure => failure,
        }
    }

    fn standby(&self) -> Standby<'a> {
        Standby {
            dir: self.dir,
            environment: self.environment,
            objects: Arc::clone(&self.store.objects),
            client: self.client,
            node: self.node,
            lease: self.lease,
            view: StandbyView::new(
                hex(&self.node),
                self.store.url.to_string(),
                Arc::clone(&self.contact),
            ),
            is_stopped: self.is_stopped,
        }
    }

    /// Restore or create the folder if it does not exist. Returns whether the store has a ledger.
    fn make_folder(&self, before: Before) -> Result<bool, Failure> {
        let dir = self.dir;
        let is_standby = before == Before::StandBy;
        let is_known = has_log(self.client.objects(), self.client.retry())?;
        if !is_known && before == Before::Create && is_free(dir) {
            if let Some(text) = expect_not_gone(dir)? {
                print_message(&text);
            }
            create_parents(dir)?;
            Ledger::create(dir, self.environment)?.close()?;
            return Ok(false);
        }
        if !is_known && (is_standby || is_free(dir)) {
            let message = "the store has none yet";
            let hint = if is_standby {
                "start its owner first: `ledger serve --store URL`"
            } else {
                "create one first: `ledger init`"
            };
            return Err(Error::new(ErrorKind::NotALedger, message).with_hint(hint).into());
        }
        if is_free(dir) {
            create_parents(dir)?;
            let bar = progress_bar(records_about(&*self.store.objects));
            let mut reached = FolderProgress::default();
            let mut each = |progress: &FolderProgress| {
                bar.set_position(progress.last_seq);
                reached = *progress;
            };
            let options = self.environment.log_options();
            let restored = restore(dir, options, self.client, &mut each);
            bar.finish_and_clear();
            let last = restored?.seq;
            print_derived_damage(&reached, self.client.url(), dir);
            print_message(&format!("restored {} to record {last}", dir.display()));
            let missing = missing_blobs(dir, self.environment)?;
            if !missing.is_empty() {
                print_message(&missing_text(&missing, self.client.url()));
            }
        }
        Ok(is_known)
    }

    fn standby_line(&self, progress: &FolderProgress) -> StandbyLine {
        StandbyLine {
            epoch: progress.epoch,
            http: None,
            node: hex(&self.node),
            seq: progress.last_seq,
            url: self.store.url.to_string(),
        }
    }

    /// Wait until it is certain that no other process holds the ledger; `false` if the process is asked to stop.
    fn expect_no_live_owner(&self) -> Result<bool, Failure> {
        let objects = &*self.store.objects;
        let unanswered = |why: Unclear| why.error();
        let look = || Seen::owner(objects).and_then(|seen| seen.with_sign(objects));
        let first = look().map_err(unanswered)?;
        let Some(owner) = first.owner.clone().filter(|_| !first.is_free()) else { return Ok(true) };
        // In the same folder, the lock shows whether the other process is alive.
        if owner.machine.is_some()
            && owner.machine.as_deref() == this_machine()
            && owner.folder == folder_text(self.dir)
        {
            return Ok(true);
        }
        let seconds = self.lease.as_secs();
        print_message(&format!(
            "waiting up to {seconds} s for a sign of life of the owner, {}",
            owner.text()
        ));
        let mut watch = Watch::new(self.lease, Instant::now());
        let mut seen = first.clone();
        loop {
            if (self.is_stopped)() {
                return Ok(false);
            }
            if seen != first && !seen.is_free() {
                let message = format!("{} is held by {}", self.store.url, owner.text());
                let hint = "stop that process, or follow it: `ledger serve --standby`";
                return Err(Error::new(ErrorKind::Locked, message).with_hint(hint).into());
            }
            let port = seen.port();
            if watch.take_in(Instant::now(), seen, port).is_some() {
                return Ok(true);
            }
            std::thread::sleep(LOOK_PAUSE);
            seen = look().map_err(unanswered)?;
        }
    }

    /// The reason why no record may be acknowledged.
    fn refused(&self, findings: &Findings) -> Option<Error> {
        let damage = findings.first().filter(|_| needs_whole_store(self.ack))?;
        Some(refused(&damage, findings.count(), self.client.url()))
    }

    /// Open an epoch in the store, and the ledger. A standby has nearly everything that is needed.
    fn take_over(&self, ready: Option<Ready>) -> Result<Held, Failure> {
        let environment = self.environment;
        // Clients wait for a standby that takes over, so it checks the store later.
        let mut is_checked = ready.is_none();
        let start = Instant::now();
        let clock = MonotonicClock::new(move || start.elapsed());
        let opening = || {
            let (time, clock) = (environment.clock.now(), clock.clone());
            StoreOpening { ack: self.ack, node: self.node, time, clock }
        };
        let open = || open_bound(self.dir, environment.log_options(), self.client, &opening());
        let (opened, state) = match ready {
            Some(Ready { folder, state, .. }) => {
                let boot_time = environment.log_options().boot_time;
                (folder.take_over(&opening(), boot_time), state)
            }
            None => (open_in_turn(self.dir, open), None),
        };
        let opened = opened.map_err(|error| with_rejoin(error, self.client.url(), self.dir))?;
        let BoundLog { log, recovery, progress, epoch, keeper } = opened;
        let (ledger, report) = match state {
            Some(state) => Ledger::of_followed_log(log, &recovery, environment, state)?,
            None => Ledger::of_log(log, &recovery, environment)?,
        };
        if let Some((first, last)) = progress.returned {
            print_message(&format!(
                "the store had lost records {first} to {last}: they were added again from this folder"
            ));
        }
        if let Some((first, last)) = progress.dropped {
            let count = counted(last.saturating_sub(first).saturating_add(1), "record");
            print_message(&format!(
                "{count} of this folder, from {first} to {last}, never acknowledged, are not in the log: another \
                 process continued it"
            ));
        }
        let node = hex(&self.node);
        let ack = keeper.ack().to_string();
        let owner = Owner {
            ack: ack.clone(),
            clients: None,
            epoch,
            folder: folder_text(self.dir),
            http: None,
            machine: this_machine().map(str::to_owned),
            node: node.clone(),
            process: environment.holder.clone(),
            state: OwnerState::Open,
        };
        let findings = Arc::new(Findings::default());
        let successor = Arc::default();
        if is_checked {
            // It may take long: without signs of life a standby would take over.
            let objects = &self.store.objects;
            let living = Living::new(objects, &keeper, &owner, &self.node, &successor);
            let _life = Life::start(living).map_err(|error| no_thread(&error))?;
            is_checked = look(&keeper, &findings);
        }
        if let Some(error) = self.refused(&findings).filter(|_| is_checked) {
            ledger.close()?;
            // If the hint is lost, the next process waits for the lease. A hint that a successor wrote stays.
            if successor.get().is_none() {
                let _ = Owner { state: OwnerState::Free, ..owner }.write(&*self.store.objects);
            }
            return Err(error.into());
        }
        let json = HeldStoreJson {
            ack,
            dropped_first: progress.dropped.map(|(first, _)| first),
            dropped_last: progress.dropped.map(|(_, last)| last),
            epoch,
            node,
            shipped: progress.shipped,
            taken_in: progress.taken_in,
            url: self.store.url.to_string(),
        };
        let held = HeldInStore {
            dir: self.dir.to_owned(),
            identity: keeper.identity(),
            keeper,
            shipper: None,
            findings,
            checker: None,
            is_checked,
            scrub_bytes: self.scrub_bytes,
            is_lagging: false,
            objects: Arc::clone(&self.store.objects),
            owner,
            node: self.node,
            json,
            contact: Arc::clone(&self.contact),
            lease: self.lease,
            successor,
            life: None,
            health: HealthFile::new(self.dir),
        };
        Ok(Held { ledger, report, log: Box::new(held) })
    }
}

fn no_thread(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot start a thread: {error}"))
}

/// Check that the store could restore the ledger, and repair it. `false` if a thread must check again.
fn look(keeper: &StoreKeeper, findings: &Findings) -> bool {
    let checked = keeper.check_store().map(|damage| findings.take_in(damage));
    if let Err(error) = &checked {
        print_message(&format!("cannot check whether the store is whole: {error}"));
    }
    checked.is_ok()
}

/// The line that a standby prints when it follows.
pub(crate) fn standby_text(dir: &Path, line: &StandbyLine) -> String {
    let StandbyLine { epoch, http, seq, url, .. } = line;
    let at = http.as_ref().map_or_else(String::new, |http| format!(", and at {http}"));
    format!("standing by with {}{at}: record {seq}, epoch {epoch} of {url}", dir.display())
}

/// A folder, as the owner's hint names it.
fn folder_text(dir: &Path) -> String {
    dir.canonicalize().unwrap_or_else(|_| dir.to_owned()).display().to_string()
}

impl HeldInStore {
    /// The failure of a process that was replaced. It acknowledges nothing from now on, so the records that it names
    /// are all records that it acknowledged without the store.
    fn replaced(&self, by: &Successor) -> Failure {
        self.keeper.fence("another process took over the log in the store");
        let Successor { epoch, node, known } = by;
        let who = known.clone().unwrap_or_else(|| format!("process {node}"));
        let fenced =
            format!("fenced: {who} took over the ledger with epoch {epoch}, and this process ends");
        let (url, dir) = (quoted(&self.json.url), ledger_option(&self.dir));
        Failure::Rejected(match self.unshipped() {
            Some(records) => format!(
                "{fenced}; {records}, which may be acknowledged, are only in this folder\nhint: `ledger store rejoin \
                 {url} {dir}` shows everything that only this folder has, saves it, and restores the store"
            ),
            None => format!(
                "{fenced}\nhint: nothing that was acknowledged is lost; `ledger serve --store {url} --standby` \
                 follows it with this folder"
            ),
        })
    }

    /// The records that the store lacks, for people.
    fn unshipped(&self) -> Option<String> {
        let (count, before) = (self.keeper.lag().records, self.keeper.kept_seq());
        let (first, last) = (before.saturating_add(1), before.saturating_add(count));
        (count > 0).then(|| format!("records {first} to {last} ({count})"))
    }

    /// Whether the store began to lag, or is caught up.
    fn lag_news(&mut self) -> Option<StoreLagLine> {
        let lag = self.keeper.lag();
        let limit = lags_from(self.keeper.ack());
        let lags = if self.is_lagging { lag.age > limit / 2 } else { lag.age > limit };
        if lags == self.is_lagging {
            return None;
        }
        self.is_lagging = lags;
        Some(StoreLagLine {
            ack: self.json.ack.clone(),
            bytes: lag.bytes,
            lags,
            oldest_micros: u64::try_from(lag.age.as_micros()).unwrap_or(u64::MAX),
            records: lag.records,
            url: self.json.url.clone(),
        })
    }
}

impl HeldLog for HeldInStore {
    fn json(&self) -> HeldStoreJson {
        self.json.clone()
    }

    fn view(&self) -> Arc<dyn StoreView> {
        Arc::new(OwnerView {
            json: self.json.clone(),
            keeper: Arc::clone(&self.keeper),
            contact: Arc::clone(&self.contact),
            lease: self.lease,
            successor: Arc::clone(&self.successor),
            findings: Arc::clone(&self.findings),
        })
    }

    fn start(&mut self, http: Option<&HttpAddress>) -> Result<(), Failure> {
        self.owner.http = http.map(|address| address.bound.clone());
        self.owner.clients = http.and_then(|address| address.clients.clone());
        let Self { objects, keeper, owner, node, successor, .. } = self;
        let living = Living::new(objects, keeper, owner, node, successor);
        self.life = Some(Life::start(living).map_err(|error| no_thread(&error))?);
        self.shipper = Some(Shipper::start(&self.keeper)?);
        self.checker = Some(Checker::start(Checking {
            keeper: Arc::clone(&self.keeper),
            findings: Arc::clone(&self.findings),
            is_checked: self.is_checked,
            bytes_max: self.scrub_bytes,
        })?);
        Ok(())
    }

    fn check(&mut self) -> Result<Vec<StoreNewsLine>, Failure> {
        if let Some(successor) = self.successor.get() {
            return Err(self.replaced(successor));
        }
        if let Some(error) = self.shipper.as_mut().and_then(Shipper::failure) {
            return Err(at_store(error, &self.json.url).into());
        }
        let view = self.view();
        self.health.write_if_due(|| view.health());
        let damage = self.findings.news(Some(&self.json.ack), &self.json.url);
        let damage = damage.into_iter().map(StoreNewsLine::Damage);
        Ok(self.lag_news().map(StoreNewsLine::Lag).into_iter().chain(damage).collect())
    }

    fn explain(&self, failure: Failure) -> Failure {
        let is_fenced =
            matches!(&failure, Failure::Ledger(error) if error.kind() == ErrorKind::Fenced);
        if !is_fenced {
            return failure_at_store(failure, &self.json.url);
        }
        let found = self.successor.get().cloned().or_else(|| {
            let next_seq = self.keeper.kept_seq().saturating_add(1);
            Successor::after(&*self.objects, &self.identity, self.owner.epoch, next_seq)
        });
        found.map_or(failure, |successor| self.replaced(&successor))
    }

    fn finish(&mut self, has_failed: bool) -> Result<(), Failure> {
        self.checker = None;
        let shipped = match self.shipper.take() {
            Some(mut shipper) if !has_failed => shipper.end(&Haste::watch()),
            _ => Ok(()),
        };
        // A standby that sees no signs of life takes over, and loses the records that are not shipped yet.
        self.life = None;
        shipped.map_err(|error| match (error.kind(), self.unshipped()) {
            (ErrorKind::Io | ErrorKind::OutcomeUnknown, Some(records)) => {
                let why = at_store(error, &self.json.url).without_hint();
                let message = format!("{records} are only in this folder: {why}");
                let hint = format!(
                    "they are acknowledged and safe here; `ledger serve --store {} {}` ships them, unless \
                     another machine takes over first",
                    quoted(&self.json.url),
                    ledger_option(&self.dir)
                );
                Error::new(ErrorKind::Io, message).with_hint(hint).into()
            }
            _ => self.explain(error.into()),
        })
    }

    fn release(&mut self) {
        if self.successor.get().is_some() || self.keeper.lag().records > 0 {
            return;
        }
        self.owner.state = OwnerState::Free;
        // If it is lost, a standby waits for the lease.
        let _ = self.owner.write(&*self.objects);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_parsed() {
        assert_eq!(parse_ack("store"), Ok(AckMode::Store));
        assert_eq!(parse_ack("local"), Ok(AckMode::Local));
        assert_eq!(parse_ack("bounded"), Ok(AckMode::Bounded(Duration::from_secs(5))));
        assert_eq!(parse_ack("bounded:2m"), Ok(AckMode::Bounded(Duration::from_secs(120))));
        for wrong in ["", "bounded:", "bounded:0", "bounded:x", "store:5s", "none", "Local"] {
            assert!(parse_ack(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_parsed() {
        assert_eq!(parse_scrub("off"), Ok(0));
        assert_eq!(parse_scrub("1GiB"), Ok(1 << 30));
        assert_eq!(parse_scrub("64 KiB"), Ok(65_536));
        for wrong in ["", "1", "0GiB", "-1MiB", "1GB", "on", "99999999999TiB"] {
            assert!(parse_scrub(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lease_is_longer_than_two_signs_of_life() {
        assert_eq!(parse_lease("6s"), Ok(6));
        assert!(parse_lease("4s").unwrap_err().contains("at least 5 s"));
    }
}
