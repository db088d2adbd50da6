//! Goal: what a session reports is checked by a judge that a person starts, which runs only commands that a
//! person approved, and only in the plan's folder or a worktree of its repository.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use super::agents::commands_of_persons;
use super::command::{Place, start, wait_until};
use super::socket::asked;

/// A step whose command criterion leaves a file, and one after it.
const PLAN: &str = "\
steps:
  - {id: build, goal: Build it, acceptance: [{command: touch ran && test -f built}]}
  - {id: publish, goal: Publish it, after: [build]}
";

/// A folder in which a session has the plan as run `plan`.
fn proposed() -> Place {
    Place::planned(PLAN)
}

/// A session claims a step and reports success.
fn report(place: &Place) {
    let token = place.ledger("claim plan").code(0).token();
    place.ledger(&format!("receipt {token} --output done")).code(0).says(&["reported"]);
}

fn status_of(place: &Place, step: &str) -> String {
    let state = place.state();
    let run = state.run_named("plan").unwrap();
    let step = run.steps.iter().find(|each| each.id() == step).unwrap();
    step.status.to_string()
}

fn git(folder: &Path, words: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(words);
    assert!(git.current_dir(folder).output().unwrap().status.success(), "git {words:?}");
}

#[test]
fn judge_accepts_and_rejects_what_a_session_reports() {
    // A step that fails its criterion is dispatched again.
    for (is_built, status) in [(true, "accepted"), (false, "ready")] {
        let place = proposed();
        place.ledger("plan approve plan --by ana").code(0);
        if is_built {
            place.write("built", "");
        }
        report(&place);
        let judged = place.ledger("work --judge-only").code(0).says(&["1 step checked"]);
        assert_eq!(judged.out.contains("1 failed"), !is_built);
        assert_eq!(status_of(&place, "build"), status);
    }
}

#[test]
fn judge_that_waits_checks_what_is_reported_later() {
    let place = proposed();
    place.ledger("plan approve plan --by ana").code(0);
    place.write("built", "");
    let judge = start(&mut place.command(&["work", "plan", "--judge-only", "--wait"]));
    report(&place);
    wait_until("it is accepted", || status_of(&place, "build") == "accepted");
    let token = place.ledger("claim plan").code(0).token();
    place.ledger(&format!("receipt {token} --output done")).code(0);
    judge.end().code(0);
}

#[test]
fn unapproved_command_is_not_executed() {
    let place = proposed();
    place.write("built", "");
    report(&place);
    let asked = place.ledger("work --judge-only").code(3);
    asked.complains(&["stays reported", "touch ran && test -f built", "ledger plan approve plan"]);
    assert!(!place.path("ran").exists());
    assert_eq!(status_of(&place, "build"), "reported");
    place.ledger("plan review plan").code(0).says(&["build.check: touch ran && test -f built"]);
    place.ledger("plan approve plan --by ana").code(0);
    place.ledger("plan approve plan --by ana").code(6).complains(&["no version waits"]);
    place.ledger("work --judge-only").code(0);
    assert!(place.path("ran").exists());
    assert_eq!(status_of(&place, "build"), "accepted");
}

#[test]
fn version_with_the_same_commands_needs_no_approval() {
    let place = proposed();
    place.ledger("plan approve plan --by ana").code(0);
    place.write("plan.yaml", PLAN.replace("Publish it", "Publish all of it"));
    place.ledger("plan propose plan.yaml --run plan").code(0);
    place.write("built", "");
    report(&place);
    place.ledger("work --judge-only").code(0);
    assert_eq!(status_of(&place, "build"), "accepted");
    // Another command needs one.
    let other = "steps: [{id: build, goal: Build, acceptance: [{command: touch other}]}]";
    place.write("plan.yaml", other);
    place.ledger("plan propose plan.yaml --run plan").code(0);
    report(&place);
    place.ledger("work --judge-only").code(3).complains(&["touch other"]);
    assert!(!place.path("other").exists());
}

#[test]
fn run_of_a_file_by_a_person_approves_its_commands() {
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    let run = ["run", "plan.yaml", "--worker", "true", "--tag", "none"];
    // In the shell of an agent session it does not.
    start(place.command(&run).env("CLAUDECODE", "1")).end().code(3);
    report(&place);
    place.ledger("work --judge-only").code(3).complains(&["no person approved"]);
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    place.write("built", "");
    place.ledger_with(&run).code(3);
    report(&place);
    place.ledger("work --judge-only").code(0);
    assert_eq!(status_of(&place, "build"), "accepted");
}

