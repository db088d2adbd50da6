//! Planners: the first plan from a goal, later versions, what they cost, and what they must leave
//! alone.

use serde_json::Value;

use plan_ledger::StepStatus;

use crate::command::Place;

const TOOLS: &str = "\
tools:
  bureau:
    retry: {max_attempts: 3, backoff_seconds: 2, backoff_percent: 200}
    side_effects: [external API call]
    idempotent: yes
";

/// A planner that keeps its input, reports its cost, and prints a rough plan.
const PLANNER: &str = r#"cat > asked.json
echo '{"money_micros": 40000, "tokens": 900}' > "$LEDGER_COST"
cat <<'END'
steps:
  - {id: pull_credit, goal: Retrieve the score, tools: [bureau], command: 'echo 720'}
budget: {money_micros: 250000}
END
"#;

fn place() -> Place {
    let place = Place::new();
    place.write("tools.yaml", TOOLS);
    place.write("planner.sh", PLANNER);
    place.ledger("init").code(0);
    place
}

fn helpers(place: &Place) -> Vec<Value> {
    let lines = place.ledger("inspect .ledger records --kind helper_ended --json").lines();
    lines.into_iter().map(|line| line["event"].clone()).filter(Value::is_object).collect()
}

// S20: the planner makes the first plan.

#[test]
fn s20_goal_becomes_a_plan_that_waits_for_review() {
    let place = place();
    let goal = "Process loan application";
    let args = ["plan", "make", "--goal", goal, "--planner", "sh planner.sh", "--run", "loan"];
    let args = [&args[..], &["--tools", "tools.yaml", "--set", "applicant_id=A-7291"]].concat();
    place.ledger_with(&args).code(0).says(&["run loan: version 1, 1 step, waiting for review"]);
    let asked: Value = serde_json::from_str(&place.read("asked.json")).unwrap();
    assert_eq!((&asked["goal"], &asked["version"]), (&goal.into(), &0.into()));
    assert_eq!(asked["variables"]["applicant_id"], "A-7291");
    assert!(asked["request"]["trigger"].is_null() && asked["plan"].is_null());
    let run = place.state().run_named("loan").unwrap().clone();
    let step = run.versions[0].plan.decode().steps.remove(0);
    assert_eq!(step.retry.unwrap().max_attempts, 3, "completed from the registry");
    assert_eq!(*step.side_effects, ["external API call"]);
    assert_eq!(run.variables["applicant_id"].value.value(), "A-7291");
    // Its time and cost are on record, and count in the budget.
    let helpers = helpers(&place);
    assert_eq!(
        (&helpers[0]["role"], &helpers[0]["by"]),
        (&"planner".into(), &"planner:planner.sh".into())
    );
    assert!(helpers[0]["duration_micros"].as_u64().unwrap() > 0);
    assert_eq!(run.account.spent.money_micros, 40_000);
    place.ledger("claim loan --worker w").code(3);
    place.ledger("plan approve loan --by ana").code(0);
    place.ledger("work loan --worker w -- true").code(0);
    place.ledger("budget loan").says(&["money     $0.04"]);
    place.ledger("verify .ledger").code(0);
}

#[test]
fn s20_unusable_plans_are_asked_again_and_then_refused() {
    let place = place();
    place.write(
        "planner.sh",
        "cat > asked.json; echo x >> tries; echo 'steps: [{id: a, after: [b]}]'\n",
    );
    let args = ["plan", "make", "--goal", "Do it", "--planner", "sh planner.sh"];
    place
        .ledger_with(&args)
        .code(6)
        .complains(&["there is no step or barrier `b`", "in 3 attempts"]);
    assert_eq!(place.read("tries").lines().count(), 3);
    let asked: Value = serde_json::from_str(&place.read("asked.json")).unwrap();
    assert_eq!(
        (&asked["run"], asked["unusable_answers"].as_array().unwrap().len()),
        (&"do-it".into(), 2)
    );
    assert!(place.state().runs.is_empty());
}

#[test]
fn s20_planner_that_changes_files_is_reported() {
    let place = place();
    place.write("planner.sh", "echo hacked > src.py; echo 'steps: [{id: a}]'\n");
    let args = ["plan", "make", "--goal", "Do it", "--planner", "sh planner.sh"];
    let made = place.ledger_with(&args).code(0);
    made.complains(&["planner:planner.sh changed files, although it only plans: src.py"]);
}

