//! BLAKE3 hashes of plans, steps and files. `crate::plan` takes hashes as arguments and never
//! computes them.

use std::io;
use std::sync::Arc;
use std::thread;

use crate::format::{ContentHasher, content_hash};
use crate::plan::{
    ContentHash, Defaults, HashedStep, Output, Plan, PlanDraft, Proof, Rejection, Secret,
    SecretHash, Step, Token, canonical, validate,
};

/// Hash of a plan's canonical bytes. An approval is bound to it.
#[must_use]
pub fn plan_hash(plan: &Plan) -> ContentHash {
    ContentHash(content_hash(plan.canonical().as_bytes()))
}

/// Hash of everything that a plan executes: its commands, probes and command criteria, each with
/// its step. `None` if it executes nothing. An approval of commands is bound to this hash
/// (`format/events.md`, section 7).
#[must_use]
pub fn commands_hash(plan: &Plan) -> Option<ContentHash> {
    let mut parts = plan.executed();
    parts.retain(|part| part.command().is_some());
    (!parts.is_empty()).then(|| ContentHash(content_hash(canonical(&parts).as_bytes())))
}

/// Hash of everything that defines a step's work: equal hashes mean the same work.
#[doc(hidden)]
#[must_use]
pub fn step_hash(step: &Step, defaults: &Defaults) -> ContentHash {
    ContentHash(content_hash(step.identity(defaults).as_bytes()))
}

#[doc(hidden)]
impl Secret {
    /// Hash of the secret of a token: the first half of the BLAKE3 hash of its bytes.
    #[must_use]
    pub fn hash(&self) -> SecretHash {
        let hash = content_hash(&self.0);
        let mut half = SecretHash::default();
        half.0.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
        half
    }
}

impl From<Token> for Proof {
    fn from(token: Token) -> Self {
        Self::Secret(token.secret.hash())
    }
}

/// Hash of an output's canonical text, inline or in a blob.
pub(crate) fn output_hash(output: &Output) -> ContentHash {
    match output {
        Output::Inline(value) => ContentHash(content_hash(value.as_str().as_bytes())),
        Output::Blob(blob) => blob.hash,
    }
}

/// Hash of all bytes of a reader: the hash of a file in receipts and hand-offs.
///
/// # Errors
/// Those of the reader.
pub fn bytes_hash(from: &mut dyn io::Read) -> io::Result<ContentHash> {
    let mut hasher = HashWriter(ContentHasher::default());
    io::copy(from, &mut hasher)?;
    Ok(ContentHash(hasher.0.finish()))
}

/// Hash of everything that `write` writes.
pub(crate) fn hash_of(write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> ContentHash {
    hash_of_pieces(|out| write(out))
}

/// As [`hash_of`], without dynamic dispatch: encoders call the writer millions of times.
pub(crate) fn hash_of_pieces(
    write: impl FnOnce(&mut HashBuffer<'_>) -> io::Result<()>,
) -> ContentHash {
    let mut hasher = HashWriter(ContentHasher::default());
    // Encoders write a few bytes at a time; a hasher is fast only with large pieces.
    let mut out = io::BufWriter::with_capacity(PIECE, &mut hasher);
    // The hasher itself never fails. If the encoder fails, this is the hash of the bytes before the
    // failure. It is never stored: writing a snapshot fails at the same value.
    let _ = write(&mut out);
    let _ = io::Write::flush(&mut out);
    drop(out);
    ContentHash(hasher.0.finish())
}

/// How many bytes are hashed at a time.
const PIECE: usize = 64 << 10;

/// From so many steps on, a second thread helps to make a draft.
const STEPS_TO_SHARE: usize = 1_000;

type HashBuffer<'a> = io::BufWriter<&'a mut HashWriter>;

/// Hashes everything that is written to it.
pub(crate) struct HashWriter(ContentHasher);

impl io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The draft of a plan, with its hashes, ready to be proposed.
///
/// # Errors
/// `InvalidPlan`, with all of its problems.
pub fn plan_draft(plan: &Plan) -> Result<PlanDraft, Rejection> {
    thread::scope(|scope| {
        // The hash of a large plan takes as long as all other work here.
        let hashing = (plan.steps.len() >= STEPS_TO_SHARE)
            .then(|| thread::Builder::new().spawn_scoped(scope, || plan_hash(plan)).ok())
            .flatten();
        let problems = validate(plan);
        if !problems.is_empty() {
            return Err(Rejection::InvalidPlan(problems));
        }
        let hashed = |step: &Step| HashedStep {
            hash: step_hash(step, &plan.defaults),
            step: Arc::new(step.clone()),
        };
        let steps = plan.steps.iter().map(hashed).collect();
        let hash = hashing.and_then(|hashing| hashing.join().ok());
        Ok(PlanDraft {
            hash: hash.unwrap_or_else(|| plan_hash(plan)),
            steps,
            header: Box::new(plan.without_steps()),
            provenance: None,
            commands: None,
        })
    })
}