#[test]
fn work_is_checked_in_the_worktree_of_its_claim_and_nowhere_else() {
    let place = proposed();
    place.ledger("plan approve plan --by ana").code(0);
    git(&place.path(""), &["init", "-q"]);
    git(&place.path(""), &["commit", "-q", "--allow-empty", "-m", "start"]);
    // A line break in its name does not end it.
    git(&place.path(""), &["worktree", "add", "-q", "--detach", "tree\nof it"]);
    let ledger = place.path(".ledger");
    let claim_in = |folder: &Path| {
        let mut claim = place.command(&["claim", "plan", "--ledger", ledger.to_str().unwrap()]);
        let token = start(claim.current_dir(folder)).end().code(0).token();
        place.ledger(&format!("receipt {token} --output done")).code(0);
    };
    // A folder that its repository does not list.
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("built"), "").unwrap();
    claim_in(elsewhere.path());
    place.ledger("work --judge-only").code(3).complains(&["git worktree list"]);
    assert!(!elsewhere.path().join("ran").exists() && !place.path("ran").exists());
    place.ledger("reject plan build --by ana").code(6);
    place.ledger("plan propose plan.yaml --run plan").code(6);
    place.write("plan.yaml", PLAN.replace("Build it", "Build it again"));
    place.ledger("plan propose plan.yaml --run plan").code(0);
    let tree = place.path("tree\nof it");
    std::fs::write(tree.join("built"), "").unwrap();
    claim_in(&tree);
    place.ledger("work --judge-only").code(0);
    assert!(tree.join("ran").exists() && !place.path("ran").exists());
    assert_eq!(status_of(&place, "build"), "accepted");
}

/// A ledger beside the repository `d`, of which `tree` is a worktree; the plan's folder is `d/sub`.
fn approved_in_subfolder() -> Place {
    let place = proposed();
    for folder in ["d/sub/deep", "d/other"] {
        std::fs::create_dir_all(place.path(folder)).unwrap();
        place.write(&format!("{folder}/file"), "");
    }
    git(&place.path("d"), &["init", "-q"]);
    git(&place.path("d"), &["add", "."]);
    git(&place.path("d"), &["commit", "-q", "-m", "start"]);
    git(&place.path("d"), &["worktree", "add", "-q", "--detach", "../tree"]);
    ledger_in(&place, &place.path("d/sub"), &["plan", "approve", "plan", "--by", "ana"]);
    place
}

fn ledger_in(place: &Place, folder: &Path, words: &[&str]) -> super::command::Ended {
    let ledger = place.path(".ledger");
    let mut command = place.command(words);
    command.args(["--ledger", ledger.to_str().unwrap()]).current_dir(folder);
    start(&mut command).end().code(0)
}

fn report_from(place: &Place, folder: &Path) {
    let token = ledger_in(place, folder, &["claim", "plan"]).token();
    place.ledger(&format!("receipt {token} --output done")).code(0);
}

/// A claim chooses the worktree, and not the folder in it.
#[test]
fn work_is_checked_in_the_place_of_the_plan_in_its_worktree() {
    for (claimed, checked) in [
        ("d", "d/sub"),
        ("d/other", "d/sub"),
        ("d/sub/deep", "d/sub"),
        ("tree", "tree/sub"),
        ("tree/other", "tree/sub"),
        ("tree/sub", "tree/sub"),
    ] {
        let place = approved_in_subfolder();
        place.write(&format!("{checked}/built"), "");
        report_from(&place, &place.path(claimed));
        place.ledger("work --judge-only").code(0);
        assert_eq!(status_of(&place, "build"), "accepted", "{claimed}");
        assert!(place.path(&format!("{checked}/ran")).exists(), "{claimed}");
    }
    // The place of the plan in a worktree leads out of it.
    let place = approved_in_subfolder();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("built"), "").unwrap();
    std::fs::remove_dir_all(place.path("tree/sub")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), place.path("tree/sub")).unwrap();
    report_from(&place, &place.path("tree"));
    place.ledger("work --judge-only").code(3).complains(&["the plan's folder is missing there"]);
    assert!(!elsewhere.path().join("ran").exists());
}

/// The repository names a folder as its worktree, which is none of its own.
#[test]
fn folder_that_does_not_name_the_repository_is_no_worktree_of_it() {
    for is_repository in [false, true] {
        let place = proposed();
        place.ledger("plan approve plan --by ana").code(0);
        git(&place.path(""), &["init", "-q"]);
        git(&place.path(""), &["commit", "-q", "--allow-empty", "-m", "start"]);
        let forged = tempfile::tempdir().unwrap();
        let folder = forged.path().canonicalize().unwrap();
        if is_repository {
            git(&folder, &["init", "-q"]);
        }
        std::fs::write(folder.join("built"), "").unwrap();
        let link = folder.join(".git");
        std::fs::create_dir_all(place.path(".git/worktrees/forged")).unwrap();
        place.write(".git/worktrees/forged/gitdir", format!("{}\n", link.display()));
        place.write(".git/worktrees/forged/commondir", "../..\n");
        place.write(".git/worktrees/forged/HEAD", place.read(".git/HEAD"));
        let mut list = Command::new("git");
        let listed = list.args(["worktree", "list"]).current_dir(place.path("")).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        assert!(listed.contains(folder.to_str().unwrap()), "{listed}");
        report_from(&place, &folder);
        place.ledger("work --judge-only").code(3).complains(&["stays reported"]);
        assert!(!folder.join("ran").exists() && !place.path("ran").exists());
    }
}

