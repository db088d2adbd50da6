//! Finds the questions that were answered by a person other than their addressee.

use std::collections::BTreeMap;

use plan_ledger::internals::ledger::{Kind, decode};
use plan_ledger::log::LogReader;
use plan_ledger::{Event, QuestionId, RunId};
use plan_ledger_views::{AnswerOfAnother, answered, asked_person, decided_by, event_subject};

/// Those of all runs, oldest first. Only the records of questions and of answers are read, and the records of
/// each kind once.
pub(crate) fn answers_of_others(log: &LogReader) -> BTreeMap<RunId, Vec<AnswerOfAnother>> {
    // Unreadable records are reported as damage.
    let read = |kinds: [Kind; 2]| {
        let records = kinds.map(|kind| log.records_of_kind(kind.number(), log.first_seq()));
        let records = records.into_iter().flatten().filter_map(Result::ok);
        records.filter_map(|record| Some((record.seq, decode(&record).ok()??)))
    };
    let answers: Vec<(u64, Event)> = read([Kind::QuestionAnswered, Kind::StepAnswered]).collect();
    let mut found: BTreeMap<RunId, Vec<AnswerOfAnother>> = BTreeMap::new();
    if answers.is_empty() {
        return found;
    }
    let asked: BTreeMap<QuestionId, String> = read([Kind::QuestionAsked, Kind::StepAsked])
        .filter_map(|(seq, event)| {
            let (question, to) = asked_person(seq, &event)?;
            Some((question, to.to_owned()))
        })
        .collect();
    for (seq, event) in answers {
        let (run, step) = event_subject(&event);
        let to = answered(&event).and_then(|question| asked.get(&question));
        if let (Some(run), Some(asked), Some(by)) = (run, to, decided_by(&event))
            && asked != by
        {
            let answer = AnswerOfAnother { asked: asked.clone(), by: by.to_owned(), seq, step };
            found.entry(run).or_default().push(answer);
        }
    }
    for answers in found.values_mut() {
        answers.sort_by_key(|answer| answer.seq);
    }
    found
}
