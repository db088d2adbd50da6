//! Plans the deletion of slots that segment objects replace, and of objects that longer objects or later snapshots
//! replace.

use crate::error::Result;

use crate::store::derived::SnapshotSurvey;
use crate::store::derived::index_ranges;
use crate::store::folder::with_objects_ahead;
use crate::store::name::{IndexRange, ObjectName, SEGMENTS, SegmentForm, SegmentObject, TAIL};
use crate::store::objects::{ListedObject, StoreTime};
use crate::store::segments::{ends_too_early, lost_end, segment_floor, segment_object};
use crate::store::session::StoreSession;
use crate::store::slot::SlotBytes;

use super::removable::{RemovableClass, RemovableObject, is_old, removable};
use super::snapshots::{may_have_superseded, superseded};

/// The objects that may be deleted, and the number of slots that are kept, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectPlan {
    /// The objects that may be deleted, in this order.
    pub objects: Vec<RemovableObject>,
    /// The last record that segment objects cover.
    pub floor: u64,
    /// Slots that are kept because they open an epoch.
    pub opening: u64,
    /// Slots that are kept because they are younger than 48 hours, or their age is unknown.
    pub young: u64,
    /// Slots that are kept because no segment object has all of their records.
    pub uncovered: u64,
    /// Slots that are kept because they are invalid.
    pub invalid: u64,
}

impl CollectPlan {
    /// Plan which objects may be deleted at a time of the store. Deletes nothing.
    ///
    /// # Errors
    /// `Corrupt` with the name of a damaged object of the log; `Io` if the store does not answer.
    pub fn of(session: &StoreSession<'_>, now: StoreTime) -> Result<Self> {
        let mut unclear = 0;
        // Listed first: a segment object that is created later covers no slot of the other list.
        let segments = session.list(SEGMENTS, &mut unclear)?;
        let slots = session.list(TAIL, &mut unclear)?;
        let mut plan = CollectPlan { floor: segment_floor(&segments), ..CollectPlan::default() };
        let mut candidates = Vec::new();
        for listed in slots {
            let Some(ObjectName::Slot(first_seq)) = ObjectName::parse(&listed.name) else {
                continue;
            };
            if first_seq > plan.floor {
                plan.uncovered += 1;
            } else if is_old(listed.at, now) || mutant!(YoungSlotCollected) {
                candidates.push(listed);
            } else {
                plan.young += 1;
            }
        }
        let mut replaced = replaced(&segments, now);
        // Listed before the log is read, which then has their notes.
        let mut survey = SnapshotSurvey::list(session)?;
        let has_superseded = may_have_superseded(&survey, now);
        if candidates.is_empty() && replaced.is_empty() && !has_superseded {
            return Ok(plan);
        }
        let end = session.find_end(session.start()?, &mut |taken| {
            if has_superseded {
                survey.look(taken);
            }
            Ok(())
        })?;
        if let Some(sealed) = ends_too_early(&segments, end.position.next_seq) {
            return Err(lost_end(&sealed));
        }
        // The slots of many commits: 16 requests at a time.
        with_objects_ahead(session.objects, candidates.clone(), |objects| {
            let session = StoreSession { objects, ..*session };
            candidates.iter().try_for_each(|listed| judge(&session, listed, &mut plan))
        })?;
        plan.objects.append(&mut replaced);
        if has_superseded {
            plan.objects.extend(superseded(session, &survey, now)?);
        }
        Ok(plan)
    }
}

/// Judge an old slot with a name that the floor covers. An invalid slot is kept, because it is
/// damaged or was written by a newer program.
fn judge(session: &StoreSession<'_>, listed: &ListedObject, plan: &mut CollectPlan) -> Result<()> {
    let Some(ObjectName::Slot(first_seq)) = ObjectName::parse(&listed.name) else { return Ok(()) };
    // Another collector may have been first.
    let Some(found) = session.get(&listed.name, &mut 0)? else { return Ok(()) };
    let Ok(slot) = SlotBytes(found.bytes).check(first_seq, &session.identity) else {
        plan.invalid += 1;
        return Ok(());
    };
    if slot.header().opens && !mutant!(OpeningSlotCollected) {
        plan.opening += 1;
    } else if slot.header().last_seq > plan.floor {
        plan.uncovered += 1;
    } else {
        plan.objects.push(removable(RemovableClass::Slot, listed));
    }
    Ok(())
}

/// First parts and index objects that a longer object replaced long ago: a reader that began before that has ended.
fn replaced(listing: &[ListedObject], now: StoreTime) -> Vec<RemovableObject> {
    let is_known = |listed: &&ListedObject| is_old(listed.at, now);
    let old: Vec<&ListedObject> = listing.iter().filter(is_known).collect();
    let objects: Vec<SegmentObject> = old.iter().filter_map(|it| segment_object(it)).collect();
    let old: Vec<ListedObject> = old.into_iter().cloned().collect();
    let ranges = index_ranges(&old);
    let is_replaced = |listed: &&ListedObject| match ObjectName::parse(&listed.name) {
        Some(ObjectName::Segment(part)) => objects.iter().any(|object| replaces(object, &part)),
        Some(ObjectName::Index(range)) => ranges.iter().any(|other| has_all_of(other, &range)),
        _ => false,
    };
    let class = |listed: &ListedObject| match segment_object(listed) {
        Some(_) => RemovableClass::Part,
        None => RemovableClass::Index,
    };
    listing.iter().filter(is_replaced).map(|listed| removable(class(listed), listed)).collect()
}

/// Whether an object has all records of a first part of the same segment, and readers prefer it.
fn replaces(object: &SegmentObject, part: &SegmentObject) -> bool {
    (object.base_seq, object.ordinal) == (part.base_seq, part.ordinal)
        && part.form == SegmentForm::Part
        && object.last_seq >= part.last_seq
        && (object.form, object.last_seq) > (part.form, part.last_seq)
}

/// Whether an index object has all segments of another one.
fn has_all_of(other: &IndexRange, range: &IndexRange) -> bool {
    other.base_seq <= range.base_seq && other.last_seq >= range.last_seq && other != range
}
