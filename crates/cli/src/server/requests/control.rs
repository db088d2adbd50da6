//! Requests that control runs: pause, unpause, cancel, retry, skip, variables, budgets, caps, forks.

use serde_json::{Value, json};

use plan_ledger::ledger::ForkPoint;
use plan_ledger::plan::{
    CapScope, Command, Event, Json, Limits, NameKind, Run, RunId, State, StepEvent,
};

use super::context::RequestContext;
use super::find::{
    check_name, name, run_of, run_or_only, status, step_json, step_of, step_status, step_to_change,
    with,
};
use crate::protocol::{Answer, BudgetChange, Failure, Scope};

/// Executes a command about a run and reports the run's status.
fn on_run(
    context: RequestContext<'_, '_>,
    run_name: &str,
    (kind, words): (&str, &str),
    command: impl Fn(&Run) -> Command,
) -> Result<Answer, Failure> {
    let make = |state: &State| run_of(state, run_name).map(&command);
    context.execute(&make, |state, _| {
        let run = run_of(state, run_name)?;
        let now = status(Some(run));
        let line = json!({ "type": kind, "run": run.name, "status": now });
        Ok(Answer::success(line, format!("run {}: {words}", run.name)))
    })?
}

pub(crate) fn pause(
    context: RequestContext<'_, '_>,
    run: &str,
    by: &str,
    reason: &str,
) -> Result<Answer, Failure> {
    on_run(context, run, ("paused", "dispatch is paused"), |run| Command::Pause {
        run: run.id,
        by: by.to_owned(),
        reason: reason.to_owned(),
    })
}

pub(crate) fn resume(
    context: RequestContext<'_, '_>,
    run: &str,
    by: &str,
) -> Result<Answer, Failure> {
    on_run(context, run, ("resumed", "dispatch continues"), |run| Command::Resume {
        run: run.id,
        by: by.to_owned(),
    })
}

pub(crate) fn cancel(
    context: RequestContext<'_, '_>,
    run: &str,
    by: &str,
    reason: &str,
) -> Result<Answer, Failure> {
    on_run(context, run, ("cancelled", "the run is cancelled"), |run| Command::CancelRun {
        run: run.id,
        by: by.to_owned(),
        reason: reason.to_owned(),
    })
}

pub(crate) fn retry(
    context: RequestContext<'_, '_>,
    run_name: &str,
    step: Option<&str>,
    by: &str,
) -> Result<Answer, Failure> {
    let make = |state: &State| {
        let (run, by) = (run_of(state, run_name)?, by.to_owned());
        Ok(match step {
            Some(step) => Command::Retry { run: run.id, step: step_to_change(run, step)?, by },
            None => Command::RetryFailed { run: run.id, by },
        })
    };
    context.execute(&make, |state, events| {
        let run = run_of(state, run_name)?;
        let reopened = events.iter().filter_map(|(_, event)| match event {
            Event::Step(record) if matches!(record.event, StepEvent::Reopened(_)) => {
                Some(record.step)
            }
            _ => None,
        });
        let steps: Vec<_> = reopened.collect();
        let names: Vec<String> = steps.iter().map(|number| name(run, *number)).collect();
        let numbers: Vec<u32> = steps.iter().map(|number| number.0).collect();
        let now = status(Some(run));
        let line = json!({ "type": "retried", "run": run.name, "numbers": numbers, "status": now });
        let what = if names.is_empty() { "its own criteria".to_owned() } else { names.join(", ") };
        Ok(Answer::success(line, format!("run {}: {what}: retried; the run is {now}", run.name)))
    })?
}

