//! `ledger receipt`: reports the result of an attempt.

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::options::{
    LedgerArgs, TokenArg, WaitLimit, claim_with_wait, parse_wait_limit, read_json_value, read_text,
};
use crate::output::{Code, Failure};
use crate::protocol::{Answer, NextStep, Request};

const EXAMPLES: &str = "\
Examples:
  ledger receipt 412 --output '{\"rows\": 12}'       success
  ledger receipt 412 --output @result.json --tokens 800 --artifact out.csv
  ledger receipt 412 --failed transient --message 'connection lost'
  ledger receipt 412 --output done --next --json   and claim the next step, in the same commit

With --next the exit codes are those of `ledger claim`: 1 means that there is no more work. The
receipt is recorded even then; only exit code 6 means that it came too late.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReceiptArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    #[command(flatten)]
    token: TokenArg,
    /// The output: JSON, or else text; @FILE for a file's content, - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", conflicts_with = "receipt")]
    output: Option<String>,
    /// The attempt failed, with this class of failure
    #[arg(long, value_name = "CLASS", conflicts_with_all = ["replan", "receipt"])]
    failed: Option<FailureClassChoice>,
    /// The reason for the failure
    #[arg(long, value_name = "TEXT", requires = "failed")]
    message: Option<String>,
    /// Whether the failed attempt had its side effects
    #[arg(long, value_name = "WHAT", requires = "failed")]
    disposition: Option<DispositionChoice>,
    /// Report that the step needs a new plan version, for this reason
    #[arg(long, value_name = "REASON", conflicts_with = "receipt")]
    replan: Option<String>,
    /// Its cost, in millionths of the currency unit
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "receipt")]
    cost_micros: u64,
    /// The tokens that it used
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "receipt")]
    tokens: u64,
    /// A file that it produced
    #[arg(long, value_name = "PATH", conflicts_with = "receipt")]
    artifact: Vec<String>,
    /// A side effect that it committed, by name or key
    #[arg(long, value_name = "KEY", conflicts_with = "receipt")]
    side_effect: Vec<String>,
    /// A variable to set
    #[arg(long = "set", value_name = "NAME=JSON", conflicts_with = "receipt")]
    variables: Vec<String>,
    /// The whole receipt as JSON (format/hand-off.md); - for standard input
    #[arg(long, value_name = "FILE|-")]
    receipt: Option<String>,
    /// Claim the next step of the run for the same worker, in the same commit
    #[arg(long)]
    next: bool,
    /// The worker of the next step [default: the worker of this one]
    #[arg(long, value_name = "NAME", requires = "next", env = "LEDGER_WORKER")]
    #[arg(hide_env_values = true)]
    worker: Option<String>,
    /// Wait until a next step is ready, at most this many seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "forever")]
    #[arg(value_parser = parse_wait_limit, requires = "next")]
    wait: Option<WaitLimit>,
}

/// The class of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailureClassChoice {
    /// A retry may succeed
    Transient,
    /// A retry would fail again
    Deterministic,
    /// An assumption of the plan is wrong
    AssumptionBroken,
    /// Its money, tokens or time ran out
    BudgetExhausted,
    /// The cause is unknown
    Unknown,
}

/// The side effects of a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DispositionChoice {
    /// It had no side effects
    DidNotHappen,
    /// Its outcome is unknown
    Unknown,
    /// It had all its side effects
    Landed,
}

pub(crate) fn receipt(args: &ReceiptArgs) -> Result<Code, Failure> {
    let mut client = args.ledger.client();
    let next = args.next.then(|| NextStep { worker: args.worker.clone() });
    let request = Request::Receipt {
        token: args.token.token,
        receipt: receipt_json(args)?,
        duration_micros: 0,
        log_tail: String::new(),
        next,
    };
    let answer = client.ask(&request)?;
    let must_wait = args.wait.is_some() && answer.code == Code::Waiting.number();
    let Some((run, worker)) = next_claim(&answer, args).filter(|_| must_wait) else {
        return args.ledger.print(&answer);
    };
    let mut recorded = answer;
    recorded.lines.truncate(1);
    recorded.messages.clear();
    args.ledger.print(&recorded)?;
    let request = Request::Claim { run: Some(run), step: None, worker, lease_seconds: None };
    args.ledger.print(&claim_with_wait(&mut client, &request, args.wait)?)
}

/// The run and the worker of the next claim.
fn next_claim(answer: &Answer, args: &ReceiptArgs) -> Option<(String, String)> {
    let line = answer.lines.last()?;
    let text = |member: &str| line.get(member).and_then(Value::as_str).map(str::to_owned);
    Some((text("run")?, args.worker.clone().or_else(|| text("worker"))?))
}

fn receipt_json(args: &ReceiptArgs) -> Result<Value, Failure> {
    if let Some(file) = &args.receipt {
        return serde_json::from_str(&read_text(file)?)
            .map_err(|error| Failure::Usage(format!("{file}: invalid receipt: {error}")));
    }
    let mut receipt = Map::new();
    let mut put = |name: &str, value: Value| receipt.insert(name.to_owned(), value);
    match (args.failed, &args.replan) {
        (Some(class), _) => {
            put("outcome", json!("failed"));
            put("class", json!(json_name(&class)));
            put("message", json!(args.message.as_deref().unwrap_or_default()));
            put("disposition", json!(args.disposition.as_ref().map(json_name)));
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
        put("output", read_json_value(output)?);
    }
    let artifacts = args.artifact.iter().map(|path| json!({ "path": path }));
    put("artifacts", artifacts.collect());
    put("side_effects", json!(args.side_effect));
    put("cost", json!({ "money_micros": args.cost_micros, "tokens": args.tokens }));
    let mut variables = Map::new();
    for assignment in &args.variables {
        let Some((name, value)) = assignment.split_once('=') else {
            let message = format!("--set: expected NAME=JSON, found `{assignment}`");
            return Err(Failure::Usage(message));
        };
        variables.insert(name.to_owned(), read_json_value(value)?);
    }
    put("variables", Value::Object(variables));
    Ok(Value::Object(receipt))
}

/// The name of a choice in JSON.
fn json_name(choice: &impl ValueEnum) -> String {
    let value = choice.to_possible_value();
    value.map(|value| value.get_name().replace('-', "_")).unwrap_or_default()
}
