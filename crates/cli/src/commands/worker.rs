//! The commands of workers: claim a step, keep it, give it back, report on it.
//!
//! Invariant: a token alone names run, step and attempt; a process that `ledger run` or `ledger
//! work` started has it in its environment.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::server::{
    Act, Answer, EffectState, MESSAGE_LENGTH_MAX, NextStep, Work, expect_short_numbers, too_long,
};
use plan_ledger::error::Error;
use plan_ledger::ledger::parse_duration;

use super::acting::Where;
use super::exit::{Code, Failure};
use super::patience::{Patience, claimed, patience};

const CLAIM_EXAMPLES: &str = "\
Examples:
  ledger claim --worker me --json                  the next step of the only run, as its hand-off
  ledger claim my-plan --wait                      wait until there is one
  ledger claim my-plan --step deploy --wait 60     that step, once it is ready, within a minute
  ledger claim --lease 2h                          hold it for two hours without a sign of life

Exit code 1: there is no more work. 3: nothing is ready, or that step is not, but may become so. 6:
somebody else has that step, and the message says who and until when; or it is settled.";

/// `ledger claim`.
#[derive(Debug, Args)]
#[command(after_help = CLAIM_EXAMPLES)]
pub(super) struct ClaimArgs {
    #[command(flatten)]
    place: Where,
    /// The run's name; may be left out where only one goes on
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// This step, by id or number (#37), and no other
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    lease: ForHowLong,
    /// Wait until there is something to do, at most so many seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "forever")]
    #[arg(value_parser = patience)]
    wait: Option<Patience>,
}

/// For how long a step is held.
#[derive(Debug, Args)]
struct ForHowLong {
    /// Hold it so long without a sign of life: `90s`, `2h`, or seconds [default: as the plan says]
    #[arg(long, value_name = "DURATION", value_parser = lease_seconds)]
    lease: Option<u32>,
}

/// A lease in whole seconds, and a begun one counts.
fn lease_seconds(text: &str) -> Result<u32, String> {
    let expected = || format!("expected a time from 1s to {}s, such as 90s or 2h 30m", u32::MAX);
    let lease = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => parse_duration(text).ok_or_else(expected)?,
    };
    let seconds = lease.as_secs().saturating_add(u64::from(lease.subsec_nanos() > 0));
    u32::try_from(seconds).ok().filter(|seconds| *seconds > 0).ok_or_else(expected)
}

/// Who works.
#[derive(Debug, Args)]
pub(super) struct Who {
    /// The worker's name
    #[arg(long, value_name = "NAME", default_value = "worker", env = "LEDGER_WORKER")]
    #[arg(hide_env_values = true)]
    pub(super) worker: String,
}

/// `ledger claim`.
pub(super) fn claim(args: &ClaimArgs) -> Result<Code, Failure> {
    let (run, step) = (args.run.clone(), args.step.clone());
    let (worker, lease_seconds) = (args.who.worker.clone(), args.lease.lease);
    let act = Act::Claim { run, step, worker, lease_seconds };
    let answer = claimed(&mut args.place.client(), &act, args.wait)?;
    args.place.print(&answer)
}

const TOKEN_EXAMPLES: &str = "\
Examples:
  ledger renew 412                                 the lease begins anew
  ledger renew 412 --lease 2h                      and this one is longer
  ledger release 412 --reason 'not my kind of work'
  ledger renew                                     within a worker: $LEDGER_TOKEN

Renew when half of the lease is over. A step whose lease runs out is dealt to somebody else.";

/// `ledger renew`.
#[derive(Debug, Args)]
#[command(after_help = TOKEN_EXAMPLES)]
pub(super) struct RenewArgs {
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    token: Token,
    #[command(flatten)]
    lease: ForHowLong,
}

/// The right to report on an attempt.
#[derive(Debug, Args)]
struct Token {
    /// The attempt's token, as `claim` printed it
    #[arg(value_name = "TOKEN", env = "LEDGER_TOKEN", hide_env_values = true)]
    token: u64,
}