/// A run whose only step fails, so that its planner is asked.
fn failing(place: &Place, planner: &str, more: &str) -> crate::command::Ended {
    place.write("planner.sh", planner);
    place.write(
        "plan.yaml",
        "budget: {money_micros: 1000000}\nfailure: {max_replans: 2, rules: [{id: r, when: {}, then: {replan: {}}}]}\n\
         steps:\n  - {id: a, command: 'false', retry: {max_attempts: 1}}\n",
    );
    let args = "run plan.yaml --approve auto --planner";
    let args: Vec<&str> =
        args.split(' ').chain(["sh planner.sh"]).chain(more.split_whitespace()).collect();
    place.ledger_with(&args)
}

#[test]
fn s20_later_versions_are_completed_and_their_planner_is_charged() {
    let place = place();
    failing(&place, PLANNER, "--tools tools.yaml").code(0);
    let run = place.state().run_named("plan").unwrap().clone();
    let step = run.versions[1].plan.decode().steps.remove(0);
    assert_eq!(step.retry.unwrap().max_attempts, 3);
    assert_eq!(run.account.spent.tokens, 900);
    assert_eq!(helpers(&place).len(), 1);
}

#[test]
fn s20_planner_that_sets_variables_is_reported() {
    let place = place();
    let program = crate::command::PROGRAM;
    let planner = format!("{program} set score 1 --run plan >&2; echo x > new.txt\n{PLANNER}");
    let ended = failing(&place, &planner, "").code(0);
    ended.complains(&[
        "planner:planner.sh set variables, although it only plans: score",
        "planner:planner.sh changed files, although it only plans: ",
        "new.txt",
    ]);
}

#[test]
fn s20_judge_is_charged() {
    let place = place();
    place.write(
        "judge.sh",
        "echo '{\"tokens\": 5}' > \"$LEDGER_COST\"; echo '{\"verdict\": \"pass\"}'\n",
    );
    place.write("plan.yaml", "steps:\n  - {id: a, command: 'true', acceptance: [it is good]}\n");
    place.ledger_with(&["run", "plan.yaml", "--judge", "sh judge.sh"]).code(0);
    assert_eq!(place.state().run_named("plan").unwrap().account.spent.tokens, 5);
    assert_eq!(helpers(&place)[0]["role"], "judge");
}

#[test]
fn s20_decider_is_charged() {
    let place = place();
    place.write(
        "decider.sh",
        "echo '{\"money_micros\": 7000}' > \"$LEDGER_COST\"; touch fixed\n\
         echo '{\"decision\": \"retry\", \"reason\": \"it is fixed\"}'\n",
    );
    place.write(
        "plan.yaml",
        "failure: {decider: external}\nbudget: {money_micros: 100000}\nsteps:\n  - {id: a, command: test -e fixed}\n",
    );
    place.ledger_with(&["run", "plan.yaml", "--decider", "sh decider.sh"]).code(0);
    assert_eq!(place.state().run_named("plan").unwrap().account.spent.money_micros, 7_000);
    assert_eq!(helpers(&place)[0]["role"], "decider");
    place.ledger("budget plan").says(&["money     $0.007"]);
}

/// A judge that reports 3 tokens each time, and counts how often it was asked.
const JUDGE: &str =
    "cat > /dev/null; echo asked >> \"$TALLY\"; echo '{\"tokens\": 3}' > \"$LEDGER_COST\"
    echo '{\"verdict\": \"pass\"}'\n";

/// What the judge costs can use up the budget while there is nothing to dispatch: it is not asked again until a
/// person raises the budget.
#[test]
fn s20_judge_that_uses_up_the_budget_is_not_asked_again() {
    for plan in [
        "budget: {tokens: 5}\nsteps: [{id: a, command: 'true', acceptance: [one, two, three, four]}]\n",
        "budget: {tokens: 5}\ntest_criteria: [one, two, three, four]\nsteps: [{id: a, command: 'true'}]\n",
    ] {
        let place = place();
        place.write("judge.sh", JUDGE);
        place.write("plan.yaml", plan);
        let words = ["run", "plan.yaml", "--judge", "sh judge.sh"];
        place.ledger_with(&words).code(3).says(&["token budget is exhausted", " raise --tokens "]);
        assert_eq!(place.tally().len(), 2, "{plan}");
        let run = place.state().run_named("plan").unwrap().clone();
        assert_eq!((run.account.spent.tokens, run.questions.len()), (6, 1));
        // The runner finds the run paused, and asks no more.
        place.ledger_with(&words).code(3);
        assert_eq!(place.tally().len(), 2, "{plan}");
        place.ledger("budget raise plan --tokens 100 --by ana").code(0);
        place.ledger_with(&words).code(0);
        assert_eq!(place.tally().len(), 4, "{plan}");
        place.ledger("verify .ledger").code(0);
    }
}

