//! How a plan file is read: options of every command that reads one.

use std::path::Path;

use clap::Args;

use plan_ledger::ContentHash;
use plan_ledger::internals::files::{self, LintReport, PlanFile, Programs, ReadOptions};
use plan_ledger::internals::format::content_hash;
use plan_ledger::internals::plan::Provenance;

use crate::output::Failure;

/// How to read a plan file.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ReadPlanArgs {
    /// In a file with several tagged plans, the plan with this tag
    #[arg(long, value_name = "TAG")]
    plan_tag: Option<String>,
    /// Drop the dependency of a step on another one, to break a cycle; may be repeated
    #[arg(long, value_name = "STEP:OTHER", value_parser = parse_dependency)]
    drop_dependency: Vec<(String, String)>,
    /// Read numbered items as steps, even if the text does not look like a plan
    #[arg(long)]
    prose: bool,
}

impl ReadPlanArgs {
    fn options(&self) -> ReadOptions {
        ReadOptions {
            tag: self.plan_tag.clone(),
            drop_dependencies: self.drop_dependency.clone(),
            prose: self.prose,
            programs: Some(Programs::of_process()),
        }
    }

    /// Reads a plan file.
    pub(crate) fn read(&self, file: &Path) -> Result<PlanFile, Failure> {
        files::read_with(file, &self.options()).map_err(Failure::of_input)
    }

    /// Where a plan that was read from this file comes from.
    pub(crate) fn provenance(file: &Path) -> Provenance {
        let bytes = std::fs::read(file).ok();
        Provenance {
            author: std::env::var("LEDGER_BY").ok().filter(|author| !author.is_empty()),
            file: Some(file.display().to_string()),
            file_hash: bytes.map(|bytes| ContentHash(content_hash(&bytes))),
            confidence: None,
        }
    }

    /// The options as words of a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(tag) = &self.plan_tag {
            words.extend(["--plan-tag".to_owned(), tag.clone()]);
        }
        for (step, other) in &self.drop_dependency {
            words.extend(["--drop-dependency".to_owned(), format!("{step}:{other}")]);
        }
        words.extend(self.prose.then(|| "--prose".to_owned()));
        words
    }

    /// Reads a plan from standard input.
    pub(crate) fn read_stdin(&self) -> Result<PlanFile, Failure> {
        let read =
            files::read_stream_with("standard input", std::io::stdin().lock(), &self.options());
        read.map_err(Failure::of_input)
    }

    /// Reads a plan file and reports its problems.
    pub(crate) fn lint(&self, file: &Path) -> Result<LintReport, Failure> {
        files::lint_with(file, &self.options()).map_err(Failure::of_input)
    }
}

/// Parses `STEP:OTHER`.
fn parse_dependency(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((step, other)) if !step.is_empty() && !other.is_empty() => {
            Ok((step.to_owned(), other.to_owned()))
        }
        _ => Err("expected STEP:OTHER, two ids of the plan".to_owned()),
    }
}
