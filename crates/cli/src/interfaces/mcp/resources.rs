//! The resources: the content of the tools `ledger_status` and `ledger_show`, under addresses.

use super::call::{ToolRefusal, ToolServer};
use super::read::inspect_text;

/// A resource, or a template of resources.
pub(super) struct LedgerResource {
    pub(super) uri: &'static str,
    pub(super) name: &'static str,
    pub(super) description: &'static str,
}

/// The resources without parameters.
pub(super) const RESOURCES: [LedgerResource; 1] =
    [LedgerResource { uri: "ledger://runs", name: "runs", description: "The runs of the ledger" }];

/// The resources of a run.
pub(super) const TEMPLATES: [LedgerResource; 4] = [
    LedgerResource { uri: "ledger://run/{run}", name: "run", description: "The status of a run" },
    LedgerResource {
        uri: "ledger://run/{run}/plan",
        name: "plan",
        description: "The active version of its plan",
    },
    LedgerResource {
        uri: "ledger://run/{run}/step/{step}",
        name: "step",
        description: "A step with its attempts",
    },
    LedgerResource {
        uri: "ledger://run/{run}/records",
        name: "records",
        description: "The records of a run",
    },
];

/// The text of a resource; `None` if the address is unknown.
pub(super) fn read_resource(server: &ToolServer, uri: &str) -> Option<Result<String, ToolRefusal>> {
    let path = uri.strip_prefix("ledger://")?;
    let parts: Vec<String> = path.split('/').map(decoded).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let words: Vec<String> = match parts.as_slice() {
        ["runs"] => vec!["runs".to_owned()],
        ["run", run] => vec!["status".to_owned(), "--view=user".to_owned(), format!("--run={run}")],
        ["run", run, "plan"] => ["plan", "--", *run].map(str::to_owned).to_vec(),
        ["run", run, "step", step] => ["step", "--", *run, *step].map(str::to_owned).to_vec(),
        ["run", run, "records"] => vec!["records".to_owned(), format!("--run={run}")],
        _ => return None,
    };
    Some(inspect_text(server, &words))
}

/// A part of an address without percent signs.
fn decoded(part: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = part.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
