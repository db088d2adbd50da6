//! Pacing for tests that kill processes: each SIGKILL releases a fixed number of steps, so that no
//! machine finishes the run before enough kills have happened.

use super::command::Place;

/// Shell code for a worker: waits until another step is released, then counts this one as done.
/// A step whose earlier worker was killed with its receipt is not counted twice. Timeouts and kills
/// end the wait like any other work.
pub(crate) const WAIT: &str = r#"
is_due() {
  grep -qxF "$LEDGER_STEP" "$TALLY.done" && return
  test "$(sort -u "$TALLY.done" | wc -l)" -le "$(cat "$TALLY.pace")"
}
until is_due 2>/dev/null; do sleep 0.01; done
echo "$LEDGER_STEP" >> "$TALLY.done"
"#;

/// How many steps the workers of a place may do.
pub(crate) struct Pace<'a> {
    place: &'a Place,
    steps_per_kill: u32,
    kills: u32,
    kills_due: u32,
}

impl<'a> Pace<'a> {
    pub(crate) fn new(place: &'a Place, steps_per_kill: u32, kills_due: u32) -> Self {
        place.write("tally.done", "");
        let new = Self { place, steps_per_kill, kills: 0, kills_due };
        new.release();
        new
    }

    pub(crate) fn killed(&mut self) {
        self.kills += 1;
        self.release();
    }

    pub(crate) fn kills(&self) -> u32 {
        self.kills
    }

    pub(crate) fn is_over(&self) -> bool {
        self.kills >= self.kills_due
    }

    fn release(&self) {
        let steps = if self.is_over() { u32::MAX } else { self.kills * self.steps_per_kill };
        self.place.write("tally.pace", steps.to_string());
    }
}
