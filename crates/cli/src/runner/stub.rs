//! Stub workers: they report immediately and deterministically, at no cost, for rehearsals of a
//! plan.
//!
//! Invariants: no threads, no randomness, and no clock except a sleep while idle. The report depends only on the step,
//! so two runs of a plan end with the same variables, even if they were killed. Stub workers judge only the reports of
//! stub workers.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Map, Value};

use plan_ledger::plan::{Criterion, ResolvedOutcome};
use plan_ledger::{AttemptToken, Json, Receipt, Result, Ruling, Step, Task};

use crate::protocol::WorkerKind;
use crate::runner::check::{Check, Checked, Subject};
use crate::runner::workers::{Report, StartFailure, Workers};

/// Workers that report immediately and deterministically.
#[derive(Debug, Default)]
pub struct StubWorkers {
    ready: VecDeque<Report>,
}

impl Workers for StubWorkers {
    fn kind(&self) -> WorkerKind {
        WorkerKind::Stub
    }

    fn confirm_dead(&mut self) -> Result<()> {
        Ok(())
    }

    fn start(&mut self, task: &Task) -> std::result::Result<(), StartFailure> {
        let receipt = Receipt { output: canned_output(&task.step).into(), ..Receipt::default() };
        self.ready.push_back(Report::Finished(task.token.seq, Box::new(receipt)));
        Ok(())
    }

    fn check(&mut self, check: &Check) -> Result<()> {
        let (ruling, evidence) = match check.subject {
            // As for `resolve_outcome`.
            Subject::Probe(_) => (Ruling::Fail, "not run: a lost stub worker did nothing"),
            Subject::Attempt(_) | Subject::Plan(_) | Subject::Replan(_) | Subject::Decision(_) => {
                (Ruling::Pass, "not run: with stub workers every check passes")
            }
        };
        let (ruling, evidence) = (Some(ruling), evidence.to_owned());
        let checked = Checked::free(check.subject, check.criterion, ruling, evidence);
        self.ready.push_back(Report::Checked(checked));
        Ok(())
    }

    fn next(&mut self, wait: Duration) -> Option<Report> {
        let report = self.ready.pop_front();
        if report.is_none() {
            // Without running workers the loop calls this only to wait for a timer.
            std::thread::sleep(wait);
        }
        report
    }

    fn settled(&mut self, _token: AttemptToken) {}

    fn stop_all(&mut self) {
        for report in &mut self.ready {
            *report = match &*report {
                Report::Finished(token, _) | Report::Stopped(token) => Report::Stopped(*token),
                moved @ (Report::Moved(_) | Report::MovedCheck(_)) => moved.clone(),
                Report::Checked(checked) => {
                    Report::Checked(Checked { ruling: None, ..checked.clone() })
                }
            };
        }
    }

    /// A stub has no effects, so a lost attempt did not happen.
    fn resolve_outcome(&self) -> Option<ResolvedOutcome> {
        Some(ResolvedOutcome::DidNotHappen)
    }
}

/// The canned output of a step: the value of its `extra.stub`, else a value for each declared
/// output that satisfies simple criteria, else a short text with the name of the step.
pub(crate) fn canned_output(step: &Step) -> Json {
    let stub = step.extra.get("stub");
    if let Some(stub) = stub.filter(|stub| !stub.is_object()) {
        return Json::new(stub);
    }
    let value = |name: &String| {
        let given = stub.and_then(|stub| stub.get(name)).cloned();
        let fitting = || step.acceptance.iter().find_map(|each| fitting_value(each, name));
        let text = || Value::from(format!("{name} of {}", step.id));
        (name.clone(), given.or_else(fitting).unwrap_or_else(text))
    };
    let mut output: Map<String, Value> = step.outputs.iter().map(value).collect();
    output.insert("stub".to_owned(), Value::from(step.id.clone()));
    if let Some(Value::Object(members)) = stub {
        output.extend(members.clone());
    }
    Json::from(Value::Object(output))
}

/// A value of an output that satisfies a criterion of a usual form: `output.x == 1`, `output.x >=
/// 300 && output.x <= 850`, `output.x in ["pass", "review"]`.
fn fitting_value(criterion: &Criterion, name: &str) -> Option<Value> {
    let Criterion::Cel(body) = criterion else { return None };
    body.split("&&").find_map(|part| {
        let part = part.trim().trim_matches(['(', ')']);
        let rest = part.strip_prefix("output.").unwrap_or(part).strip_prefix(name)?.trim_start();
        let literal = |text: &str| {
            // Both languages have the same literals, but strings may have single quotes here.
            let text = text.trim().replace('\'', "\"");
            serde_json::from_str::<Value>(&text).ok()
        };
        if let Some(list) = rest.strip_prefix("in ") {
            return literal(list)?.get(0).cloned();
        }
        let equal = ["==", ">=", "<="].iter().find_map(|sign| rest.strip_prefix(sign));
        if let Some(value) = equal {
            return literal(value);
        }
        let above = |sign: &str, by: i64| {
            let bound = literal(rest.strip_prefix(sign)?)?.as_i64()?;
            Some(Value::from(bound.checked_add(by)?))
        };
        above(">", 1).or_else(|| above("<", -1))
    })
}

#[cfg(test)]
mod tests {
    //! Goal: a plan with usual criteria can be tried without a worker.

    use serde_json::json;

    use super::*;

    #[test]
    fn canned_outputs_fit_usual_criteria() {
        let value = |body: &str| fitting_value(&Criterion::Cel(body.to_owned()), "x");
        assert_eq!(value("output.x == true"), Some(json!(true)));
        assert_eq!(value("output.x >= 300 && output.x <= 850"), Some(json!(300)));
        assert_eq!(value("y == 1 && x > 4"), Some(json!(5)));
        assert_eq!(value("output.x in ['pass', 'review']"), Some(json!("pass")));
        assert_eq!(value("output.x.size() == 3"), None);
        let step: Step = serde_json::from_value(json!({
            "id": "a", "outputs": ["x", "y", "z"], "acceptance": [{"cel": "output.x == 2"}],
            "extra": {"stub": {"y": [1]}}
        }))
        .unwrap();
        let expected = json!({"x": 2, "y": [1], "z": "z of a", "stub": "a"});
        assert_eq!(canned_output(&step).value(), expected);
    }
}