/// The folder of a claim is what the server sees of the process.
#[test]
fn request_does_not_choose_the_folder_of_its_claim() {
    let place = proposed();
    let folder_of = |place: &Place| {
        let state = place.state();
        let attempt = state.run_named("plan").unwrap().steps[0].attempt().unwrap().clone();
        attempt.process
    };
    let own = format!("claim plan --pid {}", std::process::id());
    let token = place.ledger(&own).code(0).token();
    let own = folder_of(&place).unwrap();
    place.ledger(&format!("release {token}")).code(0);
    let here = std::env::current_dir().unwrap().to_str().unwrap().to_owned();
    assert_eq!(own.folder.as_ref(), Some(&here));
    let server = place.serve();
    let socket = UnixStream::connect(place.path(".ledger/serve.sock")).unwrap();
    let other = serde_json::json!({ "pid": 1, "start": 1, "machine": "x", "folder": "/etc" });
    let mut own = serde_json::to_value(own).unwrap();
    own["folder"] = "/etc".into();
    for (process, folder) in [(own, Some(here)), (other, None)] {
        let claim = serde_json::json!({
            "act": "claim", "run": "plan", "worker": "w", "secret": "9f".repeat(16),
            "bound_to": { "process": process },
        });
        let answer = asked(&socket, &claim.to_string());
        assert_eq!(folder_of(&place).unwrap().folder, folder);
        let token = answer.lines[0]["token"].as_str().unwrap();
        place.ledger(&format!("release {token}")).code(0);
    }
    server.dismiss();
}

/// The person sees what the plan in the ledger executes, and types that it is run.
#[test]
fn run_of_a_plan_in_the_ledger_shows_and_approves_its_commands() {
    let place = proposed();
    let run = ["run", "plan", "--worker", "true", "--tag", "none"];
    start(place.command(&run).env("CLAUDECODE", "1")).end().code(3);
    report(&place);
    place.ledger("work --judge-only").code(3).complains(&["no person approved"]);
    let place = proposed();
    place.write("built", "");
    let shown = ["this approves what plan version 1 executes", "touch ran && test -f built"];
    place.ledger_with(&run).code(3).complains(&shown);
    let again = place.ledger_with(&run).code(3);
    assert!(!again.err.contains(shown[0]), "{}", again.err);
    report(&place);
    place.ledger("work --judge-only").code(0);
    assert_eq!(status_of(&place, "build"), "accepted");
    let history = place.ledger("inspect records").code(0).out;
    assert!(history.contains("its commands approved in "), "{history}");
}

#[test]
fn worker_runs_no_command_that_no_person_approved() {
    let place = proposed();
    place.write("built", "");
    let worked = place.ledger("work plan --worker w --max 1 -- true").code(0);
    worked.complains(&["stays reported", "touch ran && test -f built", "ledger plan approve plan"]);
    assert!(!place.path("ran").exists());
    assert_eq!(status_of(&place, "build"), "reported");
    place.ledger("plan approve plan --by ana").code(0);
    // A worker in an agent session runs none either.
    let inside = ["work", "plan", "--worker", "w", "--", "true"];
    let inside = start(place.command(&inside).env("CLAUDECODE", "1")).end().code(3);
    inside.complains(&["nothing is checked inside an attempt or an agent session"]);
    assert!(!place.path("ran").exists());
    // The next worker of the name checks what the last one could not.
    place.ledger("work plan --worker w -- true").code(0);
    assert!(place.path("ran").exists());
    assert_eq!(status_of(&place, "publish"), "accepted");
}

#[test]
fn judge_in_another_folder_works_where_the_commands_were_approved() {
    let place = proposed();
    place.ledger("plan approve plan --by ana").code(0);
    place.write("built", "");
    report(&place);
    let (ledger, elsewhere) = (place.path(".ledger"), tempfile::tempdir().unwrap());
    let mut judge = place.command(&["work", "--judge-only", "--ledger", ledger.to_str().unwrap()]);
    start(judge.current_dir(elsewhere.path())).end().code(0);
    assert!(place.path("ran").exists() && !elsewhere.path().join("ran").exists());
    assert_eq!(status_of(&place, "build"), "accepted");
    // Approved in a folder that is gone, and then in another one.
    let place = proposed();
    let (ledger, gone) = (place.path(".ledger"), place.path("gone"));
    std::fs::create_dir(&gone).unwrap();
    let words = ["plan", "approve", "plan", "--by", "ana", "--ledger", ledger.to_str().unwrap()];
    start(place.command(&words).current_dir(&gone)).end().code(0);
    std::fs::remove_dir(&gone).unwrap();
    report(&place);
    place.ledger("work --judge-only").code(3).complains(&["approved is gone"]);
    place.ledger("plan approve plan --by ana").code(0);
    place.write("built", "");
    place.ledger("work --judge-only").code(0);
    assert_eq!(status_of(&place, "build"), "accepted");
}

/// A yes to the question about a version that waits for approval is an approval of its commands.
#[test]
fn answer_of_a_person_approves_the_commands_of_a_version() {
    let place = Place::planned(&format!("gate: {{question: Start it?}}\n{PLAN}"));
    place.write("built", "");
    let asked = place.ledger("questions --json").code(0).lines();
    let answer = format!("answer {} yes --by ana", asked[0]["item"]["question"]);
    place.ledger(&answer).code(0);
    report(&place);
    place.ledger("work --judge-only").code(0);
    assert_eq!(status_of(&place, "build"), "accepted");
}

