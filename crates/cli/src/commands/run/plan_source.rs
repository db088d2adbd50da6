//! The plan that `ledger run` drives: that of the plan file, or the version that the ledger has.
//!
//! A plan file may be gone when its run continues: its branch was switched, it was a temporary file, or an
//! agent tidied up. The ledger has every version of the plan, so the run continues with that.

use std::collections::BTreeMap;

use plan_ledger::internals::files::PlanFile;
use plan_ledger::{Environment, LedgerView, State};

use crate::commands::last_runner::{LastRunners, ledger_id};
use crate::commands::read_report::keep_ids;
use crate::output::{Failure, shell_command};
use crate::requests::check_name;

use plan_ledger::internals::plan::NameKind;

use super::args::RunArgs;

/// A plan, and the name of its run.
pub(super) struct PlanSource {
    /// The plan, with the marks of its file.
    pub(super) plan: PlanFile,
    /// The name of the run.
    pub(super) name: String,
    /// Whether it is a version that the ledger has.
    pub(super) is_from_ledger: bool,
}

impl PlanSource {
    /// The plan of the file; where there is no such file, the version in the ledger.
    pub(super) fn find(args: &RunArgs) -> Result<Self, Failure> {
        if !args.plan.exists()
            && let Some(found) = Self::in_ledger(args)
        {
            return Ok(found);
        }
        let mut plan = args.read.read(&args.plan)?;
        let name = match &args.run {
            Some(name) => name.clone(),
            None => stem(args),
        };
        check_name(NameKind::Run, &name)?;
        keep_ids(&mut plan, &args.ledger, &name);
        Ok(Self { plan, name, is_from_ledger: false })
    }

    /// The active version of the run that is named, or the one that waits for approval.
    fn in_ledger(args: &RunArgs) -> Option<Self> {
        let state = state_of(args)?;
        let names = match &args.run {
            Some(name) => vec![name.clone()],
            None => vec![args.plan.to_str()?.to_owned(), stem(args)],
        };
        let run = names.iter().find_map(|name| state.run_named(name))?;
        let proposal = || run.newest_proposal().map(|(_, version)| version);
        let version = run.active_version().or_else(proposal)?;
        let plan = PlanFile::of_run(version.plan.decode(), BTreeMap::new(), BTreeMap::new());
        Some(Self { plan, name: run.name.clone(), is_from_ledger: true })
    }

    /// Where the plan is, for messages.
    pub(super) fn place(&self, args: &RunArgs) -> String {
        if self.is_from_ledger {
            format!("run {}", self.name)
        } else {
            args.plan.display().to_string()
        }
    }

    /// How the steps without a command get a worker.
    pub(super) fn worker_hint(&self, args: &RunArgs) -> String {
        let add = "add --worker CMD, or try the plan at no cost with --stub";
        let view = LedgerView::open(&args.ledger, &Environment::system()).ok();
        let id = view.filter(|_| self.is_from_ledger).and_then(|view| ledger_id(view.log()));
        let last = id.map(|id| LastRunners::at(&id, &args.ledger)).unwrap_or_default();
        match last.of_run(&self.name) {
            Some(_) => {
                let resume = shell_command("resume", &args.ledger, &[&self.name]);
                format!("`{resume}` repeats the last command line of the run; or {add}")
            }
            None => add.to_owned(),
        }
    }
}

/// The newest state of the ledger, if it can be read.
fn state_of(args: &RunArgs) -> Option<State> {
    let view = LedgerView::open(&args.ledger, &Environment::system()).ok()?;
    Some(view.fold(u64::MAX).ok()?.state)
}

/// The file's name without its extension.
fn stem(args: &RunArgs) -> String {
    args.plan.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
