//! Why each version of a run's plan replaced the one before it, which work it discarded, and which it kept.

use std::collections::BTreeMap;

use plan_ledger::plan::ReplanRequested;
use plan_ledger::{Event, RecordedEvent, Run, RunId, StepNumber};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::Document;
use crate::words::counted;

/// The replacement of a plan version by another one, with the names of the steps.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ReplanRecordLine<'a> {
    /// Steps with discarded work, and removed steps.
    invalidated_steps: Vec<&'a str>,
    /// The new version.
    new_plan_version: u32,
    /// Steps that no earlier version had.
    new_steps: Vec<&'a str>,
    /// The version before.
    old_plan_version: u32,
    /// Steps with kept work.
    preserved_steps: Vec<&'a str>,
    /// The run.
    run: RunId,
    /// The record of the activation.
    seq: u64,
    /// Why the plan changed.
    trigger: String,
    /// The cause: the `is` of a replan trigger; null for a version that nothing requested.
    trigger_kind: Option<String>,
    /// Variables that are still trusted.
    trusted_state: Vec<&'a str>,
    /// Variables that are no longer trusted.
    untrusted_state: Vec<&'a str>,
}

/// The replans of a run.
#[derive(Debug)]
pub struct Replans<'a> {
    /// A line for each, the oldest first.
    pub lines: Vec<ReplanRecordLine<'a>>,
    counted: u32,
    max: Option<u32>,
}

impl<'a> Replans<'a> {
    /// The replans among these records of a run.
    #[must_use]
    pub fn of(run: &'a Run, records: &'a [RecordedEvent]) -> Self {
        let names = |numbers: &[StepNumber]| -> Vec<&str> {
            numbers.iter().filter_map(|number| Some(run.step(*number)?.id())).collect()
        };
        let mut requests: BTreeMap<u64, &ReplanRequested> = BTreeMap::new();
        let mut reasons: BTreeMap<u32, &str> = BTreeMap::new();
        let (mut active, mut lines) = (0, Vec::new());
        for record in records {
            match &record.event {
                Some(Event::ReplanRequested(requested)) => {
                    requests.insert(record.seq, requested);
                }
                Some(Event::PlanProposed(proposed)) => {
                    reasons.insert(proposed.version, &proposed.reason);
                }
                Some(Event::PlanActivated(activated)) => {
                    let old = std::mem::replace(&mut active, activated.version);
                    if old == 0 {
                        continue;
                    }
                    let request = requests.get(&activated.request);
                    let reason = request.map(|request| &*request.reason);
                    let reason = reason.or_else(|| reasons.get(&activated.version).copied());
                    let gone = [&activated.invalidated[..], &activated.removed[..]].concat();
                    let kind = request.and_then(|it| serde_json::to_value(&it.trigger).ok());
                    lines.push(ReplanRecordLine {
                        invalidated_steps: names(&gone),
                        new_plan_version: activated.version,
                        new_steps: names(&activated.added),
                        old_plan_version: old,
                        preserved_steps: names(&activated.preserved),
                        run: run.id,
                        seq: record.seq,
                        trigger: reason.unwrap_or_default().to_owned(),
                        trigger_kind: kind
                            .and_then(|kind| Some(kind.get("is")?.as_str()?.to_owned())),
                        trusted_state: shown_variables(&activated.trusted),
                        untrusted_state: shown_variables(&activated.untrusted),
                    });
                }
                _ => {}
            }
        }
        Self { lines, counted: run.replans, max: run.max_replans() }
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut document = Document::default();
        let max = self.max.map(|max| format!(" of at most {max}")).unwrap_or_default();
        document.line(format!("{}{max} count", counted(self.counted.into(), "replan")));
        for line in &self.lines {
            document.gap();
            document.line("replan_record:");
            let list = |names: &[&str]| format!("[{}]", names.join(", "));
            let fields = [
                ("trigger", line.trigger.clone()),
                ("old_plan_version", line.old_plan_version.to_string()),
                ("new_plan_version", line.new_plan_version.to_string()),
                ("invalidated_steps", list(&line.invalidated_steps)),
                ("preserved_steps", list(&line.preserved_steps)),
                ("new_steps", list(&line.new_steps)),
                ("trusted_state", format!("{{{}}}", line.trusted_state.join(", "))),
            ];
            for (name, text) in fields {
                document.indented(2, format!("{name}: {text}"));
            }
        }
        document
    }
}

/// The variables of the run without those that the program keeps for itself.
fn shown_variables(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).filter(|name| !name.starts_with("ledger.")).collect()
}
