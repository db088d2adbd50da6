//! The place from which a command reads a ledger: its folder, an archive file, or a store.
//!
//! Invariants:
//! - A store is only read: a command that writes to a ledger refuses an address before it does anything.
//! - The error of a program without the feature `store` names the feature.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command};

use plan_ledger::Environment;

use crate::output::{DAMAGE_HINT, Failure, quoted};

/// The commands that read a store.
const READERS: [&str; 13] = [
    "status",
    "logs",
    "questions",
    "next",
    "report",
    "get",
    "budget",
    "plan export",
    "inspect",
    "blobs",
    "root",
    "verify",
    "export",
];

/// Whether a path is the address of a store.
pub(crate) fn is_store(path: &Path) -> bool {
    let scheme = path.to_str().and_then(|text| text.split_once("://")).map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        !scheme.is_empty() && scheme.chars().all(|it| it.is_ascii_alphanumeric())
    })
}

/// The way to continue with a damaged ledger, by the place of the damage or of the ledger.
pub(crate) fn damage_hint(place: Option<&Path>) -> String {
    match place {
        Some(store) if is_store(store) => {
            let url = quoted(&store.display().to_string());
            format!(
                "`ledger serve --store {url}` or `ledger replicate {url}` with a folder that has the whole ledger repairs \
                 the store"
            )
        }
        _ => match place.and_then(bound_folder) {
            Some(dir) => format!(
                "the log of this folder is also in its store, with everything that was acknowledged with `--ack store`: \
                 rename {}, keep it, and start again to restore it from there. Without the store, {DAMAGE_HINT}",
                dir.display()
            ),
            None => DAMAGE_HINT.to_owned(),
        },
    }
}

/// The folder of a ledger that contains a file, if it is bound to a store. STORE.json itself may be damaged.
fn bound_folder(place: &Path) -> Option<&Path> {
    place.ancestors().take(3).find(|dir| dir.join("STORE.json").is_file())
}

/// The environment for a ledger at `path`: its folder, an archive file, or the address of a store.
///
/// # Errors
/// `Usage` for a wrong address, or without the feature `store`; the errors of reading an archive or a
/// store.
pub(crate) fn environment_for(
    path: &Path,
    environment: &Environment,
) -> Result<Environment, Failure> {
    if is_store(path) {
        return in_store(path, environment, false);
    }
    if path.is_file() {
        return Ok(environment.in_archive(path)?);
    }
    Ok(environment.clone())
}

/// State that this process reads few records of the ledger: if it is in a store, the log is not read as a whole.
///
/// # Errors
/// As [`environment_for`].
pub(crate) fn expect_few_records(path: &Path, environment: &Environment) -> Result<(), Failure> {
    if is_store(path) { in_store(path, environment, true).map(drop) } else { Ok(()) }
}

#[cfg(feature = "store")]
fn in_store(path: &Path, environment: &Environment, is_few: bool) -> Result<Environment, Failure> {
    use super::{Extent, storage_at};
    let extent = if is_few { Extent::Parts } else { Extent::Whole };
    let storage = storage_at(path, environment, extent)?;
    Ok(Environment { storage, ..environment.clone() })
}

#[cfg(not(feature = "store"))]
fn in_store(path: &Path, _: &Environment, _: bool) -> Result<Environment, Failure> {
    let what = format!("{} is in a store", without_secret(path));
    Err(crate::protocol::failure::left_out::LeftOut::STORES.failure(&what))
}

/// An address for a message. Addresses that may contain a secret are not repeated.
pub(crate) fn without_secret(path: &Path) -> String {
    let text = path.display().to_string();
    if text.contains('@') { "this address".to_owned() } else { text }
}

/// Refuses the address of a store as the ledger of a command that writes, or that waits for more records.
///
/// # Errors
/// `Usage`.
pub(crate) fn expect_readable(program: &Command, matches: &ArgMatches) -> Result<(), Failure> {
    let (mut names, mut command, mut at) = (Vec::new(), program, matches);
    let mut ledgers: Vec<PathBuf> = Vec::new();
    let (mut waits, mut is_reader, mut has_ledger) = (None, true, false);
    loop {
        let known: Vec<&str> = command.get_arguments().map(|arg| arg.get_id().as_str()).collect();
        let is_set =
            |id: &str| known.contains(&id) && matches!(at.try_get_one::<bool>(id), Ok(Some(true)));
        for id in ["dir", "ledger"].into_iter().filter(|id| known.contains(id)) {
            ledgers.extend(at.get_raw(id).into_iter().flatten().map(PathBuf::from));
        }
        has_ledger |= command.get_arguments().any(|arg| arg.get_long() == Some("ledger"));
        waits = waits.or_else(|| ["watch", "follow"].into_iter().find(|id| is_set(id)));
        is_reader &= !is_set("collect") && !is_set("as_planned");
        // The amounts of a change of a budget.
        let is_given = |id: &&str| known.contains(id) && at.contains_id(id);
        is_reader &= !["money", "tokens", "attempts", "wall"].iter().any(is_given);
        let Some((name, inner)) = at.subcommand() else { break };
        let Some(found) = command.find_subcommand(name) else { break };
        names.push(name);
        (command, at) = (found, inner);
    }
    if ledgers.is_empty() && has_ledger {
        ledgers.extend(std::env::var_os("LEDGER_DIR").map(PathBuf::from));
    }
    let Some(store) = ledgers.into_iter().find(|path| is_store(path)) else { return Ok(()) };
    let (store, names) = (without_secret(&store), names.join(" "));
    is_reader &= READERS.iter().any(|reader| {
        names.strip_prefix(reader).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    });
    if !is_reader {
        return Err(Failure::Usage(format!(
            "`ledger {names}` needs the folder of a ledger, and {store} is a store, which is only read\n\
             hint: name the folder that is bound to this store"
        )));
    }
    match waits {
        Some(option) => Err(Failure::Usage(format!(
            "--{option} needs the folder of a ledger: {store} is a store, which is read once\n\
             hint: repeat the command without --{option}"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: an address is not mistaken for a folder.

    use super::*;

    #[test]
    fn addresses_are_told_from_folders() {
        for path in ["s3://b/x", "file:///x", "http://x"] {
            assert!(is_store(Path::new(path)), "{path}");
        }
        for path in [".ledger", "/a/b", "s3:/b", "://x", "a b://x", "./s3://x"] {
            assert!(!is_store(Path::new(path)), "{path}");
        }
    }
}
