//! A store that lost its newest records, or all of them: nothing continues it without a word.

use std::path::Path;
use std::sync::Arc;

use plan_ledger::internals::sim::{SimDisk, SimStore};
use plan_ledger::internals::storage::StorageFile;
use plan_ledger::internals::store::{
    FolderProgress, MemoryFile, ObjectName, SegmentForm, StandbyFolder, read_in_place, restore,
};
use plan_ledger::{Error, ErrorKind};

use super::lab::{dir, options};
use super::store_damage::{Truth, bound, history, last_of, opened};
use super::store_folder::{client, restored, unbind};
use super::store_retention::notes;

fn refusal<T>(result: Result<T, Error>) -> Error {
    result.err().expect("it is refused")
}

fn stand_by(disk: &SimDisk, store: &SimStore) -> Result<StandbyFolder, Error> {
    StandbyFolder::open(&dir(), options(disk), &client(&store.handle()))
}

/// Story: all slots were deleted and `LEDGER.json` was not. A folder that ended at record 10 filled the store without a word,
/// although another one had 17 acknowledged records.
#[test]
fn emptied_store_is_filled_by_the_folder_that_a_person_chose() {
    let (disk, store) = history(4);
    let (last, ledger_json) = (last_of(&disk), ["LEDGER.json".to_owned()]);
    let truth = Truth::of(&disk, last);
    for name in store.names().iter().filter(|name| !ledger_json.contains(name)) {
        store.tamper(name, None);
    }
    for error in [refusal(opened(&disk, &store, 7)), refusal(stand_by(&disk, &store))] {
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        assert!(error.hint().unwrap().contains("STORE.json"), "{error}");
        assert_eq!(store.names(), ledger_json);
    }
    unbind(&disk);
    let bound = bound(&disk, &store.handle(), 8).unwrap();
    assert_eq!((bound.progress.shipped, bound.progress.returned), (last, None));
    drop(bound);
    assert_eq!(Truth::restored(&store, last).unwrap(), truth);
}

/// Goal: a store whose last object is a sealed segment, which is created after a record that follows it, lost its newest
/// records: every reader names the first of them, and a folder that lacks them, too, is refused. The folder that has
/// them adds them again, and says so.
#[test]
fn store_that_lost_its_newest_records_says_so() {
    let (disk, store) = history(4);
    let last = last_of(&disk);
    let truth = Truth::of(&disk, last);
    let names = store.names();
    let sealed = names.iter().rev().find_map(|name| match ObjectName::parse(name)? {
        ObjectName::Segment(object) => Some(object).filter(|it| it.form == SegmentForm::Sealed),
        _ => None,
    });
    let sealed = sealed.unwrap();
    let is_after = |name: &String| match ObjectName::parse(name) {
        Some(ObjectName::Slot(first)) => first > sealed.last_seq,
        Some(ObjectName::Segment(object)) => object.base_seq > sealed.last_seq,
        _ => false,
    };
    for name in names.iter().filter(|name| is_after(name)) {
        store.tamper(name, None);
    }
    let first_lost = ObjectName::Slot(sealed.last_seq + 1).to_string();
    let expect_named = |error: &Error| {
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains(&first_lost), "{error}");
        assert!(error.to_string().contains(&ObjectName::Segment(sealed).to_string()), "{error}");
    };
    let mut new_file =
        |_: u64| -> std::io::Result<Arc<dyn StorageFile>> { Ok(Arc::new(MemoryFile::default())) };
    let process = client(&store.handle());
    let root = Path::new("/in/place");
    expect_named(&refusal(read_in_place(root, &options(&disk), &process, &mut new_file)));
    // What is left can be restored. No process continues with that.
    let (copy, mut reached) = (SimDisk::new(), FolderProgress::default());
    restore(&dir(), options(&copy), &process, &mut |progress| reached = *progress).unwrap();
    assert_eq!((reached.last_seq, reached.lost_after), (sealed.last_seq, Some(sealed)));
    let left = store.names();
    expect_named(&refusal(opened(&copy, &store, 7)));
    expect_named(&refusal(stand_by(&copy, &store)));
    assert_eq!(store.names(), left);
    // If no folder has more, a person deletes that segment object.
    let shortened = store.fork();
    shortened.tamper(&ObjectName::Segment(sealed).to_string(), None);
    let continued = bound(&copy.fork(), &shortened.handle(), 7).unwrap();
    assert_eq!(continued.progress.last_seq, sealed.last_seq + 1);
    drop(continued);
    let bound = bound(&disk, &store.handle(), 8).unwrap();
    assert_eq!(bound.progress.returned, Some((sealed.last_seq + 1, last)));
    drop(bound);
    assert_eq!(Truth::restored(&store, last).unwrap(), truth);
}

/// Goal: if nothing shows that a store lost its newest records, and another folder continues, the folder that has them says
/// that the store had them.
#[test]
fn records_that_a_store_lost_are_not_called_unacknowledged() {
    let (disk, store) = history(4);
    let (other, _) = restored(&store).unwrap();
    let before = store.names();
    let (ledger, _) = opened(&disk, &store, 7).unwrap();
    notes(&ledger, 3);
    ledger.close().unwrap();
    for name in store.names().iter().filter(|name| !before.contains(name)) {
        store.tamper(name, None);
    }
    let (ledger, _) = opened(&other, &store, 8).unwrap();
    notes(&ledger, 1);
    ledger.close().unwrap();
    let error = refusal(opened(&disk, &store, 9));
    assert_eq!(error.kind(), ErrorKind::Diverged, "{error}");
    assert!(error.to_string().contains("so the store had these and lost them"), "{error}");
}
