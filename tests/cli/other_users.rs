//! Files of others: what a ledger of another person, or another user of the machine, can reach.
//! Real files, links and users; tests that need a second user run only as the superuser.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::command::{Place, report_skipped, start, wait_until};

/// A user that this one is not.
const OTHER: u32 = 65534;

const PLAN: &str = "steps: [{id: a, command: 'echo 1'}]";

fn is_superuser() -> bool {
    let is_superuser =
        fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !is_superuser {
        report_skipped("only the superuser can act as another user");
    }
    is_superuser
}

/// All files and folders below a folder.
fn below(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            let inside = if path.is_dir() { below(&path) } else { Vec::new() };
            std::iter::once(path).chain(inside)
        })
        .collect()
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o777
}

/// Story: a cloned repository had a `.ledger` with links, and the first command emptied `~/.bashrc`.
/// Method: each name of a ledger is a link to a file or a folder of the user.
#[test]
fn link_in_the_folder_of_a_ledger_leads_nowhere() {
    let mut tried = 0;
    for name in ["LOCK", "HEAD", ".gitignore", "log", "snap", "blob", "work"] {
        let place = Place::new();
        place.write("plan.yaml", PLAN);
        place.ledger("init").code(0);
        place.ledger("plan propose plan.yaml").code(0);
        place.ledger("plan approve plan --by ana").code(0);
        fs::create_dir(place.path("victim")).unwrap();
        place.write("victim/1.err", "precious");
        let own = place.path(".ledger").join(name);
        let is_file = ["LOCK", "HEAD", ".gitignore"].contains(&name);
        let _ = if is_file { fs::remove_file(&own) } else { fs::remove_dir_all(&own) };
        symlink(place.path(if is_file { "victim/1.err" } else { "victim" }), &own).unwrap();
        for command in
            ["note hello", "run plan.yaml", "snapshot", "serve", "prune --ended --yes", "status"]
        {
            let ended = place.ledger(command);
            tried += 1;
            assert!(!ended.status.success(), "{name}: {command}");
            ended.complains(&[&format!("`{name}` in it is a link")]);
        }
        let victim = fs::read_to_string(place.path("victim/1.err"));
        assert_eq!(victim.ok().as_deref(), Some("precious"), "{name}");
        assert_eq!(below(&place.path("victim")).len(), 1, "{name}");
    }
    println!("measured: files of other users: {tried} commands on links in a ledger");
}

/// The folders and files of a runner are further down.
#[test]
fn link_in_the_folder_of_a_runner_leads_nowhere() {
    for name in ["run-1", "claims", "checks"] {
        let place = Place::new();
        place.write("plan.yaml", "steps: [{id: a, acceptance: [{command: 'true'}]}]");
        place.ledger("init").code(0);
        place.ledger("plan propose plan.yaml").code(0);
        fs::create_dir(place.path("victim")).unwrap();
        place.write("victim/1.err", "precious");
        fs::create_dir_all(place.path(".ledger/work")).unwrap();
        symlink(place.path("victim"), place.path(".ledger/work").join(name)).unwrap();
        place.ledger("work plan -- true");
        place.ledger_with(&["run", "plan.yaml", "--worker", "true"]);
        let victim = fs::read_to_string(place.path("victim/1.err"));
        assert_eq!(victim.ok().as_deref(), Some("precious"), "{name}");
        assert_eq!(below(&place.path("victim")).len(), 1, "{name}");
    }
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    place.write("victim", "precious");
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    let work = place.path(".ledger/work/run-1");
    fs::create_dir_all(&work).unwrap();
    // The first attempt has a low token.
    for token in 1..40 {
        for suffix in ["in", "out", "err", "pid", "receipt"] {
            symlink(place.path("victim"), work.join(format!("{token}.{suffix}"))).unwrap();
        }
    }
    place.ledger("run plan.yaml");
    assert_eq!(fs::read_to_string(place.path("victim")).unwrap(), "precious");
    println!("measured: files of other users: {} links in the folder of a runner", 3 + 39 * 5);
}

