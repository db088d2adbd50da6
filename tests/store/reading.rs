//! Reading a ledger in its store: every command prints the same bytes as on the folder that wrote it, names
//! what is damaged, and writes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plan_ledger::internals::store::{
    DirectoryObjects, ObjectName, Objects, SegmentForm, SegmentObject, StoreClient, StoreKeeper,
    restore,
};
use plan_ledger::log::{LogReader, SegmentSizes};
use plan_ledger::plan::RunId;
use plan_ledger::{
    Claim, Clock, Cost, Environment, FailureClass, Json, Ledger, Note, OnAmbiguous, Outcome, Plan,
    Receipt, State,
};
use serde_json::{Value, json};

use super::process::open_ledger_in_store;
use super::rows::Prefix;

/// A clock that moves on by a second whenever it is asked.
#[derive(Debug)]
struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn now(&self) -> u64 {
        self.0.fetch_add(1_000_000, Ordering::Relaxed)
    }
}

/// Small segments, small blobs, and the year 2100: for a reader it is as late as the last record, so a view says
/// nothing that changes from one second to the next.
fn environment() -> Environment {
    let clock = Arc::new(Ticks(AtomicU64::new(4_102_444_800_000_000)));
    let segments = SegmentSizes { first: 16_384, largest: 32_768 };
    Environment { clock, segments, blob_threshold: 2_000, ..Environment::system() }
}

fn plan() -> Plan {
    serde_json::from_value(json!({
        "title": "Night",
        "budget": { "tokens": 100_000 },
        "steps": [
            { "id": "build", "goal": "compile", "command": "make", "owner": "builder", "outputs": ["binary"] },
            { "id": "test", "goal": "fails once", "after": ["build"] },
            { "id": "large", "goal": "has a large output", "after": ["build"] },
            { "id": "look", "goal": "waits for a person", "after": ["test"],
              "gate": { "question": "Publish?", "to": "ana" } },
            { "id": "never", "goal": "fails", "retry": { "max_attempts": 1 } },
            { "id": "last", "goal": "after the barrier", "after": ["all"] },
        ],
        "barriers": [{ "id": "all", "members": ["test", "large"] }],
    }))
    .unwrap()
}

