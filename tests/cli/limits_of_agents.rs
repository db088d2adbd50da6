//! Usage limits of agents: `ledger run` and `ledger work` read them in the last output of a failed attempt,
//! wait, and continue alone. Real processes that print what agents print; the waits are short.

use plan_ledger::{Environment, Run, StepStatus};

use super::command::{Place, ids, start, wait_until};
use super::system_calls::shim;

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
    let sentences = [
        "echo \"You've hit your usage limit. Try again in 2 seconds.\" >&2",
        "echo '5-hour limit reached \u{2219} resets in 2s'",
        "echo '{\"type\":\"turn.failed\",\"error\":{\"message\":\"You\\u2019ve hit your usage limit. Try again in 2s.\"}}'",
        "now=$(date +%s); echo \"Claude AI usage limit reached|$((now + 3))\"",
        "now=$(date +%s)
         echo '{\"type\":\"rate_limit_event\",\"rate_limit_info\":{\"status\":\"rejected\",\"resetsAt\":'$((now + 3))'}}'
         echo '{\"type\":\"result\",\"is_error\":true,\"api_error_status\":429,\"result\":\"no more\"}'",
    ];
    let check = |sentence: &str| {
        let place = Place::new();
        place.write("agent.sh", limited_once(sentence));
        place.write("plan.yaml", "steps: [{id: a, retry: {max_attempts: 1}}, {id: b}, {id: c}]");
        let words = ["run", "plan.yaml", "--worker", "sh agent.sh", "--max-parallel", "1"];
        let ended = place.ledger_with(&words).code(0);
        assert_eq!(ended.err.matches("steps wait until ").count(), 1, "{}", ended.err);
        let ended = ended
            .complains(&["steps wait until ", ", then one is tried: a usage limit: exit status 1"]);
        let waits = ended.err.lines().filter_map(|line| line.split_once("waiting until "));
        let mut waits: Vec<&str> = waits.map(|(_, wait)| wait).collect();
        let count = waits.len();
        waits.dedup();
        assert_eq!(waits.len(), count, "a wait is reported once: {}", ended.err);
        let status =
            place.ledger("status --since 1h").code(0).says(&["1 usage limit,", "usage limit: "]);
        assert!(!status.out.contains("failed"), "{}", status.out);
        let mut tally = place.tally();
        assert_eq!(tally.remove(0), "a 1");
        tally.sort();
        assert_eq!(tally, ["a 2", "b 1", "c 1"], "{sentence}");
        assert_eq!(failures(&place), [0, 0, 0], "{sentence}");
    };
    // Each of them waits.
    std::thread::scope(|scope| {
        for sentence in sentences {
            scope.spawn(move || check(sentence));
        }
    });
}