const NO_JUDGE: &str =
    "nothing checks it until a person starts a judge: `ledger next plan` tells a person how";

/// The agent would choose the environment of the commands, such as their `PATH`.
#[test]
fn runner_in_an_agent_session_leaves_the_commands_to_a_judge() {
    for is_approved in [false, true] {
        let place = proposed();
        place.write("built", "");
        if is_approved {
            place.ledger("plan approve plan --by ana").code(0);
        }
        let of_agent = |words: &[&str]| {
            let mut command = place.command(words);
            command.env("CLAUDECODE", "1").env("LEDGER_MARK", "none");
            start(&mut command).end()
        };
        let ran = of_agent(&["run", "plan", "--worker", "true"]).code(3);
        let said = if is_approved { NO_JUDGE } else { "ledger plan review" };
        let ran = ran.complains(&["a runner in an agent session runs no checking commands", said]);
        assert_eq!(commands_of_persons(&ran.err), Vec::<String>::new());
        assert!(!place.path("ran").exists());
        assert_eq!(status_of(&place, "build"), "reported");
        // As it is continued, too.
        of_agent(&["resume"]).code(3);
        of_agent(&["run", "plan", "--keep-plan", "--worker", "true"]).code(3);
        assert!(!place.path("ran").exists());
        for words in [&["status"][..], &["next"], &["why", "plan"], &["questions"]] {
            let told = of_agent(words);
            assert!(!told.out.contains("ledger run"), "{words:?}: {}", told.out);
        }
        let again = place.ledger("resume").code(0);
        assert_eq!(again.err.contains("this approves what plan version 1"), !is_approved);
        assert!(place.path("ran").exists());
        assert_eq!(status_of(&place, "build"), "accepted");
    }
}

/// Also of a plan that the run keeps: the person sees what an agent proposed, and the approval is on record.
#[test]
fn each_form_of_run_shows_and_approves_what_it_executes() {
    for words in [&["plan"][..], &["plan", "--keep-plan"], &["plan.yaml"]] {
        let place = proposed();
        place.write("built", "");
        let words: Vec<&str> = ["run", "--worker", "true"].iter().chain(words).copied().collect();
        let shown = ["this approves what plan version 1 executes", "touch ran && test -f built"];
        place.ledger_with(&words).code(0).complains(&shown);
        assert!(place.path("ran").exists());
        let records = place.ledger("inspect records").code(0).out;
        assert!(records.contains("its commands approved in "), "{words:?}: {records}");
    }
}

/// An agent that reports its step cannot have it checked with another version's commands.
#[test]
fn runner_leaves_commands_that_became_active_without_a_person() {
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    let run = ["run", "plan.yaml", "--worker", "true", "--tag", "none", "--wait"];
    let runner = start(&mut place.command(&run));
    wait_until("it waits", || runner.complained("ready for other workers"));
    place.write("plan.yaml", PLAN.replace("touch ran", "touch other"));
    place.ledger("plan propose plan.yaml --run plan").code(0);
    place.write("built", "");
    report(&place);
    wait_until("it is told", || runner.complained("nothing checks it before"));
    assert!(!place.path("other").exists());
    place.ledger("plan approve plan --by ana").code(0);
    wait_until("it is accepted", || status_of(&place, "build") == "accepted");
    assert!(place.path("other").exists());
    runner.signal("TERM");
    runner.end();
}

/// What an agent, its user and the next one are told, with and without a judge.
#[test]
fn report_that_nothing_checks_says_so_and_what_helps() {
    for is_served in [false, true] {
        let place = proposed();
        let server = is_served.then(|| place.serve());
        let token = place.ledger("claim plan --worker claude-code/4f2c1d3e").code(0).token();
        let told = place.ledger(&format!("receipt {token} --output done")).code(0);
        told.says(&[
            "reported; nothing checks it before a person approves",
            "ledger plan review plan",
        ]);
        place.ledger("questions").code(0).says(&[
            "before a person approves the commands of version 1: touch ran && test -f built",
            "ledger plan approve plan",
        ]);
        place.ledger("prime").code(0).says(&["touch ran && test -f built"]);
        let asked = place.ledger("questions --json").code(0).lines();
        assert_eq!(asked[0]["executes"][0]["value"], "touch ran && test -f built");
        place.ledger("plan approve plan --by ana").code(0);
        place.ledger("questions").code(0).says(&["nothing waits for a person"]);
        place
            .ledger("next")
            .code(0)
            .says(&["none is at work", "ledger work plan --judge-only --wait"]);
        place.ledger("prime").code(0).says(&["is reported, and nothing checks it until"]);
        let input = serde_json::json!({ "session_id": "4f2c1d3e-aaaa", "cwd": place.path("") });
        let input = place.write("input", input.to_string());
        let mut hook = place.command(&["hook", "claude-code", "Stop"]);
        let stopped = start(hook.stdin(std::fs::File::open(input).unwrap())).end().code(0);
        let notice: serde_json::Value = serde_json::from_str(&stopped.out).unwrap();
        let text = format!("#1 build of run plan is reported, and {NO_JUDGE}.");
        assert_eq!(notice, serde_json::json!({ "systemMessage": text }));
        // It fails, and is reported again.
        place.ledger("work --judge-only").code(0).says(&["1 failed"]);
        let token = place.ledger("claim plan").code(0).token();
        place.ledger(&format!("receipt {token} --output done")).code(0).says(&[NO_JUDGE]);
        place.write("built", "");
        let judge = start(&mut place.command(&["work", "plan", "--judge-only", "--wait"]));
        wait_until("it is accepted", || status_of(&place, "build") == "accepted");
        place.write("plan.yaml", PLAN.replace("Build it", "Build it again"));
        place.ledger("plan propose plan.yaml --run plan").code(0);
        let token = place.ledger("claim plan").code(0).token();
        let told = place.ledger(&format!("receipt {token} --output done")).code(0);
        assert!(!told.out.contains("nothing checks it"), "{}", told.out);
        judge.signal("TERM");
        judge.end();
        server.into_iter().for_each(super::command::Running::dismiss);
    }
}

