//! The text of a prime, which never exceeds its limit.
//!
//! Each section lists a few items. If the text is too long, items are left out from the end: first
//! changes, then open questions, risks and steps that can be dispatched, then items that wait for a
//! person, then claims, and last rejections by a person and the outcome.

use plan_ledger::Limits;
use plan_ledger::internals::ledger::time_text;

use crate::output::render::cut;
use crate::output::{escape_control, limits_text};

use super::brief::{AnswerNoteJson, PrimeLine};

/// The most bytes of a prime.
pub(crate) const PRIME_LENGTH_MAX: usize = 2048;

/// The widest line.
const LINE_WIDTH_MAX: usize = 160;

/// How to work on a run, for an agent that knows nothing about ledgers.
const HOW_TO_WORK: &str = "\
How to work: claim a step (tool `ledger_claim`, or `ledger claim --worker NAME --json`), do it, then
report it (`ledger_report`, or `ledger receipt TOKEN`). A step is done when the ledger accepts it, not
when it is reported. Release a claim that you do not finish (`ledger_release`, or `ledger release TOKEN`).
";

/// The instruction to an agent about a ledger that lacks records.
const STOP: &str = "Stop: claim and propose nothing, and tell the user.\n";

/// A heading with the lines below it.
struct Section {
    heading: &'static str,
    lines: Vec<String>,
    /// How many items there are beyond the lines.
    more: usize,
}

impl Section {
    fn new(heading: &'static str, lines: Vec<String>, count: usize) -> Self {
        let more = count.saturating_sub(lines.len());
        Self { heading, lines, more }
    }

    fn text(&self) -> String {
        if self.lines.is_empty() && self.more == 0 {
            return String::new();
        }
        let mut text = format!("{}\n", self.heading);
        for line in &self.lines {
            text.extend(["  ", &cut(&escape_control(line), LINE_WIDTH_MAX), "\n"]);
        }
        if self.more > 0 {
            text.extend(["  and ", &self.more.to_string(), " more\n"]);
        }
        text
    }
}

/// The text of a prime with at most that many bytes.
pub(crate) fn prime_text(line: &PrimeLine, length_max: usize) -> String {
    let (head, end) = (head(line), end(line));
    let mut sections = sections(line);
    loop {
        let body: String = sections.iter().map(Section::text).collect();
        let text = format!("{head}{body}{end}");
        if text.len() <= length_max {
            return text;
        }
        let longest = sections.iter_mut().rev().find(|section| !section.lines.is_empty());
        let Some(section) = longest else { return at_most(&text, length_max) };
        section.lines.pop();
        section.more += 1;
    }
}

fn head(line: &PrimeLine) -> String {
    let mut head = match (&line.run, &line.activity) {
        (Some(run), Some(stands)) if line.damage.is_some() => {
            format!("plan-ledger: run {run}: {}.", stands.text)
        }
        (Some(run), Some(stands)) => format!(
            "plan-ledger: run {run} ({}): {}. {} of {} steps are done{}.{}",
            line.title,
            stands.text,
            line.done,
            line.steps,
            if line.continues { "; the plan continues" } else { "" },
            match &stands.start {
                Some(start) if stands.is_stopped() => format!(" `{start}` starts a runner."),
                _ => String::new(),
            }
        ),
        _ if line.active_runs.is_empty() && line.damage.is_some() => {
            "plan-ledger: not all of the ledger can be read, and no run is known.".to_owned()
        }
        _ if line.active_runs.is_empty() => "plan-ledger: the ledger has no run yet.".to_owned(),
        _ => format!(
            "plan-ledger: {} runs are active; `ledger prime RUN` shows one of them: {}.",
            line.active_runs.len(),
            line.active_runs.join(", ")
        ),
    };
    head = cut(&escape_control(&head), 2 * LINE_WIDTH_MAX);
    head.push('\n');
    if let Some(damage) = &line.damage {
        head.push_str(&cut(&escape_control(&format!("Damage: {damage}")), LINE_WIDTH_MAX));
        head.push('\n');
    }
    head
}