#[test]
fn usage_limit_holds_its_owner_only() {
    let plan = "steps: [{id: a, owner: claude}, {id: b, owner: claude}, {id: c, owner: codex}]";
    let limited = |place: Place, sentence: &str, words: &[&str]| {
        place.write("plan.yaml", plan);
        place.write("agent.sh", limited_once(sentence));
        (start(&mut place.command(words)), place)
    };
    let words = ["run", "plan.yaml", "--worker", "sh agent.sh", "--max-parallel", "1"];
    let (run, of_run) =
        limited(Place::new(), "echo 'rate limit reached, resets in 2s' >&2", &words);
    let words = ["work", "--wait", "--", "sh", "agent.sh"];
    let sentence = "echo 'usage limit reached, try again in 2s' >&2";
    let (work, of_work) = limited(Place::planned(plan), sentence, &words);
    let held = ["steps of claude wait until ", "nothing is claimed before "];
    run.end().code(0).complains(&held[..1]);
    work.end().code(0).complains(&held);
    for place in [of_run, of_work] {
        let tally = place.tally();
        assert_eq!(
            (&tally[..2], tally.len()),
            (["a 1".to_owned(), "c 1".to_owned()].as_slice(), 4)
        );
    }
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

/// An agent without funds until there is a file `paid`.
const UNFUNDED: &str = "echo $LEDGER_STEP >> $TALLY
    [ -e paid ] || { echo 'Your org is out of usage \u{b7} add funds to continue'; exit 1; }";

/// One question, and no other step of the owner is tried before its answer.
#[test]
fn limit_that_no_waiting_ends_asks_a_person_once() {
    let place = Place::new();
    place.write("agent.sh", UNFUNDED);
    place.write("plan.yaml", "steps: [{id: a, retry: {max_attempts: 5}}, {id: b}, {id: c}]");
    let run = ["run", "plan.yaml", "--worker", "sh agent.sh", "--max-parallel", "1"];
    let reason = "a limit that waiting does not end: exit status 1: Your org is out of usage";
    let asked = format!("steps wait for an answer: {reason}");
    let ended = place.ledger_with(&run).code(3).says(&["add funds to continue"]);
    let ended = ended.complains(&[asked.as_str()]);
    assert!(!ended.err.contains("wait until"), "{}", ended.err);
    assert_eq!(place.tally(), ["a"]);
    assert_eq!(ids(&run_of(&place), StepStatus::Gated), ["a"]);
    let held = format!("the steps without an owner wait for an answer, 2 ready steps: {reason}");
    place.ledger("status").code(0).says(&[held.as_str()]);
    place.ledger("status --json").code(0).says(&["\"until\":null"]);
    place.ledger_with(&run).code(3);
    assert_eq!(place.tally(), ["a"], "the next runner keeps the hold");
    // After the answer one step is tried, and asks again.
    place.ledger("answer plan a retry --by ana").code(0);
    place.ledger_with(&run).code(3);
    assert_eq!(place.tally().len(), 2);
    place.write("paid", "");
    let gated = ids(&run_of(&place), StepStatus::Gated);
    assert_eq!(gated.len(), 1);
    place.ledger(&format!("answer plan {} retry --by ana", gated[0])).code(0);
    let status = place.ledger("status").code(0).out;
    assert!(!status.contains("wait for an answer"), "{status}");
    place.ledger_with(&run).code(0);
    assert_eq!(place.tally().len(), 5);
}

#[test]
fn ledger_work_waits_for_the_answer_about_such_a_limit() {
    let place = Place::planned("steps: [{id: a}, {id: b}]");
    place.write("agent.sh", UNFUNDED);
    let work = start(&mut place.command(&["work", "--wait", "--", "sh", "agent.sh"]));
    wait_until("it waits", || work.complained("nothing is claimed until there is an answer: "));
    place.write("paid", "");
    place.ledger("answer plan a retry --by ana").code(0);
    work.end().code(0);
    assert_eq!(place.tally(), ["a", "a", "b"]);
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

/// A step whose own failure looks like a limit does not keep the others of its owner from their work.
#[test]
fn owner_is_tried_with_another_step_than_the_one_at_its_limit() {
    let steps = "steps: [{id: a, retry: {max_attempts: 2}, priority: 5}, {id: b}, {id: c}]";
    let agent = "echo $LEDGER_STEP >> $TALLY
        [ $LEDGER_STEP != a ] || { echo 'You have hit your usage limit. Try again later.' >&2; exit 1; }
        sleep 0.3";
    let place = Place::new();
    place.write("agent.sh", agent);
    place.write("plan.yaml", steps);
    let waits = ["--limit-waits", "1s,1s,1s"];
    let words = ["run", "plan.yaml", "--worker", "sh agent.sh", "--max-parallel", "1"];
    place.ledger_with(&[words.as_slice(), &waits].concat()).code(1);
    // Three limits, and then the two attempts of its `retry`.
    assert_eq!(place.tally(), ["a", "b", "a", "c", "a", "a", "a"]);
    assert_eq!(failures(&place), [2, 0, 0]);

    let place = Place::planned(steps);
    place.write("agent.sh", agent);
    let work = ["work", "--wait", waits[0], waits[1], "--", "sh", "agent.sh"];
    start(&mut place.command(&work)).end().code(1);
    assert_eq!(place.tally(), ["a", "b", "a", "c", "a", "a", "a"]);
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
    let ended = ended.code(0).complains(&["steps wait until ", "nothing is claimed before "]);
    assert!(!ended.err.contains("none that this worker takes"), "{}", ended.err);
    ended.says(&["2 steps done, 1 attempt failed; the run is done"]);
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
pub(super) fn hours_around_now(before: i64, after: i64) -> String {
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
        let begin = closed.split('-').next().unwrap();
        assert!(waiting.complained(&format!(" {begin}:")), "a time to the second");
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
    let words = ["status of run plan (1): waiting until 2", "Z: exit status 1: rate limit reached"];
    place.ledger("status").code(0).says(&words);
    run.signal("TERM");
    run.end();
}

/// What a person reads while the runner holds an owner, and after the runner was killed.
#[test]
fn held_owner_is_named_until_its_limit_ends() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps: [{id: a, owner: claude}, {id: b, owner: claude}, {id: c, owner: claude}]",
    );
    let worker =
        "echo $LEDGER_STEP >> $TALLY; echo 'usage limit reached, try again in 2 hours'; exit 1";
    let words = ["run", "plan.yaml", "--worker", worker, "--max-parallel", "1"];
    let run = start(&mut place.command(&words));
    wait_until("the run waits", || run.complained("waiting until "));
    let held = "owner claude waits until 2";
    let more =
        ", 2 ready steps: a usage limit: exit status 1: usage limit reached, try again in 2 hours";
    place.ledger("status").code(0).says(&[held, more]);
    place.ledger("next").code(3).says(&[held, more]);
    place.ledger("inspect .ledger why plan b").code(0).says(&[held, more]);
    place.ledger("prime").code(0).says(&[
        "Waits until a time or an answer:",
        held,
        ", 2 ready steps",
    ]);
    let member = "\"waits\":[{\"owner\":\"claude\",\"ready\":[2,3],\"reason\":\"a usage limit";
    place.ledger("status --json").code(0).says(&[member]);
    place.ledger("inspect .ledger why plan b --json").code(0).says(&[member]);
    place.ledger("next --json").code(3).says(&["\"action\":\"wait\"", held]);
    run.signal("KILL");
    run.end();
    place.ledger("status").code(0).says(&["no runner is at work", held, more]);
    let again = start(&mut place.command(&words));
    wait_until("the next run waits", || again.complained("waiting until "));
    assert_eq!(place.tally(), ["a"], "the next runner keeps the hold");
    place.ledger("cancel plan --reason over").code(0);
    again.end();
    assert!(!place.path(".ledger/work/waits").exists(), "a run that is over waits for nothing");
    let status = place.ledger("status").code(0).out;
    assert!(!status.contains(held), "{status}");
}

#[test]
fn hours_of_a_runner_are_named_while_it_is_at_work() {
    let place = Place::planned("steps: [{id: a, command: 'true'}, {id: b, command: 'true'}]");
    let closed = hours_around_now(-120, 180);
    let run = start(place.command(&["run", "plan.yaml", "--hours", &closed]).env("TZ", "UTC"));
    wait_until("it waits for its hours", || run.complained("work starts then (--hours)"));
    let held = "the runner waits until 2";
    let more = ", 2 ready steps: work starts then (--hours)";
    place.ledger("status").code(0).says(&[held, more]);
    place.ledger("next").code(3).says(&[held, more]);
    run.signal("KILL");
    run.end();
    let status = place.ledger("status").code(0).out;
    assert!(!status.contains(held), "{status}");
}

#[test]
fn limit_of_a_step_with_its_own_command_waits_as_told() {
    let place = Place::new();
    let command = "echo x >> $TALLY; [ $(wc -l < $TALLY) -gt 3 ] || { echo 'You have hit your usage limit. Try again later.' >&2; exit 1; }";
    place.write("plan.yaml", format!("steps: [{{id: a, command: \"{command}\"}}]"));
    let words = ["run", "plan.yaml", "--limit-waits", "1s,2s,1s"];
    place.ledger_with(&words).code(0);
    assert_eq!((place.tally().len(), failures(&place)), (4, vec![0]));
    let records = place.ledger("inspect .ledger records --json").code(0).out;
    for wait in ["\"retry_after_seconds\":1", "\"retry_after_seconds\":2"] {
        assert!(records.contains(wait), "{records}");
    }
}

/// A person who must decide reads which limit it was, and when it ends.
#[test]
fn question_about_a_step_names_its_limit() {
    let place = Place::new();
    place.write("pay.sh", "echo \"You've hit your session limit, resets in 2 hours\"; exit 1");
    place.write("plan.yaml", "steps: [{id: pay, idempotent: no, command: sh pay.sh}]");
    place.ledger("run plan.yaml").code(3);
    place.ledger("questions").code(0).says(&[
        "exit status 1: You've hit your session limit, resets in 2 hours (the limit ends at 20",
    ]);
}

#[test]
fn reason_on_standard_output_explains_a_failure() {
    for (script, reason) in [
        ("echo begun; echo no such table; exit 1", "exit status 1: no such table"),
        ("echo no such table; echo really >&2; exit 1", "exit status 1: really"),
        (
            "echo '{\"type\":\"result\",\"is_error\":true,\"result\":\"Invalid API key\"}'; exit 1",
            "exit status 1: Invalid API key",
        ),
    ] {
        let place = Place::new();
        place.write("agent.sh", script);
        place.write("plan.yaml", "steps: [{id: a, command: sh agent.sh}]");
        place.ledger("run plan.yaml").code(3).says(&[reason]);
    }
}

#[test]
fn part_of_a_second_to_wait_counts_as_a_whole_one() {
    let place = Place::new();
    place.write(
        "agent.sh",
        "echo x >> $TALLY; [ $LEDGER_ATTEMPT = 2 ] || { echo 'retry-after: 0.5' >&2; exit 75; }",
    );
    place.write("plan.yaml", "steps: [{id: a, command: sh agent.sh}]");
    place.ledger("run plan.yaml").code(0);
    assert_eq!((place.tally().len(), failures(&place)), (2, vec![0]));
    place.ledger("inspect .ledger records --json").code(0).says(&["\"retry_after_seconds\":1"]);
}

#[test]
fn person_is_notified_of_the_first_limit() {
    let place = Place::new();
    place.write("agent.sh", limited_once("echo 'rate limit reached, resets in 2s' >&2"));
    place.write("plan.yaml", "steps: [{id: a}, {id: b}]");
    let notify = "echo \"$LEDGER_EVENT: $LEDGER_MESSAGE\" >> notified";
    let words = ["run", "plan.yaml", "--worker", "sh agent.sh", "--notify", notify];
    place.ledger_with(&words).code(0);
    let notified = std::fs::read_to_string(place.path("notified")).unwrap();
    assert_eq!(notified.matches("held: steps wait until ").count(), 1, "{notified}");
}

/// A person who bought more usage does not wait for the end of the limit.
#[test]
fn delayed_step_is_started_earlier_by_a_person() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a}, {id: b}]");
    let worker = "echo $LEDGER_STEP $LEDGER_ATTEMPT >> $TALLY
        [ -e bought ] || { echo 'usage limit reached, try again in 2 hours' >&2; exit 1; }";
    let words = ["run", "plan.yaml", "--worker", worker, "--max-parallel", "1"];
    let run = start(&mut place.command(&words));
    wait_until("the run waits", || run.complained("waiting until "));
    let claim = "claim plan --step a --worker ana";
    place
        .ledger(claim)
        .code(3)
        .complains(&["step 1 (a) is delayed until 20", "a person ends the delay by a retry"]);
    place.write("bought", "");
    place.ledger("retry plan a --by ana").code(0).says(&["step 1 (a): retried"]);
    run.end().code(0);
    let records = place.ledger("inspect .ledger records").code(0);
    records.says(&["ana ended its wait until 20"]);
    assert_eq!(place.tally().len(), 3);
    assert_eq!(failures(&place), [0, 0]);
}

