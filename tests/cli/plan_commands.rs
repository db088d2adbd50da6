//! `ledger plan lint`, `diff`, `enrich`, `review`, `approve`, `reject`, `withdraw` and `propose`.

use std::path::Path;

use plan_ledger::plan::Review;
use plan_ledger::{RunStatus, TextPolicy};

use super::command::{PROGRAM, Place, start};

const ROUGH: &str = "title: rough
steps:
  - {id: fetch, tools: [http_get], command: 'true', acceptance: [{cel: 'true'}]}
  - {id: tell, after: [fetch], tools: [send_mail, shell], command: 'true', timeout_seconds: 7}
";

fn example(name: &str) -> String {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("examples")
        .join(name)
        .display()
        .to_string()
}

/// Warnings name their place and are fatal only with `--strict`; problems are always fatal.
#[test]
fn lint_reports_warnings_and_problems() {
    let place = Place::new();
    place.write("plan.yaml", ROUGH);
    let words = [
        "steps[1] (tell).acceptance: no criteria",
        "plan.yaml:4:3: warning: ",
        "2 steps, 1 warning; hash ",
    ];
    place.ledger("plan lint plan.yaml").code(0).says(&words);
    place.ledger("plan lint plan.yaml --strict").code(1);
    let lines = place.ledger("plan lint plan.yaml --json").code(0).lines();
    assert_eq!(lines[0]["place"], "steps[1] (tell).acceptance");
    assert_eq!((lines[1]["steps"].as_u64(), lines[1]["warnings"].as_u64()), (Some(2), Some(1)));
    place.write("fine.yaml", "steps: [{id: a, acceptance: [{cel: 'true'}]}]");
    place.ledger("plan lint fine.yaml --strict").code(0).says(&["no warnings"]);
    place.write("bad.yaml", "steps: [{id: a, after: [b]}]");
    let words = ["bad.yaml:1:1: error: steps[0] (a).after[0]: there is no step or barrier `b`"];
    place.ledger("plan lint bad.yaml").code(2).says(&words).says(&["1 problem: the plan cannot"]);
    place.ledger("plan lint none.yaml").code(2).complains(&["none.yaml"]);
}

/// A plan file is compared with the plan of a run before it is proposed.
#[test]
fn diff_compares_a_file_with_the_plan_of_a_run() {
    let place = Place::planned("steps: [{id: a}, {id: b, goal: one}]\n");
    place.write("new.yaml", "steps: [{id: a}, {id: b, goal: two}, {id: c}]\n");
    let expected = [
        "run plan, version 1 -> new.yaml",
        "1 step added: c",
        "1 step changed: b (goal)",
        "  b.goal changed: \"one\" -> \"two\"",
    ];
    place.ledger("plan diff new.yaml").code(0).says(&expected);
    place.ledger("plan diff new.yaml plan").code(0).says(&expected);
    let difference = place.ledger("plan diff new.yaml plan --json").code(0).lines();
    assert_eq!(difference[0]["added"], serde_json::json!(["c"]));
    place.ledger("plan diff new.yaml other").code(2).complains(&["other"]);
    place.ledger("plan propose new.yaml --run plan --by ana").code(0);
    place.ledger("plan diff new.yaml").code(0).says(&["run plan, version 2 -> new.yaml"]);
    place.ledger("inspect plan plan").code(0).says(&["ana"]);
}

/// `diff` reports added, removed, changed and moved steps and fields.
#[test]
fn diff_reports_every_difference() {
    let place = Place::new();
    place.write("old.yaml", "steps: [{id: a}, {id: b, goal: one}, {id: c}, {id: d, owner: ops}]");
    let new = "title: new\nsteps: [{id: c}, {id: a}, {id: b, goal: two, priority: 3}, {id: e}]";
    place.write("new.yaml", new);
    place.ledger("plan diff old.yaml new.yaml").code(0).says(&[
        "plan: title changed",
        "1 step added: e",
        "1 step removed: d",
        "1 step changed: b (goal, priority)",
        "1 step moved: c",
        "  plan.title added: nothing -> \"new\"",
        "  b.goal changed: \"one\" -> \"two\"",
        "  b.priority added: nothing -> 3",
    ]);
    let difference = place.ledger("plan diff old.yaml new.yaml --json").code(0).lines();
    assert_eq!(difference[0]["reordered"], serde_json::json!(["c"]));
    assert_eq!(difference[0]["changed"][0]["work"], "other");
    assert_eq!(difference[0]["changed"][0]["fields"][0]["change"], "changed");
    assert_eq!(difference[0]["fields"][0]["change"], "added");
    let back = place.ledger("plan diff new.yaml old.yaml --json").code(0).lines();
    assert_eq!(back[0]["fields"][0]["change"], "removed");
    place.ledger("plan diff old.yaml old.yaml").code(0).says(&["no difference"]);
    place.ledger("plan diff old.yaml").code(2);
    place.ledger("plan diff old.yaml none.yaml").code(2).complains(&["none.yaml"]);
}

