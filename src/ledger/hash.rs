//! The hashes that the plan's rules need and, being pure, do not compute.

use std::io;

use crate::format::{ContentHasher, content_hash};
use crate::plan::{
    ContentHash, Defaults, HashedStep, Plan, PlanDraft, Rejection, State, Step, validate,
};

use super::state_values;

/// Hash of a plan's canonical bytes: what an approval binds to.
#[must_use]
pub fn plan_hash(plan: &Plan) -> ContentHash {
    ContentHash(content_hash(plan.canonical().as_bytes()))
}

/// Hash of what makes a step the same work.
#[doc(hidden)]
pub fn step_hash(step: &Step, defaults: &Defaults) -> ContentHash {
    ContentHash(content_hash(step.identity(defaults).as_bytes()))
}

/// Hash of a state. Live state, replay from the start and from any snapshot have the same one at every sequence number.
#[must_use]
pub fn state_hash(state: &State) -> ContentHash {
    hash_of_pieces(|out| state_values::encode(state, out))
}

/// Hash of all bytes that `from` has: of a file, as it is found in receipts and hand-offs.
///
/// # Errors
/// What `from` says.
pub fn bytes_hash(from: &mut dyn io::Read) -> io::Result<ContentHash> {
    let mut hasher = HashWriter(ContentHasher::default());
    io::copy(from, &mut hasher)?;
    Ok(ContentHash(hasher.0.finish()))
}

/// Hash of everything that `write` writes.
pub(super) fn hash_of(write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> ContentHash {
    hash_of_pieces(|out| write(out))
}

/// The same with a writer whose type is known: encoders write millions of pieces.
pub(super) fn hash_of_pieces(
    write: impl FnOnce(&mut HashBuffer<'_>) -> io::Result<()>,
) -> ContentHash {
    let mut hasher = HashWriter(ContentHasher::default());
    // Encoders write a few bytes at a time, a hasher is fast with many.
    let mut out = io::BufWriter::with_capacity(PIECE, &mut hasher);
    // A hasher takes everything. Who cannot encode a value gets the hash of what came before it,
    // and no snapshot: writing that one fails in the same place.
    let _ = write(&mut out);
    let _ = io::Write::flush(&mut out);
    drop(out);
    ContentHash(hasher.0.finish())
}

/// So many bytes are hashed at a time.
const PIECE: usize = 64 << 10;

/// A writer that hashes what it gets.
type HashBuffer<'a> = io::BufWriter<&'a mut HashWriter>;

pub(super) struct HashWriter(ContentHasher);

impl io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A plan ready to be proposed, if it is valid.
///
/// # Errors
/// `InvalidPlan`, with all of its problems.
pub fn draft(plan: &Plan) -> Result<PlanDraft, Rejection> {
    let problems = validate(plan);
    if !problems.is_empty() {
        return Err(Rejection::InvalidPlan(problems));
    }
    let hashed =
        |step: &Step| HashedStep { hash: step_hash(step, &plan.defaults), step: step.clone() };
    Ok(PlanDraft {
        hash: plan_hash(plan),
        steps: plan.steps.iter().map(hashed).collect(),
        header: Box::new(Plan { steps: Vec::new(), ..plan.clone() }),
    })
}
