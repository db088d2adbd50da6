//! Rules for the names of runs, workers and variables.
//!
//! Invariant: the rules apply to commands only. A name that is already in the log is never checked
//! again.

/// The kind of the named object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// A run.
    Run,
    /// A worker.
    Worker,
    /// A variable.
    Variable,
}

impl NameKind {
    /// Why a new name is invalid; `None` if it is valid.
    #[must_use]
    pub fn fault_in(self, name: &str) -> Option<&'static str> {
        let is_empty = name.trim().is_empty();
        let is_broken = name.chars().any(char::is_control);
        let is_number = || name.strip_prefix('#').is_some_and(|rest| rest.parse::<u64>().is_ok());
        match self {
            Self::Run if is_empty => Some("the run needs a name"),
            Self::Run if is_broken => {
                Some("the run name has a control character; use one printable line")
            }
            Self::Run if name.starts_with('-') => {
                Some("the run name begins with `-`, like an option; choose another")
            }
            Self::Run if is_number() => {
                Some("the run name looks like a run number; choose another")
            }
            Self::Worker if is_empty => Some("the worker needs a name"),
            Self::Worker if is_broken => {
                Some("the worker name has a control character; use one printable line")
            }
            Self::Variable if is_empty || is_broken => Some(
                "the variable name is empty or has a control character; use one printable line",
            ),
            Self::Run | Self::Worker | Self::Variable => None,
        }
    }
}

/// Parses the number of a run or a step, written as `#37`.
#[doc(hidden)]
#[must_use]
pub fn parse_number(word: &str) -> Option<u32> {
    word.strip_prefix('#')?.parse().ok()
}

/// Whether a word has digits only.
pub(crate) fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::support::*;
    use crate::plan::{Command, Json, Origin, Rejection, Route, RunId, RunPolicy, SecretHash};

    /// The library accepted names that cannot be typed on a command line, such as a run name that
    /// looks like an option; only the program rejected them.
    #[test]
    fn names_that_cannot_be_typed_are_rejected() {
        let all = plan(vec![step("a", &[])]);
        let mut world = TestLedger::with(&all, RunPolicy::default());
        let mut ask = |of, name: &str| {
            let (run, by, name) = (RunId(1), "me".to_owned(), name.to_owned());
            world.execute(match of {
                NameKind::Run => {
                    let (policy, draft) = (RunPolicy::default(), draft(&all));
                    Command::StartRun {
                        name,
                        policy,
                        reason: String::new(),
                        draft,
                        inputs: std::collections::BTreeMap::new(),
                    }
                }
                NameKind::Worker => Command::Dispatch {
                    process: None,
                    secret: SecretHash::default(),
                    run,
                    step: None,
                    worker: name,
                    route: Route::default(),
                    lease: None,
                },
                NameKind::Variable => {
                    let (value, expected_version) = (Json::default(), None);
                    Command::SetVariable {
                        run,
                        name,
                        value,
                        expected_version,
                        origin: Origin::person(by),
                    }
                }
            })
        };
        let refused = [
            (NameKind::Run, &["", " ", "a\nb", "\u{1b}[2J", "-x", "#3"][..]),
            (NameKind::Worker, &["", "\t", "a\nb"]),
            (NameKind::Variable, &["", "\u{7}"]),
        ];
        for (of, names) in refused {
            for name in names {
                let fault = of.fault_in(name).unwrap();
                assert_eq!(ask(of, name), Err(Rejection::InvalidName(fault)), "{of:?} {name:?}");
            }
        }
        for (of, name) in [
            (NameKind::Run, "#x"),
            (NameKind::Run, "3"),
            (NameKind::Variable, "-x"),
            (NameKind::Worker, "#3"),
        ] {
            assert!(ask(of, name).is_ok(), "{of:?} {name:?}");
        }
    }
}
