//! The folder of a ledger is renamed and replaced while a process works in it: the process writes to the
//! folder that it opened, or stops, and changes nothing in what took its place. Real files.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plan_ledger::internals::storage::{
    Access, DiskStorage, Entry, FilesystemKind, FolderAccess, Links, LockOutcome, Storage,
    StorageFile,
};
use plan_ledger::log::BackgroundWork;
use plan_ledger::{Environment, Ledger, Plan, Receipt, RunId, RunPolicy, State};
use serde_json::json;

use super::command::{Place, start};

/// Replaces the folder at one call of the storage.
#[derive(Debug, Clone)]
struct Replacing {
    inner: Arc<dyn Storage>,
    plan: Arc<Replacement>,
}

#[derive(Debug)]
struct Replacement {
    /// What is renamed: the folder of the ledger, or the one above it.
    from: PathBuf,
    aside: PathBuf,
    decoy: PathBuf,
    /// The decoy stays where it is, and a link leads to it.
    by_link: bool,
    calls: AtomicU64,
    at: u64,
}

impl Replacing {
    fn inner(&self) -> &dyn Storage {
        let plan = &self.plan;
        if plan.calls.fetch_add(1, Ordering::SeqCst) + 1 == plan.at {
            fs::rename(&plan.from, &plan.aside).unwrap();
            if plan.by_link {
                symlink(&plan.decoy, &plan.from).unwrap();
            } else {
                fs::rename(&plan.decoy, &plan.from).unwrap();
            }
        }
        &*self.inner
    }
}

impl Storage for Replacing {
    fn hold(&self, dir: &Path, links: Links) -> io::Result<Option<Arc<dyn Storage>>> {
        let held = self.inner().hold(dir, links)?;
        let replacing =
            |inner| -> Arc<dyn Storage> { Arc::new(Self { inner, plan: self.plan.clone() }) };
        Ok(held.map(replacing))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.inner().create_dir(path)
    }

