//! The documentation: every snippet in README.md and `docs/` is executed, and what it prints is compared.
//!
//! A page is one shell session in a folder of its own, with a copy of `examples`. Blocks of the languages
//! `sh` and `python` must end with success. In a `console` block, each line with a prompt is executed: it
//! must end with success, unless the next command is `echo $?`, and each printed line on the page must
//! appear again. Times, process numbers and hashes may differ, and `...` replaces lines that are left out.
//! `file: NAME` behind the language writes the block to a file; `no-test: REASON` leaves it out.
//!
//! `UPDATE_GOLDEN=1` records the output in `console` blocks again, and writes the reference of the command
//! line.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use regex::Regex;

use super::command::{Place, listed_commands, report_skipped, start};

/// How many pages run at once: some of them wait most of the time.
const PAGES_AT_ONCE: usize = 4;

/// The home folder of a session, as the pages show it.
const SHOWN_HOME: &str = "/home/ana";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn is_update() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// README.md and the pages of the book.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs/src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// A fenced block of a page.
struct Block {
    /// The lines between the fences, counted from 0.
    body: Range<usize>,
    language: String,
    info: String,
}

fn blocks(lines: &[String]) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<(usize, &str)> = None;
    for (number, line) in lines.iter().enumerate() {
        let Some(words) = line.strip_prefix("```") else { continue };
        open = match open {
            None => Some((number + 1, words)),
            Some((first, words)) => {
                let (language, info) = words.split_once(' ').unwrap_or((words, ""));
                found.push(Block {
                    body: first..number,
                    language: language.to_owned(),
                    info: info.to_owned(),
                });
                None
            }
        };
    }
    assert!(open.is_none(), "a block has no end");
    found
}

/// A command of a page, or a whole block of commands.
struct Step {
    /// The line of its last command, counted from 0.
    line: usize,
    text: String,
    /// The lines with its output; `None` if the page shows none.
    printed: Option<Range<usize>>,
}

/// The snippets of a page as one script.
struct Session {
    lines: Vec<String>,
    steps: Vec<Step>,
    script: String,
    /// The lines of the blocks that are not executed, with their reasons.
    skipped: Vec<String>,
    folder: tempfile::TempDir,
}

impl Session {
    fn new(page: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut session = Self {
            lines: page.lines().map(str::to_owned).collect(),
            steps: Vec::new(),
            script: "exec 2>&1\n".to_owned(),
            skipped: Vec::new(),
            folder,
        };
        for block in blocks(&session.lines) {
            session.add(&block);
        }
        session
    }

    fn add(&mut self, block: &Block) {
        let text = || -> String {
            self.lines[block.body.clone()].iter().flat_map(|line| [line.as_str(), "\n"]).collect()
        };
        let place = block.body.start;
        if let Some(reason) = block.info.strip_prefix("no-test: ") {
            self.skipped.push(format!("line {place}: {reason}"));
        } else if let Some(name) = block.info.strip_prefix("file: ") {
            let source = self.folder.path().join(format!("file-{place}"));
            fs::write(&source, text()).unwrap();
            let mode = if text().starts_with("#!") { 755 } else { 644 };
            writeln!(self.script, "install -m {mode} {} '{name}'", source.display()).unwrap();
        } else {
            match block.language.as_str() {
                "console" => self.add_commands(block),
                "sh" => {
                    let text = text();
                    writeln!(self.script, "set -e\n{text}set +e").unwrap();
                    self.end_step(place, text, None);
                }
                "python" => {
                    let source = self.folder.path().join(format!("snippet-{place}.py"));
                    fs::write(&source, text()).unwrap();
                    writeln!(self.script, "python3 {}", source.display()).unwrap();
                    self.end_step(place, text(), None);
                }
                "" => panic!("line {place}: a block without a language"),
                _ => {}
            }
        }
    }

    fn add_commands(&mut self, block: &Block) {
        let is_command = |line: &str| line.starts_with("$ ");
        let mut line = block.body.start;
        while line < block.body.end {
            let command = self.lines[line].strip_prefix("$ ").expect("a prompt").to_owned();
            let rest = line + 1..block.body.end;
            let end = rest.clone().find(|next| is_command(&self.lines[*next]));
            writeln!(self.script, "{command}").unwrap();
            let printed = rest.start..end.unwrap_or(block.body.end);
            self.end_step(line, command, Some(printed.clone()));
            line = printed.end;
        }
    }

