//! The signatures that users of a package see, read from source text: public fields, variants and
//! methods that are not hidden from the documentation.
//!
//! The text is as `rustfmt` writes it: items begin and end in the first column, and their members are
//! indented by four spaces.

use std::collections::BTreeSet;

use crate::modules::{code, expand};

const HIDDEN: &str = "#[doc(hidden)]";

/// The names that `src/lib.rs` exports.
pub(crate) struct Exports {
    /// Those with documentation.
    pub(crate) documented: BTreeSet<String>,
    /// Parts of documented types, hidden from the documentation.
    pub(crate) parts: BTreeSet<String>,
}

impl Exports {
    /// The exports of a library without those in `internals`.
    pub(crate) fn of(lib: &str) -> Self {
        let code = code(lib);
        let root = code.split("pub mod internals").next().unwrap();
        let mut exports = Self { documented: BTreeSet::new(), parts: BTreeSet::new() };
        for statement in root.split(';') {
            let Some((start, tree)) = statement.rsplit_once("pub use ") else { continue };
            let mut paths = BTreeSet::new();
            expand(&tree.replace('\n', " "), &[], &mut paths);
            let is_hidden = start.trim_end().ends_with(HIDDEN);
            let names = if is_hidden { &mut exports.parts } else { &mut exports.documented };
            names.extend(paths.into_iter().filter_map(|mut path| path.pop()));
        }
        exports
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.documented.contains(name) || self.parts.contains(name)
    }
}

/// Each type of a file, and its public signatures.
pub(crate) fn signatures(code: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut lines = code.lines().peekable();
    let mut is_hidden = false;
    while let Some(line) = lines.next() {
        if line.starts_with("#[") {
            is_hidden |= line == HIDDEN;
            continue;
        }
        if let Some((owner, kind)) = owner(line) {
            let mut body = Vec::new();
            if !line.ends_with([';', '}']) {
                body.extend(lines.by_ref().take_while(|line| !line.starts_with('}')));
            }
            if !(is_hidden && kind == Kind::Methods) {
                let of_line = line.split_once('(').filter(|(_, fields)| fields.contains("pub "));
                found.extend(of_line.map(|(_, fields)| (owner.clone(), fields.to_owned())));
                found.extend(members(&body, kind).map(|member| (owner.clone(), member)));
            }
        }
        is_hidden = false;
    }
    found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fields,
    Variants,
    Methods,
    Required,
}

/// The type that a line begins to define or to extend.
fn owner(line: &str) -> Option<(String, Kind)> {
    let starts = [
        ("pub struct ", Kind::Fields),
        ("pub enum ", Kind::Variants),
        ("pub trait ", Kind::Required),
        ("impl ", Kind::Methods),
        ("impl<", Kind::Methods),
    ];
    let (rest, kind) =
        starts.iter().find_map(|(start, kind)| Some((line.strip_prefix(start)?, *kind)))?;
    if kind == Kind::Methods && rest.contains(" for ") {
        return None;
    }
    let rest = if line.starts_with("impl<") { rest.split_once("> ")?.1 } else { rest };
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric())?;
    Some((rest[..end].to_owned(), kind))
}

/// The visible members of an item's body, without bodies of functions and names of variants.
fn members(body: &[&str], kind: Kind) -> impl Iterator<Item = String> {
    let mut members: Vec<String> = Vec::new();
    for line in body {
        let is_start = line.strip_prefix("    ").is_some_and(|rest| {
            !rest.starts_with([' ', ')', '}', ']', '>']) && !rest.starts_with("where")
        });
        match members.last_mut() {
            Some(last) if !is_start => {
                last.push('\n');
                last.push_str(line.trim());
            }
            _ => members.push(line.trim().to_owned()),
        }
    }
    let mut is_hidden = false;
    members.into_iter().filter_map(move |member| {
        if member.starts_with("#[") {
            is_hidden |= member == HIDDEN;
            return None;
        }
        if std::mem::take(&mut is_hidden) {
            return None;
        }
        let signature = || {
            let end = [" {", " = "].iter().filter_map(|end| member.find(end)).min();
            Some(member[..end.unwrap_or(member.len())].to_owned())
        };
        match kind {
            Kind::Fields => member.strip_prefix("pub ").map(str::to_owned),
            Kind::Variants => member.find(['(', '{']).map(|at| member[at..].to_owned()),
            Kind::Methods => member.starts_with("pub ").then(signature)?,
            Kind::Required => signature(),
        }
    })
}

/// The words of a signature that can be names of types.
pub(crate) fn type_words(signature: &str) -> impl Iterator<Item = &str> {
    let words = signature.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()))
}
