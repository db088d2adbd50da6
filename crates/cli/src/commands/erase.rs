//! `ledger erase`: removes values from every file of a ledger.
//!
//! Without `--yes`, the command erases nothing and prints exactly what it would erase. The JSON
//! lines are described in `format/cli-json.md`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::{self, ErasePreview, EraseTarget};
use plan_ledger::{ContentHash, Environment, LedgerView};

use crate::options::{AsJson, Author, LedgerFolder, RunOption, environment};
use crate::output::{Code, Failure, print_line, print_message, print_text};
use crate::protocol::counted;
use crate::requests::{run_or_only, step_of};
use crate::server::{check_root_of_folder, expect_person, keep_root_of_folder, rollback_text};
use crate::server::{ledger_id, record_path};

const EXAMPLES: &str = "\
Examples:
  ledger erase --variable api_key                  show what would be erased
  ledger erase --variable api_key --by ana --yes   every value that it had, and their sources
  ledger erase --output login --run nightly --yes  the outputs of a step, and the variables they set
  ledger erase --record 412 --yes                  the values of a record: a receipt, the text of a note
  ledger erase --blob 9f2c... --yes                a large output by its hash: `ledger blobs`

The bytes are removed from the log, the snapshots and the blobs, and so are evidence, reasons and
questions that quote the value. The record of the erasure stays. Names, plans with the defaults of their
inputs, messages of failures and answers also stay: if they contain the value (6 characters or more), the
command lists their records, and the exit code is 1. It also lists values of other sources, notes and
commands of runners that contain it, with the command that erases them. If it is a key or a password,
replace it. Every other record, the chain and the hash of every state do not change, so `ledger verify`
and roots that are kept elsewhere still hold. Values of one receipt are erased together. Copies are not
erased: the command lists exports and archives that it finds, and files of attempts in the ledger's
folder. Stop the lock holder first (`ledger serve`, `ledger run`).";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EraseArgs {
    #[command(flatten)]
    folder: LedgerFolder,
    #[command(flatten)]
    what: TargetArgs,
    #[command(flatten)]
    run: RunOption,
    /// Erase; without this, only show what would be erased
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    json: AsJson,
}

/// The values to erase.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct TargetArgs {
    /// The values of this record; may be repeated
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    record: Vec<u64>,
    /// The outputs of this step (id, 37 or #37) of the run; may be repeated
    #[arg(long, value_name = "STEP")]
    output: Vec<String>,
    /// Every value that this variable of the run had; may be repeated
    #[arg(long, value_name = "NAME")]
    variable: Vec<String>,
    /// The blob with this hash; may be repeated
    #[arg(long, value_name = "HASH", value_parser = parse_hash)]
    blob: Vec<ContentHash>,
}

/// A hash in hexadecimal.
fn parse_hash(text: &str) -> Result<ContentHash, String> {
    ContentHash::parse(text).ok_or_else(|| "expected 64 hexadecimal digits".to_owned())
}

/// The targets, with the run and the steps that they name.
fn targets(args: &EraseArgs, view: &LedgerView) -> Result<Vec<EraseTarget>, Failure> {
    let TargetArgs { record, output, variable, blob } = &args.what;
    let mut targets: Vec<EraseTarget> = record.iter().copied().map(EraseTarget::Record).collect();
    targets.extend(blob.iter().copied().map(EraseTarget::Blob));
    if !output.is_empty() || !variable.is_empty() {
        let state = view.fold_recent()?.state;
        let run = run_or_only(&state, args.run.run.as_deref())?;
        for word in output {
            targets.push(EraseTarget::Output(run.id, step_of(run, word)?));
        }
        targets.extend(variable.iter().map(|name| EraseTarget::Variable(run.id, name.clone())));
    }
    Ok(targets)
}

