//! The plan that `ledger run` drives: that of the plan file, or the version that the ledger has.
//!
//! A plan file may be gone when its run continues: its branch was switched, it was a temporary file, or an agent
//! deleted it. The ledger has every version of the plan, so the run continues with that. If the file is now invalid or
//! another plan, `ledger run` stops, unless it must keep the plan (`--keep-plan`, which `ledger resume` adds).

use std::collections::BTreeMap;

use plan_ledger::{Environment, LedgerView, Run, State};
use plan_ledger_files::{PlanFile, Reading};

use crate::options::ReadPlanArgs;
use crate::options::plan_file::{ReadForRun, keep_ids};
use crate::output::{Failure, is_for_reader, print_message, shell_command};
use crate::requests::check_name;
use crate::server::{LastRunners, ledger_id, resume_options};

use plan_ledger::plan::{NameKind, Provenance};

use super::args::RunArgs;
use super::same_work::is_plan_of;

/// A plan, and the name of its run.
pub(super) struct PlanSource {
    /// The plan, with the marks of its file.
    pub(super) plan: PlanFile,
    /// The file that it was read from.
    pub(super) provenance: Provenance,
    /// How it was read.
    pub(super) read: ReadPlanArgs,
    /// Whether the file has one reading, or its reading was selected.
    pub(super) is_read: bool,
    /// The name of the run.
    pub(super) name: String,
    /// Why it is a version that the ledger has, if it is.
    pub(super) from_ledger: Option<NoPlanOfFile>,
}

/// Why the plan is not that of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlanOfFile {
    /// The file does not exist.
    Missing,
    /// The file is not a valid plan.
    Broken,
    /// The file is another plan.
    Other,
}

impl PlanSource {
    /// The plan of the file, or without a file, the version in the ledger.
    pub(super) fn find(args: &RunArgs) -> Result<Self, Failure> {
        if !args.plan.exists()
            && !args.replan
            && let Some(found) = Self::in_ledger(args, NoPlanOfFile::Missing)
        {
            return Ok(found);
        }
        Self::of_file(args, &args.read)
    }

    /// The plan of the file in another reading.
    pub(super) fn with_reading(&self, args: &RunArgs, reading: Reading) -> Result<Self, Failure> {
        Self::of_file(args, &self.read.with_reading(reading))
    }

    fn of_file(args: &RunArgs, read: &ReadPlanArgs) -> Result<Self, Failure> {
        let name = args.run.clone().unwrap_or_else(|| stem(args));
        let read = match read.read_for_run(&args.plan, &args.ledger, &name) {
            Ok(read) => read,
            Err(failure) => return Self::without_file(args, failure),
        };
        let ReadForRun { file, read, is_read } = read;
        let provenance = read.provenance(&args.plan, &file);
        let mut plan = file.into_plan_file();
        check_name(NameKind::Run, &name)?;
        keep_ids(&mut plan, &args.ledger, &name);
        let is_other = |run: &Run| !is_plan_of(run, &plan);
        if args.keep_plan
            && state_of(args).is_some_and(|state| state.run_named(&name).is_some_and(is_other))
            && let Some(found) = Self::in_ledger(args, NoPlanOfFile::Other)
        {
            return Ok(found);
        }
        Ok(Self { plan, provenance, read, is_read, name, from_ledger: None })
    }

    /// The plan in the ledger, for a file that cannot be read; else the failure to read it, with
    /// the facts from the ledger.
    fn without_file(args: &RunArgs, failure: Failure) -> Result<Self, Failure> {
        let Some(found) = Self::in_ledger(args, NoPlanOfFile::Broken) else { return Err(failure) };
        if args.keep_plan {
            print_message(&failure.to_string());
            return Ok(found);
        }
        let Failure::Usage(message) = failure else { return Err(failure) };
        let how =
            if args.replan { "use --keep-plan instead of --replan" } else { "add --keep-plan" };
        let resume = found.resume_command(args);
        let resume = resume.map_or_else(String::new, |command| format!(", or use `{command}`"));
        let joint = if message.contains("\nhint: ") { ";" } else { "\nhint:" };
        Err(Failure::Usage(format!(
            "{message}{joint} run {} has a plan in the ledger: to continue with that, {how}{resume}",
            found.name
        )))
    }

    /// The active version of the run that is named, or the one that waits for approval.
    fn in_ledger(args: &RunArgs, why: NoPlanOfFile) -> Option<Self> {
        let state = state_of(args)?;
        let names = match &args.run {
            Some(name) => vec![name.clone()],
            None => vec![args.plan.to_str()?.to_owned(), stem(args)],
        };
        let run = names.iter().find_map(|name| state.run_named(name))?;
        let proposal = || run.newest_proposal().map(|(_, version)| version);
        let version = run.active_version().or_else(proposal)?;
        let plan = PlanFile::of_run(version.plan.decode(), BTreeMap::new(), BTreeMap::new());
        let (provenance, name) = (Provenance::default(), run.name.clone());
        let read = args.read.clone();
        Some(Self { plan, provenance, read, is_read: true, name, from_ledger: Some(why) })
    }

    /// The place of the plan, for messages.
    pub(super) fn place(&self, args: &RunArgs) -> String {
        if self.from_ledger.is_some() {
            format!("run {}", self.name)
        } else {
            args.plan.display().to_string()
        }
    }

    /// How the steps without a command get a worker.
    pub(super) fn worker_hint(&self, args: &RunArgs) -> String {
        let add = "add --worker CMD, or try the plan at no cost with --stub";
        match self.resume_command(args).filter(|_| self.from_ledger.is_some()) {
            Some(resume) => {
                format!("`{resume}` repeats the last command line of the run; or {add}")
            }
            None => add.to_owned(),
        }
    }

    /// The command that starts the last runner of the run again, if it is known.
    pub(super) fn resume_command(&self, args: &RunArgs) -> Option<String> {
        let view = LedgerView::open(&args.ledger, &Environment::system()).ok()?;
        let last = LastRunners::at(&ledger_id(view.log())?, &args.ledger);
        let options = resume_options(last.of_run(&self.name)?, &args.ledger)?;
        let options = options.iter().map(String::as_str);
        let words: Vec<&str> = std::iter::once(self.name.as_str()).chain(options).collect();
        let command = shell_command("resume", &args.ledger, &words);
        is_for_reader(&command).then_some(command)
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
