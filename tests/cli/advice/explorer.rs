//! Executes printed commands in copies of a situation, and what they print in turn.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use plan_ledger::{Environment, LedgerView, State};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde_json::Value;

use crate::command::{Ended, Place, comes_true, start, wait_until};

use super::effects::{Change, came_true};
use super::interfaces;
use super::printed::{Printed, filled, printed};
use super::stories::Situation;

/// How much is asked in a situation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The interfaces that show what waits, and some commands that are refused.
    Few,
    /// All interfaces, and many commands that are refused.
    All,
}

/// The chain of hints that is followed.
const DEPTH_MAX: usize = 3;

/// The marks of an agent session.
const AGENT: [(&str, &str); 3] = [
    ("CLAUDECODE", "1"),
    ("CLAUDE_CODE_SESSION_ID", "4f2c1d3e-aaaa-bbbb"),
    ("AI_AGENT", "claude-code_2-1-197_agent"),
];

/// Views that print what waits and what resolves it.
const FEW_VIEWS: [&str; 8] = [
    "next --json",
    "status",
    "questions",
    "inspect",
    "inspect why",
    "prime",
    "resume --show",
    "inspect .ledger --json",
];

/// All other views that print commands.
const MORE_VIEWS: [&str; 14] = [
    "next",
    "status --json",
    "questions --json",
    "prime --json",
    "budget",
    "plan review",
    "plan review --json",
    "verify",
    "verify --json",
    "inspect plan",
    "inspect queue",
    "inspect replans",
    "inspect variables",
    "logs",
];

/// Commands about a run, most of which are refused in most situations. `RUN` is the run.
const OF_RUN: [&str; 26] = [
    "unpause RUN",
    "budget raise RUN",
    "plan approve RUN",
    "retry RUN",
    "resume RUN",
    "run RUN",
    "accept RUN plan",
    "plan withdraw RUN",
    "plan reject RUN",
    "claim RUN",
    "resume",
    "answer 999 yes",
    "answer --all retry",
    "answer --all yes",
    "get zz --run RUN",
    "fork RUN",
    "pause RUN",
    "note x",
    "work --judge-only",
    "work RUN -- true",
    "inspect RUN",
    "inspect BOGUS",
    "next nosuch",
    "plan propose plan.yaml --run RUN",
    "run plan.yaml",
    "recover",
];

/// Commands about a step, as above. `STEP` is the step.
const OF_STEP: [&str; 10] = [
    "retry RUN STEP",
    "inspect why RUN STEP",
    "accept RUN STEP",
    "skip RUN STEP --reason known",
    "answer RUN STEP yes",
    "inspect step RUN STEP",
    "claim RUN --step STEP",
    "reject RUN STEP",
    "logs RUN STEP",
    "release --step STEP --run RUN",
];

/// A copy of the files of a place.
struct Kept(tempfile::TempDir);

/// A printed command that is to be executed.
struct Task {
    /// The number of the situation.
    kept: usize,
    printed: Printed,
    /// The commands that led here; none for what the test asks itself.
    path: Vec<String>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// By itself.
    Itself,
    /// It was stopped: it waits for a time.
    Waiting,
    /// It was stopped: it waits for more to do.
    Acted,
    /// It was stopped: it waits, and does nothing before a person or a worker acts.
    Idle,
    /// It was stopped: it neither ended, nor acted, nor told what it waits for.
    Silent,
}

/// What a command met, and left.
struct Look {
    /// `None` if not all records can be read.
    state: Option<State>,
    head: Vec<u8>,
}

pub(super) struct Explorer<'a> {
    situation: &'a Situation,
    /// The run of a reader who has to name one, quoted for a shell.
    run: String,
    is_agent: bool,
    asked: Asked,
    kept: Vec<Kept>,
    tasks: VecDeque<Task>,
    seen: BTreeSet<(usize, String)>,
    /// What commands printed that changed nothing.
    hints: BTreeMap<(usize, String), Vec<String>>,
    /// The commands that changed something.
    acts: BTreeSet<(usize, String)>,
    pub(super) faults: Vec<String>,
}

