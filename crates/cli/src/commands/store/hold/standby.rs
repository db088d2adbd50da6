//! A standby: keeps its folder equal to the log in the store, and the folded state of the ledger in memory; watches the
//! owner, and decides when to take over. At a takeover the folder is already open, and no part of its history is read
//! again.
//!
//! A wrong guess is safe: it replaces a healthy owner, which then ends. If there are several standbys, the one that
//! creates the next name below `takeover/` tries first, so that they do not replace each other.

use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use plan_ledger::internals::format::Uid;
use plan_ledger::internals::ledger::FollowedState;
use plan_ledger::internals::store::{FolderProgress, Objects, StandbyFolder, StoreClient, Unclear};
use plan_ledger::{Environment, Error, ErrorKind};

use crate::commands::store::held::StoreView as _;
use crate::commands::store::remote::at_store;
use crate::output::{Failure, print_message};
use crate::protocol::hex;

use super::health_file::HealthFile;
use super::life::SIGN_EVERY;
use super::signs::{NodeRole, Signs};
use super::view::StandbyView;
use super::watch::{Gone, Port, Seen, Watch};

/// The pause between two checks of the owner's hint and port.
const TICK: Duration = Duration::from_millis(250);

/// The same while the port refuses connections: the owner ends, or is dead.
const LAST_TICK: Duration = Duration::from_millis(50);

/// The number of these checks from one check of the sign of life to the next.
const SIGN_TICKS: u32 = 2;

/// The number of these checks from one read of the next slot to the next one; while the owner writes, it is 1.
const SLOT_TICKS: u32 = 2;

/// The pause between two searches for the end of the log.
const CONFIRM_EVERY: Duration = Duration::from_secs(60);

/// How often new records are folded.
const FOLD_EVERY: Duration = Duration::from_secs(1);

/// The pause between two copies of blobs while records are copied.
const BLOBS_EVERY: Duration = Duration::from_secs(10);

/// The pause after the store did not answer for as long as a client waits.
const OUTAGE_PAUSE: Duration = Duration::from_secs(5);

pub(super) struct Standby<'a> {
    pub(super) dir: &'a Path,
    pub(super) environment: &'a Environment,
    pub(super) objects: Arc<dyn Objects>,
    pub(super) client: &'a StoreClient,
    pub(super) node: Uid,
    pub(super) lease: Duration,
    /// The state that other parts of the program show.
    pub(super) view: Arc<StandbyView>,
    /// Whether the process is asked to stop.
    pub(super) is_stopped: &'a dyn Fn() -> bool,
}

/// How standing by ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// The process was asked to stop.
    Stopped,
    /// The owner seems to be gone.
    Gone(Gone, Box<Ready>),
}

/// The parts for an immediate takeover.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) folder: StandbyFolder,
    /// The state of the ledger. It is only a head start.
    pub(super) state: Option<FollowedState>,
    folded: Instant,
}

/// The state of one standby.
struct Waiting<'s, 'a> {
    standby: &'s Standby<'a>,
    watch: Watch,
    signs: Signs,
    signed: Option<Instant>,
    ticks: u32,
    /// The epoch that another standby tries to open, and since when.
    lost_turn: Option<(u64, Instant)>,
    health: HealthFile,
}

impl Standby<'_> {
    /// Follow the store until the owner is gone. `ready` is called when the folder is equal to the store for the first
    /// time.
    pub(super) fn wait(
        &self,
        ready: &mut dyn FnMut(&FolderProgress) -> Result<(), Failure>,
    ) -> Result<Ended, Failure> {
        let mut waiting = Waiting {
            standby: self,
            watch: Watch::new(self.lease, Instant::now()),
            signs: Signs::new(&self.node, NodeRole::Standby),
            signed: None,
            ticks: 0,
            lost_turn: None,
            health: HealthFile::new(self.dir),
        };
        let mut is_ready = false;
        loop {
            let options = self.environment.log_options();
            let followed = match StandbyFolder::open_or_restore(self.dir, options, self.client) {
                Ok(folder) => {
                    if let Some(kept) = folder.kept() {
                        print_message(&format!(
                            "the store begins after the end of {0}, since it was pruned: the folder is kept as {1}, \
                             and restored; nothing in it is needed",
                            self.dir.display(),
                            kept.display()
                        ));
                    }
                    self.view.follow(folder.progress().epoch, folder.progress().last_seq);
                    if !is_ready {
                        is_ready = true;
                        ready(folder.progress())?;
                    }
                    waiting.follow(Ready::new(folder))
                }
                Err(error) => Err(error),
            };
            match followed {
                // An outage of the store ends no standby.
                Err(error) if error.kind() == ErrorKind::Io => {
                    let error = at_store(error, self.client.url());
                    print_message(&format!("cannot follow the store, trying again: {error}"));
                    waiting.watch.start_again(Instant::now());
                    if self.is_stopped_within(OUTAGE_PAUSE) {
                        return Ok(Ended::Stopped);
                    }
                }
                ended => {
                    let ended = ended?;
                    if matches!(ended, Ended::Gone(..)) {
                        self.view.take_over();
                    }
                    return Ok(ended);
                }
            }
        }
    }

    fn is_stopped_within(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        while Instant::now() < until {
            if (self.is_stopped)() {
                return true;
            }
            sleep(TICK);
        }
        false
    }
}

