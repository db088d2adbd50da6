//! The state hash: it covers the whole state, and each run through the run's own hash
//! (`format/snapshot.md`, section 3).
//!
//! Runs, leaves and plans keep their hashes until they change. Only [`state_hash`] uses them; what
//! checks a state uses [`computed_state_hash`], which would notice a hash that was kept too long.

use std::io;

use crate::ledger::codec::hash::hash_of_pieces;
use crate::ledger::codec::values::put;
use crate::plan::{ContentHash, Run, RunId, State};

use super::run_body::{self, PartHashes, put_count, put_many};

/// Hash of a state. At each record the live state has the same hash as a fold from the start or
/// from any snapshot.
#[must_use]
pub fn state_hash(state: &State) -> ContentHash {
    hash_of_pieces(|out| write_values(state, state.runs.hashes(run_hash), out))
}

/// As [`state_hash`], computed from the values alone.
#[must_use]
#[doc(hidden)]
pub fn computed_state_hash(state: &State) -> ContentHash {
    hash_of_pieces(|out| write_values(state, state.runs.computed_hashes(computed_run_hash), out))
}

pub(crate) fn run_hash(run: &Run) -> ContentHash {
    hash_of_run(run, PartHashes::Kept)
}

/// As [`run_hash`], computed from the values alone.
pub(crate) fn computed_run_hash(run: &Run) -> ContentHash {
    hash_of_run(run, PartHashes::Computed)
}

fn hash_of_run(run: &Run, hashes: PartHashes) -> ContentHash {
    hash_of_pieces(|out| run_body::encode_covered(run, hashes, out).map(drop))
}

fn write_values(
    state: &State,
    runs: impl Iterator<Item = (RunId, ContentHash)>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let State { seq, time, names, ended, summaries, caps, account, .. } = state;
    let State {
        in_flight,
        in_flight_by_owner,
        in_flight_by_tag,
        due,
        questions,
        dispatched,
        lost,
        ..
    } = state;
    put(out, &(seq, time, account))?;
    put_many(out, names)?;
    put_many(out, ended)?;
    put_many(out, summaries)?;
    put_many(out, caps)?;
    put_many(out, in_flight)?;
    put_many(out, in_flight_by_owner)?;
    put_many(out, in_flight_by_tag)?;
    put_many(out, due)?;
    put_many(out, questions)?;
    put_many(out, dispatched)?;
    put_many(out, lost)?;
    put_count(out, state.runs.len())?;
    let mut rows = runs.zip(state.runs.overviews());
    rows.try_for_each(|((id, hash), (_, overview))| put(out, &(id, hash, overview)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ledger::codec::hash::plan_draft;
    use crate::plan::{Command, Plan, Route, RunPolicy, SecretHash, Step, execute};

    /// A run with steps in three leaves.
    fn state() -> State {
        let step = |number: usize| Step { id: format!("s{number}"), ..Step::default() };
        let plan = Plan { steps: (0..150).map(step).collect(), ..Plan::default() };
        let mut state = State::default();
        let (name, policy) = ("run".to_owned(), RunPolicy::default());
        let (reason, inputs) = (String::new(), BTreeMap::new());
        let draft = plan_draft(&plan).unwrap();
        let command = Command::StartRun { name, policy, reason, draft, inputs };
        execute(&mut state, 1, 1, &command).unwrap();
        state
    }

    fn dispatch(state: &mut State, step: Option<u32>) {
        let command = Command::Dispatch {
            process: None,
            secret: SecretHash::default(),
            run: RunId(1),
            step: step.map(crate::plan::StepNumber),
            worker: "w".to_owned(),
            route: Route::default(),
            lease: None,
        };
        execute(state, state.seq + 1, 2, &command).unwrap();
    }

    /// Goal: after every change the hash is that of the values, whatever was kept before. An audit never
    /// uses a kept hash.
    #[test]
    fn changed_leaf_has_another_hash() {
        let mut state = state();
        let mut hashes = vec![state_hash(&state)];
        for step in [None, Some(70), Some(150), None, Some(71)] {
            dispatch(&mut state, step);
            let kept = state_hash(&state);
            assert_eq!(kept, computed_state_hash(&state), "{step:?}");
            assert!(!hashes.contains(&kept), "{step:?}");
            hashes.push(kept);
        }
    }

    /// Goal: a copy of a state shares leaves with it, and neither sees a change of the other.
    #[test]
    fn change_of_a_copy_does_not_change_the_state() {
        let state = state();
        let before = state_hash(&state);
        let mut copy = state.clone();
        dispatch(&mut copy, Some(70));
        assert_ne!(state_hash(&copy), before);
        assert_eq!((state_hash(&state), computed_state_hash(&state)), (before, before));
        assert_eq!(state_hash(&copy), computed_state_hash(&copy));
    }
}
