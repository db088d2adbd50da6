//! Files that are missing, swapped, copied, renamed or unknown.

use std::path::{Path, PathBuf};

use plan_ledger::ErrorKind;
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::internals::storage::Storage as _;
use plan_ledger::log::TailVerdict;

use super::lab::{End, Survey, at, dir, fenced, open, payloads, record, segments, survey, whole};

fn copy(disk: &SimDisk, from: &Path, to: &Path) {
    let bytes = disk.read(from).unwrap();
    if disk.read(to).is_err() {
        disk.create(to).unwrap();
    }
    disk.set_length(to, 0).unwrap();
    disk.overwrite(to, 0, &bytes).unwrap();
}

fn swap(disk: &SimDisk, one: &Path, two: &Path) {
    let aside = one.with_file_name("aside");
    disk.rename(one, &aside).unwrap();
    disk.rename(two, one).unwrap();
    disk.rename(&aside, two).unwrap();
}

/// The writer refuses and names a place; the reader reports what is missing and serves all records
/// of untouched segments.
fn refused(disk: &SimDisk, expected: &[Vec<u8>], touched: &[u64], story: &str) -> Survey {
    let error = open(disk).err().unwrap_or_else(|| panic!("{story}: opened"));
    assert!(error.is_corrupt(), "{story}: {error}");
    assert!(error.location().path.is_some(), "{story}: no place: {error}");
    let seen = survey(disk);
    seen.check(expected, story);
    assert!(!seen.damages.is_empty(), "{story}: {seen:?}");
    let (whole_disk, _) = fenced(End::Closed);
    for (seq, record) in survey(&whole_disk).records {
        if !touched.contains(&record.segment) {
            assert!(seen.records.contains_key(&seq), "{story}: record {seq} is not served");
        }
    }
    seen
}

/// A missing segment, first, middle or last (H22, H23), is never taken for a shorter log.
#[test]
fn h22_h23_missing_segment_is_detected() {
    let (disk, expected) = fenced(End::Closed);
    for (ordinal, (path, _)) in (0..).zip(segments(&disk)) {
        let disk = disk.fork();
        disk.remove(&path).unwrap();
        let seen = refused(&disk, &expected, &[ordinal], &format!("segment {ordinal} removed"));
        assert!(seen.damages.iter().any(|damage| damage.what.contains("missing")), "{seen:?}");
    }
    let empty = disk.fork();
    for (path, _) in segments(&disk) {
        empty.remove(&path).unwrap();
    }
    refused(&empty, &expected, &[0, 1, 2], "all segments removed");
}

/// Segments that were swapped, copied over one another (H24) or renamed are never read as something
/// else.
#[test]
fn h24_misplaced_segments_are_refused() {
    let (disk, expected) = fenced(End::Closed);
    let names: Vec<PathBuf> = segments(&disk).into_iter().map(|(path, _)| path).collect();
    for (one, first) in (0..).zip(&names) {
        for (two, second) in (0..).zip(&names) {
            if one < two {
                let disk = disk.fork();
                swap(&disk, first, second);
                refused(&disk, &expected, &[one, two], &format!("{one} and {two} swapped"));
            }
            if one != two {
                let disk = disk.fork();
                copy(&disk, first, second);
                refused(&disk, &expected, &[two], &format!("{one} copied over {two}"));
            }
        }
        for name in [
            "00000000000000000099-00000003.seg",
            "00000000000000000001-00000001.seg",
            "00000000000000000000-00000000.seg",
            "18446744073709551615-ffffffff.seg",
        ] {
            let target = first.with_file_name(name);
            let copied = disk.fork();
            copy(&copied, first, &target);
            refused(&copied, &expected, &[], &format!("{one} copied to {name}"));
            let renamed = disk.fork();
            renamed.rename(first, &target).unwrap();
            refused(&renamed, &expected, &[one], &format!("{one} renamed to {name}"));
            let foreign = disk.fork();
            foreign.create(&target).unwrap();
            foreign.overwrite(&target, 0, &[0xAB; 9000]).unwrap();
            refused(&foreign, &expected, &[], &format!("rubbish named {name}"));
        }
        let hidden = disk.fork();
        hidden.rename(first, &first.with_extension("seg.bak")).unwrap();
        refused(&hidden, &expected, &[one], &format!("{one} renamed to a backup"));
    }
}