/// `enrich` fills gaps from the tool registry, marks what it filled in, keeps explicit values, and
/// is idempotent.
#[test]
fn enrich_is_idempotent() {
    let place = Place::new();
    place.write("plan.yaml", ROUGH);
    let tools = example("tools.yaml");
    let args = ["plan", "enrich", "plan.yaml", "--tools", &tools, "-o", "rich.json"];
    place.ledger_with(&args).code(0).complains(&["enriched 2 of 2 steps"]);
    place.ledger_with(&args).code(2).complains(&["rich.json", "already exists"]);
    let rich: serde_json::Value = serde_json::from_str(&place.read("rich.json")).unwrap();
    let tell = &rich["steps"][1];
    assert_eq!(
        (tell["timeout_seconds"].as_u64(), tell["idempotent"].as_str()),
        (Some(7), Some("no"))
    );
    assert_eq!(tell["retry"]["max_attempts"], 1);
    assert_eq!(
        tell["extra"]["enriched"],
        serde_json::json!(["idempotent", "retry", "side_effects"])
    );
    let again = ["plan", "enrich", "rich.json", "--tools", &tools];
    assert_eq!(place.ledger_with(&again).code(0).out, place.read("rich.json"));
    let diff = place.ledger("plan diff plan.yaml rich.json").code(0);
    diff.says(&["fetch (extra, idempotent, retry, timeout_seconds; the same work)"]);
    place.ledger("run rich.json --stub").code(0);

    place.write("tools.yaml", "tools: {shell: {timeout: 3}}");
    let wrong = ["plan", "enrich", "plan.yaml", "--tools", "tools.yaml"];
    place.ledger_with(&wrong).code(2).complains(&["tools.yaml", "unknown field", "timeout"]);
    place.write("tools.yaml", "tools: {shell: {retry: {max_attempts: 0}}}");
    place
        .ledger_with(&wrong)
        .code(2)
        .complains(&["the enriched plan is not valid", "steps[1] (tell).retry"]);
    let none = ["plan", "enrich", "plan.yaml", "--tools", "none.yaml"];
    place.ledger_with(&none).code(2).complains(&["read the tool registry", "none.yaml"]);
}

const ASKED: &str = "gate: {question: 'Is this the plan?', to: ana}
steps: [{id: a, command: 'echo a >> $TALLY'}]
";

/// A plan with a gate waits for its reviewer. An approval of an outdated version is rejected, and
/// nothing is dispatched before the newest version is approved.
#[test]
fn plan_waits_for_its_reviewer() {
    let place = Place::new();
    place.write("plan.yaml", ASKED);
    let words = ["Is this the plan?", "for ana", "whether to activate version 1"];
    place.ledger("run plan.yaml").code(3).says(&words).says(&["yes ", "abort "]);
    place.ledger("run plan.yaml").code(3).says(&words);
    let shown = place.ledger("plan review plan --json").code(3).lines()[0]["hash"].clone();
    let shown = shown.as_str().unwrap().get(..12).unwrap().to_owned();
    let review = place.ledger("plan review plan").code(3);
    review.says(&[
        "version 1, by operator, 1 step",
        "question: Is this the plan?",
        "a.command: echo a",
    ]);

    place.write("plan.yaml", ASKED.replace("echo a", "echo b"));
    place.ledger("run plan.yaml").code(6).complains(&["has another plan than the file"]);
    let proposed = place.ledger("run plan.yaml --replan --reason better").code(3);
    proposed.complains(&["plan version 2 waits for approval"]);
    let late = format!("plan approve plan --by ana --shown {shown}");
    place.ledger(&late).code(6).complains(&["you were shown", "read it again"]);
    assert!(place.tally().is_empty());
    let approved = place.ledger("plan approve plan --by ana --note fine --json").code(0).lines();
    assert_eq!(
        (approved[0]["version"].as_u64(), approved[0]["review"].as_str()),
        (Some(2), Some("approved"))
    );
    place.ledger("plan approve plan --by ana").code(6).complains(&["no version waits for review"]);
    place.ledger("plan review plan").code(0).says(&["no plan version waits for approval"]);
    place.ledger("questions").code(0).says(&["nothing waits for a person"]);
    place.ledger("run plan.yaml").code(0);
    assert_eq!(place.tally(), ["b"]);
    let state = place.state();
    let run = state.run_named("plan").unwrap();
    assert_eq!(run.versions[1].review, Some(Review::Approved));
    assert!(run.questions.is_empty(), "the answer closed the question");
}

