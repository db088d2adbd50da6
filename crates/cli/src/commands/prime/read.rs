//! Reads the content of a prime from the newest state.

use std::path::Path;

use plan_ledger::internals::ledger::{Fold, LedgerTime};
use plan_ledger::plan::{StepEvent, StepRecord};
use plan_ledger::{Environment, Event, LedgerView, Run, State, StepNumber, Timestamp};
use plan_ledger_views::{
    AnswerNoteJson, Audience, ChangeJson, PrimeLine, RecordContent, content_text, damage_text,
    step_name,
};

use crate::commands::inspect::health::Health;
use crate::commands::inspect::health::overtaken::beside_prune;
use crate::output::reader;
use crate::protocol::{Failure, unchecked_text};
use crate::requests::{default_run, run_of};
use crate::server::{Surroundings, rollback_text};

/// How many changes a prime lists.
const LISTED_MAX: usize = 5;

/// How many records before the last one are looked at for changes of the run.
const CHANGES_READ_MAX: usize = 64;

/// The ledger that a prime is read from.
#[derive(Debug)]
pub(crate) struct ReadFrom<'a> {
    dir: &'a Path,
    view: LedgerView,
    fold: Fold,
    now: Timestamp,
    /// The records that it had before and now lacks.
    rollback: Option<String>,
    health: Health,
}

impl<'a> ReadFrom<'a> {
    /// Reads the newest state of a ledger, without its lock.
    ///
    /// # Errors
    /// Those of [`LedgerView::open`]. Damage is not an error here.
    pub(crate) fn open(dir: &'a Path, environment: &Environment) -> Result<Self, Failure> {
        let (view, fold, health) = beside_prune(|| {
            let view = LedgerView::open(dir, environment)?;
            let (fold, health) =
                Health::check_while(&view, dir, environment, || view.fold_recent())?;
            Ok((view, fold?, health))
        })?;
        let now = LedgerTime::of(view.log(), environment).now.max(fold.state.time);
        let rollback = rollback_text(dir, environment);
        Ok(Self { dir, view, fold, now, rollback, health })
    }

    /// The newest state.
    pub(crate) fn state(&self) -> &State {
        &self.fold.state
    }

    /// The ledger's time.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// The first problem, if the ledger is damaged or not all of it can be read.
    pub(crate) fn damage(&self) -> Option<String> {
        let first = self.fold.damage.first().map(damage_text);
        first.or_else(|| self.fold.unreadable.clone()).or_else(|| self.health.refusal())
    }

    /// The last answer of a person about a step, if it has a note.
    fn answer(&self, run: &Run, number: StepNumber) -> Option<AnswerNoteJson> {
        let records = self.view.step_records(run, number).ok()?;
        let answer = records.iter().rev().find_map(|record| match RecordContent::of(record) {
            RecordContent::Event(Event::Step(StepRecord {
                event: StepEvent::StepAnswered(event),
                ..
            })) => Some(event),
            _ => None,
        })?;
        AnswerNoteJson::of(run, number, answer)
    }

    /// The last changes of a run, newest first.
    fn changes(&self, run: &Run) -> Vec<ChangeJson> {
        let records = self.view.log().records_reverse(self.state().seq);
        // Damage ends the list: the line about damage names it.
        let records = records.take(CHANGES_READ_MAX).map_while(Result::ok);
        let changes = records.filter_map(|record| {
            let content = RecordContent::of(&record);
            let RecordContent::Event(event) = &content else { return None };
            if content.run() != Some(run.id) {
                return None;
            }
            let (_, text) = content_text(&record, &content);
            let subject = match event {
                Event::Step(event) => format!("{}: ", step_name(run, event.step)),
                _ => String::new(),
            };
            Some(ChangeJson { seq: record.seq, text: format!("{subject}{text}") })
        });
        changes.take(LISTED_MAX).collect()
    }
}

/// The prime of a run. Without a name: of the only active run, else of the newest.
///
/// # Errors
/// `Usage` for an unknown run.
pub(crate) fn read_prime(from: &ReadFrom<'_>, name: Option<&str>) -> Result<PrimeLine, Failure> {
    let state = from.state();
    let damage = from.damage().or_else(|| from.rollback.clone());
    let line = PrimeLine { damage, seq: state.seq, ..PrimeLine::default() };
    let run = match name {
        Some(name) => Some(run_of(state, name)?),
        None => match default_run(state) {
            Ok(id) => id.and_then(|id| state.runs.get(&id)),
            // Several runs are active.
            Err(_) => return Ok(PrimeLine { active_runs: active_runs(state), ..line }),
        },
    };
    Ok(match run {
        Some(run) => prime_of_run(line, from, run),
        None => line,
    })
}

fn active_runs(state: &State) -> Vec<String> {
    let overviews = state.runs.overviews().filter(|(_, overview)| overview.is_open());
    overviews.map(|(_, overview)| overview.name.clone()).collect()
}

/// The line with a run. Nothing is concluded from records that are missing.
fn prime_of_run(line: PrimeLine, from: &ReadFrom<'_>, run: &Run) -> PrimeLine {
    let around = Surroundings::now(from.dir, from.view.log(), from.state(), from.now);
    let of = (from.state(), run);
    let known = around.known(of, from.now, line.damage.is_some(), reader().min(Audience::Agent));
    let listed = PrimeLine::listed_steps(&known).into_iter();
    let answers = listed.filter_map(|number| from.answer(run, number)).collect();
    let unchecked = run.reported_steps();
    let unchecked =
        unchecked.filter_map(|number| Some((number, unchecked_text(from.dir, run, number)?)));
    let is_one_of_several = from.state().runs.open().count() > 1;
    let changes = from.changes(run);
    let line = PrimeLine { answers, changes, is_one_of_several, ..line };
    line.with_run(&known, unchecked.collect())
}