#[test]
fn shared_ledger_is_for_a_group() {
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    place.ledger("init --shared").code(0);
    place.ledger("run plan.yaml").code(0);
    place.ledger("snapshot").code(0);
    for name in ["", "log", "snap"] {
        assert_eq!(mode(&place.path(".ledger").join(name)), 0o770, "{name}");
    }
    for name in ["HEAD", "LOCK"] {
        assert_eq!(mode(&place.path(".ledger").join(name)), 0o660, "{name}");
    }
    if is_superuser() {
        chown(place.path(".ledger"), Some(OTHER), None).unwrap();
        place.ledger("status").code(0);
        place.ledger("note hello --ledger .ledger").code(0);
    }
}

/// Story: in a shared folder another user made the folder first in which a ledger is created, and owned
/// the ledger from then on.
/// Goal: its name is random; a folder of another user that looks like it is neither used nor in the way. Nor
/// does a folder of another user become a ledger.
#[test]
fn ledger_is_not_created_in_a_folder_of_another_user() {
    if !is_superuser() {
        return;
    }
    let place = Place::new();
    for name in ["x.new-ledger.tmp", "x.0123456789abcdef.new-ledger.tmp", "theirs"] {
        fs::create_dir(place.path(name)).unwrap();
        chown(place.path(name), Some(OTHER), None).unwrap();
    }
    place.ledger("init --ledger x").code(0);
    place
        .ledger("init --ledger theirs")
        .code(6)
        .complains(&["belongs to another user (number 65534)"]);
    for name in ["x.new-ledger.tmp", "x.0123456789abcdef.new-ledger.tmp", "theirs"] {
        assert_eq!(below(&place.path(name)), Vec::<std::path::PathBuf>::new(), "{name}");
    }
}

/// A ledger above the working folder may be another user's: it is only used if it is named.
#[test]
fn ledger_of_another_user_above_is_not_found() {
    if !is_superuser() {
        return;
    }
    let place = Place::new();
    place.ledger("init").code(0);
    fs::create_dir(place.path("deep")).unwrap();
    let status = || {
        Command::new(env!("CARGO_BIN_EXE_ledger"))
            .args(["root"])
            .current_dir(place.path("deep"))
            .env_remove("LEDGER_DIR")
            .output()
            .unwrap()
    };
    assert!(status().status.success());
    chown(place.path(".ledger"), Some(OTHER), None).unwrap();
    assert!(!status().status.success());
}

/// A user who is not the owner reads what the permissions allow, and writes nothing.
#[test]
fn ledger_of_another_user_is_not_written() {
    if !is_superuser() {
        return;
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        return report_skipped("setpriv is not installed");
    }
    let place = Place::new();
    place.ledger("init").code(0);
    for path in below(&place.path(".ledger")).iter().chain([&place.path(".ledger")]) {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    for folder in place.path(".ledger").ancestors().skip(1).take(2) {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let program = place.path("ledger-program");
    fs::copy(env!("CARGO_BIN_EXE_ledger"), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let id = format!("--reuid={OTHER}");
    let as_other = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([id.as_str(), "--regid=65534", "--clear-groups"]).arg(&program);
        command.args(words).current_dir(place.path("")).output().unwrap()
    };
    assert!(as_other(&["root", ".ledger"]).status.success());
    let written = as_other(&["note", "hello", "--ledger", ".ledger"]);
    let said = String::from_utf8_lossy(&written.stderr);
    assert!(said.contains("belongs to another user (number 0)"), "{said}");
}

/// Story: after `mv` of the ledger the runner did not find the worker of a killed runner, and both
/// attempts ran side by side.
#[test]
fn worker_of_a_moved_ledger_is_ended() {
    let place = Place::new();
    // The worker keeps no file of the ledger open.
    place.write(
        "plan.yaml",
        "steps: [{id: a, command: 'exec >log 2>&1 </dev/null; echo $$ >> $TALLY; if [ $LEDGER_ATTEMPT = 1 ]; \
         then sleep 600; fi'}]",
    );
    let runner = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the worker is at work", || place.tally().len() == 1);
    assert!(runner.kill().was_killed());
    fs::rename(place.path(".ledger"), place.path("moved")).unwrap();
    place.ledger("run plan.yaml --ledger moved").code(0);
    let first = place.tally()[0].clone();
    let status = fs::read_to_string(format!("/proc/{first}/stat")).unwrap_or_default();
    assert!(status.is_empty() || status.contains(") Z "), "{status}");
}

/// A ledger that begins at the path of a moved one is not the moved one: its runner and its workers go on.
#[test]
fn worker_of_a_moved_ledger_is_no_orphan_of_a_new_one() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps: [{id: a, idempotent: 'no', command: 'echo $$ >> $TALLY; until [ -e go ]; do sleep 0.1; done; echo \
         made > made'}]",
    );
    place.write("other.yaml", "steps: [{id: b}]");
    let runner = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the worker is at work", || place.tally().len() == 1);
    fs::rename(place.path(".ledger"), place.path("moved")).unwrap();
    let other = place.ledger("run other.yaml --stub --accept-rollback").code(0);
    assert!(!other.err.contains("killed"), "{}", other.err);
    place.write("go", "");
    wait_until("the worker is done", || place.path("made").exists());
    runner.end();
    place.ledger("resume --ledger moved --yes").code(0);
    assert_eq!(place.tally().len(), 1);
}

