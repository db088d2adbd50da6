//! A simulated object store: it loses answers, carries requests out late or twice, and has a clock of
//! its own.
//!
//! The model:
//! - Each process has a handle ([`SimStore::handle`]), which counts its calls. A [`StoreFate`]
//!   decides the outcome of each call, by its number. A call that is not carried out, or that loses
//!   its answer, is unclear to the caller; it may be carried out after later calls of any process.
//! - Before a call of a handle, other processes may work ([`SimStore::before_call`]): the process that
//!   made the call was paused meanwhile.
//! - The store's clock stands still until [`SimStore::advance`]; objects keep the time of their creation.
//! - A store may break the contract ([`StoreFlaw`]): it ignores the condition of a create, checks it and
//!   then writes, or lists objects late.
//!
//! The same calls give the same objects. Not modelled: pages of a listing, since the port returns all of
//! them, and requests that change on their way.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::lock::lock;
use crate::store::{CreatedObject, ListedObject, Objects, StoreTime, StoredObject, Unclear};

/// The fate of a call to a simulated store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFate {
    /// The request is lost: it is not carried out.
    Lost,
    /// The request is carried out, and the answer is lost.
    AnswerLost,
    /// The caller gives up, and the request is carried out before the n-th later call of any process.
    Late(u64),
    /// The request is carried out twice, and the second answer arrives.
    Twice,
    /// The request is refused with an error, and nothing is carried out.
    Refused,
    /// The process dies before the request is sent: all of its later calls fail as well.
    Dies,
    /// The process dies after the request was carried out.
    DiesAfter,
}

impl StoreFate {
    /// One of each, for tests that try them all.
    pub const ALL: [Self; 8] = [
        Self::Lost,
        Self::AnswerLost,
        Self::Late(1),
        Self::Late(40),
        Self::Twice,
        Self::Refused,
        Self::Dies,
        Self::DiesAfter,
    ];
}

/// How a simulated store breaks the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFlaw {
    /// A create replaces an existing object.
    ConditionIgnored,
    /// A create looks and then writes: creates of one name among this many calls all succeed.
    CheckedThenWritten(u64),
    /// An object appears in listings only after this many calls.
    ListedLate(u64),
}

/// A simulated store. Clones are handles of the same process.
#[derive(Clone)]
pub struct SimStore {
    shared: Arc<Mutex<Shared>>,
    own: Arc<Mutex<Process>>,
}

/// A create that a process sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentCreate {
    /// The number of the call.
    pub call: u64,
    pub name: String,
    pub bytes: Vec<u8>,
}

type Work = Box<dyn FnMut() + Send>;

#[derive(Default)]
struct Shared {
    objects: BTreeMap<String, Object>,
    /// Requests that are still under way, by the call before which they are carried out.
    late: Vec<(u64, String, Vec<u8>)>,
    calls: u64,
    /// How many calls had a fate.
    fates: u64,
    now: u64,
    flaw: Option<StoreFlaw>,
}

#[derive(Debug, Clone)]
struct Object {
    bytes: Vec<u8>,
    at: StoreTime,
    /// The call that created it.
    call: u64,
}

#[derive(Default)]
struct Process {
    calls: u64,
    fates: BTreeMap<u64, StoreFate>,
    work: BTreeMap<u64, Work>,
    is_dead: bool,
    creates: Vec<SentCreate>,
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = lock(&self.shared);
        f.debug_struct("SimStore").field("objects", &shared.objects.len()).finish_non_exhaustive()
    }
}

impl Default for SimStore {
    fn default() -> Self {
        Self::new()
    }
}

impl SimStore {
    /// An empty store, and a handle of it. Its clock shows one second.
    #[must_use]
    pub fn new() -> Self {
        let shared = Shared { now: 1_000_000, ..Shared::default() };
        Self { shared: Arc::new(Mutex::new(shared)), own: Arc::default() }
    }

    /// An empty store that breaks the contract.
    #[must_use]
    pub fn with_flaw(flaw: StoreFlaw) -> Self {
        let store = Self::new();
        lock(&store.shared).flaw = Some(flaw);
        store
    }

    /// A copy with the same objects and requests under way, and the handle of a process of its own.
    #[must_use]
    pub fn fork(&self) -> Self {
        let shared = lock(&self.shared);
        let copy = Shared { objects: shared.objects.clone(), late: shared.late.clone(), ..*shared };
        Self { shared: Arc::new(Mutex::new(copy)), own: Arc::default() }
    }

    /// The handle of another process.
    #[must_use]
    pub fn handle(&self) -> Self {
        Self { shared: self.shared.clone(), own: Arc::default() }
    }

