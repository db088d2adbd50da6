//! Reads objects ahead: a log has many slots, and each takes the time of one request.
//!
//! Invariants:
//! - Only listed objects are read ahead. Each answer is used once: the next read of the same object asks the store.
//! - No thread is left when [`with_objects_ahead`] returns.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, scope};

use crate::store::objects::{CreatedObject, ListedObject, Objects, StoredObject, Unclear};

/// How many requests are under way at once.
const REQUESTS: usize = 16;
/// How many objects are read ahead.
const AHEAD_OBJECTS: usize = 64;
/// The number of bytes that are read ahead, in addition to one object of any length.
const AHEAD_BYTES: u64 = 32 << 20;

type Answer = Result<Option<StoredObject>, Unclear>;

/// Call `read` with a store that answers like `objects` and reads these objects ahead. They are
/// sorted by name.
pub(in crate::store) fn with_objects_ahead<T>(
    objects: &dyn Objects,
    needed: Vec<ListedObject>,
    read: impl FnOnce(&dyn Objects) -> T,
) -> T {
    if needed.len() < 2 {
        return read(objects);
    }
    let threads = REQUESTS.min(needed.len());
    let ahead = ObjectsAhead { objects, needed, queue: Mutex::default(), changed: Condvar::new() };
    scope(|scope| {
        let start = || Builder::new().spawn_scoped(scope, || ahead.work());
        let started = (0..threads).filter(|_| start().is_ok()).count();
        let _stop = StopOnDrop(&ahead);
        // Without a thread, nothing is read ahead.
        if started == 0 { read(objects) } else { read(&ahead) }
    })
}

/// A store that reads objects ahead.
struct ObjectsAhead<'a> {
    objects: &'a dyn Objects,
    needed: Vec<ListedObject>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    /// The object that is read next, by its place in the list.
    next: usize,
    /// The object that was requested last.
    asked: usize,
    under_way: BTreeSet<usize>,
    answers: BTreeMap<usize, Answer>,
    /// The bytes of the objects that are under way or wait.
    bytes: u64,
    is_stopped: bool,
}

struct StopOnDrop<'a, 'o>(&'a ObjectsAhead<'o>);

impl Drop for StopOnDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.queue().is_stopped = true;
        self.0.changed.notify_all();
    }
}

impl std::fmt::Debug for ObjectsAhead<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectsAhead").field("objects", &self.objects).finish_non_exhaustive()
    }
}

