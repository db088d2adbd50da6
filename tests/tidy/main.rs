//! Repository rules that a compiler does not check: layers, import cycles, folder sizes, crate
//! homes, names and words. The lists are in `rules.json` beside this file.
//!
//! The test reads source text, not a syntax tree: it finds paths in `use` declarations and in code,
//! after comments, strings and test modules are removed.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test stops at a broken rule")]

mod internals;
mod modules;
mod signatures;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use modules::{Package, code, contains_word};
use serde::Deserialize;
use signatures::{Exports, signatures, type_words};

/// The lists in `rules.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    /// For each layer of each package, the layers that it may import.
    layers: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// For each dependency, the files or folders that may name it.
    crate_homes: BTreeMap<String, Vec<String>>,
    /// Crates that must be in use somewhere.
    required_crates: Vec<String>,
    /// Files and folders that may name `std::fs`.
    file_system: Vec<String>,
    /// Files that may contain unsafe code.
    unsafe_code: Vec<String>,
    /// Words that no file of the repository may contain.
    forbidden_words: Vec<String>,
    /// Files that quote forbidden words.
    quotations: Vec<String>,
    /// Folders whose files are instances of one thing, so that their number is not limited.
    instance_folders: Vec<String>,
    /// The most siblings in any other folder.
    siblings_max: usize,
    /// A soft limit: a file beyond it needs an entry in `long_files`.
    lines_max: usize,
    /// Longer files, each with the reason why it is one concept.
    long_files: BTreeMap<String, String>,
    /// The purpose of each folder.
    folders: BTreeMap<String, String>,
    /// The most names that the root of the library documents.
    public_names_max: usize,
    /// The most names that its modules document, by the name of the module.
    module_names_max: BTreeMap<String, usize>,
    /// The most names without a page that the library exports. It may only go down.
    hidden_names_max: usize,
    /// The most of them that the program uses. It may only go down.
    hidden_names_used_max: usize,
    /// The most crates in a build of the log alone, this package and procedural macros included.
    log_crates_max: usize,
    /// Files and folders that may use more of the library than the documented names.
    internals_users: Vec<String>,
    /// Files and folders that may name standard output or standard error. All others return what they show.
    printing: Vec<String>,
    /// The types of one view, which stands for all.
    sample_view: Vec<String>,
    /// The most hand-written files that name them: so many does a new view touch.
    sample_view_files_max: usize,
    /// The names of one request and its row in tables, which stand for all.
    sample_request: Vec<String>,
    /// The most hand-written files that have them: so many does a new request touch.
    sample_request_files_max: usize,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rules() -> Rules {
    serde_json::from_str(include_str!("rules.json")).unwrap()
}

/// The engine and every package that is built on it: those that `layers` lists.
fn packages() -> Vec<Package> {
    rules().layers.keys().map(|folder| Package::read(root(), folder)).collect()
}

/// Every text file of the repository, its path below the root and its text.
fn repository() -> Vec<(String, String)> {
    let skipped = ["target", ".git", "corpus", "golden", "artifacts", "__pycache__", "plots"];
    let mut found = Vec::new();
    let mut folders = vec![root().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_symlink() {
                // What it leads to has a place of its own.
            } else if path.is_dir() {
                if !skipped.contains(&name.as_str()) && !name.ends_with(".ledger") {
                    folders.push(path);
                }
            } else if let Ok(text) = fs::read_to_string(&path) {
                found.push((below_root(&path), text));
            }
        }
    }
    found.sort();
    found
}

fn below_root(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned()
}

fn is_below(name: &str, places: &[String]) -> bool {
    places.iter().any(|place| name == place || (place.ends_with('/') && name.starts_with(place)))
}

#[track_caller]
fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn layers_import_only_lower_layers() {
    let rules = rules();
    let mut problems = Vec::new();
    for crate_folder in fs::read_dir(root().join("crates")).unwrap() {
        let folder = below_root(&crate_folder.unwrap().path().join("src"));
        if !rules.layers.contains_key(&folder) {
            problems.push(format!("rules.json lists no layers of {folder}"));
        }
    }
    for package in &packages() {
        let layers = &rules.layers[&package.folder];
        for import in package.imports() {
            let [from, to] = [&import.from, &import.to].map(|path| path[0].clone());
            let allowed = layers.get(&from);
            if from != to && allowed.is_some_and(|allowed| !allowed.contains(&to)) {
                problems.push(format!("{}: {} must not import {to}", import.file, from));
            }
        }
        for layer in package.top_modules() {
            if !layers.contains_key(&layer) {
                problems.push(format!("{}: rules.json lists no layer {layer}", package.folder));
            }
        }
    }
    report(&problems);
}

