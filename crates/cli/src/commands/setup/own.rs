//! Recognizes the settings that `ledger setup` writes, and puts the path of this program into them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::options::Host;
use crate::output::{Failure, quoted};

/// The name of the program in the plugin folders.
const NAME: &str = "ledger";

/// The name of the MCP server in the settings of hosts.
pub(super) const SERVER: &str = "ledger";

/// This program, as a host calls it.
#[derive(Debug)]
pub(super) struct Program {
    /// Its name if the search path finds it, else its path.
    name: String,
    /// The words that begin the command of a hook of this host, after the program.
    hook_words: String,
}

impl Program {
    /// The running program: a host finds it by its name if this is the first program of that name.
    pub(super) fn this(host: Host) -> Result<Self, Failure> {
        let unknown =
            |error| Failure::Usage(format!("the path of this program is unknown: {error}"));
        let path = std::env::current_exe().map_err(unknown)?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or(NAME);
        let is_found = found(name).is_some_and(|found| is_same(&found, &path));
        let name = if is_found {
            name.to_owned()
        } else {
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| Failure::Usage("the path of this program is not text".to_owned()))?
        };
        Ok(Self { name, hook_words: format!(" hook {} ", host.name()) })
    }

    /// The settings of a plugin folder, with this program.
    pub(super) fn put_into(&self, settings: &mut Value) {
        match settings {
            Value::String(text) if text == NAME => text.clone_from(&self.name),
            Value::String(text) => {
                if let Some(rest) =
                    text.strip_prefix(NAME).filter(|rest| rest.starts_with(" hook "))
                {
                    *text = format!("{}{rest}", quoted(&self.name));
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.put_into(item)),
            Value::Object(members) => {
                members.values_mut().for_each(|member| self.put_into(member));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The text of a plugin folder's program, with this program.
    pub(super) fn put_into_text(&self, text: &str) -> String {
        let name = Value::from(self.name.clone());
        text.replace(&format!("= \"{NAME}\""), &format!("= {name}"))
    }

    /// Whether an entry of a list of hooks is one of ours, of any version and path.
    pub(super) fn is_own_hook(&self, entry: &Value) -> bool {
        match entry {
            Value::String(text) => text.contains(&self.hook_words),
            Value::Array(items) => items.iter().any(|item| self.is_own_hook(item)),
            Value::Object(members) => members.values().any(|member| self.is_own_hook(member)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Whether a server is ours: it is started with the argument `mcp`.
    pub(super) fn is_own_server(server: &Value) -> bool {
        match server {
            Value::String(text) => text == "mcp",
            Value::Array(items) => items.iter().any(Self::is_own_server),
            Value::Object(members) => ["args", "command"]
                .iter()
                .any(|it| members.get(*it).is_some_and(Self::is_own_server)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Whether a file that is ours as a whole was written by a setup.
    pub(super) fn is_own_file(text: &str) -> bool {
        text.starts_with("// plan-ledger: ")
    }
}

/// The first program of that name in the search path.
fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}
