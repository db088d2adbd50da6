//! Whether a process works on a step of a ledger: a worker reports about its own step, and controls
//! neither its run nor other steps. And whether it is this program, which alone runs commands that check.
//!
//! The runner names the ledger and the job in the environment of a worker, and its descendants inherit
//! both. A process that clears these variables and leaves its parents is not recognized: workers that
//! are not trusted run as another user (`docs/src/security.md`).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::protocol::Failure;
use crate::requests::Request;

/// How many ancestors of a process are looked at.
const ANCESTORS_MAX: usize = 64;

/// The longest environment that is read, in bytes.
const ENVIRONMENT_LENGTH_MAX: usize = 4 << 20;

/// The start of the names of variables that the program keeps for itself.
const OWN_VARIABLES: &str = "ledger.";

/// Rejects a request that a worker may not make, if this process is inside an attempt of the ledger.
///
/// # Errors
/// `InsideAttempt`.
pub(super) fn expect_allowed(request: &Request, process: u32, dir: &Path) -> Result<(), Failure> {
    // With these variables the program tells workers which files changed: they are not a worker's.
    let is_own = matches!(request, Request::Set(set) if set.name.starts_with(OWN_VARIABLES));
    if request.rules().from_attempt && !is_own {
        return Ok(());
    }
    if matches!(request, Request::Verdict(_)) {
        expect_this_program(process)?;
    }
    expect_outside(process, dir)
}

/// Rejects a verdict on a command of a process that is another program: this one sends a verdict only
/// after it has run the command, and no worker's word counts.
fn expect_this_program(process: u32) -> Result<(), Failure> {
    let file = |path: &str| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    let (own, peer) = (file("/proc/self/exe"), file(&format!("/proc/{process}/exe")));
    if peer.is_some() && own == peer || plan_ledger::mutant!(VerdictOfAnyProcess) {
        return Ok(());
    }
    Err(verdict_without_its_process())
}

/// The rejection of a verdict on a command that does not come from the process that ran it.
pub(crate) fn verdict_without_its_process() -> Failure {
    Failure::Rejected(
        "a verdict on a command is taken only from the process that ran it: `ledger run` or `ledger \
         work` of this program"
            .to_owned(),
    )
}

/// Rejects a process that is inside an attempt of the ledger.
///
/// # Errors
/// `InsideAttempt`.
pub(crate) fn expect_outside(process: u32, dir: &Path) -> Result<(), Failure> {
    match attempt_of(process, dir) {
        Some(step) if !plan_ledger::mutant!(WorkerControlsRun) => {
            Err(Failure::InsideAttempt { step })
        }
        _ => Ok(()),
    }
}

/// The step of this ledger on which a process, or an ancestor of it, works.
fn attempt_of(process: u32, dir: &Path) -> Option<String> {
    let ledger = fs::metadata(dir).ok()?;
    let is_ledger = |path: &[u8]| {
        let found = fs::metadata(Path::new(OsStr::from_bytes(path)));
        found.is_ok_and(|found| (found.dev(), found.ino()) == (ledger.dev(), ledger.ino()))
    };
    let mut process = process;
    for _ in 0..ANCESTORS_MAX {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        if environment.len() <= ENVIRONMENT_LENGTH_MAX
            && value_of(&environment, "LEDGER_WORK").is_some()
            && value_of(&environment, "LEDGER_DIR").is_some_and(is_ledger)
        {
            let step = value_of(&environment, "LEDGER_STEP").unwrap_or_default();
            return Some(String::from_utf8_lossy(step).into_owned());
        }
        process = parent_of(process).filter(|parent| *parent > 1)?;
    }
    None
}

fn value_of<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut variables = environment.split(|byte| *byte == 0);
    variables.find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// The parent of a process; `None` if it is gone, or unknown here.
fn parent_of(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name is in parentheses and may itself contain parentheses.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn sleeper(command: &str, ledger: &Path) -> Child {
        Command::new("sh")
            .args(["-c", command])
            .env("LEDGER_DIR", ledger)
            .env("LEDGER_WORK", "/x/7")
            .env("LEDGER_STEP", "build")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// A descendant without the variables has an ancestor with them; another ledger is not concerned.
    #[test]
    #[cfg(target_os = "linux")]
    fn descendants_of_a_worker_are_inside_its_attempt() {
        let (ledger, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut child = sleeper("env -i PATH=\"$PATH\" sleep 600 & echo $!; wait", ledger.path());
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        let inner: u32 = line.trim().parse().unwrap();
        for process in [child.id(), inner] {
            assert_eq!(attempt_of(process, ledger.path()).as_deref(), Some("build"));
            assert_eq!(attempt_of(process, other.path()), None);
        }
        assert_eq!(attempt_of(std::process::id(), ledger.path()), None);
        let killed = Command::new("kill").args(["-9", &inner.to_string()]).status();
        assert!(killed.unwrap().success());
        child.wait().unwrap();
    }
}