    /// Prints the exit code of the step behind its output, and keeps it for `echo $?`.
    fn end_step(&mut self, line: usize, text: String, printed: Option<Range<usize>>) {
        let number = self.steps.len();
        writeln!(self.script, "code=$?; printf '\\n@@ {number} %s\\n' \"$code\"; (exit \"$code\")")
            .unwrap();
        self.steps.push(Step { line, text, printed });
    }

    /// Executes the script, and returns the output and the exit code of each step that ended.
    fn execute(&self) -> (Vec<(String, i32)>, String) {
        let home = self.folder.path().join("home");
        let work = home.join("work");
        copy_folder(&root().join("examples"), &work.join("examples"));
        let script = self.folder.path().join("script");
        fs::write(&script, &self.script).unwrap();
        // As after `npm install plan-ledger`.
        let modules = work.join("node_modules");
        fs::create_dir_all(&modules).unwrap();
        symlink(root().join("clients/typescript"), modules.join("plan-ledger")).unwrap();
        let binaries = Path::new(env!("CARGO_BIN_EXE_ledger")).parent().unwrap();
        let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        for name in ["LEDGER_DIR", "LEDGER_RUN", "LEDGER_WORKER", "LEDGER_TOKEN"] {
            command.env_remove(name);
        }
        command.arg(&script).current_dir(&work).stdin(Stdio::null());
        command.env("PATH", path).env("HOME", &home).env("XDG_STATE_HOME", home.join("state"));
        command.env("LEDGER_BY", "ana").env("TERM", "dumb");
        // As after `pip install plan-ledger`.
        command.env("PYTHONPATH", root().join("clients/python/src"));
        let ended = start(&mut command).end();
        let killed = Regex::new(r"(?m)^\S+: line \d+: +\d+ Killed .*$").unwrap();
        let out = ended.out.replace(&home.display().to_string(), SHOWN_HOME);
        let out = killed.replace_all(&out, "Killed");
        let mark = Regex::new(r"\n@@ \d+ (\d+)\n").unwrap();
        let mut results = Vec::new();
        let mut from = 0;
        for found in mark.captures_iter(&out) {
            let whole = found.get(0).unwrap();
            results.push((out[from..whole.start()].to_owned(), found[1].parse().unwrap()));
            from = whole.end();
        }
        (results, out[from..].to_owned())
    }

    /// Executes the page, and returns its problems and, if the printed lines differ, the page as it
    /// should be.
    fn check(&self) -> (Vec<String>, String) {
        if self.steps.is_empty() {
            return (Vec::new(), self.lines.join("\n") + "\n");
        }
        let (results, rest) = self.execute();
        let mut problems = Vec::new();
        let mut lines = self.lines.clone();
        for (number, step) in self.steps.iter().enumerate().rev() {
            let place = step.line + 1;
            let Some((out, code)) = results.get(number) else {
                if number == results.len() {
                    problems.push(format!("line {place} stopped the page: {}\n{rest}", step.text));
                }
                continue;
            };
            let is_code_shown = self.steps.get(number + 1).is_some_and(|it| it.text == "echo $?");
            if *code != 0 && !is_code_shown {
                problems.push(format!("line {place} ended with {code}: {}\n{out}", step.text));
            }
            let Some(printed) = &step.printed else { continue };
            let shown = &self.lines[printed.clone()];
            let missing = missing_lines(shown, out);
            if !missing.is_empty() {
                let missing = missing.join("\n  ");
                problems.push(format!(
                    "line {place}: `{}` no longer prints\n  {missing}\nbut\n{out}",
                    step.text
                ));
                let actual = out.trim_end().lines().map(|line| line.trim_end().to_owned());
                lines.splice(printed.clone(), actual);
            }
        }
        problems.reverse();
        (problems, lines.join("\n") + "\n")
    }
}

/// The lines that a page shows and a command no longer prints.
fn missing_lines<'a>(shown: &'a [String], out: &str) -> Vec<&'a str> {
    let printed: BTreeSet<String> = out.lines().map(without_varying).collect();
    let is_missing = |line: &&str| *line != "..." && !printed.contains(&without_varying(line));
    shown.iter().map(String::as_str).filter(is_missing).collect()
}

