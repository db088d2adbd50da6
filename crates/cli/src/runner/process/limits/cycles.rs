//! Finds the lines that a stream repeats: one line, or a cycle of several, by the hashes of the lines.
//!
//! For each length of a cycle it counts the newest lines in a row that equal the line that many lines before.
//! Memory and time for a line are constant.

use std::collections::VecDeque;

/// The number of lines of the longest cycle that is found.
pub(super) const CYCLE_LENGTH_MAX: usize = 64;

/// The newest lines of a stream, and how they repeat.
#[derive(Debug)]
pub(super) struct Cycles {
    /// The hashes of the newest lines, the newest first.
    newest: VecDeque<u64>,
    /// By length of a cycle, from 1: how many of the newest lines in a row equal the one a cycle before.
    equal: [u64; CYCLE_LENGTH_MAX],
}

/// Lines that a stream printed over and over, up to its newest line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cycle {
    /// The number of different lines.
    pub(super) lines: u64,
    /// How often they were printed completely.
    pub(super) times: u64,
}

impl Default for Cycles {
    fn default() -> Self {
        let newest = VecDeque::with_capacity(CYCLE_LENGTH_MAX);
        Self { newest, equal: [0; CYCLE_LENGTH_MAX] }
    }
}

impl Cycles {
    /// Add a line. Returns whether it is new: it continues no cycle.
    pub(super) fn add(&mut self, line: u64) -> bool {
        let before = self.newest.iter().map(Some).chain(std::iter::repeat(None));
        let mut is_new = true;
        for (equal, before) in self.equal.iter_mut().zip(before) {
            *equal = if before == Some(&line) { equal.saturating_add(1) } else { 0 };
            is_new &= *equal == 0;
        }
        self.newest.truncate(CYCLE_LENGTH_MAX - 1);
        self.newest.push_front(line);
        is_new
    }

    /// Count from here on: earlier output is not part of a cycle.
    pub(super) fn restart(&mut self) {
        *self = Self::default();
    }

    /// The lines that are repeated now, if they were printed at least that often.
    pub(super) fn repeated(&self, times_min: u64) -> Option<Cycle> {
        let cycles = (1..)
            .zip(self.equal)
            .map(|(lines, equal)| Cycle { lines, times: (equal / lines).saturating_add(1) });
        // A cycle of two lines is also one of four, half as often: the shortest has the highest
        // count.
        let most = cycles.reduce(|most, each| if each.times > most.times { each } else { most })?;
        Some(most).filter(|cycle| cycle.times >= times_min.max(2))
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a planted cycle is found with its length and its count, and output without one has none.

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// How often lines are printed in these tests before they count as repeated.
    const TIMES: u64 = 5;

    fn after(lines: impl IntoIterator<Item = u64>) -> Cycles {
        let mut cycles = Cycles::default();
        for line in lines {
            cycles.add(line);
        }
        cycles
    }

    #[test]
    fn one_line_and_several_are_counted() {
        let found = |lines: &[u64]| after(lines.iter().copied()).repeated(TIMES);
        assert_eq!(found(&[7; 4]), None);
        assert_eq!(found(&[7; 5]), Some(Cycle { lines: 1, times: 5 }));
        assert_eq!(found(&[1, 1, 2].repeat(6)), Some(Cycle { lines: 3, times: 6 }));
        // The last one is not complete.
        assert_eq!(
            found(&[vec![9], [1, 2].repeat(5), vec![1]].concat()),
            Some(Cycle { lines: 2, times: 5 })
        );
        assert_eq!(found(&[vec![7; 50], vec![8]].concat()), None, "it is over");
        assert_eq!(found(&(0..64).collect::<Vec<_>>().repeat(5)).map(|it| it.lines), Some(64));
        assert_eq!(found(&(0..65).collect::<Vec<_>>().repeat(9)), None, "longer than the longest");
    }

    #[test]
    fn a_restart_forgets_what_was_before() {
        let mut cycles = after([7; 9]);
        cycles.restart();
        assert!((0..4).filter(|_| cycles.add(7)).count() == 1, "only the first line is new");
        assert_eq!(cycles.repeated(TIMES), None);
        cycles.add(7);
        assert_eq!(cycles.repeated(TIMES), Some(Cycle { lines: 1, times: 5 }));
    }

    proptest! {
        /// Different lines, then a cycle of different lines: exactly this one is found, as often as it was printed.
        #[test]
        fn planted_cycle_is_found(
            before in vec(1_000_u64..2_000, 0..200),
            lines in 1_u64..=64,
            times in TIMES..40,
        ) {
            let cycle: Vec<u64> = (0..lines).collect();
            let cycle = cycle.repeat(usize::try_from(times).unwrap());
            let found = after(before.into_iter().chain(cycle)).repeated(TIMES);
            prop_assert_eq!(found, Some(Cycle { lines, times }));
        }

        /// After any line of any output, a cycle is found exactly if one was printed that often.
        #[test]
        fn output_without_a_cycle_has_none(lines in vec(0_u64..3, 0..300)) {
            let mut cycles = Cycles::default();
            for (end, line) in (1..).zip(&lines) {
                cycles.add(*line);
                let printed = &lines[..end];
                let is_repeated = (1..=printed.len() / 5).any(|length| {
                    let tail = &printed[printed.len() - 5 * length..];
                    tail.chunks(length).all(|each| *each == tail[..length])
                });
                prop_assert_eq!(cycles.repeated(TIMES).is_some(), is_repeated);
            }
        }
    }
}