/// The sections of what is known. Nothing is concluded from records that are missing.
fn sections(line: &PrimeLine) -> Vec<Section> {
    if line.damage.is_some() {
        return Vec::new();
    }
    let claimed = line.claimed.iter().map(|step| {
        let until = whole_seconds(&time_text(step.lease_until_micros));
        let (number, id, worker) = (step.number, &step.step, &step.worker);
        let gone = if step.is_gone { ", which is gone" } else { "" };
        format!("#{number} {id}: by {worker}{gone}, lease until {until}: {}", step.title)
    });
    let answered = line.answers.iter().map(|answer| {
        let AnswerNoteJson { answer, by, note, number, step } = answer;
        format!("#{number} {step}: {answer}, by {by}: {note}")
    });
    let waiting = line.waiting.iter().map(|item| item.text.clone());
    let waits = line.waits.iter().map(|item| item.text.clone());
    let ready = line.ready.iter().map(|step| {
        let owner = step.owner.as_ref().map_or_else(String::new, |it| format!(" (for {it})"));
        format!("#{} {}{owner}: {}", step.number, step.step, step.title)
    });
    let changes =
        line.changes.iter().map(|change| format!("record {}: {}", change.seq, change.text));
    let rejected = line.rejections.iter().map(|rejected| {
        let note = if rejected.note.is_empty() { "without a reason" } else { &rejected.note };
        format!("version {}: {note}", rejected.version)
    });
    let plan = &line.plan;
    let noted = |heading, texts: &[String]| Section::new(heading, texts.to_vec(), texts.len());
    let one = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    vec![
        noted("Outcome:", one(&plan.outcome).as_slice()),
        Section::new("Rejected by a person:", rejected.collect(), line.rejections.len()),
        Section::new("Claimed:", claimed.collect(), line.claimed_count),
        Section::new("Answered by a person:", answered.collect(), line.answers.len()),
        Section::new("Waits for a person:", waiting.collect(), line.waiting_count),
        Section::new("Waits until a time or an answer:", waits.collect(), line.waits.len()),
        Section::new("Next:", ready.collect(), line.ready_count),
        noted("Next action of the plan:", one(&plan.next_action).as_slice()),
        noted("Risks:", &plan.risks),
        noted("Open questions:", &plan.open_questions),
        Section::new("Last changes:", changes.collect(), 0),
    ]
}

fn end(line: &PrimeLine) -> String {
    if line.damage.is_some() {
        return STOP.to_owned();
    }
    let mut end = String::new();
    if line.budget_left != Limits::default() {
        end.extend(["Budget left: ", &limits_text(line.budget_left), "\n"]);
    }
    let has_work = line.status.as_ref().is_some_and(|status| status == "running");
    if has_work || !line.active_runs.is_empty() {
        end.push_str(HOW_TO_WORK);
    }
    end
}

/// A time without its fraction of a second.
fn whole_seconds(time: &str) -> String {
    time.split_once('.').map_or_else(|| time.to_owned(), |(whole, _)| format!("{whole}Z"))
}

/// The text, cut at a character.
fn at_most(text: &str, length_max: usize) -> String {
    let end = (0..=length_max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    //! Goal: a prime has at most its limit of bytes, whatever the plan says.

    use super::super::brief::{ChangeJson, ClaimedStepJson, ReadyStepJson, WaitingJson};
    use super::*;
    use plan_ledger::StepNumber;
    use plan_ledger_views::{Activity, Audience, RunActivity, RunActivityJson};

    fn full(words: &str) -> PrimeLine {
        let many = |count: u32| (1..=count).map(StepNumber);
        let claimed = many(5).map(|number| ClaimedStepJson {
            dispatched_micros: 0,
            is_gone: true,
            lease_until_micros: 1,
            number,
            step: words.to_owned(),
            title: words.to_owned(),
            worker: words.to_owned(),
        });
        let ready = many(5).map(|number| ReadyStepJson {
            number,
            owner: Some(words.to_owned()),
            step: words.to_owned(),
            title: words.to_owned(),
        });
        let change =
            |number: StepNumber| ChangeJson { seq: u64::from(number.0), text: words.to_owned() };
        let waiting = || WaitingJson { text: words.to_owned() };
        let stands = RunActivity {
            activity: Activity::Working { attempts: 5 },
            others: Vec::new(),
            for_people: 5,
            absence: None,
            start: None,
        };
        PrimeLine {
            activity: Some(RunActivityJson::of(&stands, Audience::Agent)),
            changes: many(5).map(change).collect(),
            claimed: claimed.collect(),
            claimed_count: 40,
            ready: ready.collect(),
            ready_count: 400,
            run: Some(words.to_owned()),
            status: Some("running".to_owned()),
            title: words.to_owned(),
            waiting: (0..5).map(|_| waiting()).collect(),
            waiting_count: 5,
            ..PrimeLine::default()
        }
    }

    #[test]
    fn prime_never_exceeds_its_limit() {
        for words in ["x", &"word ".repeat(400), &"\u{1f980}".repeat(300), "a\nb\u{1b}[2J"] {
            let line = full(words);
            for limit in [PRIME_LENGTH_MAX, 900, 100, 3, 0] {
                let text = prime_text(&line, limit);
                assert!(text.len() <= limit, "{} bytes of {limit}", text.len());
            }
            let text = prime_text(&line, PRIME_LENGTH_MAX);
            assert!(text.contains("Claimed:"), "{text}");
            assert!(!text.contains('\u{1b}'), "{text}");
            let damaged = PrimeLine { damage: Some(words.to_owned()), ..line };
            let text = prime_text(&damaged, PRIME_LENGTH_MAX);
            assert!(text.contains("Stop:") && !text.contains("Claimed:"), "{text}");
            assert!(!text.contains('\u{1b}'), "{text}");
        }
    }

    #[test]
    fn changes_are_left_out_before_claims() {
        let line = full(&"word ".repeat(400));
        let text = prime_text(&line, PRIME_LENGTH_MAX);
        assert!(!text.contains("record 5:") && text.contains("#1 word"), "{text}");
    }
}