impl<'a> Explorer<'a> {
    pub(super) fn new(situation: &'a Situation, is_agent: bool, asked: Asked) -> Self {
        let kept = vec![Kept::of(&situation.place)];
        Self {
            situation,
            run: format!("'{}'", situation.targets().remove(0).0),
            is_agent,
            asked,
            kept,
            tasks: VecDeque::new(),
            seen: BTreeSet::new(),
            hints: BTreeMap::new(),
            acts: BTreeSet::new(),
            faults: Vec::new(),
        }
    }

    pub(super) fn explore(&mut self) {
        for line in self.questions() {
            let printed = Printed { line, effect: None };
            self.tasks.push_back(Task { kept: 0, printed, path: Vec::new() });
        }
        while let Some(task) = self.tasks.pop_front() {
            if self.seen.insert((task.kept, task.printed.line.clone())) {
                self.visit(&task);
            }
        }
        self.find_circles();
        self.kept[0].restore(&self.situation.place);
    }

    /// The command lines that are asked first.
    fn questions(&self) -> Vec<String> {
        let is_all = self.asked == Asked::All;
        let count = |few: usize| if is_all { usize::MAX } else { few };
        let mut lines: Vec<String> =
            FEW_VIEWS.iter().map(|line| format!("ledger {line}")).collect();
        lines.extend(MORE_VIEWS.iter().take(count(0)).map(|line| format!("ledger {line}")));
        let targets = self.situation.targets();
        for (run, steps) in targets.iter().take(count(2)) {
            let of_run =
                |line: &str| format!("ledger {}", line.replace("RUN", &format!("'{run}'")));
            lines.extend(OF_RUN.iter().take(count(6)).map(|line| of_run(line)));
            for step in steps.iter().take(if is_all { 3 } else { 1 }) {
                let of_step = |line: &&str| of_run(line).replace("STEP", &format!("'{step}'"));
                lines.extend(OF_STEP.iter().take(count(3)).map(of_step));
            }
        }
        lines.extend(self.questions_elsewhere(&targets));
        lines
    }

    /// What is asked over HTTP and, for an agent, over MCP: about the first run.
    fn questions_elsewhere(&self, targets: &[(String, Vec<String>)]) -> Vec<String> {
        // A server is started by a person, and serves the folder.
        let is_served =
            self.situation.env.is_empty() && self.situation.place.path(".ledger").is_dir();
        let Some((run, steps)) = targets.first().filter(|_| is_served) else { return Vec::new() };
        let Some(step) = steps.first() else { return Vec::new() };
        let state = self.look().state;
        let found = state.as_ref().and_then(|state| state.run_named(run));
        let questions = found.into_iter().flat_map(plan_ledger::Run::asked_questions);
        let questions: Vec<_> =
            questions.map(|(id, question)| (id.0, question.asked.options.clone())).collect();
        let mut lines = interfaces::questions_of(run, step, &questions);
        // A decision is refused to an agent, and a person has no MCP.
        let other = if self.is_agent { "http POST" } else { "mcp" };
        lines.retain(|line| !line.starts_with(other));
        if self.asked == Asked::Few {
            lines.retain(|line| !line.starts_with("http POST"));
        }
        lines
    }

    fn fault(&mut self, task: &Task, what: &str) {
        let from: Vec<&str> = task.path.iter().map(String::as_str).collect();
        self.faults.push(format!(
            "`{}`, printed by `{}`: {what}",
            task.printed.line,
            from.join("` -> `")
        ));
    }