/// Story: one owner waited for a limit of eight hours, another one for five minutes. The clock was set, so the first
/// limit was over; its steps waited for the second one. A wait of so many hours does not follow the clock.
#[test]
fn clock_that_is_set_ends_a_limit_beside_another_wait() {
    let place = Place::new();
    let Some(library) = shim(&place, "clock") else { return };
    let agent = "echo $LEDGER_STEP $LEDGER_ATTEMPT >> $TALLY
        case $LEDGER_STEP in
        a) [ $LEDGER_ATTEMPT = 2 ] ||
            { echo \"Claude AI usage limit reached|$(($(date +%s) + 28000))\"; exit 1; } ;;
        b | c) echo 'usage limit reached, try again in 2 hours'; exit 1 ;;
        esac";
    place.write("agent.sh", agent);
    place.write(
        "plan.yaml",
        "steps: [{id: a, owner: claude}, {id: b, owner: codex}, {id: c, owner: gemini, after: [a]}]",
    );
    let ahead = place.path("ahead");
    let command = |words: &[&str]| {
        let mut command = place.command(words);
        command.env("LD_PRELOAD", &library).env("CLOCK_AHEAD", &ahead);
        command
    };
    let run = start(&mut command(&["run", "plan.yaml", "--worker", "sh agent.sh"]));
    wait_until("the run waits", || run.complained("waiting until "));
    place.write("ahead", "28800");
    wait_until("the step is tried again", || place.tally().contains(&"a 2".to_owned()));
    wait_until("it is accepted", || ids(&run_of(&place), StepStatus::Accepted) == ["a"]);
    let status = start(&mut command(&["status"])).end().code(0);
    status.complains(&["the clock of this machine is 8 h ahead of the ledger's time"]);
    wait_until("the last step waits", || run.complained("steps of gemini wait until "));
    run.signal("TERM");
    let ended = run.end();
    let mut tally = place.tally();
    tally.sort();
    assert_eq!(tally, ["a 1", "a 2", "b 1", "c 1"]);
    // The clock that a person looks at says when. The times of files are those of the real clock: for `c` the end of the
    // limit has passed, and it is tried again, but not at once.
    let line =
        ended.err.lines().rfind(|line| line.contains("steps of gemini wait until ")).unwrap();
    let hour = |text: &str| text.split(':').next().unwrap().parse::<u32>().unwrap();
    let (said, until) = line.split_once(" steps of gemini wait until ").unwrap();
    let (said, until) = (hour(said.trim_start_matches("ledger: ")), hour(until));
    assert!(until == said || until == (said + 1) % 24, "{line}");
}