/// A segment of another ledger is refused, even with the right name and place.
#[test]
fn segment_of_another_ledger_is_refused() {
    let (disk, expected) = fenced(End::Closed);
    let other = SimDisk::new();
    // Another first operation gives other identifiers.
    other.list(Path::new("/")).unwrap();
    drop(plan_ledger::log::Log::create(&dir(), super::lab::options(&other), at(0)).unwrap());
    let path = segments(&disk)[0].0.clone();
    let disk = disk.fork();
    disk.overwrite(&path, 0, &other.read(&path).unwrap()).unwrap();
    refused(&disk, &expected, &[0], "a foreign first segment");
    // And a foreign HEAD.
    let (disk, _) = fenced(End::Closed);
    disk.overwrite(&dir().join("HEAD"), 0, &other.read(&dir().join("HEAD")).unwrap()).unwrap();
    let error = open(&disk).unwrap_err();
    assert!(error.is_corrupt(), "{error}");
}

/// Without HEAD the log is read-only, and everything can be read; LOCK is created again.
#[test]
fn log_without_head_is_read_only() {
    let (disk, expected) = fenced(End::Closed);
    disk.remove(&dir().join("LOCK")).unwrap();
    assert_eq!(open(&disk.fork()).unwrap().1.verdict, TailVerdict::Clean);
    disk.remove(&dir().join("HEAD")).unwrap();
    let error = open(&disk).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ambiguous, "{error}");
    survey(&disk).check(&expected, "without HEAD");
    for bytes in [vec![], vec![0; 8192], vec![0xFF; 8192], vec![7; 20_000]] {
        let disk = disk.fork();
        disk.create(&dir().join("HEAD")).unwrap();
        disk.overwrite(&dir().join("HEAD"), 0, &bytes).unwrap();
        assert_eq!(open(&disk).unwrap_err().kind(), ErrorKind::Ambiguous);
        survey(&disk).check(&expected, "with another HEAD");
    }
}

/// Unknown files in the folder are reported and left alone (H30).
#[test]
fn h30_unknown_files_are_reported_and_kept() {
    let (disk, expected) = fenced(End::Closed);
    let folder = dir().join("log");
    let odd = [
        ".DS_Store",
        "Thumbs.db",
        "x.seg",
        "1-0.seg",
        "notes.tmp",
        ".tmp",
        "x.seg.tmp",
        "core",
        "00000000000000000001-00000000.seg~",
        "00000000000000000001-00000000.seg.bak",
        "00000000000000000001-00000000.SEG",
        ".00000000000000000001-00000000.seg.swp",
        "00000000000000000001-0000000G.seg",
        "00000000000000000001_00000000.seg",
        "0000000000000000001-00000000.seg",
        "+0000000000000000001-00000000.seg",
        "00000000000000000001-00000000.seg.tmp.1",
        "copy of log",
        "ledger.db",
        "\u{e4}.seg",
    ];
    for name in odd {
        disk.create(&folder.join(name)).unwrap();
        disk.overwrite(&folder.join(name), 0, name.as_bytes()).unwrap();
    }
    disk.create_dir(&folder.join("00000000000000000099-00000003.seg")).unwrap();
    // This file is the log's: a segment that was never published.
    disk.create(&folder.join("00000000000000000099-00000003.seg.tmp")).unwrap();

    assert_eq!(super::lab::reader(&disk).unknown_files().len(), odd.len() + 1);
    let (log, report) = open(&disk).unwrap();
    assert_eq!(report.verdict, TailVerdict::Clean);
    assert_eq!(report.unknown_files.len(), odd.len() + 1, "{:?}", report.unknown_files);
    log.append(&[record(77, 10)], at(1001)).unwrap();
    assert_eq!(payloads(&whole(&log.reader().unwrap())).len(), expected.len() + 1);
    for name in odd {
        assert_eq!(disk.read(&folder.join(name)).unwrap(), name.as_bytes(), "{name}");
    }
    assert!(disk.read(&folder.join("00000000000000000099-00000003.seg.tmp")).is_err());
}

/// A folder that is not a ledger is refused, and nothing is left in it.
#[test]
fn non_ledger_folder_stays_untouched() {
    let disk = SimDisk::new();
    disk.create_dir(Path::new("/empty")).unwrap();
    disk.create_dir(Path::new("/var")).unwrap();
    disk.create_dir(Path::new("/var/log")).unwrap();
    disk.create(Path::new("/var/log/messages")).unwrap();
    disk.create(Path::new("/file")).unwrap();
    let before = disk.files(Path::new("/"));
    for path in ["/empty", "/var", "/file", "/nowhere", "/file/below"] {
        let error = plan_ledger::log::Log::open(Path::new(path), super::lab::options(&disk), 1);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::NotALedger, "{path}");
    }
    assert_eq!(disk.files(Path::new("/")), before);
    // No ledger is created where something exists.
    let error = plan_ledger::log::Log::create(Path::new("/var"), super::lab::options(&disk), 1);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::NotALedger);
    assert_eq!(disk.files(Path::new("/")), before);
}