/// A sparse file is far longer than its disk: hashing it took hours, with the run waiting.
#[test]
fn sparse_file_is_not_hashed() {
    let place = Place::new();
    let command = "truncate -s 8T big; echo \
                   '{\"outcome\":\"succeeded\",\"artifacts\":[{\"path\":\"big\"}]}' > $LEDGER_RECEIPT";
    place.write(
        "plan.yaml",
        format!("steps:\n  - id: a\n    changes: [big]\n    command: |\n      {command}\n"),
    );
    place.ledger("run plan.yaml").code(0);
    let shown = place.ledger("inspect .ledger step plan a --full").code(0);
    shown.says(&["the artifact big is too long to be hashed"]);
    fs::remove_file(place.path("big")).unwrap();
}

/// A header of a tar file announces a name of 6 GiB.
#[test]
fn archive_that_announces_a_long_name_is_not_read_into_memory() {
    let place = Place::new();
    for kind in *b"LKx" {
        let mut header = [0; 512];
        header[..13].copy_from_slice(b"././@LongLink");
        header[100..107].copy_from_slice(b"0000644");
        header[124..136].copy_from_slice(b"60000000000\0");
        header[156] = kind;
        header[257..265].copy_from_slice(b"ustar  \0");
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let path = place.path("evil.tar");
        fs::write(&path, header).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(7 << 30).unwrap();
        let ended = place.ledger("inspect evil.tar");
        assert!(!ended.status.success());
        ended.complains(&["tar entry header is not canonical"]);
        fs::remove_file(path).unwrap();
    }
}

/// The command, under a umask that lets every user read.
fn with_open_umask(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 022; exec \"$0\" \"$@\""]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.current_dir(command.get_current_dir().unwrap());
    shell
}

/// Goal: what the program writes for a user can be read by that user alone, whatever the umask says: logs,
/// snapshots, every form of export, the page, keys, and the files of workers at work. Outputs and standard
/// errors have secrets, and a user who may read LOCK may lock it.
#[test]
fn files_of_a_ledger_are_private() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps:
  - {id: done, command: 'echo 1'}
  - {id: a, after: [done], command: 'echo at work; echo a >> $TALLY; sleep 600'}
",
    );
    let open = |words: &[&str]| with_open_umask(&place.command(words));
    let runner = start(&mut open(&["run", "plan.yaml"]));
    wait_until("the worker is at work", || place.tally().len() == 1);
    let mut work = below(&place.path(".ledger"));
    assert!(work.iter().filter(|path| path.starts_with(place.path(".ledger/work"))).count() > 3);
    runner.kill();
    start(&mut open(&["snapshot"])).end().code(0);
    work.extend(below(&place.path(".ledger")));
    work.extend([place.path(".ledger"), place.path(".ledger/log")]);
    assert!(work.iter().any(|path| path.starts_with(place.path(".ledger/snap"))));
    let exports: [(&str, &[&str]); 5] = [
        ("x.jsonl", &["export", ".ledger", "-o"]),
        ("a.sqlite", &["export", ".ledger", "--format", "sqlite", "-o"]),
        ("a.otlp", &["export", ".ledger", "--format", "otlp", "-o"]),
        ("a.html", &["report", "--html"]),
        ("a.key", &["root", "--new-key", "example.org/night", "--key"]),
    ];
    for (name, words) in exports {
        let ended = start(&mut open(&[words, &[name]].concat())).end();
        assert!(ended.status.success(), "{name}: {ended:?}");
        work.push(place.path(name));
    }
    for path in &work {
        // A socket or a file of a process that is gone may be gone, too.
        let Ok(found) = path.symlink_metadata() else { continue };
        let private = if found.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(path), private, "{}", path.display());
    }
    println!("measured: files of other users: {} files and folders are private", work.len());
}

