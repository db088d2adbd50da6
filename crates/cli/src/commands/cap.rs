//! `ledger cap`: limits the attempts in flight.

use clap::Args;

use crate::options::{Author, LedgerArgs};
use crate::output::{Code, Failure};
use crate::requests::{CapRequest, Scope};

const EXAMPLES: &str = "\
Examples:
  ledger cap --global 8
  ledger cap --run my-plan 2
  ledger cap --owner reviewer none";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CapArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    #[command(flatten)]
    scope: ScopeArgs,
    /// How many attempts may be in flight at once, or `none` to remove the cap
    #[arg(value_name = "N|none", value_parser = parse_limit)]
    limit: CapLimit,
    #[command(flatten)]
    author: Author,
}

/// The scope of a cap.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct ScopeArgs {
    /// The whole ledger
    #[arg(long)]
    global: bool,
    /// One run, by name
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// One owner, over all runs
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// One tag or resource, over all runs
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
}

/// A cap, or `None` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CapLimit(Option<u32>);

fn parse_limit(text: &str) -> Result<CapLimit, String> {
    match text {
        "none" => Ok(CapLimit(None)),
        _ => text
            .parse()
            .ok()
            .filter(|limit| *limit > 0)
            .map(|limit| CapLimit(Some(limit)))
            .ok_or_else(|| "expected a number from 1, or `none`".to_owned()),
    }
}

pub(crate) fn cap(args: &CapArgs) -> Result<Code, Failure> {
    let scope = match (&args.scope.run, &args.scope.owner, &args.scope.tag) {
        (Some(run), _, _) => Scope::Run(run.clone()),
        (None, Some(owner), _) => Scope::Owner(owner.clone()),
        (None, None, Some(tag)) => Scope::Tag(tag.clone()),
        (None, None, None) => Scope::Ledger,
    };
    args.ledger.execute(CapRequest { scope, limit: args.limit.0, by: args.author.clone() })
}
