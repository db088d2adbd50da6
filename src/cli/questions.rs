//! What waits for somebody, and the one command by which they answer.
//!
//! Invariants:
//! - Looking takes no lock. An answer is bound to what its question showed.
//! - Whatever is said about a step goes to what is open about it: the doubt about a lost attempt,
//!   the question that was asked, or the failure that nobody here decides about.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::ledger::{Environment, Ledger, LedgerView, Reply};
use crate::plan::{
    Command, ContentHash, Decision, Finding, Question, QuestionId, Rejection, Run, RunId,
    RunStatus, StepNumber, StepStatus,
};
use crate::runner::{Pending, pending};

use super::answer::{name, run_of, status, step_of};
use super::exit::{Code, Failure};
use super::{answer_with, json, open, outcome, print, say, text};

const QUESTIONS_EXAMPLES: &str = "\
Examples:
  ledger questions                                 in .ledger
  ledger questions --ledger other --json

It takes no lock, and may be used while a run goes on. Answers take it: they are given when the
run has stopped to wait for them.";

/// `ledger questions`.
#[derive(Debug, Args)]
#[command(after_help = QUESTIONS_EXAMPLES)]
pub(super) struct QuestionsArgs {
    /// The ledger's folder
    #[arg(long, value_name = "DIR", default_value = ".ledger")]
    ledger: PathBuf,
    /// Print JSON Lines
    #[arg(long)]
    json: bool,
}

const ANSWER_EXAMPLES: &str = "\
Examples:
  ledger answer 12 yes --by ana --note 'read it'           a question, by its number
  ledger answer my-plan deploy yes --by ana                the question about a step
  ledger answer my-plan send-mail landed --by ana          a lost attempt did it: accept the step
  ledger answer my-plan '#12' did-not-happen --by ana      it did not: deal the step again
  ledger answer my-plan build retry --by ana               a failure that the plan leaves to others

`ledger questions` lists what is open, and what may be answered.";

/// `ledger answer`.
#[derive(Debug, Args)]
#[command(
    after_help = ANSWER_EXAMPLES,
    override_usage = "ledger answer [OPTIONS] --by <WHO> <QUESTION> <ANSWER>\n       \
                      ledger answer [OPTIONS] --by <WHO> <RUN> <STEP> <ANSWER>"
)]
pub(super) struct AnswerArgs {
    /// The ledger's folder
    #[arg(long, value_name = "DIR", default_value = ".ledger")]
    ledger: PathBuf,
    /// A question's number, or a run's name and a step's id or number (#37); then the answer
    #[arg(required = true, num_args = 2..=3, value_name = "WHAT ANSWER")]
    words: Vec<String>,
    /// Who says so
    #[arg(long, value_name = "WHO")]
    by: String,
    /// Why, or what was seen
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    /// Hash of what was shown, or how it begins: an answer to anything else is refused
    #[arg(long, value_name = "HASH")]
    shown: Option<String>,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
}

/// `ledger questions`.
pub(super) fn questions(args: &QuestionsArgs) -> Result<Code, Failure> {
    let view = LedgerView::open(&args.ledger, &Environment::system())?;
    let fold = view.fold(u64::MAX)?;
    let is_open = |run: &&Run| !matches!(run.status, RunStatus::Ended(_));
    let open = fold.state.runs.values().filter(is_open);
    let items: Vec<(&Run, Pending)> =
        open.flat_map(|run| for_people(run).map(move |item| (run, item))).collect();
    if args.json {
        for (run, item) in &items {
            print(&format!("{}\n", item_json(run, item)))?;
        }
        print(&format!("{}\n", json!({ "type": "summary", "waiting": items.len() })))?;
    } else if items.is_empty() {
        answer_with("nothing waits for anybody\n")?;
    }
    for (run, item) in items.iter().filter(|_| !args.json) {
        let text = text::pending(item, &run.name, &args.ledger);
        answer_with(&format!("run {}: {text}\n", run.name))?;
    }
    if fold.damage.is_empty() && fold.unreadable.is_none() {
        return Ok(Code::Fine);
    }
    say("records are damaged or cannot be read: there may be more; see `ledger inspect`");
    Ok(Code::Damaged)
}

/// What a run waits for that somebody can do something about.
fn for_people(run: &Run) -> impl Iterator<Item = Pending> {
    let is_open = |item: &Pending| match item {
        Pending::Held { .. } | Pending::Caps { .. } | Pending::Blocked { .. } => false,
        // A run that has not come so far is not asked about.
        Pending::PlanVerdicts { criteria } => !criteria.is_empty(),
        Pending::Verdicts { .. }
        | Pending::Question { .. }
        | Pending::Review { .. }
        | Pending::Paused { .. }
        | Pending::Replan { .. }
        | Pending::Decision { .. }
        | Pending::Doubt { .. } => true,
    };
    pending(run).into_iter().filter(is_open)
}

fn item_json(run: &Run, item: &Pending) -> Value {
    let mut value = json::pending(item);
    if let Some(object) = value.as_object_mut() {
        object.insert("type".to_owned(), json!("waiting"));
        object.insert("run".to_owned(), json!(run.name));
    }
    value
}

