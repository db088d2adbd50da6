//! Workers that wait until enough was killed, so that no machine is too fast for a test of kills: a
//! run gets on by so many steps for each SIGKILL, however quick its workers are.

use super::command::Place;

/// For a worker's script: wait until one more step may be done, and count this one as done. One that
/// was done before, by a worker that was killed with its receipt, is not counted twice. A timeout or
/// a kill ends the wait as it ends any work.
pub(crate) const WAIT: &str = r#"
is_due() {
  grep -qxF "$LEDGER_STEP" "$TALLY.done" && return
  test "$(sort -u "$TALLY.done" | wc -l)" -le "$(cat "$TALLY.pace")"
}
until is_due 2>/dev/null; do sleep 0.01; done
echo "$LEDGER_STEP" >> "$TALLY.done"
"#;

/// How far the workers of a place may get.
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
        new.tell();
        new
    }

    pub(crate) fn killed(&mut self) {
        self.kills += 1;
        self.tell();
    }

    pub(crate) fn kills(&self) -> u32 {
        self.kills
    }

    pub(crate) fn is_over(&self) -> bool {
        self.kills >= self.kills_due
    }

    fn tell(&self) {
        let steps = if self.is_over() { u32::MAX } else { self.kills * self.steps_per_kill };
        self.place.write("tally.pace", steps.to_string());
    }
}
