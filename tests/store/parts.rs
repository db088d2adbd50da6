//! Reading few records of a long history in a store: few requests, blocks instead of segments, and a cache; the bytes
//! are those of the folder.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use plan_ledger::internals::ledger::{Kind, LedgerTime, RUN_STREAMS};
use plan_ledger::internals::storage::{Storage, StorageFile};
use plan_ledger::internals::store::{
    CreatedObject, DirectoryObjects, ListedObject, MemoryFile, Objects, StoreClient, StoredObject,
    Unclear, read_parts_in_place,
};
use plan_ledger::log::{LogItem, LogReader, SegmentSizes, opening_verdict};
use plan_ledger::plan::RunId;
use plan_ledger::{Environment, Ledger, RunPolicy};

use super::process::{Place, open_in_store};

fn client(objects: Arc<dyn Objects>) -> StoreClient {
    StoreClient::new("a store", objects, |_| false)
}

/// A store that notes what is asked of it.
#[derive(Debug)]
struct Counting {
    objects: Arc<dyn Objects>,
    requests: Mutex<Vec<(String, u64)>>,
}

impl Counting {
    fn note<T>(&self, what: String, bytes: u64, answer: T) -> T {
        self.requests.lock().unwrap().push((what, bytes));
        answer
    }

    fn take(&self) -> Vec<(String, u64)> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

impl Objects for Counting {
    fn create(&self, _: &str, _: &[u8]) -> Result<CreatedObject, Unclear> {
        panic!("a reader creates nothing")
    }

    fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Option<StoredObject>, Unclear> {
        let found = self.objects.get(name, range.clone())?;
        let bytes = found.as_ref().map_or(0, |found| found.bytes.len());
        self.note(format!("get {name} {range:?}"), u64::try_from(bytes).unwrap(), Ok(found))
    }

    fn list_after(&self, folder: &str, after: &str) -> Result<Vec<ListedObject>, Unclear> {
        self.note(format!("list {after}"), 0, self.objects.list_after(folder, after))
    }

    fn put_hint(&self, _: &str, _: &[u8]) -> Result<(), Unclear> {
        panic!("a reader writes no hint")
    }

