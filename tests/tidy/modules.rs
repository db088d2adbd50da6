//! The modules of one package and the imports between them, read from source text.
//!
//! A path that starts with `crate`, `self`, `super` or a child module is resolved to the deepest
//! module that it names. Two modules meet in the deepest folder that contains both: there the import
//! is an edge between two entries (files or subfolders), and a cycle of such edges is a fault.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A package's source files.
pub(crate) struct Package {
    /// The folder of the sources below the root, `src` for example.
    pub(crate) folder: String,
    /// By module path: the file's path below `folder`, and its text.
    modules: BTreeMap<Vec<String>, (String, String)>,
    /// File paths below the root, and texts.
    texts: Vec<(String, String)>,
}

/// One file that names a module of another file.
pub(crate) struct Import {
    /// The file's path below the root.
    pub(crate) file: String,
    /// The path of the importing file below the source folder, in its parts.
    pub(crate) from: Vec<String>,
    /// The same of the imported file.
    pub(crate) to: Vec<String>,
}

impl Package {
    pub(crate) fn read(root: &Path, folder: &str) -> Self {
        let source = root.join(folder);
        let mut found = Vec::new();
        let mut folders = vec![source.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let name = path.strip_prefix(&source).unwrap().to_str().unwrap().to_owned();
                    found.push((name, fs::read_to_string(&path).unwrap()));
                }
            }
        }
        assert!(found.len() > 10, "the sources in {folder} were not found");
        found.sort();
        let found: Vec<(&str, &str)> =
            found.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        Self::of_texts(folder, &found)
    }

    pub(crate) fn of_texts(folder: &str, texts: &[(&str, &str)]) -> Self {
        let mut modules = BTreeMap::new();
        for (name, text) in texts {
            let mut path: Vec<String> =
                name.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            if ["mod", "lib"].contains(&path.last().unwrap().as_str()) {
                path.pop();
            }
            modules.insert(path, ((*name).to_owned(), (*text).to_owned()));
        }
        let texts = texts
            .iter()
            .map(|(name, text)| (format!("{folder}/{name}"), (*text).to_owned()))
            .collect();
        Self { folder: folder.to_owned(), modules, texts }
    }

    /// Each file's path below the root, and its text.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// The modules directly below the package's root.
    pub(crate) fn top_modules(&self) -> BTreeSet<String> {
        self.modules.values().map(|(name, _)| name.split('/').next().unwrap().to_owned()).collect()
    }

    /// All imports between two files that are not tests.
    pub(crate) fn imports(&self) -> Vec<Import> {
        let mut imports = Vec::new();
        for (module, (name, text)) in &self.modules {
            if name.contains("tests") {
                continue;
            }
            let code = code(text);
            let children: BTreeSet<&str> = self
                .modules
                .keys()
                .filter(|path| path.len() == module.len() + 1 && path.starts_with(module))
                .map(|path| path.last().unwrap().as_str())
                .collect();
            let mut targets = BTreeSet::new();
            for path in paths(&code) {
                if let Some(target) = self.resolve(module, &children, &path)
                    && target != *module
                {
                    targets.insert(target);
                }
            }
            for target in targets {
                let (imported, _) = &self.modules[&target];
                if !imported.contains("tests") {
                    let parts = |name: &str| name.split('/').map(str::to_owned).collect();
                    imports.push(Import {
                        file: format!("{}/{name}", self.folder),
                        from: parts(name),
                        to: parts(imported),
                    });
                }
            }
        }
        imports
    }

    /// The deepest module that a path names, if it names one of this package.
    fn resolve(
        &self,
        module: &[String],
        children: &BTreeSet<&str>,
        path: &[String],
    ) -> Option<Vec<String>> {
        let mut absolute = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => module.to_vec(),
            child if children.contains(child) => {
                let mut absolute = module.to_vec();
                absolute.push(child.to_owned());
                absolute
            }
            _ => return None,
        };
        if path[0] == "super" {
            absolute.pop();
        }
        for part in &path[1..] {
            if part == "super" {
                absolute.pop();
            } else {
                absolute.push(part.clone());
            }
        }
        while !self.modules.contains_key(&absolute) {
            absolute.pop()?;
        }
        Some(absolute)
    }

    /// The cycles between the entries of each folder.
    pub(crate) fn cycles(&self) -> Vec<(String, Vec<String>)> {
        let mut graphs: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for Import { from, to, .. } in self.imports() {
            let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            let folder = from[..shared].join("/");
            let edges = graphs.entry(folder).or_default();
            edges.entry(from[shared].clone()).or_default().insert(to[shared].clone());
        }
        let mut found = Vec::new();
        for (folder, edges) in graphs {
            let reachable: BTreeMap<&String, BTreeSet<&String>> =
                edges.keys().map(|entry| (entry, reach(&edges, entry))).collect();
            let mut seen = BTreeSet::new();
            for (entry, reached) in &reachable {
                if !reached.contains(*entry) || seen.contains(*entry) {
                    continue;
                }
                let is_mutual = |other: &&&String| {
                    reachable.get(**other).is_some_and(|back| back.contains(*entry))
                };
                let cycle: Vec<String> =
                    reached.iter().filter(is_mutual).map(|other| (*other).clone()).collect();
                seen.extend(reached.iter().filter(is_mutual).copied());
                found.push((folder.clone(), cycle));
            }
        }
        found
    }

    /// How many entries each folder has.
    pub(crate) fn siblings(&self) -> BTreeMap<String, usize> {
        let mut entries: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, _) in &self.texts {
            let parts: Vec<&str> = name.split('/').collect();
            for at in 1..parts.len() {
                let folder = parts[..at].join("/");
                entries.entry(folder).or_default().insert(parts[at].to_owned());
            }
        }
        entries.into_iter().map(|(folder, entries)| (folder, entries.len())).collect()
    }
}

