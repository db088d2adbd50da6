//! How far apart the state's snapshots are: rungs, and between two of them steps, of which every
//! fourth is the base of those behind it, as the rung is of these (`format/snapshot.md`, section 6).

/// Steps are no closer than this, in records.
const STEP_MIN: u64 = 4096;
/// There are so many steps to a rung, or none.
const STEPS: u64 = 16;
/// So many steps have one base.
const BASED: u64 = 4;

/// The distances, in records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spacing {
    rungs: u64,
    steps: u64,
}

impl Spacing {
    /// The steps between rungs that are so far apart.
    pub(super) fn of(rungs: u64) -> Self {
        let steps = rungs / STEPS;
        let is_far = steps >= STEP_MIN && rungs.is_multiple_of(STEPS);
        Self { rungs, steps: if is_far { steps } else { rungs } }
    }

    /// The last rung up to a record.
    pub(super) fn rung_before(self, seq: u64) -> u64 {
        seq - seq % self.rungs
    }

    /// The last rung or step up to a record.
    pub(super) fn step_before(self, seq: u64) -> u64 {
        seq - seq % self.steps
    }

    /// Whether there is a rung at a record.
    pub(super) fn is_rung(self, seq: u64) -> bool {
        seq.is_multiple_of(self.rungs)
    }

    /// Whether there is a step at a record, and no rung.
    pub(super) fn is_between(self, seq: u64) -> bool {
        seq.is_multiple_of(self.steps) && !self.is_rung(seq)
    }

    /// How many records lie between a step and what it would be based on.
    pub(super) fn reach(self, seq: u64) -> u64 {
        self.places_below(seq)
            .into_iter()
            .map(|base| seq - base)
            .find(|reach| *reach > 0)
            .unwrap_or(0)
    }

    /// Where the snapshots would stand that one at a step may be based on, the nearest first.
    pub(super) fn bases(self, seq: u64) -> impl Iterator<Item = u64> {
        let (is_step, [near, far]) = (self.is_between(seq), self.places_below(seq));
        let places = [Some(near), Some(far).filter(|far| *far != near)].into_iter().flatten();
        places.filter(move |base| is_step && (1..seq).contains(base))
    }

    fn places_below(self, seq: u64) -> [u64; 2] {
        [seq - seq % (self.steps * BASED).min(self.rungs), self.rung_before(seq)]
    }

    /// From here on steps are looked at again when others are made, if one of the newest is at `newest`:
    /// those before were looked at while they were newer.
    pub(super) fn unsettled(self, newest: u64) -> u64 {
        self.rung_before(newest).saturating_sub(self.rungs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever asks for snapshots closer than steps are gets what they ask for, and no more.
    #[test]
    fn there_are_steps_between_rungs_that_are_far_apart() {
        assert_eq!(Spacing::of(65_536).steps, STEP_MIN);
        assert_eq!(Spacing::of(1 << 20).steps, 1 << 16);
        for rungs in [1, 50, 16_384, 65_535, 65_537] {
            assert_eq!(Spacing::of(rungs).steps, rungs);
            assert!(!Spacing::of(rungs).is_between(rungs * 3));
        }
    }

    /// A step is based on a fourth one, that on a rung, and a rung on nothing.
    #[test]
    fn what_is_based_on_what() {
        let spacing = Spacing::of(65_536);
        let bases = |seq| spacing.bases(seq).collect::<Vec<_>>();
        let step = |count: u64| count * STEP_MIN;
        for (seq, expected) in [
            (step(1), vec![]),
            (step(4), vec![]),
            (step(5), vec![step(4)]),
            (step(16), vec![]),
            (step(17), vec![step(16)]),
            (step(20), vec![step(16)]),
            (step(23), vec![step(20), step(16)]),
            (step(23) + 1, vec![]),
        ] {
            assert_eq!(bases(seq), expected, "{seq}");
        }
        let reaches = [1, 3, 4, 8, 15, 16, 17, 24].map(|count| spacing.reach(step(count)));
        assert_eq!(reaches, [1, 3, 4, 8, 3, 0, 1, 8].map(step));
        let odd = Spacing::of(50);
        assert_eq!((odd.bases(100).count(), odd.reach(100)), (0, 0));
    }
}