/// A server with a judge of its own.
fn serve_with_checks(place: &Place) -> super::command::Running {
    let serving = start(&mut place.command(&["serve", "--checks"]));
    wait_until("it serves", || serving.said("a judge checks what is reported"));
    serving
}

#[test]
fn judge_of_a_server_accepts_and_rejects_what_a_client_reports() {
    let place = proposed();
    place.ledger("plan approve plan --by ana").code(0);
    let server = serve_with_checks(&place);
    let token = place.ledger("claim plan").code(0).token();
    let told = place.ledger(&format!("receipt {token} --output done")).code(0).says(&["reported"]);
    assert!(!told.out.contains("nothing checks it"), "{}", told.out);
    wait_until("it is rejected", || status_of(&place, "build") == "ready");
    place.write("built", "");
    report(&place);
    wait_until("it is accepted", || status_of(&place, "build") == "accepted");
    // The server was there all the time.
    server.dismiss();
    place.ledger("next").code(0);
}

#[test]
fn judge_of_a_server_runs_no_command_that_no_person_approved() {
    let place = proposed();
    place.write("built", "");
    let server = serve_with_checks(&place);
    report(&place);
    wait_until("it is told", || server.complained("touch ran && test -f built"));
    place.ledger("questions").code(0).says(&["touch ran && test -f built"]);
    assert!(!place.path("ran").exists());
    assert_eq!(status_of(&place, "build"), "reported");
    place.ledger("plan approve plan --by ana").code(0);
    wait_until("it is accepted", || status_of(&place, "build") == "accepted");
    server.dismiss();
}

/// The judges of servers that have this working folder.
fn judges_in(folder: &Path) -> usize {
    let is_judge = |process: &std::fs::DirEntry| {
        let words = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == folder)
            && String::from_utf8_lossy(&words).contains("--until-eof")
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter(is_judge).count()
}

/// The judge ends with its server, also if that is killed; and no agent starts one.
#[test]
fn judge_of_a_server_ends_with_it() {
    let place = proposed();
    place.ledger("plan approve plan --by ana").code(0);
    let refused = start(place.command(&["serve", "--checks"]).env("CLAUDECODE", "1")).end();
    let refused = refused.code(6).complains(&["an agent session", "no judge starts here"]);
    assert!(!refused.err.contains("decides"), "{}", refused.err);
    let refused = start(place.command(&["serve", "--checks"]).env("CLAUDECODE", "1")).end();
    refused.code(6).complains(&["no judge starts here"]);
    let server = serve_with_checks(&place);
    wait_until("the judge is there", || judges_in(&place.path("")) == 1);
    server.kill();
    wait_until("the judge has ended", || judges_in(&place.path("")) == 0);
    let server = serve_with_checks(&place);
    wait_until("the judge is there", || judges_in(&place.path("")) == 1);
    server.dismiss();
    assert_eq!(judges_in(&place.path("")), 0);
}

#[test]
fn judge_never_starts_in_an_attempt_or_an_agent_session() {
    let place = proposed();
    place.ledger("plan approve plan --by ana").code(0);
    place.write("built", "");
    report(&place);
    let judge = ["work", "--judge-only"];
    let refused = start(place.command(&judge).env("CLAUDECODE", "1")).end();
    refused.code(6).complains(&["agent session"]);
    place.write("other.yaml", "steps: [{id: a, goal: Judge}]");
    let worker = format!("{} work --judge-only; test $? = 6", super::command::PROGRAM);
    place.ledger("plan propose other.yaml").code(0);
    place.ledger_with(&["work", "other", "--", "sh", "-c", &worker]).code(0);
    assert_eq!(status_of(&place, "build"), "reported");
    assert!(!place.path("ran").exists());
}