pub(crate) fn erase(args: &EraseArgs) -> Result<Code, Failure> {
    let (dir, environment) = (args.folder.dir()?, environment());
    let view = LedgerView::open(&dir, &environment)?;
    let targets = targets(args, &view)?;
    if !args.yes {
        if let Some(text) = rollback_text(&dir, &environment) {
            print_message(&format!(
                "warning: {text}; an erasure is refused, unless --accept-rollback is added"
            ));
        }
        let preview = view.preview_erase(&targets)?;
        let erased = Erased::of(&preview, &dir, &view, &environment);
        let code = erased.code();
        if args.json.0 {
            print_line(&ErasePlanLine { erased })?;
        } else {
            let is_any = !preview.records.is_empty() || !preview.blobs.is_empty();
            let verb = if is_any { "would erase" } else { "nothing is left to erase" };
            print_text(&erased.text(verb))?;
            if !preview.records.is_empty() || !preview.blobs.is_empty() {
                print_message("nothing was erased: add --yes to erase it");
            }
        }
        return Ok(code);
    }
    let by = expect_person(&dir, &args.author)?;
    check_root_of_folder(&dir, &environment)?;
    let preview = view.preview_erase(&targets)?;
    if preview.records.is_empty() && preview.blobs.is_empty() {
        let erased = Erased::of(&preview, &dir, &view, &environment);
        let code = erased.code();
        if args.json.0 {
            print_line(&ErasePlanLine { erased })?;
        } else {
            print_text(&erased.text("nothing can be erased"))?;
        }
        return Ok(code);
    }
    let report = ledger::erase(&dir, &environment, &targets, &by)?;
    keep_root_of_folder(&dir, &environment);
    let erased = Erased::of(&report.preview, &dir, &view, &environment);
    let code = erased.code();
    if args.json.0 {
        print_line(&ErasedLine { seq: report.note_seq, erased })?;
    } else {
        let seq = report.note_seq;
        print_text(&format!("{}the erasure is record {seq}\n", erased.text("erased")))?;
    }
    Ok(code)
}

/// The values that an erasure would remove; nothing was erased.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ErasePlanLine {
    #[serde(flatten)]
    erased: Erased,
}

/// The values that an erasure removed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ErasedLine {
    /// The record of the erasure.
    seq: u64,
    #[serde(flatten)]
    erased: Erased,
}

/// The extent of an erasure.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct Erased {
    /// The records with a value, in order.
    records: Vec<ErasedRecord>,
    /// Number of values.
    values: u64,
    /// Hashes of the blobs.
    blobs: Vec<String>,
    /// The records that keep a text of a value in one of their own values, in order. They can be
    /// erased with `--record`.
    erasable: Vec<ErasedRecord>,
    /// The records that keep a text of a value where it cannot be erased, in order.
    left: Vec<ErasedRecord>,
    /// Exports and archives that may still hold a value: those that the log names, and those in the
    /// folder of the ledger and in the current folder.
    copies: Vec<String>,
    /// Files of attempts in the ledger's folder, which may still hold a value.
    work_files: Vec<String>,
    /// The files outside the ledger that hold a text of a value in the command of a runner.
    runner_files: Vec<String>,
}

/// A record with a value.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct ErasedRecord {
    /// Its number.
    seq: u64,
    /// Its kind.
    kind: String,
}

impl Erased {
    fn of(
        preview: &ErasePreview,
        dir: &Path,
        view: &LedgerView,
        environment: &Environment,
    ) -> Self {
        let records = preview.records.iter();
        let record = |(seq, kind): &(u64, plan_ledger::internals::ledger::Kind)| ErasedRecord {
            seq: *seq,
            kind: kind.name().to_owned(),
        };
        let mut copies: Vec<String> =
            preview.archives.iter().map(|archive| archive.file.clone()).collect();
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        let mut folders = vec![parent.unwrap_or(Path::new(".")).to_owned(), PathBuf::from(".")];
        folders.dedup();
        for folder in folders {
            match ledger::copies_in(&folder, view) {
                Ok(found) => copies.extend(found.iter().map(|path| path.display().to_string())),
                Err(error) => print_message(&format!("copies in a folder are not shown: {error}")),
            }
        }
        copies.dedup();
        let mut work_files = Vec::new();
        files_below(environment, &dir.join("work"), &mut work_files);
        Self {
            erasable: preview.erasable.iter().map(record).collect(),
            left: preview.left.iter().map(record).collect(),
            runner_files: runner_files(view, &preview.texts),
            records: records.map(record).collect(),
            values: u64::try_from(preview.values.len()).unwrap_or(u64::MAX),
            blobs: preview.blobs.iter().map(plan_ledger::log::BlobId::hex).collect(),
            copies,
            work_files,
        }
    }

