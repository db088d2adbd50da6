//! Usage limits of agents: `ledger run` and `ledger work` read them in the last output of a failed attempt,
//! wait, and continue alone. Real processes that print what agents print; the waits are short.

use plan_ledger::{Environment, Run, StepStatus};

use super::command::{Place, ids, start, wait_until};

fn run_of(place: &Place) -> Run {
    place.state().run_named("plan").unwrap().clone()
}

fn failures(place: &Place) -> Vec<u32> {
    run_of(place).steps.iter().map(|step| step.failures).collect()
}

/// A worker that meets a limit once, and states it in its last line.
fn limited_once(sentence: &str) -> String {
    format!(
        "echo $LEDGER_STEP $LEDGER_ATTEMPT >> $TALLY
        [ -e limited ] || {{ touch limited; echo working; {sentence}; exit 1; }}"
    )
}

#[test]
fn usage_limit_uses_up_no_attempt_and_holds_the_other_steps() {
    for sentence in [
        "echo \"You've hit your usage limit. Try again in 2 seconds.\" >&2",
        "echo '5-hour limit reached \u{2219} resets in 2s'",
        "echo '{\"type\":\"turn.failed\",\"error\":{\"message\":\"You\\u2019ve hit your usage limit. Try again in 2s.\"}}'",
        "now=$(date +%s); echo \"Claude AI usage limit reached|$((now + 3))\"",
        "now=$(date +%s)
         echo '{\"type\":\"rate_limit_event\",\"rate_limit_info\":{\"status\":\"rejected\",\"resetsAt\":'$((now + 3))'}}'
         echo '{\"type\":\"result\",\"is_error\":true,\"api_error_status\":429,\"result\":\"no more\"}'",
    ] {
        let place = Place::new();
        place.write("agent.sh", limited_once(sentence));
        place.write("plan.yaml", "steps: [{id: a, retry: {max_attempts: 1}}, {id: b}, {id: c}]");
        let words = ["run", "plan.yaml", "--worker", "sh agent.sh", "--max-parallel", "1"];
        let ended = place.ledger_with(&words).code(0);
        assert_eq!(ended.err.matches("steps wait until ").count(), 1, "{}", ended.err);
        ended.complains(&["steps wait until ", ", then one is tried: a usage limit: exit status 1"]);
        let mut tally = place.tally();
        assert_eq!(tally.remove(0), "a 1");
        tally.sort();
        assert_eq!(tally, ["a 2", "b 1", "c 1"], "{sentence}");
        assert_eq!(failures(&place), [0, 0, 0], "{sentence}");
    }
}

#[test]
fn usage_limit_holds_its_owner_only() {
    let place = Place::new();
    place.write("agent.sh", limited_once("echo 'rate limit reached, resets in 2s' >&2"));
    place.write(
        "plan.yaml",
        "steps: [{id: a, owner: claude}, {id: b, owner: claude}, {id: c, owner: codex}]",
    );
    let words = ["run", "plan.yaml", "--worker", "sh agent.sh", "--max-parallel", "1"];
    place.ledger_with(&words).code(0).complains(&["steps of claude wait until "]);
    let tally = place.tally();
    assert_eq!(tally[..2], ["a 1", "c 1"]);
    assert_eq!(tally.len(), 4);
}

/// When the limit ends, one step is tried first.
#[test]
fn one_step_is_tried_when_a_limit_ends() {
    let place = Place::new();
    place.write(
        "agent.sh",
        "echo begin >> $TALLY
        if [ ! -e over ]; then echo 'usage limit reached, try again in 2s' >&2; sleep 0.5; touch over; exit 1; fi
        sleep 0.5; echo end >> $TALLY",
    );
    place.write("plan.yaml", "steps: [{id: a}, {id: b}, {id: c}, {id: d}]");
    let words = ["run", "plan.yaml", "--worker", "sh agent.sh", "--max-parallel", "3"];
    place.ledger_with(&words).code(0);
    let tally = place.tally();
    assert_eq!(tally[..5], ["begin", "begin", "begin", "begin", "end"], "{tally:?}");
    assert_eq!(failures(&place), [0, 0, 0, 0]);
}

