//! A standby: it keeps its folder equal to the log in the store, watches the owner, and says when to take over.
//!
//! A wrong guess is safe: it replaces a healthy owner, which then ends. Of several standbys, the one that creates the
//! next name below `takeover/` tries first, so that they do not replace each other.

use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use plan_ledger::internals::format::Uid;
use plan_ledger::internals::store::{
    FolderProgress, ObjectName, Objects, StoreClient, Unclear, replicate,
};
use plan_ledger::{Environment, ErrorKind};

use crate::output::{Failure, print_message};
use crate::protocol::hex;

use super::life::SIGN_EVERY;
use super::signs::{NodeRole, Signs};
use super::watch::{Gone, Port, Seen, Watch};

/// The pause between two looks at the owner's hint.
const TICK: Duration = Duration::from_millis(250);

/// At every so many looks, the sign of life and the port are looked at, too.
const SIGN_TICKS: u32 = 2;

/// At every so many looks, the next slot is looked for.
const SLOT_TICKS: u32 = 4;

/// How often the whole end of the log is looked at, although no slot was seen.
const FOLLOW_EVERY: Duration = Duration::from_secs(60);

/// The pause after the store did not answer for as long as a client waits.
const OUTAGE_PAUSE: Duration = Duration::from_secs(5);

/// A standby.
pub(super) struct Standby<'a> {
    pub(super) dir: &'a Path,
    pub(super) environment: &'a Environment,
    pub(super) objects: Arc<dyn Objects>,
    pub(super) client: &'a StoreClient,
    pub(super) node: Uid,
    pub(super) lease: Duration,
    /// Whether it is asked to stop.
    pub(super) is_stopped: &'a dyn Fn() -> bool,
}

/// How standing by ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// It was asked to stop.
    Stopped,
    /// The owner seems to be gone.
    Gone(Gone),
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
}

impl Standby<'_> {
    /// Follow the store until the owner is gone. `ready` is told when the folder is equal to the store for the first
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
        };
        let (mut is_ready, mut failed) = (false, None);
        loop {
            let mut ended = None;
            let options = self.environment.log_options();
            let followed = replicate(self.dir, options, self.client, &mut |progress| {
                if !is_ready {
                    is_ready = true;
                    if let Err(failure) = ready(progress) {
                        failed = Some(failure);
                        return false;
                    }
                }
                ended = waiting.end(progress);
                ended.is_none()
            });
            match (followed, ended, failed.take()) {
                (_, _, Some(failure)) => return Err(failure),
                (Ok(_), Some(ended), None) => return Ok(ended),
                (Ok(_), None, None) => {}
                // An outage of the store ends no standby.
                (Err(error), _, None) if error.kind() == ErrorKind::Io => {
                    print_message(&format!("cannot follow the store, trying again: {error}"));
                    waiting.watch.start_again(Instant::now());
                    if self.is_stopped_within(OUTAGE_PAUSE) {
                        return Ok(Ended::Stopped);
                    }
                }
                (Err(error), _, None) => return Err(error.into()),
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

impl Waiting<'_, '_> {
    /// Watch until there is something to follow (`None`), or until standing by ends.
    fn end(&mut self, progress: &FolderProgress) -> Option<Ended> {
        let followed = Instant::now();
        let next = ObjectName::Slot(progress.last_seq.saturating_add(1)).to_string();
        loop {
            if (self.standby.is_stopped)() {
                return Some(Ended::Stopped);
            }
            self.ticks = self.ticks.wrapping_add(1);
            match self.look(&next) {
                Ok(Look::Slot) => return None,
                Ok(Look::Nothing) => {}
                Ok(Look::Gone(gone)) => {
                    if self.has_turn(progress.epoch.saturating_add(1)) {
                        return Some(Ended::Gone(gone));
                    }
                }
                Err(_) => self.watch.start_again(Instant::now()),
            }
            if followed.elapsed() >= FOLLOW_EVERY {
                return None;
            }
            sleep(TICK);
        }
    }

    fn look(&mut self, next: &str) -> Result<Look, Unclear> {
        let objects = &*self.standby.objects;
        if self.signed.is_none_or(|signed| signed.elapsed() >= SIGN_EVERY) {
            self.signed = Some(Instant::now());
            self.signs.write(objects);
        }
        let is_due = |every| self.ticks.is_multiple_of(every);
        if is_due(SLOT_TICKS) && objects.get(next, Some(0..1))?.is_some() {
            return Ok(Look::Slot);
        }
        let mut seen = Seen::owner(objects)?;
        let mut port = Port::Unknown;
        if !seen.is_free() {
            if !is_due(SIGN_TICKS) {
                return Ok(Look::Nothing);
            }
            seen = seen.with_sign(objects)?;
            port = seen.port();
        }
        let gone = self.watch.take_in(Instant::now(), seen, port);
        Ok(gone.map_or(Look::Nothing, Look::Gone))
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
            // The store gave no clear answer: the next look tries again.
            Ok(None) | Err(_) => false,
        }
    }
}

/// What one look found.
enum Look {
    Nothing,
    /// The owner wrote.
    Slot,
    Gone(Gone),
}