/// `ledger release`.
#[derive(Debug, Args)]
#[command(after_help = TOKEN_EXAMPLES)]
pub(super) struct ReleaseArgs {
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    token: Token,
    /// The work had begun, and may have changed the world
    #[arg(long)]
    begun: bool,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

/// `ledger renew`.
pub(super) fn renew(args: &RenewArgs) -> Result<Code, Failure> {
    args.place.act(&Act::Renew { token: args.token.token, lease_seconds: args.lease.lease })
}

/// `ledger release`.
pub(super) fn release(args: &ReleaseArgs) -> Result<Code, Failure> {
    let work = if args.begun { Work::Begun } else { Work::NotBegun };
    let (token, reason) = (args.token.token, args.reason.clone());
    args.place.act(&Act::Release { token, work, reason })
}

const RECEIPT_EXAMPLES: &str = "\
Examples:
  ledger receipt 412 --output '{\"rows\": 12}'       it is done
  ledger receipt 412 --output @result.json --tokens 800 --artifact out.csv
  ledger receipt 412 --failed transient --message 'connection lost'
  ledger receipt 412 --output done --next --json   and claim the next step, in the same commit

With --next the exit codes are those of `ledger claim`: 1 says that there is no more work. The
receipt is recorded all the same; only exit code 6 says that it came too late.";

/// `ledger receipt`.
#[derive(Debug, Args)]
#[command(after_help = RECEIPT_EXAMPLES)]
pub(super) struct ReceiptArgs {
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    token: Token,
    /// What was produced: JSON, or else text; @FILE for a file's content, - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", conflicts_with = "receipt")]
    output: Option<String>,
    /// It failed, in this way
    #[arg(long, value_name = "CLASS", conflicts_with_all = ["replan", "receipt"])]
    failed: Option<Class>,
    /// Why it failed
    #[arg(long, value_name = "TEXT", requires = "failed")]
    message: Option<String>,
    /// What the failed attempt left in the world
    #[arg(long, value_name = "WHAT", requires = "failed")]
    disposition: Option<LeftIn>,
    /// The plan should change first, for this reason
    #[arg(long, value_name = "REASON", conflicts_with = "receipt")]
    replan: Option<String>,
    /// Millionths of the currency unit that it cost
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "receipt")]
    cost_micros: u64,
    /// Tokens that it cost
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "receipt")]
    tokens: u64,
    /// A file that it made
    #[arg(long, value_name = "PATH", conflicts_with = "receipt")]
    artifact: Vec<String>,
    /// A side effect that it committed, by name or key
    #[arg(long, value_name = "KEY", conflicts_with = "receipt")]
    side_effect: Vec<String>,
    /// A variable to set
    #[arg(long = "set", value_name = "NAME=JSON", conflicts_with = "receipt")]
    variables: Vec<String>,
    /// The whole receipt as JSON, as format/hand-off.md has it; - for standard input
    #[arg(long, value_name = "FILE|-")]
    receipt: Option<String>,
    /// Deal the next step of the run to the same worker, in the same commit
    #[arg(long)]
    next: bool,
    /// Who gets the next step [default: who had this one]
    #[arg(long, value_name = "NAME", requires = "next", env = "LEDGER_WORKER")]
    #[arg(hide_env_values = true)]
    worker: Option<String>,
    /// Wait until there is a next step, at most so many seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "forever")]
    #[arg(value_parser = patience, requires = "next")]
    wait: Option<Patience>,
}

/// Why an attempt failed, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Class {
    /// It may pass
    Transient,
    /// It would fail again
    Deterministic,
    /// What the plan assumes is not so
    AssumptionBroken,
    /// It would cost more than it may
    BudgetExhausted,
    /// Nobody knows
    Unknown,
}

/// What a failed attempt left in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LeftIn {
    /// Nothing
    DidNotHappen,
    /// Nobody knows
    InDoubt,
    /// All that it was to do
    Landed,
}

/// `ledger receipt`.
pub(super) fn receipt(args: &ReceiptArgs) -> Result<Code, Failure> {
    let mut client = args.place.client();
    let next = args.next.then(|| NextStep { worker: args.worker.clone() });
    let act = Act::Receipt {
        token: args.token.token,
        receipt: receipt_json(args)?,
        duration_micros: 0,
        log_tail: String::new(),
        next,
    };
    let answer = client.ask(&act)?;
    let is_to_wait = args.wait.is_some() && answer.code == Code::Waiting.number();
    let Some((run, worker)) = next_claim(&answer, args).filter(|_| is_to_wait) else {
        return args.place.print(&answer);
    };
    let mut recorded = answer;
    recorded.lines.truncate(1);
    recorded.said.clear();
    args.place.print(&recorded)?;
    let act = Act::Claim { run: Some(run), step: None, worker, lease_seconds: None };
    args.place.print(&claimed(&mut client, &act, args.wait)?)
}

/// For which run, and for whom, the next step is claimed.
fn next_claim(answer: &Answer, args: &ReceiptArgs) -> Option<(String, String)> {
    let line = answer.lines.last()?;
    let text = |member: &str| line.get(member).and_then(Value::as_str).map(str::to_owned);
    Some((text("run")?, args.worker.clone().or_else(|| text("worker"))?))
}