#[test]
fn folders_have_no_import_cycles() {
    let mut problems = Vec::new();
    for package in &packages() {
        for (folder, cycle) in package.cycles() {
            problems.push(format!("{}/{folder}: cycle of {}", package.folder, cycle.join(", ")));
        }
    }
    report(&problems);
}

#[test]
fn folders_have_few_siblings() {
    let rules = rules();
    let mut problems = Vec::new();
    for package in &packages() {
        for (folder, siblings) in package.siblings() {
            let is_listed = rules.instance_folders.contains(&folder);
            if siblings > rules.siblings_max && !is_listed {
                problems.push(format!("{folder} has {siblings} entries: group them"));
            }
        }
    }
    report(&problems);
}

#[test]
fn dependencies_are_named_only_in_their_homes() {
    let rules = rules();
    let mut problems = Vec::new();
    let mut used = BTreeSet::new();
    for package in &packages() {
        for (name, text) in package.files().filter(|(name, _)| !is_test(name)) {
            let code = code(text);
            for (dependency, homes) in &rules.crate_homes {
                if contains_word(&code, &format!("{dependency}::"))
                    || code.contains(&format!("use {dependency}"))
                {
                    used.insert(dependency.clone());
                    if !is_below(name, homes) {
                        problems.push(format!("{name} names {dependency}"));
                    }
                }
            }
            if code.contains("std::fs") && !is_below(name, &rules.file_system) {
                problems.push(format!("{name} names std::fs"));
            }
            if contains_word(&code, "unsafe") && !is_below(name, &rules.unsafe_code) {
                problems.push(format!("{name} contains unsafe code"));
            }
        }
    }
    let benches: String = repository()
        .into_iter()
        .filter(|(name, _)| {
            name.starts_with("benches/") && Path::new(name).extension() == Some("rs".as_ref())
        })
        .map(|(_, text)| text)
        .collect();
    for required in &rules.required_crates {
        if !used.contains(required) && !contains_word(&benches, required) {
            problems.push(format!("{required} is not in use"));
        }
    }
    report(&problems);
}

#[test]
fn printing_has_few_homes() {
    let rules = rules();
    let mut problems = Vec::new();
    for package in &packages() {
        for (name, text) in package.files().filter(|(name, _)| !is_test(name)) {
            let code = code(text);
            if ["print!(", "println!("].iter().any(|word| code.contains(word)) {
                problems.push(format!("{name} prints past `output`"));
            }
            let names = ["stdout()", "stderr()"].iter().any(|word| contains_word(&code, word));
            if names && !is_below(name, &rules.printing) {
                problems.push(format!("{name} names standard output or standard error"));
            }
        }
    }
    report(&problems);
}

/// The hand-written files of the program and the specification that contain one of the words.
fn hand_written_files_with(words: &[String]) -> Vec<String> {
    let is_hand_written = |name: &str| {
        let is = |extension: &str| Path::new(name).extension() == Some(extension.as_ref());
        let is_code = name.starts_with("crates/") && is("rs") && !is_test(name);
        is_code || (name.starts_with("format/") && is("md"))
    };
    let has_one = |text: &str| words.iter().any(|word| contains_word(text, word));
    let files = repository().into_iter();
    let files = files.filter(|(name, text)| is_hand_written(name) && has_one(text));
    files.map(|(name, _)| name).collect()
}

#[test]
fn a_new_request_touches_few_files() {
    let rules = rules();
    let files = hand_written_files_with(&rules.sample_request);
    for word in &rules.sample_request {
        let is_there = !hand_written_files_with(std::slice::from_ref(word)).is_empty();
        assert!(is_there, "the sample is another request now: nothing has {word:?}");
    }
    let is_too_many = files.len() > rules.sample_request_files_max;
    report(&if is_too_many { files } else { Vec::new() });
}

#[test]
fn a_new_view_touches_few_files() {
    let rules = rules();
    let files = hand_written_files_with(&rules.sample_view);
    let least = files.iter().filter(|name| name.ends_with("/queue.rs")).count();
    assert_eq!(least, 2, "the sample is another view now: {files:?}");
    let is_too_many = files.len() > rules.sample_view_files_max;
    report(&if is_too_many { files } else { Vec::new() });
}