/// A line without what differs from run to run.
fn without_varying(line: &str) -> String {
    static PATTERNS: std::sync::LazyLock<Vec<(Regex, &str)>> = std::sync::LazyLock::new(|| {
        let patterns = [
            (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
            (r"\b\d\d:\d\d:\d\d\b", "CLOCK"),
            (r"^ *\d+  TIME", "N TIME"),
            (r"process/\d+", "process/N"),
            (r"(\b(?:question|answer|token|records?|to) |@)\d+", "${1}N"),
            (r"\b\d+ records", "N records"),
            (r"([a-z.-]+) \(\d+\)", "$1 (N)"),
            (r"\b\d+:[0-9a-f]{8,}\b", "ROOT"),
            (r"\b[0-9a-f]{8,}\b", "HASH"),
            (r"\b(?:\d+(?:\.\d+)?|[TN]) ?(?:us|ms|s|min|m|h)\b", "T"),
            (r"(?:T )+T", "T"),
            // A short time between two records is not shown.
            (r" *\+T$", ""),
            (r"\b\d{3,}\b", "N"),
            // The bars of a timeline depend on how long each attempt took.
            (r"\|.*\|.*$", "|"),
            (r"\s+", " "),
        ];
        Vec::from(patterns.map(|(pattern, with)| (Regex::new(pattern).unwrap(), with)))
    });
    let replace = |text: String, (pattern, with): &(Regex, &str)| {
        pattern.replace_all(&text, *with).into_owned()
    };
    PATTERNS.iter().fold(line.to_owned(), replace).trim().to_owned()
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A program that the page needs and that is not installed.
fn missing_program(page: &str) -> Option<&'static str> {
    let is_installed = |name: &str| {
        Command::new(name).arg("--version").output().is_ok_and(|it| it.status.success())
    };
    let needs = |name: &str| {
        let uses = [format!("\n$ {name} "), format!("\n{name} "), format!("\n```{name}\n")];
        name == "bash" || uses.iter().any(|each| page.contains(each.as_str()))
    };
    let needs_python = |page: &str| page.contains("\n```python\n");
    let missing = |name: &&str| {
        (needs(name) || *name == "python3" && needs_python(page)) && !is_installed(name)
    };
    ["bash", "git", "node", "python3"].into_iter().find(missing)
}

/// Goal: a reader who types what README and the book show gets what they show.
#[test]
fn snippets_in_the_documentation_work() {
    let check = |path: &PathBuf| {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let page = fs::read_to_string(path).unwrap();
        if let Some(program) = missing_program(&page) {
            return (Vec::new(), vec![format!("{name}: {program} is not installed")]);
        }
        let session = Session::new(&page);
        let (problems, updated) = session.check();
        if is_update() && updated != page {
            fs::write(path, updated).unwrap();
        }
        let named = |lines: &[String]| lines.iter().map(|it| format!("{name}: {it}")).collect();
        (named(&problems), named(&session.skipped))
    };
    let (mut problems, mut skipped) = (Vec::new(), Vec::new());
    for group in pages().chunks(PAGES_AT_ONCE) {
        let results: Vec<(Vec<String>, Vec<String>)> = std::thread::scope(|scope| {
            let threads: Vec<_> = group.iter().map(|path| scope.spawn(|| check(path))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for (found, left_out) in results {
            problems.extend(found);
            skipped.extend(left_out);
        }
    }
    if !skipped.is_empty() {
        report_skipped(&format!("{} snippets:\n    {}", skipped.len(), skipped.join("\n    ")));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// The check finds a command that fails, one that stops the page, and output that is no longer printed.
#[test]
fn faults_in_snippets_are_found() {
    let problems = |page: &str| Session::new(page).check().0;
    let right = "```console\n$ echo one; echo two 17:\none\n...\n$ false\n$ echo $?\n1\n```\n";
    assert!(problems(right).is_empty(), "{:?}", problems(right));
    let planted = [
        ("```console\n$ false\n```\n", "line 2 ended with 1: false"),
        ("```console\n$ echo one\ntwo\n```\n", "no longer prints\n  two"),
        ("```sh\necho one\nfalse\necho two\n```\n", "line 2 stopped the page"),
        ("```sh file: a\nx\n```\n```sh\ntest ! -e a\n```\n", "line 5 stopped the page"),
    ];
    for (page, problem) in planted {
        let found = problems(page);
        assert!(found.len() == 1 && found[0].contains(problem), "{page}: {found:?}");
    }
    let skipped = Session::new("```sh no-test: needs an account\nfalse\n```\n");
    assert!(skipped.check().0.is_empty());
    assert_eq!(skipped.skipped, ["line 1: needs an account"]);
    let recorded = Session::new("```console\n$ echo one\ntwo\n```\n").check().1;
    assert_eq!(recorded, "```console\n$ echo one\none\n```\n");
}

/// Goal: the reference of the command line is the help of all commands.
#[test]
fn command_line_reference_is_the_help() {
    let path = root().join("docs/src/cli.md");
    let place = Place::new();
    let help = |words: &[&str]| place.ledger_with(words).code(0).out;
    let mut text = "\
# Command line

The help of every command. `ledger help` prints the most used commands, and `ledger help TOPIC` explains a
topic. A test writes this page; do not edit it.
"
    .to_owned();
    let mut section = |level: usize, words: &[&str], help: &str| {
        let heading = [&["ledger"], words].concat().join(" ");
        let help: String = help.lines().flat_map(|line| [line.trim_end(), "\n"]).collect();
        write!(text, "\n{} {heading}\n\n```text\n{help}```\n", "#".repeat(level)).unwrap();
    };
    let all = help(&["help", "--all"]);
    section(2, &["help", "--all"], &all);
    for topic in ["exit-codes", "environment", "plan-file", "worker", "glossary", "git"] {
        section(2, &["help", topic], &help(&["help", topic]));
    }
    for command in listed_commands(&all) {
        let about = help(&[&command, "--help"]);
        section(2, &[&command], &about);
        for below in listed_commands(&about) {
            let words = [command.as_str(), below.as_str()];
            section(3, &words, &help(&[words[0], words[1], "--help"]));
        }
    }
    if is_update() {
        fs::write(&path, &text).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == text,
        "docs/src/cli.md is not the help of this program: run the test with UPDATE_GOLDEN=1"
    );
}

/// The words of the glossary are explained alike in the terminal and in the documentation.
#[test]
fn glossary_of_the_help_is_that_of_the_documentation() {
    let page = fs::read_to_string(root().join("docs/src/concepts.md")).unwrap();
    let (_, glossary) = page.split_once("## Glossary").unwrap();
    let rows = glossary.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows: Vec<(&str, &str)> = rows.filter_map(|row| row.split_once(" | ")).skip(1).collect();
    assert!(rows.len() > 30);
    let shown = Place::new().ledger("help glossary").code(0).out;
    let entries = shown.lines().filter_map(|line| line.strip_prefix("  "));
    let entries: Vec<(&str, &str)> = entries
        .filter_map(|line| line.split_once(' '))
        .map(|(word, text)| (word, text.trim()))
        .collect();
    assert_eq!(rows, entries);
}

/// The name under which a page links to a heading, on GitHub and in the book.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Whether a page has a heading of that name. Lines in fenced blocks are no headings.
fn has_anchor(page: &Path, name: &str) -> bool {
    let text = fs::read_to_string(page).unwrap();
    let mut in_block = false;
    text.lines().any(|line| {
        in_block ^= line.starts_with("```");
        let heading = line.strip_prefix('#').filter(|_| !in_block);
        heading.is_some_and(|rest| anchor(rest.trim_start_matches('#').trim()) == name)
    })
}

/// Goal: links to headings lead to headings. In the book a page `README.md` gets another name, so that
/// links to it lead nowhere.
#[test]
fn documentation_links_lead_to_headings() {
    let link = Regex::new(r"\]\(([^)#:]*)#([^)]*)\)").unwrap();
    let mut problems = Vec::new();
    for path in pages() {
        let page = fs::read_to_string(&path).unwrap();
        for found in link.captures_iter(&page) {
            let target = match &found[1] {
                "" => path.clone(),
                target => path.parent().unwrap().join(target),
            };
            let is_page = target.extension().is_some_and(|it| it == "md") && target.is_file();
            if is_page && !has_anchor(&target, &found[2]) {
                problems.push(format!("{}: {}#{}", path.display(), &found[1], &found[2]));
            }
        }
        if path.starts_with(root().join("docs")) && path.ends_with("README.md") {
            problems.push(format!("{}: name it index.md", path.display()));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

/// Goal: the summary lists every page, and links lead to files that exist.
#[test]
fn documentation_links_lead_somewhere() {
    let link = Regex::new(r"\]\(([^)#:]+)(?:#[^)]*)?\)").unwrap();
    let mut problems = Vec::new();
    let mut listed = BTreeSet::new();
    for path in pages() {
        let page = fs::read_to_string(&path).unwrap();
        for found in link.captures_iter(&page) {
            let target = path.parent().unwrap().join(&found[1]);
            match target.canonicalize() {
                Ok(target) if path.ends_with("SUMMARY.md") => _ = listed.insert(target),
                Ok(_) => {}
                Err(_) => problems.push(format!("{}: {}", path.display(), &found[1])),
            }
        }
    }
    let is_in_book =
        |path: &PathBuf| !path.ends_with("SUMMARY.md") && path.starts_with(root().join("docs"));
    let unlisted = pages().into_iter().filter(|path| is_in_book(path) && !listed.contains(path));
    problems.extend(unlisted.map(|path| format!("{} is not in SUMMARY.md", path.display())));
    assert!(problems.is_empty(), "{problems:#?}");
}