fn reach<'a>(edges: &'a BTreeMap<String, BTreeSet<String>>, from: &String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = edges.get(from).into_iter().flatten().collect();
    while let Some(entry) = open.pop() {
        if reached.insert(entry) {
            open.extend(edges.get(entry).into_iter().flatten());
        }
    }
    reached
}

/// A file's code: comments, texts in quotes and unit tests removed.
pub(crate) fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or(text);
    let mut code = String::new();
    let mut in_quotes = false;
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let mut before = ' ';
        for letter in line.chars() {
            if letter == '"' && before != '\\' && before != '\'' {
                in_quotes = !in_quotes;
            } else if !in_quotes {
                code.push(letter);
            }
            before = if before == '\\' { ' ' } else { letter };
        }
        // A text may continue on the next line.
        in_quotes &= line.ends_with('\\');
        code.push('\n');
    }
    code
}

/// Whether a text contains a word, not as part of a longer one.
pub(crate) fn contains_word(text: &str, word: &str) -> bool {
    let is_part =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let ends_in_letter = is_part(word.as_bytes().last());
    text.match_indices(word).any(|(at, _)| {
        let bytes = text.as_bytes();
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        !(is_part(before) || ends_in_letter && is_part(bytes.get(at + word.len())))
    })
}

/// The names of types that a file declares as `pub`.
pub(crate) fn public_types(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in code.lines() {
        for keyword in ["pub struct ", "pub enum ", "pub trait ", "pub type "] {
            if let Some(rest) = line.strip_prefix(keyword) {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
                found.push(rest[..end].to_owned());
            }
        }
    }
    found
}

/// Every path in the code: those of `use` declarations, and those written where they are needed.
pub(crate) fn paths(code: &str) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    let mut rest = String::new();
    for statement in code.split_inclusive(';') {
        match statement.rfind("use ") {
            Some(at) if is_use(statement, at) => {
                rest.push_str(&statement[..at]);
                let tree = statement[at + 4..].trim_end_matches(';');
                expand(&tree.replace('\n', " "), &[], &mut found);
            }
            _ => rest.push_str(statement),
        }
    }
    // A visibility such as `pub(in crate::store)` imports nothing.
    let mut parts = rest.split("pub(in ");
    let first = parts.next().into_iter();
    let others = parts.filter_map(|part| Some(part.split_once(')')?.1));
    let rest = first.chain(others).collect::<Vec<_>>().join(" ");
    let is_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    for piece in rest.split(|c: char| !is_path(c)) {
        let parts: Vec<String> =
            piece.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        if parts.len() > 1 && !piece.starts_with("::") {
            found.insert(parts);
        }
    }
    found
}

fn is_use(statement: &str, at: usize) -> bool {
    let before = statement[..at].chars().next_back();
    before.is_none_or(|c| c.is_whitespace() || c == '}' || c == ')')
}

/// The paths of one `use` tree.
pub(crate) fn expand(tree: &str, prefix: &[String], found: &mut BTreeSet<Vec<String>>) {
    let tree = tree.trim();
    let (head, group) = match (tree.find('{'), tree.rfind('}')) {
        (Some(open), Some(close)) => (&tree[..open], Some(&tree[open + 1..close])),
        _ => (tree.split(" as ").next().unwrap_or(tree), None),
    };
    let mut path = prefix.to_vec();
    path.extend(head.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
    let Some(group) = group else {
        found.insert(path);
        return;
    };
    let mut depth = 0_usize;
    let mut start = 0;
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                expand(&group[start..at], &path, found);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !group[start..].trim().is_empty() {
        expand(&group[start..], &path, found);
    }
}
