//! A start that is refused leaves the store as it was: it opens no epoch there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::process::{Place, Running};

const SERVE: &str = "serve --ledger @a --store URL --until-eof";

/// Every object of a store that is a folder, but what a standby writes about itself.
fn objects(store: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![store.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_hint = path.ends_with("nodes") || path.ends_with("takeover");
            if path.is_dir() {
                open.extend((!is_hint).then_some(path));
            } else {
                found.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    let done = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(done.success());
}

/// A command of one user, who has a state folder of their own.
fn user(place: &Place, line: &str) -> Command {
    let mut command = place.command(line);
    command.env("XDG_STATE_HOME", place.path("state")).stdin(Stdio::null());
    command
}

/// A start of a server that is refused: exit code and standard error.
fn refused(place: &Place, line: &str) -> (i32, String) {
    let mut running = Running::start(&mut user(place, line));
    let code = running.end();
    (code, running.err())
}

fn serve_once(place: &Place, line: &str) {
    let mut running = Running::start(&mut user(place, line));
    running.wait_for("serving");
    let note = user(place, "note hello --by me --ledger @a").output().unwrap();
    assert!(note.status.success(), "{note:?}");
    assert_eq!(running.stop(), 0, "{}", running.err());
}

/// Regression: each start of a ledger that was rolled back opened an epoch before it was refused.
#[test]
fn start_of_a_ledger_that_was_rolled_back_opens_no_epoch() {
    let place = Place::in_folder();
    let (store, folder) = (place.path("store"), place.path("a"));
    place.plan("a", "steps: [{id: one, goal: x}]");
    serve_once(&place, SERVE);
    copy(&store, &place.path("old-store"));
    copy(&folder, &place.path("old-a"));
    serve_once(&place, SERVE);

    // The store and the folder go back together: nothing in either tells that records are missing.
    copy(&place.path("old-store"), &store);
    copy(&place.path("old-a"), &folder);
    let before = objects(&store);
    for line in [SERVE, SERVE, "serve --ledger @a --store URL --until-eof --standby"] {
        let (code, err) = refused(&place, line);
        assert_eq!(code, 6, "{err}");
        assert!(err.contains("was rolled back") && err.contains("--accept-rollback"), "{err}");
        assert_eq!(objects(&store), before);
    }

    // The folder alone goes back: the store has the rest, and it is no rollback.
    serve_once(&place, &format!("{SERVE} --accept-rollback"));
    serve_once(&place, SERVE);
    copy(&place.path("old-a"), &folder);
    serve_once(&place, SERVE);
}

/// A small file system in memory, unmounted on drop.
struct Disk(PathBuf);

impl Disk {
    /// `None` if this user may not mount a file system.
    fn at(folder: PathBuf) -> Option<Self> {
        std::fs::create_dir(&folder).unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=8M", "tmpfs"];
        let mounted = Command::new("mount").args(mount).arg(&folder).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self(folder))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Regression: each start in a folder without room opened an epoch before it failed.
#[test]
fn start_on_a_full_disk_opens_no_epoch() {
    let place = Place::in_folder();
    let Some(_disk) = Disk::at(place.path("disk")) else {
        println!("skipped: no file system can be mounted here");
        return;
    };
    place.ledger("init --ledger @disk/a");
    let serve = "serve --ledger @disk/a --store URL --until-eof";
    let mut first = Running::start(&mut user(&place, serve));
    first.wait_for("serving");
    assert_eq!(first.stop(), 0, "{}", first.err());

    let filler = place.path("disk/filler");
    let filled = Command::new("sh").arg("-c").arg("cat /dev/zero > \"$0\"").arg(&filler).output();
    assert!(!filled.unwrap().status.success(), "the disk is not full");
    let before = objects(&place.path("store"));
    for _ in 0..3 {
        let (code, err) = refused(&place, serve);
        assert_eq!(code, 7, "{err}");
        assert!(err.contains("No space left on device") && err.contains("make room"), "{err}");
        assert_eq!(objects(&place.path("store")), before);
    }
    std::fs::remove_file(filler).unwrap();
    let mut again = Running::start(&mut user(&place, serve));
    again.wait_for("serving");
    assert_eq!(again.stop(), 0, "{}", again.err());
}