/// A person who bought more usage does not wait for the end of the limit here either.
#[test]
fn retried_step_ends_the_hold_of_ledger_work() {
    let place = Place::planned("steps: [{id: a}, {id: b}]");
    place.write(
        "agent.sh",
        "echo $LEDGER_STEP $LEDGER_ATTEMPT >> $TALLY
        [ -e bought ] || { echo 'usage limit reached, try again in 2 hours' >&2; exit 1; }",
    );
    let work = start(&mut place.command(&["work", "--wait", "--", "sh", "agent.sh"]));
    wait_until("it waits", || work.complained("nothing is claimed before "));
    place.write("bought", "");
    place.ledger("retry plan a").code(0);
    work.end().code(0);
    assert_eq!(place.tally(), ["a 1", "a 2", "b 1"]);
}

/// A runner that cannot write what it waits for says so once, and waits all the same.
#[test]
fn holds_that_cannot_be_written_are_reported_once() {
    let place = Place::planned("steps: [{id: a}, {id: b}]");
    place.write("agent.sh", limited_once("echo 'usage limit reached, try again in 2s' >&2"));
    std::fs::create_dir_all(place.path(".ledger/work")).unwrap();
    place.write(".ledger/work/waits", "not a folder");
    let words = ["run", "plan.yaml", "--worker", "sh agent.sh", "--max-parallel", "1"];
    let ended = place.ledger_with(&words).code(0);
    let said = ended.err.matches("status cannot show what this runner waits for").count();
    assert_eq!((said, failures(&place)), (1, vec![0, 0]), "{}", ended.err);
}