    /// The code that the command ends with: 1 if a text of a value stays.
    fn code(&self) -> Code {
        let stays =
            !self.left.is_empty() || !self.erasable.is_empty() || !self.runner_files.is_empty();
        if stays { Code::Failed } else { Code::Success }
    }

    /// The extent for people, after a verb.
    fn text(&self, verb: &str) -> String {
        let mut text = format!("{verb}: {}", counted(self.values, "value"));
        let count = |list: &[String]| u64::try_from(list.len()).unwrap_or(u64::MAX);
        if !self.blobs.is_empty() {
            let _ = write!(text, ", {}", counted(count(&self.blobs), "blob"));
        }
        text.push('\n');
        for ErasedRecord { seq, kind } in &self.records {
            let _ = writeln!(text, "  record {seq}: {kind}");
        }
        for blob in &self.blobs {
            let _ = writeln!(text, "  blob {blob}");
        }
        if !self.erasable.is_empty() {
            let records = self.erasable.iter().map(|each| format!(" --record {}", each.seq));
            let records = records.collect::<String>();
            let _ = writeln!(
                text,
                "still in values of these records; `ledger erase{records} --yes` erases them:"
            );
        }
        for ErasedRecord { seq, kind } in &self.erasable {
            let _ = writeln!(text, "  record {seq}: {kind}");
        }
        if !self.left.is_empty() {
            text.push_str(
                "still in these records, where it cannot be erased; if it is a key or a password, replace it:\n",
            );
        }
        for ErasedRecord { seq, kind } in &self.left {
            let _ = writeln!(text, "  record {seq}: {kind}");
        }
        for (what, files) in [
            ("copies that may still hold it; remove them yourself", &self.copies),
            ("files of attempts that may still hold it; remove them yourself", &self.work_files),
            ("commands of runners that hold it; remove the file yourself", &self.runner_files),
        ] {
            if !files.is_empty() {
                let _ = writeln!(text, "{what}:");
                for file in files {
                    let _ = writeln!(text, "  {file}");
                }
            }
        }
        text
    }
}

/// The file with the commands of the last runners of the ledger, if it holds one of the texts.
fn runner_files(view: &LedgerView, texts: &BTreeSet<String>) -> Vec<String> {
    let path = ledger_id(view.log()).and_then(|ledger| record_path(&ledger));
    let holds = |path: &PathBuf| {
        let content = std::fs::read_to_string(path).unwrap_or_default();
        texts.iter().any(|text| content.contains(text.as_str()))
    };
    path.filter(holds).map(|path| path.display().to_string()).into_iter().collect()
}

/// The files below a folder; none if it does not exist.
fn files_below(environment: &Environment, folder: &Path, found: &mut Vec<String>) {
    use plan_ledger::internals::storage::EntryKind;
    let entries = match environment.storage.list(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => {
            let shown = folder.display();
            print_message(&format!("files of attempts are not shown: {shown}: {error}"));
            return;
        }
    };
    for entry in entries {
        let path = folder.join(&entry.name);
        // An empty file, such as a lock, holds nothing.
        let is_empty = || std::fs::metadata(&path).is_ok_and(|found| found.len() == 0);
        match entry.kind {
            EntryKind::Folder => files_below(environment, &path, found),
            EntryKind::File if is_empty() => {}
            EntryKind::File => found.push(path.display().to_string()),
            EntryKind::Other => {}
        }
    }
}