/// A rejected version is never dispatched, and the run says how to continue.
#[test]
fn rejected_plan_is_not_dispatched() {
    let place = Place::new();
    place.write("plan.yaml", ASKED);
    place.ledger("run plan.yaml").code(3);
    place.ledger("plan reject plan --by ana --note no").code(0).says(&["version 1 is rejected"]);
    assert_eq!(place.state().run_named("plan").unwrap().status, RunStatus::Proposed);
    place.ledger("run plan.yaml").code(6).complains(&["was rejected", "--replan"]);
    place.ledger("plan reject none --by ana").code(2).complains(&["no run `none`"]);
    assert!(place.tally().is_empty());
}

/// A plan with `continues` asks its planner for more steps and ends when the request is withdrawn.
#[test]
fn continuing_plan_asks_for_more_steps() {
    let place = Place::new();
    let first = "continues: true\nsteps:\n  - {id: a, command: 'echo a >> $TALLY'}\n";
    place.write("plan.yaml", first);
    let words = ["the plan needs more steps", "ledger plan withdraw plan"];
    place.ledger("run plan.yaml").code(3).says(&words);
    place.write("plan.yaml", format!("{first}  - {{id: b, command: 'echo b >> $TALLY'}}\n"));
    place.ledger("run plan.yaml --replan").code(3).says(&words);
    place.ledger("inspect .ledger").code(0).says(&words);
    assert_eq!(place.tally(), ["a", "b"]);
    place.ledger("plan withdraw plan --by planner --reason done").code(0).says(&["is done"]);
    place.ledger("run plan.yaml").code(0);
}

/// `plan propose -` reads what `plan show --json` prints, marks included, and a proposed file gets
/// the same text policy as under `ledger run`.
#[test]
fn proposed_file_equals_the_file_of_a_run() {
    let place = Place::new();
    let prd = r#"{"project": "p", "userStories": [
        {"id": "US-1", "title": "one", "acceptanceCriteria": ["it works"], "passes": true},
        {"id": "US-2", "title": "two", "acceptanceCriteria": ["it works"], "passes": false}]}"#;
    place.write("prd.json", prd);
    place.ledger("init").code(0);
    let shown = place.ledger("plan show prd.json --json").code(0).out;
    assert!(shown.contains("\"marks\""), "{shown}");
    place.write("shown.json", shown);
    let with = |words: &[&str], file: &str| {
        let input = std::fs::File::open(place.path(file)).unwrap();
        start(place.command(words).stdin(input)).end()
    };
    let proposed = with(&["plan", "propose", "-", "--run", "shown"], "shown.json").code(0);
    proposed.complains(&["marks of finished steps are ignored"]);
    with(&["plan", "propose", "-", "--run", "piped"], "prd.json").code(0);
    with(&["plan", "propose", "-"], "prd.json").code(2).complains(&["--run NAME"]);
    place.write("blank", "");
    with(&["plan", "propose", "-", "--run", "x"], "blank").code(2).complains(&["is empty"]);
    place.ledger("plan propose prd.json --run trusted").code(0);
    place.ledger("plan propose prd.json --run judged --text judge").code(0);
    let text = |name: &str| place.state().run_named(name).unwrap().policy.text;
    assert_eq!(["piped", "trusted"].map(text), [TextPolicy::Trust; 2]);
    assert_eq!(["shown", "judged"].map(text), [TextPolicy::Judge; 2]);
}