#[test]
fn files_open_with_a_purpose_and_stay_within_the_limit() {
    let rules = rules();
    let mut problems = Vec::new();
    for package in &packages() {
        for (name, text) in package.files() {
            let lines = text.split("\n#[cfg(test)]\n").next().unwrap_or(text).lines().count();
            let is_listed = rules.long_files.contains_key(name) || is_test(name);
            if lines > rules.lines_max && !is_listed {
                problems.push(format!("{name} has {lines} lines: is it one concept?"));
            }
            if !text.is_ascii() {
                problems.push(format!("{name} has characters that are not ASCII"));
            }
            if !text.starts_with("//!") && !text.starts_with("#!") {
                problems.push(format!("{name} has no module documentation"));
            }
            let marks = ["TO".to_owned() + "DO", "FIX".to_owned() + "ME", "todo".to_owned() + "!("];
            for mark in marks.iter().filter(|mark| text.contains(mark.as_str())) {
                problems.push(format!("{name} contains {mark}"));
            }
        }
    }
    report(&problems);
}

#[test]
fn each_file_of_commands_is_a_command() {
    let table = fs::read_to_string(root().join("crates/cli/src/cli.rs")).unwrap();
    let (_, table) = table.split_once("\ncommands! {\n").unwrap();
    // `Run(Box<run::RunArgs>) => |args| run::run(args);`, `Cancel(RequestArgs<CancelRequest>) => cancel::cancel;`
    let of_row = |line: &str| {
        let (args, run) = line.split_once("=>")?;
        let module = |text: &str| Some(text.trim().split_once("::")?.0.to_owned());
        let module = module(args.split_once('(')?.1).or_else(|| module(run))?;
        Some(module.trim_start_matches("Box<").trim_end_matches("_command").to_owned())
    };
    let commands: BTreeSet<String> = table.lines().filter_map(of_row).collect();
    assert!(commands.len() > 30, "the table of commands was not found");
    let mut problems = Vec::new();
    for entry in fs::read_dir(root().join("crates/cli/src/commands")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        if module != "mod" && !commands.contains(module) {
            problems.push(format!("commands/{name} is no command: move it to what it belongs to"));
        }
    }
    report(&problems);
}

#[test]
fn public_type_names_are_unique_in_their_package() {
    let mut problems = Vec::new();
    for package in &packages() {
        let mut homes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, text) in package.files().filter(|(name, _)| !is_test(name)) {
            for declared in modules::public_types(&code(text)) {
                homes.entry(declared).or_default().push(name.to_owned());
            }
        }
        for (declared, homes) in homes.iter().filter(|(_, homes)| homes.len() > 1) {
            problems.push(format!("{declared} is declared in {}", homes.join(", ")));
        }
    }
    report(&problems);
}

/// The fields of a struct that are collections, or structs of several values.
fn collections(text: &str, name: &str) -> Vec<String> {
    let start = format!("pub struct {name} {{\n");
    let body = text.split_once(&start).and_then(|(_, rest)| rest.split_once("\n}"));
    let fields = body.into_iter().flat_map(|(body, _)| body.lines());
    let fields = fields.filter_map(|line| line.strip_prefix("    pub ")?.split_once(": "));
    let is_one =
        |kind: &str| ["BTree", "Vec<", "Steps", "Account"].iter().any(|word| kind.contains(word));
    fields.filter(|(_, kind)| is_one(kind)).map(|(field, _)| field.to_owned()).collect()
}

/// Views ask methods of the state, so that a new form of its collections changes no view.
#[test]
fn views_name_no_collection_of_the_state() {
    let files = repository();
    let text = |path: &str| files.iter().find(|(name, _)| name == path).unwrap().1.as_str();
    let run = collections(text("src/plan/state/run.rs"), "Run");
    let state = collections(text("src/plan/state/mod.rs"), "State");
    assert!(run.contains(&"steps".to_owned()) && state.contains(&"lost".to_owned()));
    let named = |owner: &'static str, fields: Vec<String>| {
        fields.into_iter().map(move |field| format!("{owner}.{field}"))
    };
    let named: Vec<String> = named("run", run).chain(named("state", state)).collect();
    let mut problems = Vec::new();
    for (name, text) in files.iter().filter(|(name, _)| name.starts_with("crates/views/src")) {
        let code = code(text);
        let calls = |field: &&String| code.replace(&format!("{field}("), "");
        let read = named.iter().filter(|field| contains_word(&calls(field), field));
        problems.extend(read.map(|field| format!("{name}: {field}")));
    }
    report(&problems);
}

