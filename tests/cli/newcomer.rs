//! What a newcomer trips over: messages that leave out what counts, or name no way on.

use super::command::Place;

/// Story: `work` and `claim` named three counts of zero, and not the question that blocked them.
#[test]
fn claim_without_a_step_names_the_question_that_blocks() {
    let place = Place::planned("steps: [{id: a, gate: {question: Go?}}]");
    for line in ["claim", "work -- true", "work plan -- true"] {
        let ended = place.ledger(line).code(3);
        assert!(!ended.err.contains("0 in flight"), "{line}: {ended:?}");
        ended.complains(&[
            "no step is ready\n",
            "1 question waits for an answer: `ledger questions`",
        ]);
    }
    let line = place.ledger("claim --json").code(3).lines().remove(0);
    assert_eq!(line["questions"], 1);
}

/// Story: for a failed step that asks for another plan, `next` offered only to withdraw the request.
#[test]
fn requested_plan_can_be_avoided_by_a_retry_or_a_skip() {
    let plan = "failure: {max_replans: 2}
steps: [{id: announce, command: 'test -e ok', retry: {max_attempts: 1}}, {id: b, after: [announce], command: 'true'}]";
    let commands = [
        "ledger retry plan announce",
        "ledger skip plan announce --reason WHY",
        "ledger plan withdraw plan",
    ];
    for (way, code) in [("retry plan announce", 0), ("skip plan announce --reason known", 0)] {
        let place = Place::new();
        place.write("plan.yaml", plan);
        place.ledger("run plan.yaml").code(3).says(&commands);
        place.ledger("next").code(0).says(&commands);
        place.ledger("questions").code(0).says(&commands);
        place.write("ok", "");
        place.ledger(way).code(0);
        place.ledger("run plan.yaml").code(code);
    }
}

/// Story: an attempt whose criterion failed was drawn as one that succeeded.
#[test]
fn attempt_that_fails_a_check_has_its_own_mark() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps: [{id: a, command: 'sleep 0.2', acceptance: [command: 'sleep 0.2; test -e ok'], retry: {max_attempts: 1}}]",
    );
    place.ledger("run plan.yaml").code(1);
    let picture = place.ledger("inspect timeline").code(0);
    let bar = picture.out.lines().find(|line| line.contains("#1 a")).unwrap().to_owned();
    assert!(bar.contains("=-~") && !bar.contains('+'), "{bar}");
    picture.says(&["=- a check failed"]);
    let line = place
        .ledger("inspect timeline --json")
        .lines()
        .into_iter()
        .find(|it| it["type"] == "interval");
    assert_eq!(line.unwrap()["kind"], "rejected");
}

/// A token of no attempt.
const NEVER_GIVEN: &str = "999-00000000000000000000000000000000";

/// Story: the message about a token named three possible reasons and a wrong advice, although the log knows
/// the reason.
#[test]
fn token_that_is_over_is_explained() {
    let place = Place::planned("steps: [{id: a}, {id: b}]");
    let token = place.ledger("claim --json").code(0).token();
    place.ledger(&format!("receipt {token} --output 1")).code(0);
    let over = "it was an attempt at step 1 (a), which is accepted now";
    let unknown = "no known attempt has this token";
    for (line, hint) in [
        (format!("renew {token}"), over),
        (format!("release {token}"), over),
        (format!("renew {NEVER_GIVEN}"), unknown),
        (format!("receipt {NEVER_GIVEN}"), unknown),
    ] {
        let ended = place.ledger(&line).code(6).complains(&["is not active", "\nhint: ", hint]);
        assert!(!ended.err.contains("claim the step again"), "{ended:?}");
    }
    let line = place.ledger(&format!("renew {NEVER_GIVEN} --json")).code(6).lines().remove(0);
    assert_eq!(line["rejection"], "stale_token");
}

/// What other tools call a field leads to ours.
#[test]
fn field_names_of_other_tools_are_understood() {
    for (written, own) in [
        ("depends_on: [b]", "after"),
        ("deps: [b]", "after"),
        ("prio: 3", "priority"),
        ("prompt: x", "goal"),
        ("script: x", "command"),
    ] {
        let place = Place::new();
        place.write("plan.yaml", format!("steps:\n  - {{id: a, {written}}}\n  - {{id: b}}\n"));
        let hint = format!("did you mean `{own}`?");
        place.ledger("plan lint plan.yaml").code(2).says(&[&hint]);
    }
}

