//! What runs, workers and variables may be called: one rule, whoever asks.
//!
//! Invariant: only a command is refused for a name. What a log says already is never looked at again.

/// What is called by a name that somebody gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// A run: in a line of text, and beside the numbers of runs.
    Run,
    /// A worker.
    Worker,
    /// A variable.
    Variable,
}

/// What is wrong with a new name, if anything.
#[must_use]
pub fn name_fault(of: Named, name: &str) -> Option<&'static str> {
    let is_empty = name.trim().is_empty();
    let is_broken = name.chars().any(char::is_control);
    let is_number = || name.strip_prefix('#').is_some_and(|rest| rest.parse::<u64>().is_ok());
    match of {
        Named::Run if is_empty => Some("the run needs a name"),
        Named::Run if is_broken => Some("a run's name is one line, without control characters"),
        Named::Run if name.starts_with('-') => {
            Some("a run's name does not begin with `-`: a command line takes that for an option")
        }
        Named::Run if is_number() => {
            Some("a run's name is not `#` and a number: that is the run of this number")
        }
        Named::Worker if is_empty => Some("the worker needs a name"),
        Named::Worker if is_broken => {
            Some("a worker's name is one line, without control characters")
        }
        Named::Variable if is_empty || is_broken => {
            Some("a variable's name is one line that says something, without control characters")
        }
        Named::Run | Named::Worker | Named::Variable => None,
    }
}

/// The number of a run or a step, as people write it to be none of a name or an id: `#37`.
#[doc(hidden)]
pub fn number_meant(word: &str) -> Option<u32> {
    word.strip_prefix('#')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::support::*;
    use crate::plan::{Command, Json, Rejection, RunId, RunPolicy};

    /// Story: the library took names that no program could type again, like that of a run which a
    /// command line takes for an option; the acts of the binary alone refused them.
    #[test]
    fn names_that_cannot_be_typed_are_refused_whoever_asks() {
        let all = plan(vec![step("a", &[])]);
        let mut world = TestLedger::with(&all, RunPolicy::default());
        let mut ask = |of, name: &str| {
            let (run, by, name) = (RunId(1), "me".to_owned(), name.to_owned());
            world.execute(match of {
                Named::Run => {
                    let (policy, draft) = (RunPolicy::default(), draft(&all));
                    Command::StartRun { name, policy, draft }
                }
                Named::Worker => Command::Dispatch { run, step: None, worker: name, lease: None },
                Named::Variable => {
                    let (value, expected_version) = (Json::default(), None);
                    Command::SetVariable { run, name, value, expected_version, by }
                }
            })
        };
        let refused = [
            (Named::Run, &["", " ", "a\nb", "\u{1b}[2J", "-x", "#3"][..]),
            (Named::Worker, &["", "\t", "a\nb"]),
            (Named::Variable, &["", "\u{7}"]),
        ];
        for (of, names) in refused {
            for name in names {
                let fault = name_fault(of, name).unwrap();
                assert_eq!(ask(of, name), Err(Rejection::BadName(fault)), "{of:?} {name:?}");
            }
        }
        for (of, name) in
            [(Named::Run, "#x"), (Named::Run, "3"), (Named::Variable, "-x"), (Named::Worker, "#3")]
        {
            assert!(ask(of, name).is_ok(), "{of:?} {name:?}");
        }
    }
}
