//! `ledger root`: the last durable record and its chain value, for later comparisons; signed, so
//! that others can trust it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::log::ExpectedChain;
use plan_ledger::{Environment, Error};

use crate::options::{AsJson, LedgerFolder};
use crate::output::{Code, Failure, print_line, print_raw};
use crate::protocol::private_files;
use crate::protocol::{NoteError, NoteSigner, NoteVerifier};

use super::store::source::environment_for;

const EXAMPLES: &str = "\
Examples:
  ledger root .ledger                              SEQ:CHAIN
  ledger root .ledger | ssh elsewhere 'cat >> roots'
  ledger root --new-key example.org/night --key night.key > night.pub
  ledger root .ledger --sign night.key > root.note

Later, `ledger verify --expect-head SEQ:CHAIN` checks that the history up to that record is the
same, and so does `ledger verify --root root.note --key night.pub`, which also checks who signed it.
A signed root is a note of the form C2SP signed-note (Ed25519), which other tools can check.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RootArgs {
    #[command(flatten)]
    folder: LedgerFolder,
    /// Sign the root with the private key in this file
    #[arg(long, value_name = "FILE")]
    sign: Option<PathBuf>,
    /// Make a key of this name, such as a host and path: the private one goes to --key, the public
    /// one to standard output
    #[arg(long, value_name = "NAME", requires = "key", conflicts_with_all = ["sign", "json"])]
    new_key: Option<String>,
    /// The file of the new private key, which must not exist; only you can read it
    #[arg(long, value_name = "FILE", requires = "new_key")]
    key: Option<PathBuf>,
    #[command(flatten)]
    json: AsJson,
}

/// The last durable record and its chain value.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RootLine {
    /// The chain value of the record; all zeros in an empty ledger.
    chain: String,
    /// The record; 0 in an empty ledger.
    seq: u64,
    /// The signed note, with `--sign`.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

pub(crate) fn root(args: &RootArgs) -> Result<Code, Failure> {
    if let (Some(name), Some(file)) = (&args.new_key, &args.key) {
        return make_key(name, file);
    }
    let signer = args.sign.as_ref().map(|file| read_key(file, NoteSigner::parse)).transpose()?;
    let dir = args.folder.dir()?;
    let environment = environment_for(&dir, &Environment::system())?;
    let root = plan_ledger::log::root(&environment.storage, &dir)?;
    let (seq, chain) = (root.seq, root.chain.to_string());
    let note = signer.map(|signer| signer.sign(&note_text(seq, &chain)));
    if args.json.0 {
        print_line(&RootLine { chain, seq, note })?;
    } else {
        print_raw(&note.unwrap_or_else(|| format!("{seq}:{chain}\n")))?;
    }
    Ok(Code::Success)
}

/// The first line of a signed root.
const TITLE: &str = "plan-ledger root";

/// The text that is signed.
fn note_text(seq: u64, chain: &str) -> String {
    format!("{TITLE}\nseq {seq}\nchain {chain}\n")
}

/// The root in a signed note.
///
/// # Errors
/// `Usage` if a file cannot be read or is of another form, or `Rejected` if the note is not signed by
/// the key. A key is given as a file, or as text.
pub(crate) fn signed_root(note: &Path, key: &str) -> Result<ExpectedChain, Failure> {
    let verifier = match NoteVerifier::parse(key) {
        Ok(verifier) => verifier,
        Err(_) => read_key(Path::new(key), NoteVerifier::parse)?,
    };
    let text = read(note)?;
    let usage = |why: &str| Failure::Usage(format!("{}: {why}", note.display()));
    let signed = verifier.open(&text).map_err(|error| match error {
        NoteError::Unsigned | NoteError::Wrong => {
            let (file, name) = (note.display(), verifier.name());
            Failure::Rejected(format!("{file}: {error} ({name})"))
        }
        other => usage(&other.to_string()),
    })?;
    let mut lines = signed.lines();
    let mut value = |name: &str| lines.next()?.strip_prefix(name);
    let root = (value(TITLE) == Some(""))
        .then(|| Some(format!("{}:{}", value("seq ")?, value("chain ")?)))
        .flatten();
    root.and_then(|root| root.parse().ok())
        .ok_or_else(|| usage("its text is signed, but it is not the root of a ledger"))
}

fn make_key(name: &str, file: &Path) -> Result<Code, Failure> {
    let ids = Environment::system().ids;
    let seed = [ids.next_id(), ids.next_id()].concat();
    let seed = seed.try_into().expect("two ids have 32 bytes");
    let signer = NoteSigner::new(name, seed).map_err(|error| Failure::Usage(error.to_string()))?;
    let failed = |error| Error::io("write the key", file, error);
    let opened = private_files::create_new(file);
    let mut opened = opened.map_err(|error| Failure::of_input(failed(error)))?;
    writeln!(opened, "{}", signer.private_text())
        .and_then(|()| opened.sync_all())
        .map_err(failed)?;
    print_raw(&format!("{}\n", signer.verifier()))?;
    Ok(Code::Success)
}

fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| Failure::of_input(Error::io("read", file, error)))
}

fn read_key<T>(file: &Path, parse: impl Fn(&str) -> Result<T, NoteError>) -> Result<T, Failure> {
    parse(&read(file)?).map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))
}