    fn folder_access(&self, path: &Path) -> io::Result<FolderAccess> {
        self.inner().folder_access(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.inner().list(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        self.inner().create(path)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn StorageFile>> {
        self.inner().open(path, access)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner().rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner().remove(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.inner().remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.inner().sync_dir(path)
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<LockOutcome> {
        self.inner().lock(path, holder)
    }

    fn filesystem_kind(&self, path: &Path) -> io::Result<FilesystemKind> {
        self.inner().filesystem_kind(path)
    }

    fn process(&self) -> u32 {
        self.inner.process()
    }
}

/// Everything below a folder: files with their bytes.
fn content(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(each) = folders.pop() {
        for entry in fs::read_dir(&each).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_owned();
            if path.is_dir() {
                found.insert(name, None);
                folders.push(path);
            } else {
                found.insert(name, Some(fs::read(&path).unwrap()));
            }
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    for (name, bytes) in content(from) {
        let path = to.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match bytes {
            None => fs::create_dir_all(path).unwrap(),
            Some(bytes) => fs::write(path, bytes).unwrap(),
        }
    }
}

fn environment(storage: Arc<dyn Storage>) -> Environment {
    let mut environment = Environment { storage, blob_threshold: 100, ..Environment::system() };
    environment.background_work = BackgroundWork::Inline;
    environment.segments.first = 8192;
    environment
}

fn plan() -> Plan {
    serde_json::from_value(json!({ "steps": [{ "id": "a" }, { "id": "b" }] })).unwrap()
}

/// Opens the ledger, and writes a record, a blob, segments and a snapshot. What fails is the end of it.
fn work(dir: &Path, storage: Arc<dyn Storage>) -> plan_ledger::Result<()> {
    let (ledger, _) = Ledger::open_with(dir, &environment(storage))?;
    let run = RunId(1);
    let task = ledger.dispatch(run, "w")?.unwrap();
    let output = json!("long ".repeat(1000)).into();
    ledger.record_receipt(task.token, Receipt { output, ..Receipt::default() })?;
    for number in 0..4 {
        ledger.set_variable(run, "v", format!("{number}{}", "x".repeat(3000)), None, "ana")?;
    }
    ledger.snapshot::<State>()?;
    ledger.close()
}

/// Story: every file was opened by its path. A folder that took the place of the ledger's between two
/// calls was written to, or a link in its place led elsewhere.
/// Method: before each call of the storage in turn, the folder, or the one above it, is renamed, and a
/// copy or a link to a copy takes its place.
#[test]
fn replacement_at_any_call_is_not_written_to() {
    let around = tempfile::tempdir().unwrap();
    let first = around.path().join("first");
    let ledger = Ledger::create(&first, &environment(Arc::new(DiskStorage))).unwrap();
    ledger.start_run("r", &plan(), RunPolicy::default()).unwrap();
    ledger.close().unwrap();
    let expected = content(&first);
    for at in 1.. {
        let place = around.path().join(format!("place-{at}"));
        let above = place.join("above");
        let dir = above.join("a.ledger");
        copy(&first, &dir);
        // The first call opens the folder.
        let (is_above, by_link) = (at % 2 == 0, at % 4 < 2);
        let (from, aside) = if is_above {
            (above.clone(), place.join("was-above"))
        } else {
            (dir.clone(), place.join("was"))
        };
        let decoy = place.join("decoy");
        copy(&first, &if is_above { decoy.join("a.ledger") } else { decoy.clone() });
        let calls = AtomicU64::new(0);
        let plan = Replacement { from, aside, decoy, by_link, calls, at: at + 1 };
        let (plan, inner) = (Arc::new(plan), Arc::new(DiskStorage));
        let done = work(&dir, Arc::new(Replacing { inner, plan: plan.clone() }));
        let is_over = plan.calls.load(Ordering::SeqCst) < plan.at;
        if is_over {
            done.unwrap();
            assert!(at > 40, "too few calls: {at}");
            return;
        }
        assert_eq!(content(&dir), expected, "the replacement after call {at}: {done:?}");
        // What was written is in the folder that was opened, and whole.
        let moved = if is_above { plan.aside.join("a.ledger") } else { plan.aside.clone() };
        Ledger::open_with(&moved, &environment(Arc::new(DiskStorage))).unwrap();
        fs::remove_dir_all(&place).unwrap();
    }
}

/// A link below the ledger's folder is not followed, not even by a name that is opened later.
#[test]
fn link_below_the_folder_is_not_followed() {
    let around = tempfile::tempdir().unwrap();
    let (dir, victim) = (around.path().join("a.ledger"), around.path().join("victim"));
    fs::create_dir_all(dir.join("blob")).unwrap();
    fs::create_dir(&victim).unwrap();
    let held = DiskStorage.hold(&dir, Links::Follow).unwrap().unwrap();
    symlink(&victim, dir.join("blob/ab")).unwrap();
    held.create(&dir.join("blob/ab/new")).unwrap_err();
    held.list(&dir.join("blob/ab")).unwrap_err();
    assert_eq!(content(&victim), BTreeMap::new());
}

/// The same with the program: a worker renames the ledger that its runner works in, and a link to another
/// folder takes the place of the runner's. The runner removed the files of that folder that had the names
/// of its own.
#[test]
fn runner_changes_nothing_in_a_replacement() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps: [{id: a, command: 'sh swap.sh'}, {id: b, after: [a], command: 'true'}]",
    );
    place.write(
        "swap.sh",
        "mkdir -p victim; for file in .ledger/work/run-1/*; do echo precious > victim/${file##*/}; done
         mv .ledger moved; mkdir -p .ledger/work; ln -s ../../victim .ledger/work/run-1
         ls victim | wc -l > count; find .ledger | sort > before
",
    );
    let ended = start(&mut place.command(&["run", "plan.yaml"])).end();
    assert!(!ended.status.success(), "{ended:?}");
    let victim = content(&place.path("victim"));
    assert!(victim.len() >= 5, "{victim:?}");
    assert_eq!(victim.len().to_string(), place.read("count").trim());
    for (name, bytes) in &victim {
        assert_eq!(bytes.as_deref(), Some(&b"precious\n"[..]), "{}", name.display());
    }
    let listed = std::process::Command::new("sh")
        .args(["-c", "find .ledger | sort"])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(listed.stdout).unwrap(), place.read("before"));
    place.ledger("verify moved").code(0);
}