/// A person judges the text criterion of a step and a judge its command: both are named.
#[test]
fn step_with_text_and_command_criteria_waits_for_a_person_and_for_a_judge() {
    const MIXED: &str = "\
steps: [{id: a, goal: Do it, acceptance: [{text: It is nice}, {command: touch ran}]}]
";
    let place = Place::planned(MIXED);
    report(&place);
    let asked = place.ledger("questions").code(0);
    let asked = asked.says(&["ledger plan approve plan", "touch ran", "ledger accept plan"]);
    assert!(asked.out.contains("a verdict on: It is nice\n"), "{}", asked.out);
    for view in ["next", "status"] {
        place.ledger(view).code(0).says(&["ledger plan review plan"]);
    }
    place.ledger("plan approve plan --by ana").code(0);
    let asked = place.ledger("questions").code(0).says(&["a verdict on: It is nice\n"]);
    assert!(!asked.out.contains("touch ran"), "{}", asked.out);
    place.ledger("next").code(0).says(&["ledger accept plan", "work plan --judge-only --wait"]);
    place.ledger("accept plan a --by ana").code(0);
    assert_eq!(status_of(&place, "a"), "reported");
    place.ledger("work --judge-only").code(0);
    assert_eq!(status_of(&place, "a"), "accepted");
}

/// A person judges the plan's own text criteria and a judge the commands.
#[test]
fn criteria_of_the_plan_wait_for_a_person_or_for_a_judge() {
    for text in ["", "{text: It is nice}, "] {
        let plan = format!(
            "steps: [{{id: a, goal: Do it}}]\ntest_criteria: [{text}{{command: touch ran}}]\n"
        );
        let place = Place::planned(&plan);
        let token = place.ledger("claim plan").code(0).token();
        place.ledger(&format!("receipt {token} --output done")).code(0).says(&["accepted"]);
        let asked =
            place.ledger("questions").code(0).says(&["ledger plan approve plan", "touch ran"]);
        assert_eq!(asked.out.contains("ledger accept plan plan"), !text.is_empty());
        place.ledger("plan approve plan --by ana").code(0);
        let asked = place.ledger("questions").code(0);
        assert!(!asked.out.contains("touch ran"), "{}", asked.out);
        place.ledger("next").code(0).says(&["work plan --judge-only --wait"]);
        if !text.is_empty() {
            place.ledger("accept plan plan --by ana").code(0);
        }
        place.ledger("work --judge-only").code(0);
        place.ledger("status").code(0).says(&["done"]);
    }
}

/// A step that was claimed elsewhere than its commands were approved waits for another approval.
#[test]
fn work_in_another_folder_waits_for_an_approval_there() {
    let place = proposed();
    let elsewhere = tempfile::tempdir().unwrap();
    ledger_in(&place, elsewhere.path(), &["plan", "approve", "plan", "--by", "ana"]);
    report(&place);
    let home = place.path("").canonicalize().unwrap();
    let home = home.to_str().unwrap();
    let command = format!("cd {home} && ledger plan approve --ledger {home}/.ledger plan --shown ");
    for view in ["questions", "next", "status", "questions plan --decided"] {
        let shown = place.ledger(view).code(0);
        let shown = shown.says(&["no judge checks it", elsewhere.path().to_str().unwrap()]);
        assert!(view == "status" || shown.out.contains(&command), "{view}: {}", shown.out);
    }
    // An agent is told, and is offered no approval.
    let primed = place.ledger("prime").code(0).says(&["no judge checks it"]);
    assert!(!primed.out.contains("plan approve"), "{}", primed.out);
    place.ledger("work --judge-only").code(3);
    let asked = place.ledger("questions").code(0).out;
    let line = asked.lines().find(|line| line.contains(&command)).unwrap();
    let line = line.trim().replace("&& ledger", &format!("&& {}", super::command::PROGRAM));
    let mut pasted = Command::new("sh");
    pasted.args(["-c", &format!("{line} --by ana")]).env("XDG_STATE_HOME", place.state_home());
    assert!(pasted.status().unwrap().success(), "{line}");
    place.ledger("questions").code(0).says(&["nothing waits for a person"]);
    place.write("built", "");
    place.ledger("work --judge-only").code(0);
    assert_eq!(status_of(&place, "build"), "accepted");
}

/// The worker is told at once that its work lies where no judge checks it.
#[test]
fn receipt_of_work_that_no_judge_checks_says_so() {
    for is_served in [false, true] {
        let place = proposed();
        let elsewhere = tempfile::tempdir().unwrap();
        let approved =
            ledger_in(&place, elsewhere.path(), &["plan", "approve", "plan", "--by", "ana"]);
        let folder = elsewhere.path().canonicalize().unwrap();
        approved.says(&[&format!("a judge runs its commands in {}", folder.display())]);
        let server = is_served.then(|| place.serve());
        let token = place.ledger("claim plan").code(0).token();
        let told = place.ledger(&format!("receipt {token} --output done")).code(0);
        told.says(&[
            "reported; no judge checks it: its claim was made in",
            "`ledger questions plan` has the command",
        ]);
        server.into_iter().for_each(super::command::Running::dismiss);
    }
}

