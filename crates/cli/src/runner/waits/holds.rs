//! The holds of a run's runner, in a file of the ledger's `work` folder: other processes read there why the runner
//! waits, and the next runner continues with them.
//!
//! The file is derived data: without it, a worker meets the limit once more.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use plan_ledger::{Error, Result, RunId, State, StepNumber, StepStatus, Timestamp};
use plan_ledger_views::RunnerWait;

use super::hold::{Hold, Now};
use super::{nearest_second, wall_now};
use crate::runner::own_folder::{OwnFolder, create_own_folder, expect_no_link};

/// The waits of a runner, with their counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holds {
    /// Until its hours begin, no step is dispatched.
    pub(crate) hours: Option<Hold>,
    /// The owners with held steps.
    pub(crate) owners: Vec<OwnerHold>,
    /// By step: the failures in a row that were taken as limits.
    pub(crate) steps: BTreeMap<String, LimitsOfStep>,
}

/// An owner with held steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnerHold {
    pub(crate) owner: Option<String>,
    pub(crate) hold: Hold,
    /// How often it was held for quick failures in a row.
    pub(crate) quick_holds: usize,
    /// The usage limits without a time in a row.
    pub(crate) untimed: usize,
    /// The second owner: its workers take the steps meanwhile.
    pub(crate) second: Option<String>,
}

/// The failures of a step in a row that were taken as limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LimitsOfStep {
    pub(crate) owner: Option<String>,
    pub(crate) count: u32,
    /// The successes of its owner before them.
    pub(crate) successes: u64,
    /// Until when the step is delayed for the last one, in the ledger's time.
    pub(crate) until: Timestamp,
    /// Whether the limit is the step's own: others of its owner succeeded meanwhile.
    pub(crate) is_own: bool,
    /// Whether no waiting ends the limit, and a person is asked about the step.
    pub(crate) is_asked: bool,
}

impl LimitsOfStep {
    /// Whether a person has answered the question about the step, now that it has this status.
    pub(crate) fn is_answered(&self, status: Option<StepStatus>) -> bool {
        use StepStatus::{Dispatched, Gated, Reported};
        self.is_asked && !matches!(status, Some(Gated | Reported | Dispatched))
    }
}

impl Holds {
    /// The holds of the last runner of a run.
    pub(crate) fn read(ledger: &Path, run: RunId) -> Self {
        let path = folder(ledger).join(file_name(run));
        let text = expect_no_link(&folder(ledger)).ok().and_then(|()| fs::read(path).ok());
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// Write the holds of a run's runner. Without holds, there is no file.
    pub(crate) fn write(&self, ledger: &Path, run: RunId) -> Result<()> {
        let (folder, name) = (folder(ledger), file_name(run));
        if *self == Self::default() {
            if folder.exists() {
                expect_no_link(&folder)?;
                let _ = fs::remove_file(folder.join(&name));
                // It is not empty if another run has a file there.
                let _ = fs::remove_dir(&folder);
            }
            return Ok(());
        }
        create_own_folder(&folder)?;
        let failed = |error| Error::io("write what the runner waits for", &folder, error);
        let own = OwnFolder::open(&folder).map_err(failed)?;
        let part = format!("{name}.part");
        let text = serde_json::to_vec(self).unwrap_or_default();
        own.create(&part).and_then(|mut file| file.write_all(&text)).map_err(failed)?;
        own.rename(&part, &name).map_err(failed)
    }
}

fn folder(ledger: &Path) -> PathBuf {
    ledger.join("work").join("waits")
}

fn file_name(run: RunId) -> String {
    format!("run-{run}.json")
}

/// What the runners of all open runs wait for. One that is not at work has no hours.
pub(crate) fn runner_waits(
    ledger: &Path,
    state: &State,
    now: Timestamp,
    is_absent: impl Fn() -> bool,
) -> Vec<RunnerWait> {
    let now = Now { ledger: now, wall: wall_now() };
    let of_run = |run: RunId| {
        let Holds { hours, owners, steps } = Holds::read(ledger, run);
        let status =
            |step: &str| Some(state.runs.get(&run)?.step(StepNumber(step.parse().ok()?))?.status);
        let is_answered = |held: &OwnerHold| {
            let mut asked = steps.iter().filter(|(_, limits)| limits.owner == held.owner);
            held.hold.is_for_person && asked.any(|(step, limits)| limits.is_answered(status(step)))
        };
        let wait =
            move |(owner, second): (Option<String>, Option<String>), hold: Hold, is_whole_run| {
                let until = (!hold.is_for_person).then(|| nearest_second(hold.end(now)));
                let reason = hold.reason.clone();
                let wait = RunnerWait {
                    run,
                    owner,
                    is_whole_run,
                    until,
                    reason,
                    second,
                    is_limit: hold.is_limit,
                };
                Some(wait).filter(|_| !hold.is_over(now))
            };
        let hours = hours.filter(|_| !is_absent());
        let hours = hours.and_then(|hold| wait((None, None), hold, true));
        let owners = owners.into_iter().filter(|held| !is_answered(held));
        let owners = owners.filter_map(|held| wait((held.owner, held.second), held.hold, false));
        hours.into_iter().chain(owners).collect::<Vec<_>>()
    };
    state.runs.open().flat_map(of_run).collect()
}

#[cfg(test)]
mod tests {
    //! Goal: the next runner reads the written holds, and an unreadable file holds nothing.

    use super::*;

    #[test]
    fn holds_are_read_as_they_were_written() {
        let ledger = tempfile::tempdir().unwrap();
        let hold = Hold {
            until: 2,
            wall: Some(3),
            is_for_person: false,
            ..Hold::until_answer(1, "a usage limit".to_owned())
        };
        let owner = OwnerHold {
            owner: None,
            hold: hold.clone(),
            quick_holds: 1,
            untimed: 2,
            second: Some("codex".to_owned()),
        };
        let limits = LimitsOfStep { count: 1, until: 9, ..LimitsOfStep::default() };
        let steps = BTreeMap::from([("7".to_owned(), limits)]);
        let holds = Holds { hours: Some(hold), owners: vec![owner], steps };
        let read = || Holds::read(ledger.path(), RunId(1));
        for _ in 0..2 {
            holds.write(ledger.path(), RunId(1)).unwrap();
            assert_eq!(read(), holds);
        }
        fs::write(folder(ledger.path()).join(file_name(RunId(1))), "{").unwrap();
        assert_eq!(read(), Holds::default());
        Holds::default().write(ledger.path(), RunId(1)).unwrap();
        assert!(!folder(ledger.path()).exists());
    }
}
