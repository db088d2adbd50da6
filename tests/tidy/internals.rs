//! The names of the library that have no page: what `internals` exports, and the hidden parts of the
//! root and of the modules `log` and `plan`. The program uses some of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::modules::{code, paths, public_types};
use crate::signatures::Exports;

/// The names that the library exports without a page.
pub(crate) fn hidden_names(src: &Path) -> BTreeSet<String> {
    let read = |path: &str| fs::read_to_string(src.join(path)).unwrap();
    let exports = ["lib.rs", "log/mod.rs", "plan/mod.rs"].map(|path| Exports::of(&read(path)));
    let mut hidden: BTreeSet<String> = exports.iter().flat_map(|of| of.parts.clone()).collect();
    let lib = read("lib.rs");
    let (_, internals) = lib.split_once("pub mod internals").unwrap();
    let modules = internals.split("pub use crate::").skip(1);
    let mut open: Vec<String> =
        modules.map(|rest| rest.split("::").next().unwrap().to_owned()).collect();
    assert!(open.len() > 3, "the modules of `internals` were not found");
    while let Some(module) = open.pop() {
        let file = format!("{module}.rs");
        if src.join(&file).exists() {
            hidden.extend(public_types(&code(&read(&file))));
            continue;
        }
        let text = read(&format!("{module}/mod.rs"));
        let of = Exports::of(&text);
        assert!(!of.documented.is_empty(), "the names of {module} were not found");
        hidden.extend(of.documented.into_iter().chain(of.parts));
        let inner =
            text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
        open.extend(inner.map(|inner| format!("{module}/{inner}")));
    }
    let documented = exports.into_iter().flat_map(|of| of.documented).collect();
    hidden.difference(&documented).cloned().collect()
}

/// Those of the names that the code of a program uses.
pub(crate) fn used<'a>(
    files: impl Iterator<Item = &'a str>,
    names: &BTreeSet<String>,
) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for text in files {
        let (of_library, others): (Vec<_>, Vec<_>) =
            paths(&code(text)).into_iter().partition(|path| path[0] == "plan_ledger");
        let is_name = |part: &&String| names.contains(*part);
        used.extend(of_library.iter().flatten().filter(is_name).cloned());
        // The names of an imported module.
        let modules: BTreeSet<&String> = of_library
            .iter()
            .filter_map(|path| path.iter().rfind(|part| *part != "self"))
            .collect();
        let of_modules = others.iter().filter(|path| modules.contains(&path[0]));
        used.extend(of_modules.filter_map(|path| path.get(1)).filter(is_name).cloned());
    }
    used
}
