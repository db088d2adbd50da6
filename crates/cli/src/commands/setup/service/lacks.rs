//! The settings of a person's shell that a run may need and a unit lacks.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::output::{quoted, quoted_folder};

/// The first lines of a file for keys.
pub(super) const KEYS_HEADER: &str = "\
# Variables for the workers of a run that a service resumes: one line NAME=VALUE for each.
# Only you can read this file; it must stay so.
";

/// The folder in which systemd notes the users with units that start at the boot.
const LINGER: &str = "/var/lib/systemd/linger";

/// Ends of the names of variables that hold keys.
const KEY_ENDINGS: [&str; 4] = ["_API_KEY", "_TOKEN", "_SECRET", "_ACCESS_KEY"];

/// The missing settings, in sentences for people.
pub(super) fn lacks(keys: &Path) -> Vec<String> {
    lingering().into_iter().chain(private(keys)).chain(missing_keys(keys)).collect()
}

/// Units of a user start at the login, unless the user lingers.
fn lingering() -> Option<String> {
    let user = whoami::username().ok()?;
    let is_on = Path::new(LINGER).join(&user).exists();
    let command = format!("loginctl enable-linger {}", quoted(&user));
    (!is_on)
        .then(|| format!("lingering; without `{command}` it starts at your login, not at the boot"))
}

/// A file with keys that others can read.
fn private(keys: &Path) -> Option<String> {
    let mode = fs::metadata(keys).ok()?.permissions().mode();
    let path = quoted_folder(keys);
    (mode & 0o077 != 0).then(|| format!("a private file for keys: run `chmod 600 {path}`"))
}

/// Keys of this shell that the file does not name. Their values are never read.
fn missing_keys(keys: &Path) -> Option<String> {
    let text = fs::read_to_string(keys).unwrap_or_default();
    let named: Vec<&str> =
        text.lines().filter_map(|line| Some(line.split_once('=')?.0.trim())).collect();
    let names = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|_| !value.is_empty())?;
        let is_key = KEY_ENDINGS.iter().any(|ending| name.ends_with(ending));
        (is_key && !name.starts_with("LEDGER_") && !named.contains(&name.as_str())).then_some(name)
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    let is = if names.len() == 1 { "is" } else { "are" };
    (!names.is_empty()).then(|| {
        format!(
            "{}, which {is} set in this shell; if the workers need it, add it to {}",
            names.join(", "),
            keys.display()
        )
    })
}