/// The commands of a plan cost nothing: they judge on.
#[test]
fn s20_commands_judge_although_the_budget_is_used_up() {
    let place = place();
    place.write("judge.sh", JUDGE);
    place.write(
        "plan.yaml",
        "budget: {tokens: 9}\nsteps: [{id: a, command: 'true', acceptance: [one]}, {id: b, command: 'true', acceptance: [{command: 'true'}]}]\n",
    );
    place.ledger("plan propose plan.yaml --run plan").code(0);
    let claims = ["one", "two"]
        .map(|worker| place.ledger(&format!("claim plan --worker {worker}")).code(0).token());
    for (token, tokens) in claims.iter().zip(["9", "0"]) {
        place.ledger(&format!("receipt {token} --output 1 --tokens {tokens}")).code(0);
    }
    place.ledger_with(&["run", "plan.yaml", "--judge", "sh judge.sh"]).code(3);
    assert!(place.tally().is_empty(), "the judge is not asked");
    let run = place.state().run_named("plan").unwrap().clone();
    let statuses: Vec<_> = run.steps.iter().map(|step| step.status).collect();
    assert_eq!(statuses, [StepStatus::Reported, StepStatus::Accepted]);
}

#[test]
fn s20_planner_and_decider_that_use_up_the_budget_are_not_asked_again() {
    let place = place();
    let planner = "cat > /dev/null; echo asked >> \"$TALLY\"
        echo '{\"money_micros\": 600000}' > \"$LEDGER_COST\"; echo 'no plan'\n";
    failing(&place, planner, "").code(3).says(&["money budget is exhausted"]);
    assert_eq!(place.tally().len(), 2, "a third answer would cost more than is left");
    place.ledger("verify .ledger").code(0);

    let place = self::place();
    let decider =
        "cat > /dev/null; echo asked >> \"$TALLY\"; echo '{\"tokens\": 7}' > \"$LEDGER_COST\"
        echo '{\"decision\": \"fail\"}'\n";
    place.write("decider.sh", decider);
    place.write(
        "plan.yaml",
        "failure: {decider: external}\nbudget: {tokens: 5}\n\
         steps: [{id: a, command: 'false'}, {id: b, command: 'sleep 0.3; false'}]\n",
    );
    let words = ["run", "plan.yaml", "--decider", "sh decider.sh", "--max-parallel", "2"];
    place.ledger_with(&words).code(3);
    assert_eq!(place.tally().len(), 1);
    place.ledger("budget raise plan --tokens 100 --by ana").code(0);
    place.ledger_with(&words).code(1);
    assert_eq!(place.tally().len(), 2, "what waited is decided now");
}

/// The first plan is checked as every plan is: its weaknesses are named before the review.
#[test]
fn s20_first_plan_is_linted() {
    let place = place();
    place.write("planner.sh", "cat > /dev/null; echo 'steps: [{id: a, goal: A}]'\n");
    let args = ["plan", "make", "--goal", "Do it", "--planner", "sh planner.sh"];
    place.ledger_with(&args).code(0).complains(&["warning", "no criteria"]);
}

/// Why a version was made, by whom, from which file and how sure its author is: all of it is kept.
#[test]
fn s28_every_version_keeps_its_author_source_and_confidence() {
    let place = Place::new();
    let plan = |goal: &str, sure: &str| {
        format!("extra: {{confidence: {sure}}}\nsteps: [{{id: a, goal: {goal}}}]\n")
    };
    place.ledger("init").code(0);
    place.write("p.yaml", plan("first", "0.8"));
    place.ledger_with(&["plan", "propose", "p.yaml", "--run", "p", "--reason", "issue 12"]).code(0);
    place.write("p.yaml", plan("better", "95"));
    let args =
        ["plan", "propose", "p.yaml", "--run", "p", "--by", "ana", "--reason", "the API changed"];
    place.ledger_with(&args).code(0);
    place.ledger("inspect plan p").code(0).says(&[
        "from p.yaml (",
        "80 % sure",
        "replaced: issue 12",
        "by ana",
        "95 % sure",
        "active: the API changed",
    ]);
    let lines = place.ledger("inspect plan p --json").lines()[0]["versions"].clone();
    let hash = |line: &Value| line["provenance"]["file_hash"].as_str().map(str::to_owned);
    assert!(hash(&lines[0]).is_some() && hash(&lines[0]) != hash(&lines[1]), "{lines:?}");
    assert_eq!(lines[1]["provenance"]["confidence"], 95, "{lines:?}");
}
