//! Selects one of the readings of a file, and reports the others.

use crate::diagnostic::{ReadResult, plan_error};
use crate::draft::PlanDraft;
use crate::plan_file::PlanFile;
use crate::read_report::{FileReading, Reading};

/// The draft in the wanted reading, if it is one of these, else in the default one, which is the first.
pub(super) fn selected(
    mut drafts: Vec<(Reading, PlanDraft)>,
    wanted: Option<&str>,
) -> Option<PlanDraft> {
    let at = drafts.iter().position(|(reading, _)| Some(reading.name()) == wanted).unwrap_or(0);
    if at >= drafts.len() {
        return None;
    }
    let summary =
        |(reading, draft): &(Reading, PlanDraft)| FileReading::of(*reading, &draft.plan_file.plan);
    let summaries: Vec<FileReading> = drafts.iter().map(summary).collect();
    let (reading, mut draft) = drafts.remove(at);
    // A reading without a valid plan is none to offer.
    let valid = drafts
        .into_iter()
        .filter_map(|(reading, draft)| draft.validate().is_ok().then_some(reading));
    let offered: Vec<Reading> = valid.chain([reading]).collect();
    draft.plan_file.reading = Some(reading);
    if offered.len() > 1 {
        draft.plan_file.readings = summaries;
        draft.plan_file.readings.retain(|each| offered.contains(&each.reading));
    }
    Some(draft)
}

/// An error if the file has no reading with the wanted name.
pub(super) fn expect(wanted: Option<&str>, file: &PlanFile) -> ReadResult<()> {
    let Some(wanted) = wanted.filter(|name| file.reading.is_none_or(|it| it.name() != *name))
    else {
        return Ok(());
    };
    let wanted = wanted.escape_debug();
    let message = match (file.reading, file.readings.as_slice()) {
        (None, _) => format!(
            "reading `{wanted}` was requested, but a {} has one reading; omit it",
            file.format
        ),
        (Some(only), []) => {
            format!("there is no reading `{wanted}`: the file has one reading, `{only}`; omit it")
        }
        (Some(_), all) => {
            let all: Vec<String> = all.iter().map(ToString::to_string).collect();
            format!("there is no reading `{wanted}`: the file can be read as {}", all.join(" or "))
        }
    };
    Err(plan_error(message).into())
}