/// A person sees before an approval where a judge will run the commands, and where it may run them now.
#[test]
fn review_names_the_folder_of_an_approval() {
    let place = proposed();
    let home = place.path("").canonicalize().unwrap().display().to_string();
    let here = format!("(a judge then runs commands in {home})");
    let review = |expected: &[&str], code: i32| {
        place.ledger("plan review plan").code(code).says(expected);
        place.ledger("plan review plan --json").code(code).lines().remove(0)
    };
    let line = review(&[&here], 0);
    assert_eq!((&line["approved_in"], &line["approves_in"]), (&().into(), &home.as_str().into()));
    let elsewhere = tempfile::tempdir().unwrap();
    ledger_in(&place, elsewhere.path(), &["plan", "approve", "plan", "--by", "ana"]);
    let folder = elsewhere.path().canonicalize().unwrap().display().to_string();
    let now = format!("a judge runs the commands of version 1 in {folder}, as ana approved");
    assert_eq!(review(&[&now], 0)["approved_in"], folder.as_str());
    place.write("plan.yaml", PLAN.replace("touch ran", "touch other"));
    place.ledger("plan propose plan.yaml --run plan --approval required").code(0);
    assert_eq!(review(&[&format!("to answer {here}")], 3)["approved_in"], folder.as_str());
}

#[test]
fn judge_is_named_to_a_person_who_judges_a_command() {
    let place = proposed();
    report(&place);
    place
        .ledger("accept plan build --by ana")
        .code(6)
        .complains(&["no text criterion is open; `ledger next plan` says what the step waits for"]);
    let next = place.ledger("next plan").code(0).says(&["ledger plan approve plan --shown "]);
    assert!(!next.out.contains("--judge-only"), "{}", next.out);
    place.ledger("plan approve plan --by ana").code(0);
    place.ledger("next plan").code(0).says(&["ledger work plan --judge-only --wait"]);
}

/// A fork runs what its parent may run.
#[test]
fn fork_has_the_approval_of_its_parent() {
    let place = proposed();
    place.ledger("plan approve plan --by ana").code(0);
    place.write("built", "");
    place.ledger("fork plan --step build --name again").code(0);
    let token = place.ledger("claim again").code(0).token();
    place.ledger(&format!("receipt {token} --output done")).code(0);
    place.ledger("work again --judge-only").code(0).says(&["1 step checked"]);
}

/// The limits of workers do not hold for checks, so a judge takes none.
#[test]
fn judge_takes_no_limits_of_workers() {
    let place = proposed();
    for limit in ["--output-timeout 2s", "--progress-timeout 2s", "--repeat-limit 3"] {
        place.ledger(&format!("work --judge-only {limit}")).code(2).complains(&["--judge-only"]);
    }
}

/// The line that was printed approves what was shown with it, and nothing that an agent proposed since.
#[test]
fn printed_approval_is_of_what_was_shown() {
    let place = proposed();
    report(&place);
    let printed = |out: &str| -> Vec<String> {
        let lines =
            out.lines().map(str::trim).filter(|line| line.starts_with("ledger plan approve"));
        lines.map(|line| line.trim_start_matches("ledger ").replace("WHO", "ana")).collect()
    };
    let review = printed(&place.ledger("plan review plan").code(0).out);
    let questions = printed(&place.ledger("questions").code(0).out);
    assert!(review.len() == 1 && questions.len() == 1, "{review:?} {questions:?}");
    place.write("evil.yaml", "steps: [{id: a, acceptance: [{command: touch evil}]}]");
    place.ledger("plan propose evil.yaml --run plan --approval required").code(0);
    let both = printed(&place.ledger("questions").code(0).out);
    assert_eq!(both.len(), 2, "{both:?}");
    let versions =
        |place: &Place| place.ledger("inspect plan plan --json").lines()[0]["versions"].to_string();
    let before = versions(&place);
    // What was printed for the active version approves its commands, and the other version still waits.
    place.ledger(&review[0]).code(0).says(&["version 1 is approved"]);
    assert_eq!(versions(&place), before);
    place.ledger("work --judge-only").code(0);
    assert!(!place.path("evil").exists());
    let other = both.iter().find(|line| !questions.contains(line)).unwrap();
    place.ledger(other).code(0).says(&["version 2 is approved"]);
}

/// A drill accepts steps without work, so it does not go on with a run in which others work.
#[test]
fn drill_of_a_run_in_which_others_work_is_refused() {
    let place = proposed();
    place.ledger("plan approve plan --by ana").code(0);
    // Before the first attempt, an agent session does not let stubs do what a person approved.
    let mut in_session = place.command(&["run", "plan", "--stub"]);
    let refused = start(in_session.env("CLAUDECODE", "1")).end().code(6);
    refused.complains(&["run plan: stub workers did not begin it"]);
    report(&place);
    let refused = place.ledger("run plan --stub").code(6);
    refused.complains(&["hint: `ledger plan export plan`", "`ledger drill FILE`"]);
    let refused = place.ledger("run plan.yaml --stub").code(6);
    refused.complains(&["hint: `ledger run plan.yaml --stub --run plan-drill`"]);
    assert_eq!(status_of(&place, "build"), "reported");
    place.ledger("run plan.yaml --stub --run plan-drill").code(0);
    // Real workers may go on with what stubs began.
    place.write("begun.yaml", "steps: [{id: a, command: 'true'}, {id: b, command: 'true'}]");
    place.ledger("run begun.yaml --stub --max-parallel 1 --kill-at 2");
    place.ledger("run begun.yaml").code(0);
    place.ledger("run begun.yaml --stub").code(6);
}