/// A host that does not end at a limit, but waits in its process.
fn waiting_inside(limit: &str, rest: &str) -> String {
    format!(
        "echo $LEDGER_ATTEMPT >> $TALLY
        echo 'Attempt 1 failed: You have exhausted your capacity on this model. Your quota will reset after {limit}.. Retrying after 1ms...' >&2
        {rest}"
    )
}

#[test]
fn worker_that_waits_for_a_limit_in_its_process_is_not_taken_for_a_hang() {
    let place = Place::new();
    place.write("agent.sh", waiting_inside("10s", "sleep 2; echo done"));
    place.write("plan.yaml", "steps: [{id: a, retry: {max_attempts: 1}}]");
    let words = ["run", "plan.yaml", "--worker", "sh agent.sh", "--output-timeout", "1s"];
    place.ledger_with(&words).code(0);
    assert_eq!((place.tally(), failures(&place)), (vec!["1".to_owned()], vec![0]));
}

/// It prints nothing after the end of the limit that it named.
#[test]
fn worker_that_is_silent_after_its_limit_is_ended() {
    let place = Place::new();
    let rest = "[ $LEDGER_ATTEMPT = 2 ] || exec sleep 600";
    place.write("agent.sh", waiting_inside("1s", rest));
    place.write("plan.yaml", "steps: [{id: a, retry: {max_attempts: 2}}]");
    let words = ["run", "plan.yaml", "--worker", "sh agent.sh", "--output-timeout", "1s"];
    let run = start(&mut place.command(&words));
    wait_until("it is ended, and the run waits", || {
        run.complained("stopped: no output for 1 s") && run.complained("waiting until ")
    });
    // The agent's clock may be another one, so the runner waits a minute more, or until a person says so.
    place.ledger("retry plan a --by ana").code(0);
    run.end().code(0).complains(&["stopped: no output for 1 s"]);
    assert_eq!(place.tally(), ["1", "2"]);
}

#[test]
fn status_names_a_worker_that_waits_in_its_process() {
    let place = Place::new();
    place.write("agent.sh", waiting_inside("2h10m", "exec sleep 600"));
    place.write("plan.yaml", "steps: [{id: a}]");
    let run = start(&mut place.command(&["run", "plan.yaml", "--worker", "sh agent.sh"]));
    let said = "    waits inside its process for a limit since 20";
    wait_until("status names the wait", || place.ledger("status").out.contains(said));
    place.ledger("status").code(0).says(&[
        ", until 20",
        " (in 2h 9m",
        "m): Attempt 1 failed: You have exhausted",
    ]);
    place.ledger("status --json").code(0).says(&["\"waits_inside\":[{\"said\":\"Attempt 1 failed"]);
    run.signal("TERM");
    run.signal("TERM");
    run.end();
}