impl ObjectsAhead<'_> {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn length(&self, place: usize) -> u64 {
        self.needed.get(place).map_or(0, |listed| listed.length)
    }

    /// Read objects ahead until there is nothing more to read.
    fn work(&self) {
        let mut queue = self.queue();
        loop {
            queue.next = queue.next.max(queue.asked);
            let place = queue.next;
            let Some(listed) = self.needed.get(place).filter(|_| !queue.is_stopped) else { return };
            let is_near = place < queue.asked + AHEAD_OBJECTS;
            let is_little = queue.bytes == 0 || queue.bytes + listed.length <= AHEAD_BYTES;
            if !(is_near && is_little) {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            queue.next += 1;
            queue.under_way.insert(place);
            queue.bytes += listed.length;
            drop(queue);
            let answer = self.objects.get(&listed.name, None);
            queue = self.queue();
            queue.under_way.remove(&place);
            queue.answers.insert(place, answer);
            self.changed.notify_all();
        }
    }

    /// The answer for an object, if it was or is read ahead.
    fn take(&self, place: usize) -> Option<Answer> {
        let mut queue = self.queue();
        queue.asked = queue.asked.max(place);
        self.changed.notify_all();
        loop {
            // Skipped objects are not requested later.
            let later = queue.answers.split_off(&place);
            for skipped in std::mem::replace(&mut queue.answers, later).into_keys() {
                queue.bytes = queue.bytes.saturating_sub(self.length(skipped));
                self.changed.notify_all();
            }
            if let Some(answer) = queue.answers.remove(&place) {
                queue.bytes = queue.bytes.saturating_sub(self.length(place));
                self.changed.notify_all();
                return Some(answer);
            }
            let is_expected = queue.under_way.contains(&place) || queue.next <= place;
            if !is_expected {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Objects for ObjectsAhead<'_> {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<CreatedObject, Unclear> {
        self.objects.create(name, bytes)
    }

    fn get(&self, name: &str, range: Option<Range<u64>>) -> Answer {
        let found = self.needed.binary_search_by(|listed| listed.name.as_str().cmp(name));
        let answer = found.ok().filter(|_| range.is_none()).and_then(|place| self.take(place));
        answer.unwrap_or_else(|| self.objects.get(name, range))
    }

    fn list_after(&self, folder: &str, after: &str) -> Result<Vec<ListedObject>, Unclear> {
        self.objects.list_after(folder, after)
    }

    fn put_hint(&self, name: &str, bytes: &[u8]) -> Result<(), Unclear> {
        self.objects.put_hint(name, bytes)
    }

    fn delete(&self, name: &str) -> Result<(), Unclear> {
        self.objects.delete(name)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::store::name::ObjectName;

    /// A store that has the lengths of slots in their names and counts its requests.
    #[derive(Debug, Default)]
    struct Counting {
        requests: AtomicUsize,
        is_unclear: bool,
    }

    impl Objects for Counting {
        fn create(&self, _: &str, _: &[u8]) -> Result<CreatedObject, Unclear> {
            Err(Unclear::no_answer("not here"))
        }

        fn get(&self, name: &str, _: Option<Range<u64>>) -> Answer {
            let number = self.requests.fetch_add(1, Ordering::SeqCst);
            if self.is_unclear && number.is_multiple_of(2) {
                return Err(Unclear::answered("busy"));
            }
            Ok(Some(StoredObject { bytes: name.as_bytes().to_vec(), at: None }))
        }

        fn list_after(&self, _: &str, _: &str) -> Result<Vec<ListedObject>, Unclear> {
            Ok(Vec::new())
        }

        fn put_hint(&self, _: &str, _: &[u8]) -> Result<(), Unclear> {
            Ok(())
        }

        fn delete(&self, _: &str) -> Result<(), Unclear> {
            Ok(())
        }
    }

    fn slots(count: u64, length: u64) -> Vec<ListedObject> {
        let name = |seq| ObjectName::Slot(seq).to_string();
        (1..=count).map(|seq| ListedObject { name: name(seq), length, at: None }).collect()
    }

    /// Goal: every slot gets its own answer, also if some are skipped, asked for twice, longer than all that is
    /// read ahead, or not listed.
    #[test]
    fn each_slot_gets_its_own_answer() {
        for length in [1, AHEAD_BYTES / 3, AHEAD_BYTES * 2] {
            for step in [1, 7, 100] {
                let store = Counting::default();
                let listed = slots(300, length);
                with_objects_ahead(&store, listed, |store| {
                    for seq in (1..=310).step_by(step) {
                        let name = ObjectName::Slot(seq).to_string();
                        for _ in 0..2 {
                            let found = store.get(&name, None).unwrap().unwrap();
                            assert_eq!(found.bytes, name.as_bytes(), "{length} {step}");
                        }
                    }
                });
            }
        }
    }

    /// Goal: an unclear answer is given once; a second request asks the store again.
    #[test]
    fn unclear_answer_is_asked_for_again() {
        let store = Counting { is_unclear: true, ..Counting::default() };
        with_objects_ahead(&store, slots(100, 10), |store| {
            for seq in 1..=100 {
                let name = ObjectName::Slot(seq).to_string();
                while store.get(&name, None).is_err() {}
            }
        });
        let requests = store.requests.load(Ordering::SeqCst);
        assert!((100..=220).contains(&requests), "{requests}");
    }

    /// Goal: reading ends although slots wait that were not asked for.
    #[test]
    fn reading_may_end_early() {
        let store = Counting::default();
        let found = with_objects_ahead(&store, slots(1_000, 10), |store| {
            store.get(&ObjectName::Slot(3).to_string(), None)
        });
        assert!(found.unwrap().is_some());
        assert!(store.requests.load(Ordering::SeqCst) < 100);
    }
}