    /// Decide the fate of a call of this process; the first call is 1.
    pub fn set_fate(&self, call: u64, fate: StoreFate) {
        lock(&self.own).fates.insert(call, fate);
    }

    /// Let other processes work before a call of this process.
    pub fn before_call(&self, call: u64, work: impl FnMut() + Send + 'static) {
        lock(&self.own).work.insert(call, Box::new(work));
    }

    /// The number of calls of this process so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        lock(&self.own).calls
    }

    /// The number of calls of all processes so far that had a fate.
    #[must_use]
    pub fn fates(&self) -> u64 {
        lock(&self.shared).fates
    }

    /// Whether this process died.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        lock(&self.own).is_dead
    }

    /// Every create of this process.
    #[must_use]
    pub fn creates(&self) -> Vec<SentCreate> {
        lock(&self.own).creates.clone()
    }

    /// Let the store's clock advance by microseconds.
    pub fn advance(&self, micros: u64) {
        lock(&self.shared).now += micros;
    }

    /// The store's clock.
    #[must_use]
    pub fn now(&self) -> StoreTime {
        StoreTime(lock(&self.shared).now)
    }

    /// Carry out every request that is still under way, in the order in which they were sent.
    pub fn carry_out_all(&self) {
        lock(&self.shared).carry_out(u64::MAX);
    }

    /// The bytes of an object. Does not count as a call.
    #[must_use]
    pub fn peek(&self, name: &str) -> Option<Vec<u8>> {
        lock(&self.shared).objects.get(name).map(|object| object.bytes.clone())
    }

    /// The names of all objects, sorted. Does not count as a call.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        lock(&self.shared).objects.keys().cloned().collect()
    }

    /// Change the bytes of an object, or remove it, as another program would. Does not count as a call.
    pub fn tamper(&self, name: &str, bytes: Option<Vec<u8>>) {
        let mut shared = lock(&self.shared);
        match (bytes, shared.objects.get_mut(name)) {
            (Some(bytes), Some(object)) => object.bytes = bytes,
            (Some(bytes), None) => {
                let object = Object { bytes, at: StoreTime(shared.now), call: 0 };
                shared.objects.insert(name.to_owned(), object);
            }
            (None, _) => drop(shared.objects.remove(name)),
        }
    }

    /// Count a call, let other processes work, and return its fate.
    fn begin(&self) -> Result<Option<StoreFate>, Unclear> {
        let (call, work) = {
            let mut own = lock(&self.own);
            own.calls += 1;
            let call = own.calls;
            (call, own.work.remove(&call))
        };
        if let Some(mut work) = work {
            work();
        }
        let mut own = lock(&self.own);
        let fate = own.fates.remove(&call).filter(|_| !own.is_dead);
        lock(&self.shared).fates += u64::from(fate.is_some());
        own.is_dead |= fate == Some(StoreFate::Dies);
        if own.is_dead {
            return Err(Unclear::no_answer("the process is dead"));
        }
        drop(own);
        let mut shared = lock(&self.shared);
        shared.calls += 1;
        let now = shared.calls;
        shared.carry_out(now);
        Ok(fate)
    }

    /// The answer to a call that reads, or changes nothing of importance.
    fn answered<T>(
        &self,
        fate: Option<StoreFate>,
        answer: impl FnOnce(&mut Shared) -> T,
    ) -> Result<T, Unclear> {
        match fate {
            None | Some(StoreFate::Twice) => Ok(answer(&mut lock(&self.shared))),
            Some(fate) => {
                if matches!(fate, StoreFate::AnswerLost | StoreFate::DiesAfter) {
                    answer(&mut lock(&self.shared));
                }
                lock(&self.own).is_dead |= fate == StoreFate::DiesAfter;
                Err(lost())
            }
        }
    }
}

fn lost() -> Unclear {
    Unclear::no_answer("time-out")
}

