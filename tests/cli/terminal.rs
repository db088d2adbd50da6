//! Questions on a terminal, asked and answered through a pseudo-terminal.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitStatus};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::command::Place;

/// A plan of another tool with a check that reads as a command.
const PLAN: &str =
    r#"{"summary": "x", "steps": [{"order": 1, "description": "a", "validation": ["true"]}]}"#;

/// The terminal of a person.
struct Terminal {
    person: File,
    program: File,
}

impl Terminal {
    fn new() -> Self {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let name = ptsname(&person, Vec::new()).unwrap();
        let program =
            OpenOptions::new().read(true).write(true).open(Path::new(name.to_str().unwrap()));
        Self { person: File::from(person), program: program.unwrap() }
    }

    /// Runs a command, and types the answer when the question is on the screen. Returns how the
    /// command ended, and the screen.
    fn run(self, command: &mut Command, question: &str, answer: &str) -> (ExitStatus, String) {
        let Self { mut person, program } = self;
        let end = || program.try_clone().unwrap();
        let mut child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        // The command keeps its ends open: when it has ended, nothing more can be read.
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        drop(program);
        let (mut screen, mut piece, mut is_answered) = (String::new(), [0; 4096], false);
        while let Ok(length) = person.read(&mut piece) {
            if length == 0 {
                break;
            }
            screen.push_str(&String::from_utf8_lossy(&piece[..length]));
            if !is_answered && screen.contains(question) {
                person.write_all(answer.as_bytes()).unwrap();
                is_answered = true;
            }
        }
        let status = child.wait().unwrap();
        assert!(is_answered, "expected {question:?} on the screen:\n{screen}");
        (status, screen)
    }
}

fn asked(place: &Place, line: &str, answer: &str) -> (i32, String) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let question = "execute these commands? [y/N]";
    let (status, screen) = Terminal::new().run(&mut place.command(&words), question, answer);
    (status.code().unwrap(), screen)
}

/// Goal: a person on a terminal sees the commands of a file, and nothing happens without a yes.
#[test]
fn commands_of_a_file_are_asked_about_on_a_terminal() {
    let place = Place::new();
    place.write("plan.json", PLAN);
    let line = "run plan.json --worker true";
    for answer in ["n\n", "\n", "what\n"] {
        let (code, screen) = asked(&place, line, answer);
        assert_eq!(code, 6, "{screen}");
        assert!(screen.contains("the commands were not approved"), "{screen}");
        assert!(!place.path(".ledger").exists(), "nothing was written");
    }
    let (code, screen) = asked(&place, line, "y\n");
    assert_eq!(code, 0, "{screen}");
    let (listed, _) = screen.split_once("execute these commands").unwrap();
    assert!(listed.contains("1 command that the run executes"), "{screen}");
    assert!(listed.contains("  true  ("), "{screen}");
    // They are approved in this ledger now.
    place.ledger("run plan.json --run again --worker true").code(0);
}

/// Goal: what a plan is proposed with was listed and approved, as for `ledger run`.
#[test]
fn commands_of_a_proposed_plan_are_asked_about() {
    let place = Place::new();
    place.write("plan.json", PLAN);
    place.ledger("init").code(0);
    let line = "plan propose plan.json";
    place.ledger(line).code(2).complains(&["1 command of the file is not approved", "--yes"]);
    let (code, screen) = asked(&place, line, "n\n");
    assert_eq!(code, 6, "{screen}");
    assert!(place.state().names.is_empty(), "nothing was proposed");
    let (code, screen) = asked(&place, line, "yes\n");
    assert_eq!(code, 0, "{screen}");
    place.ledger("plan propose plan.json --run again").code(0);
    place.write("plan.json", PLAN.replace("true", "false"));
    place.ledger("plan propose plan.json").code(2);
    place.ledger("plan propose plan.json --yes").code(0);
}