/// Work on a run until nothing is ready, or so many attempts were made.
fn work(ledger: &Ledger, run: RunId, attempts: usize) {
    for number in 0..attempts {
        let Claim::Task(task) = ledger.claim(run, &format!("worker-{number}")).unwrap() else {
            return;
        };
        let (id, attempt) = (task.step.id.clone(), task.attempt);
        let output = match id.as_str() {
            "large" => json!({ "log": "a line of output; ".repeat(500) }),
            _ => json!({ "binary": format!("{id} {attempt}"), "text": "t".repeat(400) }),
        };
        let outcome = match id.as_str() {
            "test" if attempt == 1 => {
                task.fail(FailureClass::Transient, "the server is down").unwrap();
                continue;
            }
            "never" => {
                task.fail(FailureClass::Deterministic, "it cannot work").unwrap();
                continue;
            }
            _ => Outcome::Succeeded,
        };
        let cost = Cost { money_micros: 1_250_000, ..Cost::default() };
        let receipt =
            Receipt { outcome, output: Json::new(&output).into(), cost, ..Receipt::default() };
        task.report(receipt).unwrap();
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_folder(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

/// Upload the oldest snapshot that the store lacks, and no segment.
fn upload_snapshot(objects: &Arc<dyn Objects>, keeper: &StoreKeeper) {
    let count = || objects.list("snap/").unwrap().len();
    let before = count();
    keeper.upload_segments().unwrap();
    assert_eq!(count(), before + 1, "the snapshot is too long for so few records");
    for listed in objects.list("seg/").unwrap() {
        objects.delete(&listed.name).unwrap();
    }
}

/// A ledger in a store, and the folder that wrote it last.
struct History {
    place: tempfile::TempDir,
    folder: PathBuf,
    url: String,
    environment: Environment,
}

impl History {
    /// A ledger with runs, blobs, several segments, a fence, a takeover and a return of the first folder.
    fn write(objects: &Arc<dyn Objects>, url: &str) -> Self {
        // A short name: that of the folder must not be longer than the address.
        let place = tempfile::Builder::new().prefix("l").tempdir_in("/tmp").unwrap();
        let environment = environment();
        let storage = environment.storage.clone();
        let at = |name: &str| place.path().join(name);
        let (crashed, first, second) = (at("crashed"), at("first"), at("second"));
        let ledger = Ledger::create(&crashed, &environment).unwrap();
        let run = ledger.start_or_resume("release", &plan()).unwrap();
        work(&ledger, run, 2);
        // A crash in the middle of a write.
        copy_folder(&crashed, &first);
        drop(ledger);
        let reader = LogReader::open(&storage, &first).unwrap();
        let (end, path) = (reader.head().unwrap().data_end, reader.segments()[0].path.clone());
        fs::OpenOptions::new()
            .write(true)
            .open(path)
            .unwrap()
            .write_all_at(&[0xAB; 100], end)
            .unwrap();
        let fencing = Environment { on_ambiguous: OnAmbiguous::Fence, ..environment.clone() };
        let (ledger, _) = Ledger::open_with(&first, &fencing).unwrap();
        assert_eq!(LogReader::open(&storage, &first).unwrap().segments().len(), 2, "no fence");
        work(&ledger, run, 1);
        ledger.close().unwrap();

        let client = StoreClient::new("a store", Arc::clone(objects), |unclear| unclear < 100);
        let open = |dir: &Path, node: u8| open_ledger_in_store(dir, node, &client, &environment);
        let snapshot = |ledger: &Ledger, keeper: &StoreKeeper| {
            ledger.snapshot::<State>().unwrap();
            upload_snapshot(objects, keeper);
        };
        let (ledger, keeper) = open(&first, 1);
        work(&ledger, run, 2);
        snapshot(&ledger, &keeper);
        let other = ledger.start_or_resume("second", &plan()).unwrap();
        work(&ledger, other, 3);
        ledger.close().unwrap();

        restore(&second, environment.log_options(), &client, &mut |_| ()).unwrap();
        let (ledger, _) = open(&second, 2);
        work(&ledger, other, 9);
        for number in 0..40 {
            let text = format!("note {number}: {}", "n".repeat(700));
            let note = Note { run: Some(other), step: None, by: "ana".to_owned(), text };
            ledger.add_note(&note, None).unwrap();
        }
        ledger.close().unwrap();
        let (ledger, keeper) = open(&first, 3);
        snapshot(&ledger, &keeper);
        work(&ledger, run, 9);
        ledger.set_variable(run, "region", "eu", None, "ana").unwrap();
        ledger.close().unwrap();

        // Its name is as long as the address, so that both need the same room.
        let length = url.len().checked_sub(place.path().as_os_str().len() + 1);
        let folder = at(&"f".repeat(length.expect("the address is not too short")));
        fs::rename(first, &folder).unwrap();
        // Which process opened the folder last: a store does not know it.
        fs::write(folder.join("LOCK"), "").unwrap();
        let segments = LogReader::open(&storage, &folder).unwrap().segments().len();
        assert!(segments >= 5, "{segments} segments");
        Self { place, folder, url: url.to_owned(), environment }
    }

    fn folder_text(&self) -> &str {
        self.folder.to_str().unwrap()
    }

    /// Run `ledger` with these words, split at spaces. `LEDGER` is replaced.
    fn ledger(&self, line: &str, ledger: &str, environment: &[(&str, &str)]) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ledger"));
        let is_of_store = |name: &str| name.starts_with("AWS_") || name.starts_with("AZUR");
        let kept = std::env::vars().filter(|(name, _)| is_of_store(name));
        command.env_clear().envs(kept).envs(environment.iter().copied());
        command.env("NO_COLOR", "1").env("COLUMNS", "100").env("TZ", "UTC");
        command.env("HOME", self.place.path()).current_dir(self.place.path());
        command.args(
            line.split(' ').filter(|it| !it.is_empty()).map(|word| word.replace("LEDGER", ledger)),
        );
        let output = command.output().unwrap();
        let without_name = |bytes: Vec<u8>| replaced(&bytes, ledger.as_bytes(), b"LEDGER");
        Ended {
            line: line.to_owned(),
            status: output.status.code().unwrap(),
            out: without_name(output.stdout),
            err: String::from_utf8(without_name(output.stderr)).unwrap(),
        }
    }

    fn on_folder(&self, line: &str) -> Ended {
        self.ledger(line, self.folder_text(), &[])
    }

    fn on_store(&self, line: &str) -> Ended {
        self.ledger(line, &self.url, &[])
    }

    /// What a command writes to the file `out`, with both names of the ledger replaced.
    fn written(&self, line: &str, ledger: &str) -> Vec<u8> {
        let ended = self.ledger(line, ledger, &[]);
        assert_eq!(ended.status, 0, "{line}: {}", ended.err);
        let file = self.place.path().join("out");
        let bytes = fs::read(&file).unwrap();
        fs::remove_file(file).unwrap();
        replaced(&bytes, ledger.as_bytes(), b"LEDGER")
    }
}

struct Ended {
    line: String,
    status: i32,
    out: Vec<u8>,
    err: String,
}

impl Ended {
    #[track_caller]
    fn ends(&self, code: i32, words: &[&str]) {
        let text = format!("{}{}", String::from_utf8_lossy(&self.out), self.err);
        assert_eq!(self.status, code, "{}: {text}", self.line);
        for word in words {
            assert!(text.contains(word), "{}: expected `{word}` in: {text}", self.line);
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let (mut result, mut rest) = (Vec::new(), bytes);
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        result.extend_from_slice(&rest[..at]);
        result.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    result.extend_from_slice(rest);
    result
}

/// Every view and command that reads, but for `inspect head`: HEAD belongs to a folder.
const VIEWS: [&str; 54] = [
    "inspect LEDGER",
    "inspect LEDGER records",
    "inspect LEDGER records --reverse --limit 5",
    "inspect LEDGER records --run release",
    "inspect LEDGER records --from 10 --to 20",
    "inspect LEDGER records 9",
    "inspect LEDGER records 30 --hex",
    "inspect LEDGER segments",
    "inspect LEDGER snapshots",
    "inspect LEDGER export",
    "inspect LEDGER export --format otlp",
    "inspect LEDGER explain",
    "inspect LEDGER explain --segment 1",
    "inspect LEDGER explain 4096",
    "inspect LEDGER explain 9000 --segment 2",
    "inspect LEDGER step release test",
    "inspect LEDGER step release large --full",
    "inspect LEDGER runs",
    "inspect LEDGER plan release",
    "inspect LEDGER queue release",
    "inspect LEDGER variables release",
    "inspect LEDGER variables release --history region",
    "inspect LEDGER barriers release",
    "budget second --ledger LEDGER",
    "budget release --chart --ledger LEDGER",
    "questions release --ledger LEDGER --decided",
    "inspect LEDGER cost release --all",
    "inspect LEDGER metrics release",
    "status LEDGER --run release --view user --at 30",
    "inspect LEDGER runs release --at 30",
    "inspect LEDGER diff 20 40",
    "inspect LEDGER diff release second",
    "inspect LEDGER why release look",
    "inspect LEDGER history release test",
    "inspect LEDGER timeline release",
    "inspect LEDGER graph release",
    "inspect LEDGER graph release --format dot",
    "inspect LEDGER progress release",
    "status LEDGER",
    "status LEDGER --view operator",
    "status LEDGER --run release --view debug",
    "status --ledger LEDGER",
    "logs --ledger LEDGER release",
    "questions --ledger LEDGER",
    "next --ledger LEDGER release",
    "get region --run release --ledger LEDGER",
    "blobs LEDGER --check",
    "root LEDGER",
    "verify LEDGER --level crc",
    "verify LEDGER --level chain --jobs 1",
    "verify LEDGER --level snapshots",
    "verify LEDGER --level replay",
    "export LEDGER",
    "export LEDGER --from 5 --to 25",
];

/// The commands that have no form as JSON.
const TEXT_ONLY: [&str; 2] = ["export ", "inspect LEDGER export"];

/// What writes a file.
const FILES: [&str; 7] = [
    "report release --html out --ledger LEDGER",
    "report release --html out --ledger LEDGER --at 30",
    "export LEDGER -o out",
    "inspect LEDGER export --format sqlite --to out",
    "inspect LEDGER export --format otlp --to out",
    "plan export release --ledger LEDGER -o out",
    "plan export release --ledger LEDGER --form plan -o out",
];

/// Where two outputs differ.
fn difference(line: &str, folder: &[u8], store: &[u8]) -> Option<String> {
    if folder == store {
        return None;
    }
    let (folder, store) = (String::from_utf8_lossy(folder), String::from_utf8_lossy(store));
    let first = folder.lines().zip(store.lines()).find(|(folder, store)| folder != store);
    Some(format!(
        "{line}: {} and {} bytes, first difference: {first:#?}",
        folder.len(),
        store.len()
    ))
}

/// Goal: everything that reads prints the same bytes on the store as on the folder.
#[test]
fn all_views_are_the_same_on_folder_and_store() {
    let prefix = Prefix::new();
    let history = History::write(&prefix.objects, &prefix.url);
    let (mut compared, mut differences) = (0, Vec::new());
    for view in VIEWS {
        for form in ["", " --json"] {
            if form == " --json" && TEXT_ONLY.iter().any(|only| view.starts_with(only)) {
                continue;
            }
            let line = format!("{view}{form}");
            let (folder, store) = (history.on_folder(&line), history.on_store(&line));
            differences.extend(difference(&line, &folder.out, &store.out));
            let (is_verify, is_noted) =
                (view.contains("verify"), store.err.contains("not checked: "));
            if folder.status != store.status || folder.status == 2 || is_verify != is_noted {
                let (folder, store) = ((folder.status, folder.err), (store.status, store.err));
                differences.push(format!("{line}: {folder:?} and {store:?}"));
            }
            compared += 1;
        }
    }
    assert!(compared > VIEWS.len());
    for line in FILES {
        let folder = history.written(line, history.folder_text());
        assert!(!folder.is_empty(), "{line}");
        differences.extend(difference(line, &folder, &history.written(line, &history.url)));
    }
    assert!(differences.is_empty(), "{differences:#?}");
    let head = history.on_store("inspect LEDGER head");
    head.ends(0, &["closed"]);
    let verified = history.on_store(&format!("verify LEDGER --against {}", history.folder_text()));
    verified.ends(0, &["whole", "against", "common records"]);
    assert!(!verified.text().contains("only"), "{}", verified.text());
}

/// Goal: a store says what time it is, and that its objects are young: nothing of them is deleted.
#[test]
fn young_objects_are_not_collected() {
    let prefix = Prefix::new();
    let history = History::write(&prefix.objects, &prefix.url);
    let export = history.on_store("export LEDGER").out;
    let slots = prefix.objects.list("tail/").unwrap().len();
    history.on_store("store gc LEDGER --yes").ends(0, &["nothing to delete"]);
    history.on_store("store prune LEDGER --yes").ends(0, &["nothing to delete"]);
    assert_eq!(prefix.objects.list("tail/").unwrap().len(), slots);
    assert_eq!(prefix.objects.list("probe/").unwrap(), []);
    assert!(history.on_store("export LEDGER").out == export);
}

/// A history in a folder as the store.
fn in_folder() -> (tempfile::TempDir, PathBuf, History) {
    let place = tempfile::tempdir().unwrap();
    // The folder of the ledger has a name as long as the address.
    let folder = place.path().join("store-of-the-ledger");
    fs::create_dir(&folder).unwrap();
    let objects: Arc<dyn Objects> = Arc::new(DirectoryObjects::open(&folder).unwrap());
    let history = History::write(&objects, &format!("file://{}", folder.display()));
    (place, folder, history)
}

/// All files of a store, and their bytes.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for part in ["", "tail", "seg", "snap", "blob"] {
        let Ok(entries) = fs::read_dir(folder.join(part)) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            found.insert(name, fs::read(&path).unwrap());
        }
    }
    found
}

/// The slots of a store, in order.
fn slots(folder: &Path) -> Vec<String> {
    contents(folder).into_keys().filter(|name| name.starts_with("tail/")).collect()
}

/// The commands that must name damage.
const ON_DAMAGE: [&str; 6] = [
    "inspect LEDGER",
    "inspect LEDGER records --json",
    "status LEDGER",
    "verify LEDGER",
    "export LEDGER",
    "root LEDGER",
];

/// Goal: reading changes nothing in a store.
#[test]
fn reading_writes_nothing() {
    let (_place, folder, history) = in_folder();
    // A reader needs no folder that an empty store does not have.
    assert!(!folder.join("probe").exists());
    let before = contents(&folder);
    for line in ON_DAMAGE {
        history.on_store(line).ends(0, &[]);
    }
    assert!(before == contents(&folder));
    assert!(!folder.join("probe").exists());
}

/// Goal: a missing slot, a slot with any changed byte and a slot of another ledger are damage with their name.
#[test]
fn damaged_slots_are_named() {
    let (_place, folder, history) = in_folder();
    let names = slots(&folder);
    let name = &names[names.len() / 2];
    let seq = name.trim_start_matches("tail/").trim_end_matches(".slot").trim_start_matches('0');
    let path = folder.join(name);
    let whole = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    for line in ON_DAMAGE {
        history.on_store(line).ends(4, &[name, seq, "missing, although later ones exist"]);
    }
    for at in [0, 9, 40, 100, 200, 255, 256, 300, whole.len() - 1] {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(&path, changed).unwrap();
        for line in ON_DAMAGE {
            history.on_store(line).ends(4, &[name, "LEDGER/tail/"]);
        }
    }
    let (_other, other, _history) = in_folder();
    fs::write(&path, fs::read(other.join(&slots(&other)[3])).unwrap()).unwrap();
    history.on_store("verify LEDGER").ends(4, &[name]);
    fs::write(&path, &whole).unwrap();
    history.on_store("verify LEDGER").ends(0, &["whole"]);
    // The whole log of another ledger below the prefix of this one.
    fs::copy(other.join("LEDGER.json"), folder.join("LEDGER.json")).unwrap();
    history.on_store("verify LEDGER").ends(4, &[&names[0], "belongs to another ledger"]);
    fs::write(folder.join("LEDGER.json"), "{}").unwrap();
    history.on_store("verify LEDGER").ends(4, &["LEDGER.json"]);
}

/// Create segment objects from the sealed segments of the folder, and remove what they replace.
fn seal_in_store(folder: &Path, history: &History) -> Vec<String> {
    let storage = history.environment.storage.clone();
    let reader = LogReader::open(&storage, &history.folder).unwrap();
    let segments = reader.segments();
    let mut names = Vec::new();
    for (segment, next) in segments.iter().zip(&segments[1..]) {
        let (header, next) = (segment.header.clone().unwrap(), next.header.clone().unwrap());
        let is_sealed = segment.length != header.prealloc_len;
        let object = SegmentObject {
            base_seq: header.base_seq,
            last_seq: next.prev_last_seq,
            ordinal: header.ordinal,
            form: if is_sealed { SegmentForm::Sealed } else { SegmentForm::Part },
        };
        let mut bytes = fs::read(&segment.path).unwrap();
        if !is_sealed {
            bytes.truncate(usize::try_from(next.prev_data_end).unwrap());
        }
        let name = ObjectName::Segment(object).to_string();
        fs::write(folder.join(&name), bytes).unwrap();
        names.push(name);
    }
    assert!(names.iter().any(|name| name.contains(".part")), "no fence");
    names
}

/// Goal: segment objects are read instead of slots, and every changed byte in them is damage with its name.
#[test]
fn damaged_segment_objects_are_named() {
    let (_place, folder, history) = in_folder();
    let names = seal_in_store(&folder, &history);
    let last = names.last().unwrap().split('-').nth(1).unwrap().parse::<u64>().unwrap();
    for slot in slots(&folder) {
        let seq =
            slot.trim_start_matches("tail/").trim_end_matches(".slot").parse::<u64>().unwrap();
        if seq <= last {
            fs::remove_file(folder.join(slot)).unwrap();
        }
    }
    for line in ["inspect LEDGER segments", "verify LEDGER --level replay", "export LEDGER"] {
        let (folder, store) = (history.on_folder(line), history.on_store(line));
        assert_eq!(difference(line, &folder.out, &store.out), None);
    }
    for name in [&names[0], &names[2], names.last().unwrap()] {
        let path = folder.join(name);
        let whole = fs::read(&path).unwrap();
        for part in 0..40 {
            let at = (whole.len() - 1) * part / 39;
            let mut changed = whole.clone();
            changed[at] ^= 0x40;
            fs::write(&path, changed).unwrap();
            history.on_store("root LEDGER").ends(4, &[name, "LEDGER/seg/"]);
        }
        fs::remove_file(&path).unwrap();
        history.on_store("root LEDGER").ends(4, &["although later ones exist"]);
        fs::write(&path, whole).unwrap();
    }
    history.on_store("root LEDGER").ends(0, &[]);
}

/// Goal: a damaged blob costs its own output and nothing else.
#[test]
fn damaged_blob_is_named() {
    let (_place, folder, history) = in_folder();
    let blobs: Vec<String> =
        contents(&folder).into_keys().filter(|name| name.starts_with("blob/")).collect();
    let (name, hash) = (&blobs[0], blobs[0].trim_start_matches("blob/"));
    let path = folder.join(name);
    let mut bytes = fs::read(&path).unwrap();
    bytes[7] ^= 1;
    fs::write(&path, &bytes).unwrap();
    history.on_store("verify LEDGER --level snapshots").ends(4, &[hash, "damaged"]);
    history.on_store("verify LEDGER --level chain").ends(0, &["whole"]);
    fs::remove_file(&path).unwrap();
    history.on_store("verify LEDGER --level snapshots").ends(4, &[hash, "missing"]);
}

/// Goal: damage in a snapshot is named as in a folder, and costs nothing: every view is the same without it.
#[test]
fn damaged_snapshot_is_named_and_not_used() {
    let (_place, folder, history) = in_folder();
    let names: Vec<String> =
        contents(&folder).into_keys().filter(|name| name.starts_with("snap/")).collect();
    assert_eq!(names.len(), 2);
    let views =
        ["status LEDGER", "inspect LEDGER runs release --at 30", "inspect LEDGER queue release"];
    let shown = || views.map(|view| history.on_store(view).text());
    let before = shown();
    for name in &names {
        for place in [&folder, &history.folder] {
            let path = place.join(name);
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
                .unwrap();
            fs::write(&path, &bytes).unwrap();
        }
        for line in ["inspect LEDGER snapshots", "verify LEDGER --level snapshots --json"] {
            let (on_folder, on_store) = (history.on_folder(line), history.on_store(line));
            on_store.ends(on_folder.status, &[name.trim_start_matches("snap/")]);
            assert_eq!(difference(line, &on_folder.out, &on_store.out), None);
        }
        assert_eq!(shown(), before, "{name}");
    }
    for name in &names {
        fs::remove_file(folder.join(name)).unwrap();
    }
    assert_eq!(shown(), before);
    history.on_store("verify LEDGER --level replay").ends(0, &["whole", "0 snapshots"]);
}

/// Goal: `--against` finds what only one copy has, and where they differ; another ledger is refused.
#[test]
fn copies_are_compared() {
    let (_place, folder, history) = in_folder();
    let names = slots(&folder);
    let last = folder.join(names.last().unwrap());
    let bytes = fs::read(&last).unwrap();
    fs::remove_file(&last).unwrap();
    let line = format!("verify LEDGER --against {}", history.folder_text());
    let ended = history.on_store(&line);
    ended.ends(0, &["only there: records"]);
    let ended = history.on_store(&format!("{line} --json"));
    let lines: Vec<Value> =
        ended.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let compared = lines.iter().find(|line| line["type"] == "comparison").unwrap();
    assert_eq!((&compared["differs"], &compared["only_here"]), (&Value::Null, &Value::Null));
    assert_eq!(compared["common"].as_u64().unwrap() + 1, compared["only_there"]["first_seq"]);
    let ended = history.on_folder(&format!("verify LEDGER --against {}", history.url));
    ended.ends(0, &["only here: records"]);
    // Two machines continue from the same record, one of them without the store.
    let objects: Arc<dyn Objects> = Arc::new(DirectoryObjects::open(&folder).unwrap());
    let client = StoreClient::new("a store", objects, |_| false);
    let alone = history.place.path().join("alone");
    let options = history.environment.log_options();
    let ack = restore(&alone, options, &client, &mut |_| ()).unwrap();
    fs::remove_file(alone.join("STORE.json")).unwrap();
    let (ledger, _) = Ledger::open_with(&alone, &history.environment).unwrap();
    let note =
        Note { run: None, step: None, by: "ana".to_owned(), text: "not in the store".to_owned() };
    ledger.add_note(&note, None).unwrap();
    ledger.close().unwrap();
    fs::write(&last, bytes).unwrap();
    let ended = history.on_store("verify LEDGER --against alone");
    ended.ends(4, &[&format!("not the same: record {} and all after it", ack.seq + 1)]);
    let (_other, _, other) = in_folder();
    let ended = history.on_store(&format!("verify LEDGER --against {}", other.folder_text()));
    ended.ends(6, &["is another ledger"]);
}

/// Goal: a store that does not answer, or has no ledger, and commands that cannot use one, have their own
/// errors.
#[test]
fn stores_that_cannot_be_used_have_their_own_errors() {
    let (place, _, history) = in_folder();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endpoint = format!("http://{closed}");
    let keys = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", "eu-central-1"),
    ];
    let ledger = |line: &str, url: &str| history.ledger(line, url, &keys);
    for line in ON_DAMAGE {
        ledger(line, "s3://bucket/night").ends(7, &["no connection can be made"]);
        ledger(line, &format!("file://{}/none", place.path().display())).ends(2, &["no ledger"]);
        ledger(line, "http://bucket").ends(2, &["expected s3://BUCKET/PREFIX"]);
        let secret = ledger(line, "s3://KEY:hidden@bucket/night");
        secret.ends(2, &["environment"]);
        assert!(!secret.err.contains("hidden"), "{}", secret.err);
    }
    for line in [
        "pause release --ledger LEDGER",
        "archive LEDGER --to x",
        "snapshot LEDGER",
        "prune LEDGER --ended",
    ] {
        history.on_store(line).ends(2, &["is a store, which is only read"]);
    }
    history.on_store("status LEDGER --watch").ends(2, &["--watch"]);
    let from_environment = history.ledger("root", "-", &[("LEDGER_DIR", history.url.as_str())]);
    assert_eq!(from_environment.text(), history.on_folder("root LEDGER").text());
    let refused = history.ledger("snapshot", "-", &[("LEDGER_DIR", history.url.as_str())]);
    refused.ends(2, &["is a store, which is only read"]);
}