    fn visit(&mut self, task: &Task) {
        let Printed { line, effect } = &task.printed;
        let is_printed = !task.path.is_empty();
        self.kept[task.kept].restore(&self.situation.place);
        // The text that explains claims to agents begins with the claim, whose answer has the token.
        let token = if is_printed && line.contains(" TOKEN") {
            let claimed = start(&mut self.command("ledger claim --worker ana --json")).end();
            // Where nothing can be claimed, the text has no other command.
            if claimed.status.code() != Some(0) {
                return;
            }
            claimed.token()
        } else {
            String::new()
        };
        let filled = if is_printed { filled(line, &self.run, &token) } else { Ok(line.clone()) };
        let typed = match filled {
            Ok(typed) => typed,
            Err(what) => return self.fault(task, &what),
        };
        let items = if is_printed { self.items() } else { BTreeSet::new() };
        // The item of the command says to change the plan first.
        if is_printed && line.contains("ledger plan propose") {
            self.change_plan();
        }
        let before = self.look();
        let (ended, end) = self.execute(&typed, &before);
        let after = self.look();
        let has_changed = before.differs(&after);
        if is_printed {
            let code = ended.status.code();
            let is_accepted = match end {
                End::Itself => matches!(code, Some(0 | 1 | 3)),
                End::Waiting | End::Acted => true,
                End::Idle | End::Silent => false,
            };
            let is_of_damage = self.situation.is_damaged && code == Some(4);
            // Time has passed: the situation has ended by itself, and the command is not printed any longer.
            let has_ended = || {
                has_changed && !self.items().iter().any(|(_, it)| it == line)
                    || self.is_view_of_past(task)
            };
            if !is_accepted && !is_of_damage && has_ended() {
                return;
            }
            if !is_accepted && !is_of_damage {
                let text = format!("{}\n{}", ended.out, ended.err);
                self.fault(task, &format!("{:?}: {}", ended.status, text.trim()));
            } else if let Some(effect) = effect
                && let (Some(before), Some(after)) = (&before.state, &after.state)
                && came_true(effect, &Change { before, after }) == Some(false)
            {
                self.fault(
                    task,
                    &format!("it is said to do what it does not: {effect}: {}", ended.out),
                );
            }
            // One of them may be done again and again: each does the next thing.
            let repeats = ["resume", "run", "work", "claim"].map(|verb| format!("ledger {verb}"));
            if has_changed && !repeats.iter().any(|verb| line.contains(verb.as_str())) {
                let again = self.items();
                if let Some((why, _)) =
                    items.intersection(&again).find(|(_, command)| command == line)
                {
                    self.fault(task, &format!("it is printed again for the same item: {why}"));
                }
            }
        } else if !matches!(ended.status.code(), Some(0..=7)) && end == End::Itself {
            self.fault(task, &format!("{ended:?}"));
        }
        // The examples in a help are about no situation.
        let is_help = line.contains(" --help") || line.starts_with("ledger help ");
        let printed = if is_help { BTreeSet::new() } else { printed(&ended) };
        let at = (task.kept, line.clone());
        if has_changed {
            self.acts.insert(at);
        } else {
            self.hints.insert(at, printed.iter().map(|it| it.line.clone()).collect());
        }
        self.follow(task, printed, has_changed);
    }

    /// Whether a server printed a command that it prints no longer: its clock went on, and it recorded what was due.
    fn is_view_of_past(&self, task: &Task) -> bool {
        let Some(view) = task.path.last().filter(|view| view.starts_with("http GET")) else {
            return false;
        };
        self.kept[task.kept].restore(&self.situation.place);
        let (ended, _) = self.execute(view, &self.look());
        !printed(&ended).iter().any(|printed| printed.line == task.printed.line)
    }

    /// Executes what a command printed, in the situation that it left.
    fn follow(&mut self, task: &Task, printed: BTreeSet<Printed>, has_changed: bool) {
        let depth = task.path.len() + usize::from(has_changed);
        if depth >= DEPTH_MAX || printed.is_empty() {
            return;
        }
        let kept = if has_changed {
            self.kept.push(Kept::of(&self.situation.place));
            self.kept.len() - 1
        } else {
            task.kept
        };
        let path: Vec<String> = task.path.iter().chain([&task.printed.line]).cloned().collect();
        for printed in printed {
            self.tasks.push_back(Task { kept, printed, path: path.clone() });
        }
    }

    /// Reports commands that lead back to themselves, and to nothing that changes something.
    fn find_circles(&mut self) {
        let mut found = BTreeSet::new();
        for (kept, line) in self.hints.keys() {
            let mut reached = BTreeSet::new();
            let mut open: Vec<&String> = self.hints[&(*kept, line.clone())].iter().collect();
            let mut is_end = true;
            while let Some(next) = open.pop() {
                if !reached.insert(next) {
                    continue;
                }
                match self.hints.get(&(*kept, next.clone())) {
                    Some(hints) => open.extend(hints),
                    // It acts, or was not followed.
                    None => is_end = false,
                }
            }
            if is_end && reached.contains(line) || self.hints[&(*kept, line.clone())].contains(line)
            {
                found.insert(format!("`{line}` leads back to itself: {reached:?}"));
            }
        }
        self.faults.extend(found);
    }