/// Goal: a ledger that is created in an existing folder is, after a crash before any call, either none,
/// and can be created, or whole. The folder and what its file system has in it stay.
#[test]
fn interrupted_creation_in_an_existing_folder_is_none_or_whole() {
    use super::lab::{LOOKS, Restart};
    use plan_ledger::internals::sim::Loss;
    use plan_ledger::log::Log;
    let disk = SimDisk::new();
    disk.create_dir(&dir()).unwrap();
    disk.create_dir(&dir().join("lost+found")).unwrap();
    disk.sync_dir(&dir()).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    let calm = disk.fork();
    let before = calm.calls();
    Log::create(&dir(), super::lab::options(&calm), 1).unwrap().close().unwrap();
    let calls = calm.calls() - before;
    let (mut none, mut created) = (0, 0);
    for crash in 1..=calls {
        let power = [Loss::Everything, Loss::Nothing, Loss::Some(crash), Loss::Some(crash + 99)];
        for restart in power.map(Restart::Power).into_iter().chain([Restart::Process]) {
            let story = format!("crash before call {crash} of {calls}, {restart:?}");
            let disk = disk.fork();
            disk.crash_at(disk.calls() + crash);
            drop(Log::create(&dir(), super::lab::options(&disk), 1));
            let disk = restart.of(&disk);
            let (log, _) = match Log::open(&dir(), super::lab::options(&disk), 2) {
                Err(error) if error.kind() == ErrorKind::NotALedger => {
                    none += 1;
                    let again = Log::create(&dir(), super::lab::options(&disk), 2);
                    again.unwrap_or_else(|error| panic!("{story}: {error}")).close().unwrap();
                    Log::open(&dir(), super::lab::options(&disk), 3).unwrap()
                }
                opened => {
                    created += 1;
                    opened.unwrap_or_else(|error| panic!("{story}: {error}"))
                }
            };
            log.append(&[record(1, 40)], at(4)).unwrap();
            log.close().unwrap();
            let names = disk.list(&dir()).unwrap().into_iter().map(|entry| entry.name);
            let names: Vec<String> = names.collect();
            assert_eq!(names, [".gitignore", "HEAD", "LOCK", "log", "lost+found"], "{story}");
        }
    }
    assert!(none > 20 && created > 5, "{none} {created}");
    assert!(calls > LOOKS, "{calls}");
}

/// Goal: what is not the leftover of an interrupted creation is left alone, and named.
#[test]
fn folder_with_other_files_becomes_no_ledger() {
    use plan_ledger::log::Log;
    for names in [&["blob/"][..], &["HEAD"], &["notes"], &["lost+found"], &[".gitignore", "LOCK"]] {
        let disk = SimDisk::new();
        disk.create_dir(&dir()).unwrap();
        for name in names {
            match name.strip_suffix('/') {
                Some(folder) => disk.create_dir(&dir().join(folder)).unwrap(),
                None => drop(disk.create(&dir().join(name)).unwrap()),
            }
        }
        let before = disk.files(&dir());
        let error = Log::create(&dir(), super::lab::options(&disk), 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotALedger, "{names:?}: {error}");
        let name = names[0].trim_end_matches('/');
        assert!(error.to_string().contains(&format!("it has `{name}`")), "{error}");
        assert_eq!(disk.files(&dir()), before);
    }
    // A ledger whose folder `log` was moved away was in use: its other files stay.
    let disk = SimDisk::new();
    Log::create(&dir(), super::lab::options(&disk), 1).unwrap().close().unwrap();
    Log::open(&dir(), super::lab::options(&disk), 2).unwrap().0.close().unwrap();
    disk.rename(&dir().join("log"), &dir().join("log.new-ledger.tmp")).unwrap();
    let before = disk.files(&dir());
    let error = Log::create(&dir(), super::lab::options(&disk), 3).unwrap_err();
    assert!(error.to_string().contains("a ledger in use"), "{error}");
    assert_eq!(disk.files(&dir()), before);
}