/// `plan make -o` names the run after the file, so that `ledger run FILE` continues it instead of making another.
#[test]
fn written_plan_of_a_planner_has_one_run() {
    let place = Place::new();
    place.write(
        "made.txt",
        "extra: {rationale: the smallest change}\nsteps: [{id: a, command: 'true'}]",
    );
    let make = ["plan", "make", "--goal", "Do it", "--planner", "cat made.txt", "-o", "work.yaml"];
    place.ledger_with(&make).code(0).says(&["run work: version 1"]);
    place
        .ledger("plan review work")
        .code(3)
        .says(&["by planner:cat", "planner:cat: the smallest change"]);
    place.ledger("plan approve work --by ana").code(0);
    place.ledger("run work.yaml").code(0).says(&["run work: done"]);
    assert_eq!(place.state().names.len(), 1, "there is one run");
}

/// After a no, the person who looks sees it with its reason, and what to do.
#[test]
fn rejected_version_is_named_with_its_reason() {
    let (note, why) = ("no shell commands please", "was rejected: no shell commands please");
    let reject = |place: &Place| {
        let reject = ["plan", "reject", "plan", "--by", "ana", "--note", note];
        place.ledger_with(&reject).code(0);
    };
    // The only version.
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, command: 'true'}]");
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml --approval required").code(0);
    reject(&place);
    let propose = "ledger plan propose plan.yaml --run plan";
    for view in ["status", "next"] {
        place.ledger(view).says(&[&format!("version 1 of the plan {why}"), propose]);
    }
    // A version that was requested, and one that was not.
    let failing = "failure: {max_replans: 2}
steps: [{id: a, command: 'false', retry: {max_attempts: 1}}]";
    for plan in [failing, "steps: [{id: a, owner: human}]"] {
        let place = Place::new();
        place.write("plan.yaml", plan);
        place.ledger("run plan.yaml").code(3);
        place.write("other.yaml", plan.replace("{id: a,", "{id: a, goal: other,"));
        place.ledger("plan propose other.yaml --run plan --approval required").code(0);
        reject(&place);
        place.ledger("status").code(0).says(&[&format!("version 2 of the plan {why}")]);
        if plan == failing {
            place.ledger("next").says(&[why]);
        }
    }
}

/// The file of `plan make -o` appears while the planner works: the plan, which cost money, is in the ledger.
#[test]
fn plan_of_a_planner_is_kept_if_its_file_cannot_be_written() {
    let place = Place::new();
    place.write("made.txt", "steps: [{id: a, command: 'echo a >> $TALLY'}]");
    let planner = "touch work.yaml; cat made.txt";
    let make = ["plan", "make", "--goal", "Do it", "--planner", planner, "-o", "work.yaml"];
    place
        .ledger_with(&make)
        .code(2)
        .says(&["run work: version 1"])
        .complains(&["work.yaml already exists", "ledger plan export work"]);
    assert_eq!(place.read("work.yaml"), "", "the file is another one's");
    place.ledger("plan export work").code(0).says(&["echo a >> $TALLY"]);
    place.ledger("plan approve work --by ana").code(0);
    place.ledger("run work").code(0);
    assert_eq!(place.tally(), ["a"]);
}

/// If the ledger refuses a plan that a planner made, the plan is in the file.
#[test]
fn plan_of_a_planner_is_kept_if_the_ledger_refuses_it() {
    let place = Place::new();
    place.write("made.txt", "inputs: {count: {type: integer}}\nsteps: [{id: a, inputs: [count]}]");
    let make = [
        "plan",
        "make",
        "--goal",
        "Do it",
        "--planner",
        "cat made.txt",
        "-o",
        "work.yaml",
        "--set",
        "count=many",
    ];
    place.ledger_with(&make).code(6).complains(&["input count"]);
    assert!(place.read("work.yaml").contains("count"), "{}", place.read("work.yaml"));
    // Without a name for it, too, and no file is overwritten.
    place.write("plan-loan-1.yaml", "");
    let words = ["plan", "make", "--goal", "Do it", "--planner", "cat made.txt", "--run", "loan/1"];
    let propose = "`ledger plan propose plan-loan-1-2.yaml --run loan/1`";
    place.ledger_with(&[&words[..], &["--set", "count=many"]].concat()).code(6).complains(&[
        "input count",
        "the plan that was refused",
        propose,
    ]);
    assert!(place.read("plan-loan-1-2.yaml").contains("count"));
    assert_eq!(place.read("plan-loan-1.yaml"), "");
}