/// Goal: a person on a terminal selects one of two readings of a file, and is asked once about that and its commands.
#[test]
fn reading_of_a_file_is_asked_about_on_a_terminal() {
    let answered = |place: &Place, line: &str, question: &str, answer: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (status, screen) = Terminal::new().run(&mut place.command(&words), question, answer);
        (status.code().unwrap(), screen)
    };
    let plan =
        "# P\n\n## Task 1: Draw\n\n- [ ] a line\n- [ ] a circle\n\n## Task 2: Print\n\n- [ ] all\n";
    let run = "run p.md --worker true";
    let question = "read it as boxes? [y/N, or headings]";
    let answers =
        [("n\n", 6, 0), ("\n", 6, 0), ("items\n", 6, 0), ("y\n", 0, 3), ("Headings\n", 0, 2)];
    for (answer, code, steps) in answers {
        for line in [run, "plan propose p.md"] {
            let place = Place::new();
            place.write("p.md", plan);
            if line != run {
                place.ledger("init").code(0);
            }
            let (found, screen) = answered(&place, line, question, answer);
            assert_eq!(found, code, "{screen}");
            assert!(screen.contains("headings: 2 steps (Draw, Print): each heading"), "{screen}");
            if steps == 0 {
                assert!(screen.contains("no reading was selected"), "{screen}");
                assert!(line != run || !place.path(".ledger").exists(), "nothing was written");
                continue;
            }
            assert_eq!(place.state().run_named("p").unwrap().steps.len(), steps, "{answer}");
            place.ledger(run).code(0);
            assert_eq!(place.state().run_named("p").unwrap().versions.len(), 1);
        }
    }
    let place = Place::new();
    // Each reading has a command of its own.
    let checks = plan.replace("Draw\n", "Draw\n\n**Acceptance:** `true` passes\n");
    place.write("p.md", checks.replace("all\n", "all\n  - acceptance: `exit 0` passes\n"));
    let both = "read it as boxes, and execute these commands? [y/N, or headings]";
    let (code, screen) = answered(&place, run, both, "headings\ny\n");
    assert_eq!(code, 0, "{screen}");
    let (first, second) = screen.split_once(both).unwrap();
    assert!(first.contains("  exit 0  (") && !first.contains("  true  ("), "{screen}");
    let (second, _) = second.split_once("execute these commands? [y/N]").unwrap();
    assert!(second.contains("  true  ("), "the commands of that reading: {screen}");
    assert_eq!(place.state().run_named("p").unwrap().steps.len(), 2);
}

/// Goal: `ledger resume` of a ledger that has moved asks first.
#[test]
fn resume_of_a_moved_ledger_is_asked_about() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, command: 'true', gate: {question: Now?}}]\n");
    place.ledger("run plan.yaml").code(3);
    fs::rename(place.path(".ledger"), place.path("moved")).unwrap();
    place.ledger("resume --ledger moved").code(6).complains(&["add --yes"]);
    let mut command = place.command(&["resume", "--ledger", "moved"]);
    let (status, screen) = Terminal::new().run(&mut command, "start it? [y/N]", "n\n");
    assert_eq!(status.code(), Some(6), "{screen}");
    assert!(screen.contains("it was not started"), "{screen}");
    let mut command = place.command(&["resume", "--ledger", "moved"]);
    let (status, screen) = Terminal::new().run(&mut command, "start it? [y/N]", "y\n");
    assert_eq!(status.code(), Some(3), "{screen}");
}

/// A pager waits for a key. None is started where no person can press one: on a terminal without cursor control,
/// and in the shell of an agent.
#[test]
fn pager_is_started_only_for_a_person() {
    let screen = |variables: &[(&str, &str)]| {
        let place = Place::planned("steps: [{id: a}]\n");
        let mut command = place.command(&["status"]);
        for name in ["CLAUDECODE", "CODEX_THREAD_ID", "GEMINI_CLI", "OPENCODE", "TERM"] {
            command.env_remove(name);
        }
        command.env("LEDGER_PAGER", "touch paged; cat").envs(variables.iter().copied());
        // The status is on the screen in either case.
        let (status, screen) = Terminal::new().run(&mut command, "a", "");
        assert!(status.success(), "{screen}");
        place.path("paged").exists()
    };
    assert!(screen(&[("TERM", "xterm")]));
    for variables in [
        &[][..],
        &[("TERM", "")],
        &[("TERM", "dumb")],
        &[("TERM", "xterm"), ("CLAUDECODE", "1")],
        &[("TERM", "xterm"), ("CODEX_THREAD_ID", "x")],
        &[("TERM", "xterm"), ("GEMINI_CLI", "1")],
        &[("TERM", "xterm"), ("OPENCODE", "1")],
    ] {
        assert!(!screen(variables), "{variables:?}");
    }
}