/// JSON with a typing error was taken as a text without a word.
#[test]
fn broken_json_is_reported_when_it_is_taken_as_a_text() {
    let place = Place::planned("steps: [{id: a}]");
    let token = place.ledger("claim --json").code(0).token();
    let words = ["receipt", &token, "--output", "{bad json"];
    place.ledger_with(&words).code(0).complains(&["the value is taken as text, not as JSON"]);
    place.ledger("inspect step a").code(0).says(&["output: {bad json"]);
}

/// Story: a worker that had done everything ended with a message like an error.
#[test]
fn worker_that_finishes_a_run_reports_no_error() {
    let place = Place::planned("steps: [{id: a}, {id: b}]");
    let ended = place.ledger("work plan -- true").code(0).says(&["2 steps done; the run is done"]);
    assert_eq!(ended.err, "");
    let help = place.ledger("effect --help").code(0);
    assert!(!help.out.contains("[default: \"\"]"), "{}", help.out);
}

/// Story: in the first hour, these words were answered with an error and no way on.
#[test]
fn errors_of_the_first_hour_name_a_way_on() {
    let place = Place::new();
    place.write("release.yaml", "steps: [{id: a, command: 'true', gate: {question: Go?}}]");
    let expect = |line: &str, code: i32, parts: &[&str]| {
        place.ledger(line).code(code).complains(parts);
    };
    // A plan file whose name is nearly right.
    for line in ["run relase.yaml", "run release", "plan lint release.yml", "drill realese.yaml"] {
        expect(line, 2, &["cannot read the plan file", "hint: did you mean release.yaml?"]);
    }
    let far = place.ledger("run other.yaml").code(2);
    assert!(!far.err.contains("did you mean"), "{far:?}");
    // A step at which the runner would never be killed.
    expect("run release.yaml --kill-at 2", 2, &["--kill-at 2: release.yaml has 1 step"]);
    assert!(!place.path(".ledger").exists());
    // A folder without its option.
    expect("init there", 2, &["unexpected argument 'there'", "`ledger init --ledger there`"]);
    expect("serve there", 2, &["`ledger serve --ledger there`"]);
    let option = place.ledger("init --thre").code(2);
    assert!(!option.err.contains("--ledger --thre"), "{option:?}");

    place.ledger("run release.yaml").code(3);
    expect("run release", 3, &["run release: the run continues with plan version 1"]);
    expect("answer 999 yes", 6, &["question 999 is not open", "`ledger questions` lists"]);
    // A view that is nearly right, also with words after it.
    for line in ["inspect stp", "inspect stp a", "inspect stp --json"] {
        expect(line, 2, &["did you mean `ledger inspect step"]);
    }
    expect("help plan aprove", 2, &["there is no command `plan aprove`", "`ledger help plan`"]);
    expect("top", 2, &["did you mean `ledger status`?"]);
    // Words of which there are several are named once.
    let answer = place.ledger("answer").code(2);
    assert!(answer.err.contains("  <WHAT ANSWER>...\n"), "{answer:?}");
    // A file that is prepared under another name.
    let name = "missing/x.html: cannot write the page";
    expect("report --html missing/x.html", 7, &[name]);
}

/// Story: `inspect myrn` said that there was no ledger of that name, and to create one.
#[test]
fn inspect_of_an_unknown_word_names_what_is_near() {
    let place = Place::new();
    place.write("nightly.yaml", "steps: [{id: build}]");
    place.ledger("init").code(0);
    place.ledger("plan propose nightly.yaml").code(0);
    let hint = "hint: did you mean `ledger status --run nightly`?";
    place.ledger("inspect nigtly").code(2).complains(&["`nigtly` is no view, no run", hint]);
    let hint = "did you mean `ledger inspect step nightly build`?";
    place.ledger("inspect buildd").code(2).complains(&[hint]);
    let far = place.ledger("inspect BOGUS").code(2);
    let far = far.complains(&["`BOGUS` is no view", "`ledger inspect --help` lists the views"]);
    assert!(!far.err.contains("ledger init"), "{far:?}");
    // A path is the path of a ledger.
    place.ledger("inspect ./BOGUS").code(2).complains(&["no ledger at ./BOGUS"]);
}