fn receipt_json(args: &ReceiptArgs) -> Result<Value, Failure> {
    if let Some(file) = &args.receipt {
        let text = if file == "-" { standard_input()? } else { content(Path::new(file))? };
        return serde_json::from_str(&text)
            .map_err(|error| Failure::Usage(format!("{file}: this is not a receipt: {error}")));
    }
    let mut receipt = Map::new();
    let mut put = |name: &str, value: Value| receipt.insert(name.to_owned(), value);
    match (args.failed, &args.replan) {
        (Some(class), _) => {
            put("outcome", json!("failed"));
            put("class", json!(word(&class)));
            put("message", json!(args.message.as_deref().unwrap_or_default()));
            put("disposition", json!(args.disposition.as_ref().map(word)));
        }
        (None, Some(reason)) => {
            put("outcome", json!("replan_requested"));
            put("message", json!(reason));
        }
        (None, None) => {
            put("outcome", json!("succeeded"));
        }
    }
    if let Some(output) = &args.output {
        put("output", value_of(output)?);
    }
    let artifacts = args.artifact.iter().map(|path| json!({ "path": path }));
    put("artifacts", artifacts.collect());
    put("side_effects", json!(args.side_effect));
    put("cost", json!({ "money_micros": args.cost_micros, "tokens": args.tokens }));
    let mut variables = Map::new();
    for assignment in &args.variables {
        let Some((name, value)) = assignment.split_once('=') else {
            let message = format!("`{assignment}`: expected NAME=JSON");
            return Err(Failure::Usage(message));
        };
        variables.insert(name.to_owned(), value_of(value)?);
    }
    put("variables", Value::Object(variables));
    Ok(Value::Object(receipt))
}

/// A choice, as programs write it.
fn word(choice: &impl ValueEnum) -> String {
    let value = choice.to_possible_value();
    value.map(|value| value.get_name().replace('-', "_")).unwrap_or_default()
}

/// A value that somebody typed: JSON, or else text; of a file, or of standard input.
pub(super) fn value_of(text: &str) -> Result<Value, Failure> {
    let text = match text.strip_prefix('@') {
        Some(file) => content(Path::new(file))?,
        None if text == "-" => standard_input()?,
        None => text.to_owned(),
    };
    let text = text.trim_end_matches(['\n', '\r']);
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let Ok(value) = serde_json::from_str(text) else { return Ok(Value::String(text.to_owned())) };
    expect_short_numbers(text)?;
    Ok(value)
}

fn content(path: &Path) -> Result<String, Failure> {
    let read = fs::File::open(path).and_then(bounded);
    let text =
        read.map_err(|error| Failure::Usage(Error::io("read the file", path, error).to_string()))?;
    text.ok_or_else(|| too_long(&path.display().to_string()))
}

fn standard_input() -> Result<String, Failure> {
    let text = bounded(std::io::stdin().lock())
        .map_err(|error| Failure::Usage(format!("cannot read standard input: {error}")))?;
    text.ok_or_else(|| too_long("standard input"))
}

/// All that there is to read, if it is not more than an act may have: some files have no end.
fn bounded(from: impl Read) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    from.take(MESSAGE_LENGTH_MAX + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= MESSAGE_LENGTH_MAX) {
        let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
        return String::from_utf8(bytes).map(Some).map_err(invalid);
    }
    Ok(None)
}

const EFFECT_EXAMPLES: &str = "\
Examples, within a worker that sends a mail once, whatever happens:
  ledger effect mail:7 --what 'the monthly mail' && send-mail 7 && ledger effect mail:7 --done

Exit code 6 says that it was done before, by an attempt that did not live to tell: do not do it
again.";

/// `ledger effect`.
#[derive(Debug, Args)]
#[command(after_help = EFFECT_EXAMPLES)]
pub(super) struct EffectArgs {
    #[command(flatten)]
    place: Where,
    /// The key that makes it happen once in the run
    #[arg(value_name = "KEY")]
    key: String,
    /// The attempt's token, as `claim` printed it
    #[arg(long, value_name = "TOKEN", env = "LEDGER_TOKEN", hide_env_values = true)]
    token: u64,
    /// What it is, for people [default: the key]
    #[arg(long, value_name = "TEXT", default_value = "")]
    what: String,
    /// It was done
    #[arg(long)]
    done: bool,
}

/// `ledger effect`.
pub(super) fn effect(args: &EffectArgs) -> Result<Code, Failure> {
    let state = if args.done { EffectState::Committed } else { EffectState::Intended };
    let (token, key, effect) = (args.token, args.key.clone(), args.what.clone());
    args.place.act(&Act::Effect { token, key, effect, state })
}