/// `ledger answer`.
pub(super) fn answer(args: &AnswerArgs) -> Result<Code, Failure> {
    let ledger = open(&args.ledger, &Environment::system())?;
    let (value, line) = match args.words.as_slice() {
        [question, answer] => {
            let id = question_id(question)?;
            let line = answer_question(&ledger, id, answer, args)?;
            (json!({ "type": "answered", "question": id.0, "answer": answer }), line)
        }
        [run, step, answer] => {
            let state = ledger.state();
            let run = run_of(&state, run)?;
            let number = step_of(run, step)?;
            let line = answer_step(&ledger, run, number, answer, args)?;
            let now = step_status(&ledger, run.id, number).map(|now| now.to_string());
            let (run, id) = (&run.name, run.step(number).map(|step| &step.id));
            let value = json!({
                "type": "answered", "run": run, "step": id, "number": number.0,
                "answer": answer, "status": now,
            });
            (value, line)
        }
        _ => return Err(Failure::Usage("expected a question or a step, and an answer".to_owned())),
    };
    ledger.close()?;
    outcome(args.json, &value, &line)?;
    Ok(Code::Fine)
}

/// A question's number: `12` or `@12`.
fn question_id(word: &str) -> Result<QuestionId, Failure> {
    let number = word.strip_prefix('@').unwrap_or(word).parse();
    number.map(QuestionId).map_err(|_| {
        Failure::Usage(format!(
            "`{word}` is no question's number; `ledger questions` lists them. About a step: give \
             run, step and answer"
        ))
    })
}

fn answer_question(
    ledger: &Ledger,
    id: QuestionId,
    answer: &str,
    args: &AnswerArgs,
) -> Result<String, Failure> {
    let state = ledger.state();
    let found = state.questions.get(&id).and_then(|run| {
        let run = state.runs.get(run)?;
        Some((run, run.questions.get(&id)?))
    });
    let Some((run, question)) = found else {
        return Err(crate::error::Error::from(Rejection::NoSuchQuestion(id)).into());
    };
    ledger.answer(id, reply(question, answer, args)?)?;
    let about = match question.step {
        Some(step) => {
            let now = step_status(ledger, run.id, step).unwrap_or(StepStatus::Removed);
            format!("{}: the step is {now}", name(run, step))
        }
        None => format!("run {} is {}", run.name, status(ledger, run.id)),
    };
    Ok(format!("question {}: answered {answer}; {about}", id.0))
}

/// An answer that is bound to what was shown.
fn reply(question: &Question, answer: &str, args: &AnswerArgs) -> Result<Reply, Failure> {
    let shown = question.asked.shown;
    if let Some(seen) = &args.shown
        && !begins_with(shown, seen)
    {
        return Err(Failure::Refused(format!(
            "you were shown {seen}, but the question is about {}: look at it again with `ledger \
             questions`",
            shown.short()
        )));
    }
    let (answer, by, note) = (answer.to_owned(), args.by.clone(), args.note.clone());
    Ok(Reply { answer, by, note, shown })
}

/// Whether a hash begins with what somebody typed of it: enough to mean it.
pub(super) fn begins_with(hash: ContentHash, typed: &str) -> bool {
    const DIGITS_MIN: usize = 8;
    typed.len() >= DIGITS_MIN && hash.to_string().starts_with(&typed.to_ascii_lowercase())
}

fn step_status(ledger: &Ledger, run: RunId, step: StepNumber) -> Option<StepStatus> {
    ledger.state().runs.get(&run).and_then(|run| run.step(step)).map(|step| step.status)
}

fn answer_step(
    ledger: &Ledger,
    run: &Run,
    step: StepNumber,
    answer: &str,
    args: &AnswerArgs,
) -> Result<String, Failure> {
    let state = run.step(step);
    let status = state.map_or(StepStatus::Removed, |step| step.status);
    let question = state.and_then(|step| step.hold.question);
    match (finding(answer), question, decision(answer)) {
        (Some(finding), _, _) => {
            let (run, by, evidence) = (run.id, args.by.clone(), args.note.clone());
            ledger.execute(&Command::ResolveDoubt { run, step, finding, by, evidence })?;
        }
        (None, Some(id), _) => return answer_question(ledger, id, answer, args),
        (None, None, Some(decision)) if status == StepStatus::Reported => {
            let rule = format!("answer:{}", args.by);
            ledger.decide_failure(run.id, step, decision, &rule, &args.note)?;
        }
        _ if status == StepStatus::InDoubt => {
            let message = format!("`{answer}`: expected `landed` or `did-not-happen`");
            return Err(Failure::Usage(message));
        }
        _ => {
            let name = name(run, step);
            let message = format!("{name}: nothing is asked about it: the step is {status}");
            return Err(Failure::Refused(message));
        }
    }
    let now = step_status(ledger, run.id, step).unwrap_or(StepStatus::Removed);
    Ok(format!("{}: the step is {now}", name(run, step)))
}

fn finding(word: &str) -> Option<Finding> {
    match word {
        "landed" => Some(Finding::Landed),
        "did-not-happen" | "did_not_happen" => Some(Finding::DidNotHappen),
        _ => None,
    }
}

fn decision(word: &str) -> Option<Decision> {
    match word {
        "retry" => Some(Decision::Retry),
        "fail" => Some(Decision::Fail),
        "fallback" => Some(Decision::Fallback),
        "replan" => Some(Decision::Replan),
        "escalate" => Some(Decision::Escalate),
        "abort" => Some(Decision::Abort),
        _ => None,
    }
}