/// Story: four hints of `resume` said `ledger run`, which said `ledger resume`.
#[test]
fn resume_that_starts_nothing_names_a_command_that_is_accepted() {
    let place = Place::planned("steps: [{id: a, command: 'true'}]");
    place.ledger("cancel plan").code(0);
    let hint = "run plan is over; `ledger run plan.yaml --run NEW` starts another one";
    place.ledger("resume").code(2).complains(&[hint]);
    place.ledger("run plan.yaml --run other").code(0);

    let place = Place::planned("failure: {rules: [{id: no, then: fail}]}\nsteps: [{id: a}]");
    let token = place.ledger("claim").code(0).token();
    place.ledger(&format!("receipt {token} --failed deterministic")).code(0);
    let hint = "run plan failed: `ledger next plan` says what continues it";
    place.ledger("resume plan").code(2).complains(&[hint]);
    place.ledger("next plan").says(&["ledger retry plan a"]);
}

/// Story: a judge that found no ledger left a folder, which looked like a damaged one.
#[test]
fn judge_without_a_ledger_creates_nothing() {
    let place = Place::new();
    place.ledger("work --judge-only").code(2).complains(&["there is no such folder"]);
    assert!(!place.path(".ledger").exists());
}

/// Story: of several failed steps, each had two commands, and the summary of a run had all answers once for each.
#[test]
fn several_failures_have_one_command() {
    let place = Place::new();
    let plan = "steps: [{id: a, command: 'exit 3'}, {id: b, command: 'exit 4'}, {id: c}]";
    place.write("plan.yaml", plan);
    let ended = place.ledger("run plan.yaml --worker true").code(3);
    let ended = ended.says(&["2 questions are about failures", "ledger answer --all plan retry "]);
    let single = regex::Regex::new(r"ledger answer \d").unwrap();
    assert!(!single.is_match(&ended.out), "{}", ended.out);

    let place = Place::planned(
        "failure: {rules: [{id: no, then: fail}]}\nsteps: [{id: a}, {id: b}, {id: c}]",
    );
    for step in ["a", "b"] {
        let token = place.ledger(&format!("claim --step {step}")).code(0).token();
        place.ledger(&format!("receipt {token} --failed deterministic")).code(0);
    }
    let next = place.ledger("next plan").code(0);
    let next = next.says(&["ledger retry plan ", "ledger skip plan a ", "ledger skip plan b "]);
    assert!(!next.out.contains("ledger retry plan a"), "{}", next.out);
    place.ledger("retry plan").code(0);
    assert!(!place.ledger("next plan").code(0).out.contains("failed"));
}

/// Story: a decision that the ledger refuses was offered.
#[test]
fn only_possible_decisions_are_offered() {
    for (fallback, is_offered) in [("", false), (", fallback: {value: {value: 1}}", true)] {
        let plan = format!("failure: {{decider: external}}\nsteps: [{{id: a{fallback}}}]");
        let place = Place::planned(&plan);
        let token = place.ledger("claim").code(0).token();
        place.ledger(&format!("receipt {token} --failed unknown")).code(0);
        let next = place.ledger("next plan").code(0).says(&["ledger answer plan a retry "]);
        assert_eq!(next.out.contains(" a fallback "), is_offered, "{}", next.out);
        place.ledger("answer plan a fallback").code(if is_offered { 0 } else { 6 });
    }
}

/// Story: the hint of a refused retry was refused.
#[test]
fn refused_retry_refers_to_what_comes_next() {
    let place = Place::planned("steps: [{id: a, acceptance: [it is good]}]");
    let token = place.ledger("claim").code(0).token();
    place.ledger(&format!("receipt {token} --output done")).code(0);
    place.ledger("retry plan a").code(6).complains(&["`ledger next plan`"]);
}

/// Story: with `LEDGER_DIR`, the commands of a view of another ledger were about that of the variable.
#[test]
fn commands_name_the_ledger_beside_the_variable() {
    let place = Place::planned("steps: [{id: a, gate: {question: now?}}]");
    place.ledger("init --ledger other").code(0);
    let mut command = place.command(&["next", "--ledger", ".ledger"]);
    let ended = super::command::start(command.env("LEDGER_DIR", "other")).end().code(0);
    ended.says(&["ledger answer --ledger ./.ledger "]);
}