pub(crate) fn skip(
    context: RequestContext<'_, '_>,
    (run_name, step): (&str, &str),
    by: &str,
    reason: &str,
) -> Result<Answer, Failure> {
    let make = |state: &State| {
        let run = run_of(state, run_name)?;
        let (by, reason) = (by.to_owned(), reason.to_owned());
        Ok(Command::Skip { run: run.id, step: step_to_change(run, step)?, by, reason })
    };
    context.execute(&make, |state, _| {
        let run = run_of(state, run_name)?;
        let number = step_of(run, step)?;
        let (step, now) = (step_status(run, number), status(Some(run)));
        let more = json!({ "status": step.to_string(), "run_status": now });
        let line = with(step_json("skipped", run, number), more);
        let text = format!("{}: the step is {step}; the run is {now}", name(run, number));
        Ok(Answer::success(line, text))
    })?
}

pub(crate) fn set(
    context: RequestContext<'_, '_>,
    run: Option<&str>,
    (variable, value): (&str, &Value),
    if_version: Option<u64>,
    by: &str,
) -> Result<Answer, Failure> {
    check_name(NameKind::Variable, variable)?;
    let value = Json::new(value);
    let make = |state: &State| {
        let run = run_or_only(state, run)?.id;
        let (name, value, by) = (variable.to_owned(), value.clone(), by.to_owned());
        Ok(Command::SetVariable { run, name, value, expected_version: if_version, by })
    };
    context.execute(&make, |state, events| {
        let set = events.iter().find_map(|(_, event)| match event {
            Event::VariableSet(set) => Some((set.run, set.version)),
            _ => None,
        });
        let (run, version) = set.unwrap_or((RunId(0), 0));
        let run = state.runs.get(&run).map_or("", |run| &run.name);
        let line = json!({ "type": "set", "run": run, "name": variable, "version": version });
        Answer::success(line, format!("{variable} of run {run}: version {version}"))
    })
}

/// Changes a budget.
pub(crate) fn budget(
    context: RequestContext<'_, '_>,
    run: Option<&str>,
    change: &BudgetChange,
    by: &str,
) -> Result<Answer, Failure> {
    let make = |state: &State| {
        let run = run.map(|name| run_of(state, name)).transpose()?;
        let limits = match run {
            Some(run) => run.limits(),
            None => state.account.limits.unwrap_or_default(),
        };
        let limits = changed(limits, change)?;
        Ok(Command::SetBudget { run: run.map(|run| run.id), limits, by: by.to_owned() })
    };
    context.execute(&make, |state, _| {
        let run = run.map(|name| run_of(state, name)).transpose()?;
        let (account, limits) = match run {
            Some(run) => (run.account, run.limits()),
            None => (state.account, state.account.limits.unwrap_or_default()),
        };
        let line = json!({
            "type": "budget", "run": run.map(|run| &run.name), "limits": limits,
            "spent": account.spent, "estimated": account.estimated,
            "reserved": account.reserved, "attempts": account.attempts,
            "is_paused": run.is_some_and(|run| run.pause.is_some()),
        });
        // The client renders the budget.
        Ok(Answer::success(line, String::new()))
    })?
}

fn changed(limits: Limits, change: &BudgetChange) -> Result<Option<Limits>, Failure> {
    let mut limits = limits;
    match change {
        BudgetChange::AsPlanned => return Ok(None),
        BudgetChange::Set(parts) => {
            for (part, limit) in parts {
                *part_of(&mut limits, part)? = *limit;
            }
        }
        BudgetChange::Raise(parts) => {
            for (part, by) in parts {
                let limit = part_of(&mut limits, part)?
                    .as_mut()
                    .ok_or_else(|| Failure::Rejected(format!("{part} has no limit to raise")))?;
                *limit = limit.saturating_add(*by);
            }
        }
    }
    Ok(Some(limits))
}

fn part_of<'a>(limits: &'a mut Limits, part: &str) -> Result<&'a mut Option<u64>, Failure> {
    match part {
        "money_micros" => Ok(&mut limits.money_micros),
        "tokens" => Ok(&mut limits.tokens),
        "attempts" => Ok(&mut limits.attempts),
        "wall_seconds" => Ok(&mut limits.wall_seconds),
        _ => Err(Failure::Usage(format!(
            "unknown budget part `{part}`; expected one of: money_micros, tokens, attempts, \
             wall_seconds"
        ))),
    }
}