#[test]
fn no_file_contains_a_forbidden_word() {
    let rules = rules();
    let mut problems = Vec::new();
    for (name, text) in repository() {
        if is_below(&name, &rules.quotations) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let lower = line.to_ascii_lowercase();
            for word in rules.forbidden_words.iter().filter(|word| contains_word(&lower, word)) {
                problems.push(format!("{name}:{}: {word}", number + 1));
            }
        }
    }
    report(&problems);
}

#[test]
fn every_folder_has_a_purpose() {
    let rules = rules();
    let mut folders = BTreeSet::new();
    for (name, _) in repository() {
        let mut path = PathBuf::from(name);
        while path.pop() && path != Path::new("") {
            folders.insert(path.to_str().unwrap().to_owned());
        }
    }
    let listed: BTreeSet<String> = rules.folders.keys().cloned().collect();
    let mut problems = Vec::new();
    for folder in folders.difference(&listed) {
        problems.push(format!("rules.json gives no purpose for {folder}"));
    }
    for folder in listed.difference(&folders) {
        problems.push(format!("rules.json lists {folder}, which does not exist"));
    }
    for (folder, purpose) in rules.folders.iter().filter(|(_, purpose)| purpose.len() < 10) {
        problems.push(format!("the purpose of {folder} is too short: {purpose}"));
    }
    report(&problems);
}

#[test]
fn the_library_documents_few_names() {
    let rules = rules();
    let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let mut problems = Vec::new();
    let names = Exports::of(&lib).documented;
    assert!(names.contains("Ledger") && names.contains("plan_hash"), "not found: {names:?}");
    if names.len() > rules.public_names_max {
        problems.push(format!("{} names are documented: {names:?}", names.len()));
    }
    for (module, max) in &rules.module_names_max {
        let names = exports_of(module).documented;
        if names.len() > *max {
            problems.push(format!("{} names of `{module}` are documented: {names:?}", names.len()));
        }
    }
    assert!(exports_of("log").documented.contains("verify"), "not found");
    assert!(exports_of("plan").documented.contains("Token"), "not found");
    let mut before = "";
    for line in lib.lines() {
        let module = line.strip_prefix("pub mod ").and_then(|line| line.strip_suffix(';'));
        let is_listed = module.is_some_and(|it| rules.module_names_max.contains_key(it));
        if line.starts_with("pub mod ") && !is_listed && before != "#[doc(hidden)]" {
            problems.push(format!("`{line}` is not hidden: list its names instead"));
        }
        before = line;
    }
    // The compiler rejects every other path.
    let internals = concat!("plan_ledger::", "internals");
    for (file, text) in repository() {
        let is_user = is_below(&file, &rules.internals_users);
        let is_code = [".rs", ".md"].iter().any(|end| file.ends_with(end));
        if is_code && !is_user && text.contains(internals) {
            problems.push(format!("{file} uses {internals}, which is not documented"));
        }
    }
    report(&problems);
}

/// What a documented module of the library exports.
fn exports_of(module: &str) -> Exports {
    Exports::of(&fs::read_to_string(root().join(format!("src/{module}/mod.rs"))).unwrap())
}

/// What has no page can change at any time: the program needs little of it, and ever less.
#[test]
fn the_program_uses_few_names_without_a_page() {
    let rules = rules();
    let hidden = internals::hidden_names(&root().join("src"));
    let packages = packages();
    let built_on_it = packages.iter().filter(|package| package.folder != "src");
    let files = built_on_it.flat_map(Package::files).map(|(_, text)| text);
    let used = internals::used(files, &hidden);
    for name in ["SimDisk", "ToolRegistry", "CompactStep", "RUN_STREAMS"] {
        assert!(used.contains(name), "{name} was not found: {used:?}");
    }
    let counts = [
        ("exports", &hidden, rules.hidden_names_max, "hidden_names_max"),
        ("lets the program use", &used, rules.hidden_names_used_max, "hidden_names_used_max"),
    ];
    let mut problems = Vec::new();
    for (what, names, max, rule) in counts {
        if names.len() > max {
            problems.push(format!(
                "the library {what} {} names that have no page, more than the {max} of {rule}. Use a \
                 documented name, make a function a method of its type, or document the name in the \
                 root, `plan` or `log` if its users need it: {names:?}",
                names.len()
            ));
        }
    }
    report(&problems);
}