    /// Adds a step to the plan file.
    fn change_plan(&self) {
        let plan = self.situation.place.read("plan.yaml");
        let step = "{id: added, command: 'true'}";
        let changed = if plan.contains("steps: [") {
            plan.replace("steps: [", &format!("steps: [{step}, "))
        } else {
            format!("{}\n  - {step}\n", plan.trim_end())
        };
        self.situation.place.write("plan.yaml", changed);
    }

    /// The items that `ledger next` lists, each with one of its commands.
    fn items(&self) -> BTreeSet<(String, String)> {
        let ended = start(&mut self.command("ledger next --json")).end();
        let lines = ended.out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut items = BTreeSet::new();
        for line in lines.filter(|line| line["type"] == "next") {
            let commands = line["commands"].as_array().into_iter().flatten();
            let commands = commands.filter_map(Value::as_str);
            items.extend(commands.map(|command| (line["text"].to_string(), command.to_owned())));
        }
        items
    }

    fn command(&self, line: &str) -> Command {
        let mut command = self.situation.place.shell(line);
        if self.is_agent {
            command.env_remove("LEDGER_BY").envs(AGENT);
        }
        command.envs(self.situation.env.iter().map(|(name, value)| (name, value)));
        command.process_group(0);
        command
    }

    /// Executes a command line. One that waits is stopped when it has done something, or says what it waits for.
    fn execute(&self, line: &str, before: &Look) -> (Ended, End) {
        let marks = self.is_agent.then_some(AGENT.as_slice());
        if let Some(ended) = interfaces::ask(line, &self.situation.place, marks) {
            return (ended, End::Itself);
        }
        let mut running = start(&mut self.command(line));
        let group = Pid::from_raw(i32::try_from(running.id()).unwrap()).unwrap();
        let mut end = End::Silent;
        comes_true(|| {
            end = if running.is_over() {
                End::Itself
            } else if running.complained("waiting until ") {
                End::Waiting
            } else if line.contains(" --wait")
                && [" stays reported: ", " stays unchecked: ", " waits for reports"]
                    .iter()
                    .any(|it| running.complained(it))
            {
                End::Idle
            } else if line.contains(" --wait") && before.differs(&self.look()) {
                End::Acted
            } else {
                end = End::Silent;
                return false;
            };
            true
        });
        if end != End::Itself {
            // It may have ended meanwhile.
            let _ = kill_process_group(group, Signal::TERM);
        }
        let ended = running.end();
        // A shell that is stopped ends before its command, which writes to the state folder last.
        wait_until("its processes end", || test_kill_process_group(group).is_err());
        (ended, end)
    }

    fn look(&self) -> Look {
        let ledger = self.situation.place.path(".ledger");
        let folded =
            LedgerView::open(&ledger, &Environment::system()).and_then(|view| view.fold(u64::MAX));
        let whole = folded.ok().filter(|fold| fold.damage.is_empty() && fold.unreadable.is_none());
        Look {
            state: whole.map(|fold| fold.state),
            head: fs::read(ledger.join("HEAD")).unwrap_or_default(),
        }
    }
}

impl Look {
    fn differs(&self, other: &Self) -> bool {
        match (&self.state, &other.state) {
            (Some(one), Some(other)) => one.seq != other.seq,
            _ => self.state.is_some() != other.state.is_some() || self.head != other.head,
        }
    }
}

/// Copies the content of a folder.
pub(super) fn copy(from: &Path, to: &Path) {
    let ended = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

impl Kept {
    fn of(place: &Place) -> Self {
        let kept = Self(tempfile::tempdir().unwrap());
        for (name, from) in [("folder", place.path("").as_path()), ("state", place.state_home())] {
            fs::create_dir(kept.0.path().join(name)).unwrap();
            copy(from, &kept.0.path().join(name));
        }
        kept
    }

    /// Puts the files back to where they were: a ledger knows its folder.
    fn restore(&self, place: &Place) {
        for (name, to) in [("folder", place.path("").as_path()), ("state", place.state_home())] {
            for entry in fs::read_dir(to).unwrap() {
                let path = entry.unwrap().path();
                let is_folder = path.symlink_metadata().unwrap().is_dir();
                let removed =
                    if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
                removed.unwrap();
            }
            copy(&self.0.path().join(name), to);
        }
    }
}