/// While stubs do their steps, another worker may claim one of its own: what it reports is checked by a judge.
#[test]
fn stub_judges_nothing_that_another_worker_reported() {
    let place = Place::new();
    let gated = "steps:
  - {id: a, owner: writer, gate: {question: Go on?}, acceptance: [{command: 'false'}]}
  - {id: b, owner: tester, acceptance: [{command: 'false'}]}
";
    place.write("plan.yaml", gated);
    let run = ["run", "plan.yaml", "--stub", "--owner", "writer", "--wait"];
    let drill = start(&mut place.command(&run));
    wait_until("the gate is open", || place.ledger("questions").out.contains("Go on?"));
    let token = place.ledger("claim plan --owner tester").code(0).token();
    place.ledger(&format!("receipt {token} --output done")).code(0);
    place.ledger("answer plan a yes --by ana").code(0);
    wait_until("the stub did its step", || status_of(&place, "a") == "accepted");
    drill.signal("INT");
    let ended = drill.end().code(3);
    let waits = "step 2 (b) waits for a runner or a judge to check: false";
    let ended = ended.says(&[waits, "ledger work plan --judge-only --wait"]);
    // A runner would need a worker for the steps that have no command.
    assert!(!ended.out.contains("ledger run"), "{}", ended.out);
    assert_eq!(status_of(&place, "b"), "reported");
}

/// A criterion whose check works until there is a file `open`. It leaves a file `beside` if the first one is still
/// at work.
const SLOW: &str = "steps: [{id: build, goal: Build it, acceptance: [{command: 'grep -qs \" [RSD] \" \
                    /proc/$(head -n 1 pids)/stat && touch beside; echo $$ >> pids; test -e open || exec sleep \
                    600'}]}]";

/// The beginning of the note about what a check left.
const LEFT: &str = "a check of a process that is gone left 1 process running, which was killed: s";

const JUDGE: &[&str] = &["work", "--judge-only"];
const RUNNER: &[&str] = &["run", "plan.yaml", "--run", "plan", "--worker", "true"];
const WORKER: &[&str] = &["work", "plan", "--worker", "w", "--", "true"];

/// A reported step whose judge, runner or worker was killed while it checked the step.
fn killed_in_check(killed: &[&str]) -> Place {
    let place = Place::approved(SLOW);
    if killed == JUDGE {
        report(&place);
    }
    let temporary = place.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = place.command(killed);
    let judge = start(command.env("TMPDIR", &temporary));
    super::command::wait_until("the check runs", || !place.read("pids").is_empty());
    super::command::wait_until("status names the check", || {
        place.ledger("status").out.contains("checking #1 build, criterion 1: grep -qs")
    });
    let named = place.ledger("status --json").code(0).lines().remove(0)["checks"].clone();
    assert_eq!((&named[0]["step"], &named[0]["criterion"]), (&1.into(), &0.into()), "{named}");
    assert!(named[0]["since"]["micros"].as_u64() > Some(0), "{named}");
    judge.kill();
    assert!(killed != JUDGE || temporary.read_dir().unwrap().next().is_none());
    place
}

/// A check never runs beside its repetition, whichever process repeats it.
#[test]
fn check_that_a_killed_process_left_is_ended_before_it_is_repeated() {
    for (killed, next) in [(JUDGE, JUDGE), (JUDGE, RUNNER), (RUNNER, JUDGE), (WORKER, JUDGE)] {
        let place = killed_in_check(killed);
        place.write("open", "");
        place.ledger_with(next).code(0).complains(&[LEFT]);
        assert_eq!(place.read("pids").lines().count(), 2, "{killed:?} {next:?}");
        assert!(!place.path("beside").exists(), "{killed:?} {next:?}");
        assert_eq!(status_of(&place, "build"), "accepted");
        let files = place.path(".ledger/work/checks").read_dir().into_iter().flatten();
        let folders = files.filter(|file| file.as_ref().unwrap().path().is_dir());
        assert_eq!(folders.count(), 0, "{killed:?} {next:?}");
        let status = place.ledger("status --json").code(0).lines();
        assert_eq!(status[0]["checks"], serde_json::json!([]));
    }
}

/// The next judge ends what a check left although there is nothing to check any more.
#[test]
fn check_of_a_cancelled_run_is_ended_by_the_next_judge() {
    let place = killed_in_check(JUDGE);
    place.ledger("cancel plan --by ana --reason over").code(0);
    place.ledger("work --judge-only").code(0).complains(&[LEFT]);
    place.ledger("work --judge-only").code(0);
    assert_eq!(place.read("pids").lines().count(), 1);
}