/// A program that wants only a log pays for no more.
#[test]
fn the_log_alone_needs_few_crates() {
    let options = "--package plan-ledger --no-default-features --edges normal --prefix none";
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline"])
        .args(options.split(' '))
        .current_dir(root())
        .output()
        .unwrap();
    assert!(tree.status.success(), "{tree:?}");
    let text = String::from_utf8(tree.stdout).unwrap();
    let crates: BTreeSet<&str> = text.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    let max = rules().log_crates_max;
    assert!(crates.len() > 5 && crates.len() <= max, "{} of {max}: {crates:?}", crates.len());
}

/// A program that uses only the documented API could not store a value, call a method or build a plan
/// whose type has no public name.
///
/// The payloads of `Event` are exempt: a program matches them, and the table of events, which is a
/// macro, defines the enum.
#[test]
fn every_type_in_a_public_signature_is_exported() {
    let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let exports = [Exports::of(&lib), exports_of("log"), exports_of("plan")];
    let is_exported = |name: &str| exports.iter().any(|each| each.contains(name));
    let is_documented = |name: &str| exports.iter().any(|each| each.documented.contains(name));
    let package = Package::read(root(), "src");
    let files: Vec<(&str, String)> =
        package.files().filter(|(name, _)| !is_test(name)).map(|it| (it.0, code(it.1))).collect();
    let declared: BTreeSet<String> =
        files.iter().flat_map(|(_, code)| modules::public_types(code)).collect();
    let (mut problems, mut seen) = (BTreeSet::new(), 0);
    for (file, code) in &files {
        for (owner, signature) in signatures(code) {
            if !exports[0].contains(&owner) && !is_documented(&owner) {
                continue;
            }
            seen += 1;
            for word in type_words(&signature) {
                if declared.contains(word) && !is_exported(word) {
                    problems.insert(format!("{file}: {owner} names {word}, which is not exported"));
                }
            }
        }
    }
    assert!(seen > 400, "only {seen} signatures were found");
    report(&problems.into_iter().collect::<Vec<_>>());
}

#[test]
fn pages_contain_their_examples() {
    for (page, example) in [("guides/rust.md", "quickstart.rs"), ("log.md", "log.rs")] {
        let text = fs::read_to_string(root().join("docs/src").join(page)).unwrap();
        let code = fs::read_to_string(root().join("examples").join(example)).unwrap();
        let is_shown = |line: &&str| !line.starts_with("#![expect");
        let code: String = code.lines().filter(is_shown).flat_map(|line| [line, "\n"]).collect();
        assert!(text.contains(&code), "{page} does not contain {example} as it is");
    }
}

/// The checks find what they look for.
#[test]
fn the_checks_find_planted_faults() {
    let planted = [
        ("planted/mod.rs", "//! P.\nmod a;\nmod b;\npub use a::A;\npub struct Twice;\n"),
        ("planted/a.rs", "//! A.\nuse super::b::B;\npub struct A(B);\npub struct Twice;\n"),
        ("planted/b.rs", "//! B.\nuse super::{a::{A}, c};\nfn f() { crate::planted::a::g() }\n"),
        ("planted/c.rs", "//! C.\n// use super::a::A;\nconst TEXT: &str = \"super::a::A\";\n"),
    ];
    let package = Package::of_texts("src", &planted);
    let cycles: Vec<_> = package.cycles().into_iter().collect();
    let expected = vec!["a.rs".to_owned(), "b.rs".to_owned()];
    assert_eq!(cycles, [("planted".to_owned(), expected)]);
    assert_eq!(modules::public_types(planted[0].1), ["Twice"]);
    let signed = "pub struct A {\n    pub b: B,\n    #[doc(hidden)]\n    pub c: C,\n}\n\n\
                  impl A {\n    pub fn d(&self) -> D {\n        E\n    }\n}\n\n\
                  pub enum F {\n    G(H),\n}\n\n#[doc(hidden)]\nimpl A {\n    pub fn i(I) {}\n}\n";
    let found = signatures(signed);
    let found: Vec<&str> = found.iter().flat_map(|(_, signature)| type_words(signature)).collect();
    assert_eq!(found, ["B", "D", "H"]);
    let hidden = ["X", "y"].map(str::to_owned).into();
    let uses = "use plan_ledger::internals::{m::{self, Z}, n::X};\nfn f() { m::y(); o::X }\n";
    let used = internals::used([uses, "use plan_ledger::Y;\nX"].into_iter(), &hidden);
    assert_eq!(used.into_iter().collect::<Vec<_>>(), ["X", "y"]);
    assert!(contains_word("the crowd, nobody else", "nobody"));
    assert!(!contains_word("nobody_else", "nobody"));
}

fn is_test(name: &str) -> bool {
    name.contains("tests")
}