/// A folder of another user, and a copy of the program that this user may start. `None` if the test cannot act as
/// that user.
fn folder_of_another_user() -> Option<(Place, PathBuf, PathBuf)> {
    if !is_superuser() {
        return None;
    }
    for tool in ["setpriv", "prlimit"] {
        if Command::new(tool).arg("--version").output().is_err() {
            report_skipped(&format!("{tool} is not installed"));
            return None;
        }
    }
    let place = Place::new();
    let folder = place.path("of-another-user");
    fs::create_dir(&folder).unwrap();
    chown(&folder, Some(OTHER), Some(OTHER)).unwrap();
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let program = place.path("ledger-program");
    // By another process: one that another test starts meanwhile would keep the copy open for writing.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_ledger")).arg(&program).status();
    assert!(copied.unwrap().success());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    Some((place, folder, program))
}

/// Goal: a server that cannot start a thread says so to the client that needs one, executes what needs none,
/// and works again when it can.
#[test]
fn server_that_cannot_start_a_thread_says_so() {
    let Some((_place, folder, program)) = folder_of_another_user() else { return };
    let ids = [format!("--reuid={OTHER}"), format!("--regid={OTHER}")];
    let as_other = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(&ids).arg("--clear-groups").arg(&program).args(words).args(["--ledger", "l"]);
        command.current_dir(&folder).env("HOME", &folder).env_remove("LEDGER_DIR");
        command
    };
    let run = |words: &[&str]| start(&mut as_other(words)).end();
    run(&["init"]).code(0);
    let server = start(&mut as_other(&["serve"]));
    wait_until("the server listens", || folder.join("l/serve.sock").exists());
    run(&["note", "before"]).code(0);
    // The soft limit alone: its owner raises it again.
    let limit = |threads: &str| {
        let words = [format!("--pid={}", server.id()), format!("--nproc={threads}")];
        let mut command = Command::new("setpriv");
        let limited = command.args(&ids).args(["--clear-groups", "prlimit"]).args(&words).status();
        assert!(limited.unwrap().success());
    };
    limit("1:");
    let refused = run(&["snapshot"]).code(7);
    refused.complains(&[
        "cannot start a thread for this request, which was not executed",
        "ulimit -u",
    ]);
    run(&["note", "meanwhile"]).code(0);
    limit("1000:");
    run(&["snapshot"]).code(0);
    server.kill();
}

/// A server that cannot start its threads ends with an error; one that says that it serves, serves.
#[test]
fn server_that_cannot_start_does_not_say_that_it_serves() {
    let Some((_place, folder, program)) = folder_of_another_user() else { return };
    let as_other = |threads: u32, words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={OTHER}"), format!("--regid={OTHER}")]);
        command.args(["--clear-groups", "prlimit", &format!("--nproc={threads}")]);
        command.arg(&program).args(words).args(["--ledger", "l"]);
        command.current_dir(&folder).env("HOME", &folder).env_remove("LEDGER_DIR");
        command
    };
    start(&mut as_other(1000, &["init"])).end().code(0);
    // Other tests have processes of the same user, so the limit that is too low is found.
    let (mut refused, mut served) = (0, 0);
    for threads in 1..200 {
        let mut server = start(&mut as_other(threads, &["serve"]));
        let mut is_ended = false;
        wait_until("it serves or ends", || {
            is_ended = server.is_over();
            is_ended || server.said("serving")
        });
        if is_ended {
            refused += 1;
            let ended = server.end();
            assert_ne!(ended.status.code(), Some(0), "{ended:?}");
            assert!(!ended.out.contains("serving"), "{ended:?}");
            continue;
        }
        served += 1;
        start(&mut as_other(1000, &["note", "hello"])).end().code(0);
        server.kill();
        break;
    }
    assert!(refused > 0 && served == 1, "{refused} {served}");
}