#[test]
fn usage_limit_without_a_time_waits_longer_each_time() {
    let place = Place::new();
    place.write(
        "agent.sh",
        "echo x >> $TALLY
        [ $(wc -l < $TALLY) -gt 3 ] || { echo 'You have hit your usage limit. Try again later.' >&2; exit 1; }",
    );
    place.write("plan.yaml", "steps: [{id: a, retry: {max_attempts: 1}}]");
    let words = ["run", "plan.yaml", "--worker", "sh agent.sh", "--limit-waits", "1s,2s,1s"];
    place.ledger_with(&words).code(0);
    assert_eq!((place.tally().len(), failures(&place)), (4, vec![0]));
    let asked = place.ledger("inspect .ledger records --json").code(0).out;
    let seconds: Vec<&str> = asked
        .split("\"retry_after_seconds\":")
        .skip(1)
        .map(|rest| rest.split(['}', ',']).next().unwrap())
        .collect();
    assert_eq!(seconds, ["1", "2", "1"]);
}

#[test]
fn limit_that_no_waiting_ends_asks_a_person() {
    let place = Place::new();
    place.write(
        "agent.sh",
        "echo x >> $TALLY; echo 'Your org is out of usage \u{b7} add funds to continue'; exit 1",
    );
    place.write(
        "plan.yaml",
        "steps: [{id: a, retry: {max_attempts: 5}}, {id: b}, {id: c}, {id: d}, {id: e}]",
    );
    let words = [
        "run",
        "plan.yaml",
        "--worker",
        "sh agent.sh",
        "--max-parallel",
        "1",
        "--limit-waits",
        "1s,1s,1s",
    ];
    let ended = place.ledger_with(&words).code(3);
    let ended = ended.says(&["add funds to continue", "ledger unpause"]);
    ended.complains(&["steps wait until ", "a limit that no waiting ends"]);
    assert_eq!(place.tally().len(), 4);
    assert_eq!(ids(&run_of(&place), StepStatus::Gated), ["a", "b", "c", "d"]);
}

#[test]
fn step_that_must_not_be_done_twice_is_asked_about_at_a_limit() {
    let place = Place::new();
    place.write("agent.sh", limited_once("echo 'usage limit reached, try again in 1s' >&2"));
    place.write("plan.yaml", "steps: [{id: pay, idempotent: no}]");
    place.ledger_with(&["run", "plan.yaml", "--worker", "sh agent.sh"]).code(3);
    assert_eq!(place.tally(), ["pay 1"]);
    assert_eq!(ids(&run_of(&place), StepStatus::Gated), ["pay"]);
}

/// A step that alone says so, while the others succeed, has another problem.
#[test]
fn fourth_limit_of_a_step_in_a_row_is_an_ordinary_failure() {
    let place = Place::new();
    place.write(
        "agent.sh",
        "echo $LEDGER_STEP >> $TALLY
        [ $LEDGER_STEP != a ] || { echo 'usage limit reached, try again in 1s' >&2; exit 1; }",
    );
    place.write("plan.yaml", "steps: [{id: a}, {id: b}, {id: c}]");
    let words = ["run", "plan.yaml", "--worker", "sh agent.sh", "--max-parallel", "1"];
    place.ledger_with(&words).code(3).says(&["usage limit reached"]);
    assert_eq!(place.tally().iter().filter(|step| *step == "a").count(), 4);
    assert_eq!(ids(&run_of(&place), StepStatus::Gated), ["a"]);
    assert_eq!(failures(&place), [1, 0, 0]);
}

/// The output of a test that quotes a sentence is no limit.
#[test]
fn sentence_in_the_middle_of_the_output_is_no_limit() {
    let place = Place::new();
    place.write(
        "agent.sh",
        "echo x >> $TALLY; echo 'usage limit reached, try again in 1s'; seq 9; echo FAILED >&2; exit 1",
    );
    place.write("plan.yaml", "steps: [{id: a}]");
    place.ledger_with(&["run", "plan.yaml", "--worker", "sh agent.sh"]).code(3);
    assert_eq!((place.tally().len(), failures(&place)), (1, vec![1]));
}