impl Ready {
    fn new(folder: StandbyFolder) -> Self {
        let mut ready = Self { folder, state: None, folded: Instant::now() };
        ready.fold();
        ready
    }

    /// Copy new records from the store. Returns whether there were any.
    fn follow(&mut self) -> Result<bool, Error> {
        let before = self.folder.progress().taken_in;
        self.folder.follow()?;
        let is_new = self.folder.progress().taken_in > before;
        if is_new && self.folded.elapsed() >= FOLD_EVERY {
            self.fold();
        }
        Ok(is_new)
    }

    /// Fold the new records. If that fails, opening the ledger reports the reason.
    fn fold(&mut self) {
        let reader = self.folder.reader();
        let folded = reader.and_then(|reader| match self.state.take() {
            Some(state) => state.follow(&reader),
            None => FollowedState::of(&reader),
        });
        (self.state, self.folded) = (folded.ok(), Instant::now());
    }
}

impl Waiting<'_, '_> {
    /// Follow the store and watch the owner, until standing by ends.
    fn follow(&mut self, mut ready: Ready) -> Result<Ended, Error> {
        let (mut confirmed, mut has_blobs) = (Instant::now(), Instant::now());
        let mut is_busy = false;
        loop {
            let began = Instant::now();
            if (self.standby.is_stopped)() {
                ready.folder.finish()?;
                return Ok(Ended::Stopped);
            }
            self.ticks = self.ticks.wrapping_add(1);
            self.health.write_if_due(|| self.standby.view.health());
            match self.look() {
                Ok(None) => {}
                Ok(Some(gone)) => {
                    if self.has_turn(ready.folder.progress().epoch.saturating_add(1)) {
                        return Ok(Ended::Gone(gone, Box::new(ready)));
                    }
                }
                Err(_) => self.watch.start_again(Instant::now()),
            }
            let is_ending = self.watch.is_refused();
            if confirmed.elapsed() >= CONFIRM_EVERY {
                confirmed = Instant::now();
                is_busy = !ready.folder.follow_to_end()?;
                ready.fold();
            } else if is_busy || is_ending || self.ticks.is_multiple_of(SLOT_TICKS) {
                is_busy = ready.follow()?;
            }
            let progress = ready.folder.progress();
            self.standby.view.follow(progress.epoch, progress.last_seq);
            if has_blobs.elapsed() >= BLOBS_EVERY {
                has_blobs = Instant::now();
                ready.folder.take_in_blobs()?;
            }
            let tick = if is_ending { LAST_TICK } else { TICK };
            sleep(tick.saturating_sub(began.elapsed()));
        }
    }

    /// Check the owner. Returns why it seems to be gone, if it does.
    fn look(&mut self) -> Result<Option<Gone>, Unclear> {
        let objects = &*self.standby.objects;
        if self.signed.is_none_or(|signed| signed.elapsed() >= SIGN_EVERY) {
            self.signed = Some(Instant::now());
            self.signs.write(objects);
        }
        let mut seen = Seen::owner(objects)?;
        self.standby.view.see(seen.owner.as_ref());
        let mut port = Port::Unknown;
        if !seen.is_free() {
            let known = self.watch.known(&seen).filter(|_| !self.ticks.is_multiple_of(SIGN_TICKS));
            seen = match known {
                Some(known) => known,
                None => seen.with_sign(objects)?,
            };
            port = seen.port();
        }
        Ok(self.watch.take_in(Instant::now(), seen, port))
    }

    /// Whether this standby tries to open an epoch first. If another one does, it gets a lease of time.
    fn has_turn(&mut self, epoch: u64) -> bool {
        if let Some((lost, since)) = self.lost_turn
            && lost == epoch
        {
            return since.elapsed() >= self.standby.lease;
        }
        let objects = &*self.standby.objects;
        let name = format!("takeover/{epoch:020}.json");
        let bytes = format!("{{\"node\":\"{}\"}}", hex(&self.standby.node)).into_bytes();
        if objects.create(&name, &bytes).is_ok() {
            return true;
        }
        match objects.get(&name, None) {
            Ok(Some(found)) if found.bytes == bytes => true,
            Ok(Some(_)) => {
                self.lost_turn = Some((epoch, Instant::now()));
                false
            }
            // The store gave no clear answer: the next check tries again.
            Ok(None) | Err(_) => false,
        }
    }
}