pub(crate) fn cap(
    context: RequestContext<'_, '_>,
    scope: &Scope,
    limit: Option<u32>,
    by: &str,
) -> Result<Answer, Failure> {
    let make = |state: &State| {
        let scope = match scope {
            Scope::Ledger => CapScope::Ledger,
            Scope::Run(run) => CapScope::Run { run: run_of(state, run)?.id },
            Scope::Owner(owner) => CapScope::Owner { owner: owner.clone() },
            Scope::Tag(tag) => CapScope::Tag { tag: tag.clone() },
        };
        Ok(Command::SetCap { scope, limit, by: by.to_owned() })
    };
    context.execute(&make, |_, _| ())?;
    let (kind, whose) = match scope {
        Scope::Ledger => ("ledger", None),
        Scope::Run(run) => ("run", Some(run)),
        Scope::Owner(owner) => ("owner", Some(owner)),
        Scope::Tag(tag) => ("tag", Some(tag)),
    };
    let line = json!({ "type": "cap", "scope": kind, "name": whose, "limit": limit });
    let whose = whose.map_or_else(|| "the ledger".to_owned(), |name| format!("{kind} {name}"));
    let text = match limit {
        Some(limit) => format!("{whose}: at most {limit} attempts in flight"),
        None => format!("{whose}: no cap"),
    };
    Ok(Answer::success(line, text))
}

/// Forks a run.
pub(crate) fn fork(
    context: RequestContext<'_, '_>,
    (parent_name, new_name): (&str, &str),
    at: Option<u64>,
    step: Option<&str>,
) -> Result<Answer, Failure> {
    check_name(NameKind::Run, new_name)?;
    let ledger = context.ledger;
    let parent = context.read(|state| match state.names.get(parent_name) {
        Some(run) => Ok(*run),
        None => run_of(state, parent_name).map(|run| run.id),
    })??;
    let point = match (step, at) {
        (Some(step), None) => ForkPoint::Before(step_of(&ledger.run(parent)?, step)?),
        (None, Some(at)) => ForkPoint::After(at),
        _ => {
            let message = "a fork needs either `at` (a record) or `step`";
            return Err(Failure::Usage(message.to_owned()));
        }
    };
    // Reading the parent run takes time and needs no lock.
    let command = ledger.fork_command(parent, point, new_name)?;
    context.execute(&|_| Ok(command.clone()), |_, _| ())?;
    context.read(|state| {
        let run = run_of(state, new_name)?;
        let at = run.fork.as_ref().map_or(0, |forked| forked.at_seq);
        let now = status(Some(run));
        let line =
            json!({ "type": "forked", "run": new_name, "parent": parent_name, "at_seq": at });
        let text =
            format!("run {new_name}: forked from run {parent_name} at record {at}; it is {now}");
        Ok(Answer::success(line, text))
    })?
}

/// Records expired leases, delays and deadlines.
pub(crate) fn tick(context: RequestContext<'_, '_>) -> Result<Answer, Failure> {
    context.tick()?;
    let (seq, due) = context.read(|state| (state.seq, state.next_due()))?;
    let line = json!({ "type": "ticked", "seq": seq, "next_due_micros": due });
    Ok(Answer::success(line, format!("record {seq}: nothing more is due")))
}

/// Writes a snapshot.
pub(crate) fn snapshot(context: RequestContext<'_, '_>) -> Result<Answer, Failure> {
    let before = context.ledger.warnings().len();
    let made = context.ledger.snapshot::<State>()?;
    let (seq, hash, file) = (made.seq, made.state_hash, made.path.display().to_string());
    let line =
        json!({ "type": "snapshot", "seq": seq, "file": file, "state_hash": hash.to_string() });
    let answer = Answer::success(line, format!("record {seq}: state {hash}\n{file}"));
    Ok(Answer { messages: context.ledger.warnings().into_iter().skip(before).collect(), ..answer })
}
