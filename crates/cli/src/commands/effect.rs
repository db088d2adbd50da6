//! `ledger effect`: records the start or end of a side effect.

use clap::Args;

use plan_ledger::plan::Token;

use crate::options::{WorkerLedgerArgs, parse_token};
use crate::output::{Code, Failure};
use crate::requests::{EffectRequest, EffectState};

const EXAMPLES: &str = "\
Examples, in a worker that sends a mail exactly once:
  ledger effect mail:7 --what 'the monthly mail' && send-mail 7 && ledger effect mail:7 --done

Exit code 6: an earlier attempt has already done it, or may have. Do not do it again.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EffectArgs {
    #[command(flatten)]
    ledger: WorkerLedgerArgs,
    /// The key that identifies the effect within the run
    #[arg(value_name = "KEY")]
    key: String,
    /// The attempt's token, as `claim` printed it
    #[arg(long, value_name = "TOKEN", env = "LEDGER_TOKEN", hide_env_values = true)]
    #[arg(value_parser = parse_token)]
    token: Token,
    /// A description for people [default: the key]
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    what: String,
    /// Record the end of the effect
    #[arg(long)]
    done: bool,
}

pub(crate) fn effect(args: &EffectArgs) -> Result<Code, Failure> {
    let state = if args.done { EffectState::Committed } else { EffectState::Intended };
    let (token, key, effect) = (args.token, args.key.clone(), args.what.clone());
    args.ledger.execute_for_worker(EffectRequest { token, key, effect, state })
}
