//! Writes the usage limit that an attempt met into its failure, where the rules of the ledger read it
//! (`usage_limit` in `format/hand-off.md`).

use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use plan_ledger::plan::{Micros, RETRY_AFTER, USAGE_LIMIT, UsageLimit};
use plan_ledger::{FailureClass, Json, Outcome, Timestamp};

use super::limit::{Limit, LimitEnd};
use super::sentence::without_escapes;

/// The member of a payload with the time at which the limit ends, if the worker named a time of a clock.
const RESETS_AT: &str = "resets_at";

/// The wait for a limit with a time in the past, in microseconds: the agent's clock may differ.
/// Without a wait, the attempts would follow each other endlessly.
const PASSED_WAIT: Micros = 60_000_000;

/// Mark a failure of an attempt that met this limit.
pub(crate) fn mark(outcome: &mut Outcome, limit: &Limit, now: Timestamp) {
    let Some(mut members) = members(outcome) else { return };
    let word = |limit: UsageLimit| Value::from(limit.word());
    match limit.ends {
        LimitEnd::At(time) | LimitEnd::After(time) => {
            let (mut time, mut end) =
                (time, Timestamp::try_from(time.as_microsecond()).unwrap_or(0));
            if end <= now {
                end = now.saturating_add(PASSED_WAIT);
                time = i64::try_from(end)
                    .ok()
                    .and_then(|end| jiff::Timestamp::from_microsecond(end).ok())
                    .unwrap_or(time);
            }
            let seconds = end.saturating_sub(now).div_ceil(1_000_000);
            members.insert(USAGE_LIMIT.to_owned(), word(UsageLimit::Output));
            members.insert(RETRY_AFTER.to_owned(), seconds.into());
            if matches!(limit.ends, LimitEnd::At(_)) {
                members.insert(RESETS_AT.to_owned(), time.to_string().into());
            }
        }
        // The guards, or else the ledger, decide how long to wait.
        LimitEnd::Later => {
            members.insert(USAGE_LIMIT.to_owned(), word(UsageLimit::Output));
        }
        LimitEnd::Person => {
            members.insert(USAGE_LIMIT.to_owned(), word(UsageLimit::Person));
        }
    }
    set_members(outcome, members);
    if let Outcome::Failed { class, message, .. } = outcome {
        *class = FailureClass::Transient;
        add_sentence(message, &limit.sentence);
    }
}

/// State in the message of a failure which limit the attempt met.
pub(crate) fn explain(outcome: &mut Outcome, limit: &Limit) {
    let Outcome::Failed { message, .. } = outcome else { return };
    add_sentence(message, &limit.sentence);
    if let LimitEnd::At(time) | LimitEnd::After(time) = limit.ends {
        let time = time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M %Z");
        *message = format!("{message} (the limit ends at {time})");
    }
}

fn add_sentence(message: &mut String, sentence: &str) {
    *message = without_escapes(message);
    if message.contains(sentence) {
        return;
    }
    // The last line may be a part of the sentence.
    let (start, said) = message.split_once(": ").unwrap_or((message, ""));
    let start = if sentence.contains(said) { start } else { message.as_str() };
    *message = format!("{start}: {sentence}");
}

/// Mark the failure of an attempt after its worker named a time for the next try.
pub(crate) fn mark_said(outcome: &mut Outcome) {
    let Some(mut members) = members(outcome) else { return };
    members.insert(USAGE_LIMIT.to_owned(), UsageLimit::Worker.word().into());
    set_members(outcome, members);
}

/// Make an ordinary failure of one that counted as a limit.
pub(crate) fn unmark(outcome: &mut Outcome) {
    let is_read = UsageLimit::of(outcome) != Some(UsageLimit::Worker);
    let Some(mut members) = members(outcome) else { return };
    if members.remove(USAGE_LIMIT).is_none() {
        return;
    }
    if is_read {
        members.remove(RETRY_AFTER);
        members.remove(RESETS_AT);
    }
    set_members(outcome, members);
    if is_read && let Outcome::Failed { class, .. } = outcome {
        *class = FailureClass::Unknown;
    }
}

/// When the limit ends by the wall clock, if the worker named it.
pub(crate) fn resets_at(outcome: &Outcome) -> Option<Timestamp> {
    let Outcome::Failed { payload, .. } = outcome else { return None };
    let value = payload.value();
    let time: jiff::Timestamp = value.get(RESETS_AT)?.as_str()?.parse().ok()?;
    Timestamp::try_from(time.as_microsecond()).ok()
}

/// Let the next attempt wait this long.
pub(crate) fn set_wait(outcome: &mut Outcome, seconds: u64) {
    if let Some(mut members) = members(outcome) {
        members.insert(RETRY_AFTER.to_owned(), seconds.into());
        set_members(outcome, members);
    }
}

/// The members of a failure's payload; `None` for another outcome, and for a payload that is not an object.
fn members(outcome: &Outcome) -> Option<Map<String, Value>> {
    let Outcome::Failed { payload, .. } = outcome else { return None };
    match payload.value() {
        Value::Null => Some(Map::new()),
        Value::Object(members) => Some(members),
        _ => None,
    }
}

fn set_members(outcome: &mut Outcome, members: Map<String, Value>) {
    if let Outcome::Failed { payload, .. } = outcome {
        *payload = if members.is_empty() { Json::default() } else { Value::Object(members).into() };
    }
}

#[cfg(test)]
mod tests {
    //! Goal: only the end of a limit that names a time of a clock follows that clock.

    use super::*;

    #[test]
    fn wait_of_a_duration_does_not_follow_the_wall_clock() {
        let now = 1_795_930_400_000_000;
        let end = jiff::Timestamp::from_second(1_795_930_420).unwrap();
        for (ends, seconds, is_by_clock) in [
            (LimitEnd::At(end), Some(20), true),
            (LimitEnd::After(end), Some(20), false),
            (LimitEnd::Later, None, false),
        ] {
            let (class, message) = (FailureClass::Unknown, String::new());
            let mut outcome = Outcome::Failed { class, message, payload: Json::default() };
            mark(&mut outcome, &Limit { ends, sentence: "limit reached".to_owned() }, now);
            let wait = outcome.retry_after().map(|wait| wait / 1_000_000);
            assert_eq!((wait, resets_at(&outcome).is_some()), (seconds, is_by_clock), "{ends:?}");
            assert_eq!(UsageLimit::of(&outcome), Some(UsageLimit::Output));
        }
    }
}