impl Shared {
    /// Carry out the requests that are due before a call.
    fn carry_out(&mut self, call: u64) {
        let mut due = Vec::new();
        self.late.retain(|request| {
            let is_due = request.0 <= call;
            if is_due {
                due.push(request.clone());
            }
            !is_due
        });
        for (_, name, bytes) in due {
            let _ = self.create(&name, &bytes);
        }
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> Result<CreatedObject, Unclear> {
        let is_allowed = |found: &Object| match self.flaw {
            Some(StoreFlaw::ConditionIgnored) => true,
            Some(StoreFlaw::CheckedThenWritten(calls)) => self.calls < found.call + calls,
            _ => false,
        };
        if self.objects.get(name).is_some_and(|found| !is_allowed(found)) {
            return Err(Unclear::answered("precondition failed"));
        }
        let at = StoreTime(self.now);
        let object = Object { bytes: bytes.to_vec(), at, call: self.calls };
        self.objects.insert(name.to_owned(), object);
        Ok(CreatedObject { at: Some(at) })
    }
}

impl Objects for SimStore {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<CreatedObject, Unclear> {
        let fate = self.begin()?;
        {
            let mut own = lock(&self.own);
            let call = own.calls;
            let (name, bytes) = (name.to_owned(), bytes.to_vec());
            own.creates.push(SentCreate { call, name, bytes });
        }
        let mut shared = lock(&self.shared);
        match fate {
            None => shared.create(name, bytes),
            Some(StoreFate::Twice) => {
                let _ = shared.create(name, bytes);
                shared.create(name, bytes)
            }
            Some(StoreFate::Late(calls)) => {
                let due = shared.calls + calls;
                shared.late.push((due, name.to_owned(), bytes.to_vec()));
                Err(lost())
            }
            Some(StoreFate::Lost | StoreFate::Dies) => Err(lost()),
            Some(StoreFate::Refused) => Err(Unclear::answered("conflict")),
            Some(fate @ (StoreFate::AnswerLost | StoreFate::DiesAfter)) => {
                let _ = shared.create(name, bytes);
                drop(shared);
                lock(&self.own).is_dead |= fate == StoreFate::DiesAfter;
                Err(lost())
            }
        }
    }

    fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Option<StoredObject>, Unclear> {
        let fate = self.begin()?;
        self.answered(fate, |shared| {
            let found = shared.objects.get(name)?;
            let clip = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(found.bytes.len());
            let bytes = match range {
                None => found.bytes.clone(),
                Some(range) => {
                    found.bytes.get(clip(range.start)..clip(range.end)).unwrap_or_default().to_vec()
                }
            };
            Some(StoredObject { bytes, at: Some(found.at) })
        })
    }

    fn list_after(&self, folder: &str, after: &str) -> Result<Vec<ListedObject>, Unclear> {
        let fate = self.begin()?;
        self.answered(fate, |shared| {
            let delay = match shared.flaw {
                Some(StoreFlaw::ListedLate(calls)) => calls,
                _ => 0,
            };
            let now = shared.calls;
            let is_listed = |(name, object): &(&String, &Object)| {
                name.starts_with(folder)
                    && name.as_str() > after
                    && object.call.saturating_add(delay) <= now
            };
            let objects = shared.objects.iter().filter(is_listed);
            let mut listing: Vec<ListedObject> = objects
                .map(|(name, object)| ListedObject {
                    name: name.clone(),
                    length: u64::try_from(object.bytes.len()).unwrap_or(u64::MAX),
                    at: Some(object.at),
                })
                .collect();
            // No reader may rely on an order.
            listing.reverse();
            listing
        })
    }

    fn put_hint(&self, name: &str, bytes: &[u8]) -> Result<(), Unclear> {
        let fate = self.begin()?;
        self.answered(fate, |shared| {
            let (at, call) = (StoreTime(shared.now), shared.calls);
            shared.objects.insert(name.to_owned(), Object { bytes: bytes.to_vec(), at, call });
        })
    }

    fn delete(&self, name: &str) -> Result<(), Unclear> {
        let fate = self.begin()?;
        self.answered(fate, |shared| drop(shared.objects.remove(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::probe;

    /// Goal: the probe accepts a store that keeps the contract, and refuses every flaw.
    #[test]
    fn probe_refuses_each_flaw() {
        assert_eq!(probe(&SimStore::new(), "a"), Vec::<String>::new());
        let flaws = [
            StoreFlaw::ConditionIgnored,
            StoreFlaw::CheckedThenWritten(3),
            StoreFlaw::ListedLate(1000),
        ];
        for flaw in flaws {
            assert_ne!(probe(&SimStore::with_flaw(flaw), "a"), Vec::<String>::new(), "{flaw:?}");
        }
    }

    /// Goal: a fate has exactly the effect that its name says.
    #[test]
    fn fates_have_their_effects() {
        let carried_out = [StoreFate::AnswerLost, StoreFate::Twice, StoreFate::DiesAfter];
        for fate in StoreFate::ALL {
            let store = SimStore::new();
            let process = store.handle();
            process.set_fate(1, fate);
            assert!(process.create("a", b"1").is_err(), "{fate:?}");
            assert_eq!(store.peek("a").is_some(), carried_out.contains(&fate), "{fate:?}");
            let is_dead = matches!(fate, StoreFate::Dies | StoreFate::DiesAfter);
            assert_eq!(process.get("a", None).is_err(), is_dead, "{fate:?}");
            store.carry_out_all();
            let is_late = matches!(fate, StoreFate::Late(_));
            assert_eq!(store.peek("a").is_some(), is_late || carried_out.contains(&fate));
        }
    }
}
