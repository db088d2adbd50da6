//! When the store answered this process last.
//!
//! A process that holds a ledger and gets no answer for the lease may have been replaced, so it ends its workers. An
//! answer to any thread counts.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plan_ledger::internals::store::{CreatedObject, ListedObject, Objects, StoredObject, Unclear};

/// When the store answered last.
#[derive(Debug)]
pub(super) struct Contact {
    start: Instant,
    /// Microseconds after the start, plus one; 0 before the first answer.
    last: AtomicU64,
}

impl Contact {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), last: AtomicU64::new(0) })
    }

    fn note(&self) {
        let micros = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX - 1);
        self.last.fetch_max(micros + 1, Ordering::Relaxed);
    }

    /// The time since the last answer; `None` before the first one.
    pub(super) fn age(&self) -> Option<Duration> {
        let last = self.last.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.start.elapsed().saturating_sub(Duration::from_micros(last)))
    }
}

/// A store that records the time of each answer.
#[derive(Debug)]
pub(super) struct NotedObjects {
    objects: Arc<dyn Objects>,
    contact: Arc<Contact>,
}

impl NotedObjects {
    pub(super) fn wrap(objects: Arc<dyn Objects>, contact: &Arc<Contact>) -> Arc<dyn Objects> {
        Arc::new(Self { objects, contact: Arc::clone(contact) })
    }

    fn noted<T>(&self, answer: Result<T, Unclear>) -> Result<T, Unclear> {
        if answer.is_ok() {
            self.contact.note();
        }
        answer
    }
}

impl Objects for NotedObjects {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<CreatedObject, Unclear> {
        self.noted(self.objects.create(name, bytes))
    }

    fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Option<StoredObject>, Unclear> {
        self.noted(self.objects.get(name, range))
    }

    fn list_after(&self, folder: &str, after: &str) -> Result<Vec<ListedObject>, Unclear> {
        self.noted(self.objects.list_after(folder, after))
    }

    fn put_hint(&self, name: &str, bytes: &[u8]) -> Result<(), Unclear> {
        self.noted(self.objects.put_hint(name, bytes))
    }

    fn delete(&self, name: &str) -> Result<(), Unclear> {
        self.noted(self.objects.delete(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that answers only the calls that list.
    #[derive(Debug)]
    struct Listing;

    impl Objects for Listing {
        fn create(&self, _: &str, _: &[u8]) -> Result<CreatedObject, Unclear> {
            Err(Unclear::no_answer("no answer"))
        }

        fn get(&self, _: &str, _: Option<Range<u64>>) -> Result<Option<StoredObject>, Unclear> {
            Err(Unclear::no_answer("no answer"))
        }

        fn list_after(&self, _: &str, after: &str) -> Result<Vec<ListedObject>, Unclear> {
            Ok(vec![ListedObject { name: after.to_owned(), length: 0, at: None }])
        }

        fn put_hint(&self, _: &str, _: &[u8]) -> Result<(), Unclear> {
            Err(Unclear::no_answer("no answer"))
        }

        fn delete(&self, _: &str) -> Result<(), Unclear> {
            Err(Unclear::no_answer("no answer"))
        }
    }

    /// Goal: an answer is a contact, and a call without an answer is not.
    #[test]
    fn only_answers_are_contacts() {
        let contact = Contact::new();
        let objects = NotedObjects::wrap(Arc::new(Listing), &contact);
        assert!(objects.create("a", b"").is_err() && objects.get("a", None).is_err());
        assert!(objects.put_hint("a", b"").is_err() && objects.delete("a").is_err());
        assert_eq!(contact.age(), None);
        objects.list("a/").unwrap();
        assert!(contact.age().unwrap() < Duration::from_secs(60));
    }

    /// Regression: every listing began at the start, so each look at the end of the log read the names of the whole
    /// history, and a standby never found the end while the owner wrote.
    #[test]
    fn listings_begin_where_they_are_asked_to() {
        let objects = NotedObjects::wrap(Arc::new(Listing), &Contact::new());
        let listing = objects.list_after("a/", "a/5").unwrap();
        assert_eq!(listing.first().unwrap().name, "a/5");
    }
}