#[test]
fn ledger_work_reads_usage_limits() {
    let place = Place::planned("steps: [{id: a, retry: {max_attempts: 1}}, {id: b}]");
    place.write("agent.sh", limited_once("echo 'usage limit reached, try again in 2s' >&2"));
    let ended = start(&mut place.command(&["work", "--wait", "--", "sh", "agent.sh"])).end();
    ended.code(0).complains(&["steps wait until ", "nothing is claimed before "]);
    let mut tally = place.tally();
    assert_eq!(tally.remove(0), "a 1");
    tally.sort();
    assert_eq!(tally, ["a 2", "b 1"]);
    assert_eq!(failures(&place), [0, 0]);
}

/// A receipt file with the words of the agent is enough: the recipes need no clock.
#[test]
fn message_of_a_receipt_file_states_the_limit() {
    let place = Place::new();
    place.write(
        "agent.sh",
        "echo $LEDGER_ATTEMPT >> $TALLY
        [ $LEDGER_ATTEMPT = 2 ] || cat > $LEDGER_RECEIPT <<'EOF'
{\"outcome\": \"failed\", \"message\": \"You've hit your limit \u{b7} resets in 2s\", \"cost\": {\"tokens\": 7}}
EOF",
    );
    place.write("plan.yaml", "steps: [{id: a, retry: {max_attempts: 1}}]");
    place.ledger_with(&["run", "plan.yaml", "--worker", "sh agent.sh"]).code(0);
    assert_eq!((place.tally(), failures(&place)), (vec!["1".to_owned(), "2".to_owned()], vec![0]));
    assert_eq!(run_of(&place).spent().tokens, 7, "its cost counts");
}

/// Hours of the day around now in UTC, from so many minutes before to so many after.
fn hours_around_now(before: i64, after: i64) -> String {
    let now = i64::try_from(Environment::system().clock.now() / 60_000_000).unwrap();
    let time = |minutes: i64| {
        let minutes = minutes.rem_euclid(24 * 60);
        format!("{:02}:{:02}", minutes / 60, minutes % 60)
    };
    format!("{}-{}", time(now - before), time(now + after))
}

#[test]
fn work_starts_by_itself_only_in_its_hours() {
    let place = Place::planned("steps: [{id: a, command: 'echo a >> $TALLY'}]");
    let (open, closed) = (hours_around_now(60, 60), hours_around_now(-120, 180));
    for words in [
        ["run", "plan.yaml", "--hours", &closed].as_slice(),
        &["work", "--wait", "--hours", &closed, "--", "true"],
    ] {
        let waiting = start(place.command(words).env("TZ", "UTC"));
        wait_until("it waits for its hours", || waiting.complained("work starts then (--hours)"));
        waiting.signal("TERM");
        waiting.end().code(3);
        assert_eq!(place.tally(), Vec::<String>::new());
    }
    start(place.command(&["work", "--hours", &closed, "--", "true"]).env("TZ", "UTC"))
        .end()
        .code(3);
    assert_eq!(place.tally(), Vec::<String>::new());
    start(place.command(&["run", "plan.yaml", "--hours", &open]).env("TZ", "UTC")).end().code(0);
    assert_eq!(place.tally(), ["a"]);
    place.ledger("run plan.yaml --hours 23:00").code(2).complains(&["such as 23:00-07:00"]);
}

/// What a person sees who looks while the run waits.
#[test]
fn status_says_until_when_a_limit_is_waited_for() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a}, {id: b}]");
    let worker = "echo 'rate limit reached, try again in 2 hours' >&2; exit 1";
    let run = start(&mut place.command(&["run", "plan.yaml", "--worker", worker]));
    wait_until("the run waits", || run.complained("waiting until "));
    let text = "2 steps are delayed before their retries, the first one until 2";
    place.ledger("status").code(0).says(&[text, "Z: exit status 1: rate limit reached"]);
    run.signal("TERM");
    run.end();
}