    fn delete(&self, _: &str) -> Result<(), Unclear> {
        panic!("a reader deletes nothing")
    }
}

/// A ledger with many runs of some values each, and its store, whose segments are in segment objects.
struct Long {
    place: tempfile::TempDir,
    environment: Environment,
    runs: Vec<RunId>,
    /// The bytes of segment objects.
    bytes: u64,
}

impl Long {
    /// A history of about so many bytes.
    fn write(bytes: u64, segments: SegmentSizes, value: usize) -> Self {
        let place = tempfile::tempdir().unwrap();
        let environment = Environment { segments, snapshot_every: None, ..Environment::system() };
        let dir = place.path().join("folder");
        let ledger = Ledger::create(&dir, &environment).unwrap();
        let plan = serde_json::from_str(r#"{"steps": [{"id": "a"}]}"#).unwrap();
        let (mut runs, mut written) = (Vec::new(), 0);
        while written < bytes {
            let name = format!("run-{}", runs.len());
            let run = ledger.start_run(&name, &plan, RunPolicy::default()).unwrap();
            for number in 0..20 {
                let text = format!("{name}, value {number}: {}", "v".repeat(value));
                written += u64::try_from(text.len()).unwrap();
                ledger.set_variable(run, "text", text.as_str(), None, "ann").unwrap();
            }
            runs.push(run);
        }
        ledger.close().unwrap();
        let mut long = Self { place, environment, runs, bytes: 0 };
        std::fs::create_dir(long.folder()).unwrap();
        let client = client(Arc::new(DirectoryObjects::open(&long.folder()).unwrap()));
        let bound = open_in_store(&dir, 1, &client, &long.environment);
        bound.keeper.upload_segments().unwrap();
        bound.log.close().unwrap();
        let segments = client.objects().list("seg/").unwrap();
        long.bytes = segments.iter().map(|listed| listed.length).sum();
        long
    }

    fn folder(&self) -> PathBuf {
        self.place.path().join("store")
    }

    /// Read the records of a run as `ledger inspect URL records --run '#N'` does. Returns their number, and the
    /// requests.
    fn records_of(&self, run: RunId) -> (usize, Vec<(String, u64)>) {
        let objects: Arc<dyn Objects> = Arc::new(DirectoryObjects::existing(&self.folder()));
        let counting = Arc::new(Counting { objects, requests: Mutex::default() });
        let mut new_file = |_: u64| {
            let file: Arc<dyn StorageFile> = Arc::new(MemoryFile::default());
            Ok(file)
        };
        let root = Path::new("file:///store");
        let client = client(Arc::<Counting>::clone(&counting));
        let options = self.environment.log_options();
        let storage: Arc<dyn Storage> =
            Arc::new(read_parts_in_place(root, &options, &client, &mut new_file).unwrap());
        let log = LogReader::open(&storage, root).unwrap();
        opening_verdict(&*storage, root).unwrap();
        let environment = Environment { storage, ..self.environment.clone() };
        let _ = LedgerTime::of(&log, &environment);
        let items = log.walk_of_stream(u64::from(run.0), RUN_STREAMS, 1);
        let mut kinds = Vec::new();
        for item in items {
            let LogItem::Record(record, _) = item.unwrap() else { panic!("damage") };
            kinds.push(record.kind);
        }
        assert_eq!(kinds[0], Kind::RunStarted.number());
        (kinds.len(), counting.take())
    }

    /// The most requests, and the most bytes of segments, that reading a run needs.
    fn most(&self) -> (usize, u64) {
        let mut most = (0, 0);
        let step = (self.runs.len() / 25).max(1);
        for run in self.runs.iter().step_by(step).chain(self.runs.last()) {
            let (records, requests) = self.records_of(*run);
            assert!(records > 20, "{records}");
            let of_segments = requests.iter().filter(|(what, _)| what.contains(".seg"));
            let bytes = of_segments.map(|(_, bytes)| bytes).sum();
            assert!(requests.len() <= 10, "run {run}: {requests:#?}");
            most = (most.0.max(requests.len()), most.1.max(bytes));
        }
        most
    }
}

/// Goal: the records of one run need at most ten requests, however long the history is, and a small part of it.
/// `PLAN_LEDGER_STORE_HISTORY=1024` makes it 1 GiB long, with segments of the usual size.
#[test]
fn records_of_one_run_need_ten_requests() {
    let megabytes = std::env::var("PLAN_LEDGER_STORE_HISTORY");
    let long = match megabytes.map(|text| text.parse::<u64>().unwrap()) {
        Ok(megabytes) => Long::write(megabytes << 20, SegmentSizes::DEFAULT, 60_000),
        Err(_) => {
            let sizes = SegmentSizes { first: 1 << 16, largest: 1 << 20 };
            Long::write(12 << 20, sizes, 2_000)
        }
    };
    let (requests, bytes) = long.most();
    println!(
        "a history of {} bytes in segment objects, {} runs: at most {requests} requests for one run, which read at \
         most {bytes} bytes of segments",
        long.bytes,
        long.runs.len()
    );
    assert!(bytes * 3 < long.bytes, "{bytes} of {}", long.bytes);
}

/// Goal: without index objects, and with damaged ones, the same records are found with more requests.
#[test]
fn index_objects_only_save_requests() {
    let long = Long::write(2 << 20, SegmentSizes { first: 1 << 16, largest: 1 << 18 }, 2_000);
    let run = long.runs[long.runs.len() / 2];
    let (records, few) = long.records_of(run);
    let indexes: Vec<PathBuf> = std::fs::read_dir(long.folder().join("seg"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "index"))
        .collect();
    assert!(indexes.len() > 5);
    for path in &indexes {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(path, bytes).unwrap();
    }
    let (again, many) = long.records_of(run);
    assert_eq!(again, records);
    assert!(many.len() > few.len(), "{} and {}", many.len(), few.len());
    for path in &indexes {
        std::fs::remove_file(path).unwrap();
    }
    assert_eq!(long.records_of(run).0, records);
}

/// Goal: a reader of everything names an index object that says something else than the segments.
#[test]
fn wrong_index_object_is_named() {
    let long = Long::write(2 << 20, SegmentSizes { first: 1 << 16, largest: 1 << 18 }, 2_000);
    let place = Place::new();
    let url = format!("file://{}", long.folder().display());
    let verify = || place.run(&format!("verify {url}"));
    assert_eq!(verify().0, 0);
    let mut names: Vec<PathBuf> = std::fs::read_dir(long.folder().join("seg"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "index"))
        .collect();
    names.sort();
    let path = names.last().unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(path, bytes).unwrap();
    let (code, _, err) = verify();
    assert_eq!(code, 4, "{err}");
    assert!(err.contains(path.file_name().unwrap().to_str().unwrap()), "{err}");
    assert!(err.contains("move this object out of the prefix"), "{err}");
    std::fs::remove_file(path).unwrap();
    assert_eq!(verify().0, 0);
}

/// Goal: what the program prints about few records is what it prints on the folder, with and without a cache; from
/// the cache it needs neither slots nor segments of the store.
#[test]
fn views_of_few_records_are_the_same_with_a_cache() {
    let long = Long::write(2 << 20, SegmentSizes { first: 1 << 16, largest: 1 << 18 }, 2_000);
    let place = Place::new();
    let url = format!("file://{}", long.folder().display());
    let folder = long.place.path().join("folder").display().to_string();
    let cache = long.place.path().join("cache");
    let cached = format!("--cache {}", cache.display());
    let views = [
        "records --run #3",
        "records --run run-7 --json",
        "records --kind run_started",
        "records --from 200 --limit 5",
        "record 150",
        "record 250 --hex",
        "export",
    ];
    let shown = |line: &str, ledger: &str| {
        let command = match line.strip_prefix("export") {
            Some(options) => format!("export {ledger}{options}"),
            None => format!("inspect {ledger} {line}"),
        };
        let (code, out, err) = place.run(&command);
        assert_eq!(code, 0, "{line}: {err}");
        out.replace(ledger, "LEDGER")
    };
    let expected = views.map(|view| shown(view, &folder));
    for (view, expected) in views.iter().zip(&expected) {
        assert_eq!(shown(view, &url), *expected, "{view}");
        assert_eq!(shown(&format!("{view} {cached}"), &url), *expected, "{view}");
    }
    assert!(std::fs::read_dir(&cache).unwrap().count() > 10);
    // The bytes of slots and segments are lost; their names and lengths stay. Only the cache has them.
    for part in ["tail", "seg"] {
        for entry in std::fs::read_dir(long.folder().join(part)).unwrap() {
            let path = entry.unwrap().path();
            let length = std::fs::metadata(&path).unwrap().len();
            std::fs::write(&path, vec![0; usize::try_from(length).unwrap()]).unwrap();
        }
    }
    for (view, expected) in views.iter().zip(&expected) {
        assert_eq!(shown(&format!("{view} {cached}"), &url), *expected, "{view}");
    }
    let (code, ..) = place.run(&format!("inspect {url} records 150"));
    assert_eq!(code, 4);
    // A cache that is damaged is not believed.
    for entry in std::fs::read_dir(&cache).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let (code, ..) = place.run(&format!("inspect {url} records 150 {cached}"));
    assert_eq!(code, 4);
}
