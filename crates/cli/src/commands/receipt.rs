//! `ledger receipt`: reports the result of an attempt.

use clap::Args;
use serde_json::Value;

use plan_ledger::Cost;

use crate::options::{
    WaitLimit, WorkerLedgerArgs, claim_with_wait, environment, expect_owners_permitted,
    parse_money, parse_wait_limit, read_json_value, read_text,
};
use crate::output::{Code, Failure};
use crate::protocol::{Answer, OutcomeWord, ReceiptFile};
use crate::requests::{ClaimRequest, NextStep, ReceiptRequest};

const EXAMPLES: &str = "\
Examples:
  ledger receipt $TOKEN --output '{\"rows\": 12}'    success
  ledger receipt $TOKEN --output @result.json --cost 0.12 --tokens 800
  ledger receipt $TOKEN --failed transient --message 'connection lost'
  ledger receipt $TOKEN --output done --next --json   and claim the next step, in the same commit

With --next the exit codes are those of `ledger claim`: 1 means that there is no more work. The
receipt is recorded even then; only exit code 6 means that it came too late.";

// The options of the receipt and of the next step are members of the request.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("pid", |pid| pid.requires("next")))]
pub(crate) struct ReceiptArgs {
    #[command(flatten)]
    ledger: WorkerLedgerArgs,
    #[command(flatten)]
    request: ReceiptRequest,
    /// Report that the step needs a new plan version, for this reason
    #[arg(long, value_name = "REASON", conflicts_with = "class")]
    replan: Option<String>,
    /// Its cost: 1.25 or $1.25
    #[arg(long, value_name = "MONEY", default_value = "0", value_parser = parse_money)]
    cost: u64,
    /// The tokens that it used
    #[arg(long, value_name = "N", default_value_t = 0)]
    tokens: u64,
    /// The whole receipt as JSON, with variables, artifacts and side effects (format/hand-off.md); - for standard
    /// input
    #[arg(long, value_name = "FILE|-")]
    #[arg(conflicts_with_all = ["output", "class", "replan", "cost", "tokens"])]
    receipt: Option<String>,
    /// Claim the next step of the run for the same worker, in the same commit
    #[arg(long)]
    next: bool,
    #[command(flatten)]
    step: NextStep,
    /// Wait until a next step is ready, at most this long: `90s`, `5m`, or seconds
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "forever")]
    #[arg(value_parser = parse_wait_limit, requires = "next")]
    wait: Option<WaitLimit>,
}

pub(crate) fn receipt(args: &ReceiptArgs) -> Result<Code, Failure> {
    args.ledger.expect_folder_for_pid(&args.step.bound_to)?;
    expect_owners_permitted(&args.step.owners, args.ledger.dir())?;
    let mut client = args.ledger.client()?;
    let next = || NextStep { secret: environment().new_secret(), ..args.step.clone() };
    let request = ReceiptRequest {
        receipt: receipt_file(args)?,
        next: args.next.then(next),
        ..args.request.clone()
    };
    let answer = client.call(&request.into())?;
    let must_wait = args.wait.is_some() && answer.code == Code::Waiting.number();
    let Some((run, worker)) = next_claim(&answer, &args.step).filter(|_| must_wait) else {
        return args.ledger.print(&answer);
    };
    let mut recorded = answer;
    recorded.lines.truncate(1);
    recorded.messages.clear();
    args.ledger.print(&recorded)?;
    let NextStep { secret, owners, tags, bound_to, .. } = next();
    let new = ClaimRequest { run: run.into(), worker, ..ClaimRequest::new(secret) };
    let request = ClaimRequest { owners, tags, bound_to, ..new }.into();
    let claimed = claim_with_wait(&args.ledger, &mut client, &request, args.wait)?;
    args.ledger.print(&claimed)
}

/// The run and the worker of the next claim.
fn next_claim(answer: &Answer, next: &NextStep) -> Option<(String, String)> {
    let line = answer.lines.last()?;
    let text = |member: &str| line.get(member).and_then(Value::as_str).map(str::to_owned);
    Some((text("run")?, next.worker.clone().or_else(|| text("worker"))?))
}

/// The receipt, with what its options name: a file, standard input, the outcome.
fn receipt_file(args: &ReceiptArgs) -> Result<ReceiptFile, Failure> {
    if let Some(file) = &args.receipt {
        return serde_json::from_str(&read_text(file)?)
            .map_err(|error| Failure::Usage(format!("{file}: invalid receipt: {error}")));
    }
    let mut receipt = args.request.receipt.clone();
    if receipt.class.is_some() {
        receipt.outcome = OutcomeWord::Failed;
    } else if let Some(reason) = &args.replan {
        receipt.outcome = OutcomeWord::ReplanRequested;
        receipt.message = Some(reason.clone());
    }
    if let Some(Value::String(word)) = &receipt.output {
        receipt.output = Some(read_json_value(word)?);
    }
    receipt.cost = Cost { money_micros: args.cost, tokens: args.tokens };
    Ok(receipt)
}
