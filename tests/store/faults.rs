//! Faults between a process and a real store: requests that are lost, late or doubled, and answers that
//! are lost.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use plan_ledger::internals::store::{CreatedObject, ListedObject, Objects, StoredObject, Unclear};

/// What becomes of a create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is not sent.
    Lost,
    /// It is carried out, and its answer is lost.
    AnswerLost,
    /// It is carried out twice, and the second answer arrives.
    Twice,
    /// It is carried out only when [`Faulty::carry_out_late`] says so.
    Late,
}

type Work = Box<dyn FnOnce() + Send>;

/// A store whose creates suffer faults, by their number; the first is 1.
#[derive(Clone)]
pub(crate) struct Faulty {
    objects: Arc<dyn Objects>,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    creates: u64,
    faults: BTreeMap<u64, Fault>,
    before: BTreeMap<u64, Work>,
    late: Vec<(String, Vec<u8>)>,
    sent: Vec<(String, Vec<u8>)>,
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").field("objects", &self.objects).finish_non_exhaustive()
    }
}

impl Faulty {
    pub(crate) fn new(objects: &Arc<dyn Objects>) -> Self {
        Self { objects: Arc::clone(objects), shared: Arc::default() }
    }

    /// Decide what becomes of the n-th create from now on.
    pub(crate) fn set(&self, create: u64, fault: Fault) {
        let mut shared = self.shared.lock().unwrap();
        let number = shared.creates + create;
        shared.faults.insert(number, fault);
    }

    /// No more faults.
    pub(crate) fn heal(&self) {
        self.shared.lock().unwrap().faults.clear();
    }

    /// Let other processes work before the n-th create from now on.
    pub(crate) fn before(&self, create: u64, work: impl FnOnce() + Send + 'static) {
        let mut shared = self.shared.lock().unwrap();
        let number = shared.creates + create;
        shared.before.insert(number, Box::new(work));
    }

    /// Carry out the creates that are late.
    pub(crate) fn carry_out_late(&self) {
        let late = std::mem::take(&mut self.shared.lock().unwrap().late);
        for (name, bytes) in late {
            let _ = self.objects.create(&name, &bytes);
        }
    }

    /// The creates of this process, with their bytes.
    pub(crate) fn sent(&self) -> Vec<(String, Vec<u8>)> {
        self.shared.lock().unwrap().sent.clone()
    }
}

fn lost() -> Unclear {
    Unclear::no_answer("no answer")
}

impl Objects for Faulty {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<CreatedObject, Unclear> {
        let (fault, work) = {
            let mut shared = self.shared.lock().unwrap();
            shared.creates += 1;
            let number = shared.creates;
            shared.sent.push((name.to_owned(), bytes.to_vec()));
            (shared.faults.remove(&number), shared.before.remove(&number))
        };
        if let Some(work) = work {
            work();
        }
        match fault {
            None => self.objects.create(name, bytes),
            Some(Fault::Lost) => Err(lost()),
            Some(Fault::AnswerLost) => {
                let _ = self.objects.create(name, bytes);
                Err(lost())
            }
            Some(Fault::Twice) => {
                let _ = self.objects.create(name, bytes);
                self.objects.create(name, bytes)
            }
            Some(Fault::Late) => {
                self.shared.lock().unwrap().late.push((name.to_owned(), bytes.to_vec()));
                Err(lost())
            }
        }
    }

    fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Option<StoredObject>, Unclear> {
        self.objects.get(name, range)
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