/// A judge executes commands in the folder of the approval, so a folder without the ledger or a claim is named.
#[test]
fn approval_in_an_unrelated_folder_warns() {
    let place = Place::new();
    let judged = "steps: [{id: a, acceptance: [{command: 'true'}]}]";
    place.write("plan.yaml", judged);
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml --approval required").code(0);
    let dir = place.path(".ledger");
    let elsewhere = tempfile::tempdir().unwrap();
    let approve = |folder: &std::path::Path| {
        let mut command = place.command(&["plan", "approve", "plan", "--by", "ana", "--ledger"]);
        start(command.arg(&dir).current_dir(folder)).end().code(0)
    };
    let warned = approve(elsewhere.path()).complains(&["warning: a judge runs the commands in"]);
    // The command that it names moves the checks to the ledger's folder.
    let again = warned.err.split('`').nth(1).unwrap().to_owned();
    let again = again.replacen("ledger plan", &format!("{PROGRAM} plan"), 1);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &again]).env("XDG_STATE_HOME", place.state_home());
    let said = start(shell.current_dir(elsewhere.path())).end().code(0);
    assert!(!said.err.contains("warning"), "{}", said.err);
    let folder = std::fs::canonicalize(place.path("")).unwrap();
    place.ledger("plan review plan").says(&[&format!("in {}", folder.display())]);
    // A step that was claimed there is a reason for that folder.
    let mut claim = place.command(&["claim", "plan", "--ledger"]);
    start(claim.arg(&dir).current_dir(elsewhere.path())).end().code(0);
    assert!(!approve(elsewhere.path()).err.contains("warning"));
}

/// What a plan lacks for a night is named by `plan lint` and at the start of a run with agents, with what gives it.
#[test]
fn lacks_of_a_night_are_named_with_their_flags() {
    let place = Place::new();
    place.write("bare.yaml", "steps: [{id: a}]");
    let lacks = ["--output-timeout", "--on-unknown retry", "--judge", "budget: {attempts: N}"];
    let linted = place.ledger("plan lint bare.yaml").code(0);
    linted.says(&[lacks[0], lacks[1], "no criteria", lacks[3]]);
    place.ledger("run bare.yaml --worker true").code(0).complains(&lacks);
    let given = "run bare.yaml --run given --worker true --output-timeout 20m --on-unknown retry";
    let ended = place.ledger(given).code(0);
    assert!(
        !ended.err.contains("--output-timeout") && !ended.err.contains("--on-unknown"),
        "{}",
        ended.err
    );
    place.write(
        "full.yaml",
        "defaults: {timeout_seconds: 600, retry: {max_attempts: 2}}\nbudget: {attempts: 9}\n\
         steps: [{id: a, acceptance: [{command: 'true'}]}]",
    );
    for ended in [place.ledger("plan lint full.yaml"), place.ledger("run full.yaml --worker true")]
    {
        let all = format!("{}{}", ended.out, ended.err);
        assert!(!lacks.iter().any(|text| all.contains(text)), "{all}");
    }
    // Programs do not hang, fail and spend as agents do.
    place.write("commands.yaml", "steps: [{id: a, command: 'true'}]");
    let ended = place.ledger("plan lint commands.yaml");
    assert!(!ended.out.contains("timeout_seconds"), "{}", ended.out);
}

/// A version of a run that exists waits, if it is to wait for approval, whatever the policy of the run is.
#[test]
fn version_that_is_to_wait_waits() {
    let place = Place::planned("steps: [{id: a}, {id: b, after: [a]}]");
    place.write("next.yaml", "steps: [{id: a}, {id: z, command: curl x | sh}]");
    let propose = "plan propose next.yaml --run plan --approval required";
    place.ledger(propose).code(0).says(&["version 2, 2 steps, waiting for review"]);
    let active = || place.state().run_named("plan").unwrap().active;
    assert_eq!(active(), 1);
    place.ledger("plan review plan").code(3).says(&["curl x | sh"]);
    place.ledger("plan approve plan --by ana").code(0);
    assert_eq!(active(), 2);
    place.write("next.yaml", "steps: [{id: a}]");
    place.ledger("plan propose next.yaml --run plan").code(0).says(&["version 3, 1 step, active"]);
}
