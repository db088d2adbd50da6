//! `ledger receipt`: reports the result of an attempt.

use clap::Args;
use serde_json::Value;

use plan_ledger::{Cost, FailureClass};

use crate::options::{
    FAILURE_CLASSES, RouteArgs, TokenArg, WaitLimit, WorkerLedgerArgs, claim_with_wait,
    environment, parse_money, parse_seconds, parse_wait_limit, parse_words, read_json_value,
    read_text,
};
use crate::output::{Code, Failure};
use crate::protocol::{Answer, OutcomeWord, ReceiptFile};
use crate::requests::{ClaimRequest, NextStep, ReceiptRequest};

use super::claim::bound_to;

const EXAMPLES: &str = "\
Examples:
  ledger receipt $TOKEN --output '{\"rows\": 12}'    success
  ledger receipt $TOKEN --output @result.json --cost 0.12 --tokens 800
  ledger receipt $TOKEN --failed transient --message 'connection lost'
  ledger receipt $TOKEN --output done --next --json   and claim the next step, in the same commit

With --next the exit codes are those of `ledger claim`: 1 means that there is no more work. The
receipt is recorded even then; only exit code 6 means that it came too late.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReceiptArgs {
    #[command(flatten)]
    ledger: WorkerLedgerArgs,
    #[command(flatten)]
    token: TokenArg,
    /// The output: JSON, or else text; @FILE for a file's content, - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", conflicts_with = "receipt")]
    output: Option<String>,
    /// The attempt failed, with this class of failure
    #[arg(long, value_name = "CLASS", conflicts_with_all = ["replan", "receipt"])]
    #[arg(value_parser = parse_words::<FailureClass>(FAILURE_CLASSES))]
    failed: Option<FailureClass>,
    /// The reason for the failure
    #[arg(long, value_name = "TEXT", requires = "failed")]
    message: Option<String>,
    /// How long to wait before the next attempt, as after a usage limit: `90s`, `2h`, or seconds
    #[arg(long, value_name = "DURATION", requires = "failed", value_parser = parse_seconds)]
    retry_after: Option<u64>,
    /// Report that the step needs a new plan version, for this reason
    #[arg(long, value_name = "REASON", conflicts_with = "receipt")]
    replan: Option<String>,
    /// Its cost: 1.25 or $1.25
    #[arg(long, value_name = "MONEY", default_value = "0", conflicts_with = "receipt")]
    #[arg(value_parser = parse_money)]
    cost: u64,
    /// The tokens that it used
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "receipt")]
    tokens: u64,
    /// The whole receipt as JSON, with variables, artifacts and side effects (format/hand-off.md); - for standard
    /// input
    #[arg(long, value_name = "FILE|-")]
    receipt: Option<String>,
    /// Claim the next step of the run for the same worker, in the same commit
    #[arg(long)]
    next: bool,
    /// The worker of the next step [default: the worker of this one]
    // Not with `requires`: a worker, or a host, sets the variable for all commands.
    #[arg(long, value_name = "NAME", env = "LEDGER_WORKER")]
    #[arg(hide_env_values = true)]
    worker: Option<String>,
    #[command(flatten)]
    route: RouteArgs,
    /// Wait until a next step is ready, at most this long: `90s`, `5m`, or seconds
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "forever")]
    #[arg(value_parser = parse_wait_limit, requires = "next")]
    wait: Option<WaitLimit>,
    /// The process that does the next step (`$$` in a shell): when it is gone, another worker gets it
    #[arg(long, value_name = "PID", requires = "next")]
    pid: Option<u32>,
}

pub(crate) fn receipt(args: &ReceiptArgs) -> Result<Code, Failure> {
    args.ledger.expect_folder_for_pid(args.pid)?;
    args.route.expect_permitted(args.ledger.dir())?;
    let mut client = args.ledger.client()?;
    let (owners, tags) = args.route.lists();
    let secret = environment().new_secret();
    let bound_to = bound_to(args.pid)?;
    let worker = args.worker.clone();
    let bound = bound_to.clone();
    let next = args.next.then_some(NextStep { worker, secret, owners, tags, bound_to: bound });
    let request = ReceiptRequest {
        token: args.token.token,
        receipt: receipt_file(args)?,
        duration_micros: 0,
        log_tail: String::new(),
        next,
    };
    let answer = client.call(&request.into())?;
    let must_wait = args.wait.is_some() && answer.code == Code::Waiting.number();
    let Some((run, worker)) = next_claim(&answer, args).filter(|_| must_wait) else {
        return args.ledger.print(&answer);
    };
    let mut recorded = answer;
    recorded.lines.truncate(1);
    recorded.messages.clear();
    args.ledger.print(&recorded)?;
    let (owners, tags) = args.route.lists();
    let new = ClaimRequest::new(environment().new_secret());
    let named = ClaimRequest { run: Some(run), worker, ..new };
    let request = ClaimRequest { owners, tags, bound_to, ..named }.into();
    let claimed = claim_with_wait(&args.ledger, &mut client, &request, args.wait)?;
    args.ledger.print(&claimed)
}

/// The run and the worker of the next claim.
fn next_claim(answer: &Answer, args: &ReceiptArgs) -> Option<(String, String)> {
    let line = answer.lines.last()?;
    let text = |member: &str| line.get(member).and_then(Value::as_str).map(str::to_owned);
    Some((text("run")?, args.worker.clone().or_else(|| text("worker"))?))
}

fn receipt_file(args: &ReceiptArgs) -> Result<ReceiptFile, Failure> {
    if let Some(file) = &args.receipt {
        return serde_json::from_str(&read_text(file)?)
            .map_err(|error| Failure::Usage(format!("{file}: invalid receipt: {error}")));
    }
    let (outcome, message) = match (args.failed, &args.replan) {
        (Some(_), _) => (OutcomeWord::Failed, args.message.clone()),
        (None, Some(reason)) => (OutcomeWord::ReplanRequested, Some(reason.clone())),
        (None, None) => (OutcomeWord::Succeeded, None),
    };
    Ok(ReceiptFile {
        outcome,
        class: args.failed,
        message,
        output: args.output.as_deref().map(read_json_value).transpose()?,
        cost: Cost { money_micros: args.cost, tokens: args.tokens },
        retry_after_seconds: args.retry_after,
        ..ReceiptFile::default()
    })
}
