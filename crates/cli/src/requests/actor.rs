//! The author of a request: a name from its client, the step of the attempt that its process
//! belongs to, or the session of an agent host.
//!
//! The process that executes a request knows its client, so an attempt or a session cannot act
//! under the name of a person. As a name, a step is `step:#3@412` and a session
//! `agent:claude-code/4f2c1d3e`; every author in a record is one of these.

use std::fmt;

use plan_ledger::plan::Origin;
use plan_ledger::{AttemptToken, StepNumber};

/// The start of the names of steps and of sessions.
const STEP: &str = "step:#";
const AGENT: &str = "agent:";

/// The author of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Actor {
    /// A person, or a program: the request says which.
    Named(String),
    /// The step of the attempt that its process is in.
    Step { step: StepNumber, token: AttemptToken },
    /// A session of an agent host: the host and the session.
    Agent(String),
}

impl Actor {
    /// The actor with this author's name.
    pub(crate) fn of(by: &str) -> Self {
        let step = |text: &str| {
            let (step, token) = text.split_once('@')?;
            let (step, token) = (step.parse().ok()?, token.parse().ok()?);
            Some(Self::Step { step: StepNumber(step), token: AttemptToken(token) })
        };
        match (by.strip_prefix(STEP), by.strip_prefix(AGENT)) {
            (Some(text), _) => step(text).unwrap_or_else(|| Self::Named(by.to_owned())),
            (None, Some(who)) if !who.is_empty() => Self::Agent(who.to_owned()),
            _ => Self::Named(by.to_owned()),
        }
    }

    /// Rejects the name of a person, a program or a worker that begins like that of a step or of a session.
    ///
    /// # Errors
    /// The reason, with a hint.
    pub(crate) fn expect_own_name(by: &str) -> Result<(), String> {
        if by.starts_with(STEP) || by.starts_with(AGENT) {
            return Err(format!(
                "the name `{by}` is reserved: the ledger itself names steps `{STEP}...` and agents \
                 `{AGENT}...`\nhint: give the name of a person or a program"
            ));
        }
        Ok(())
    }

    /// The same with a name that is not reserved, for a server that sees no process.
    pub(crate) fn without_reserved_name(&self) -> Self {
        Self::Named(match self {
            Self::Named(name) | Self::Agent(name) => name.clone(),
            Self::Step { step, token } => format!("step {step}, attempt token {}", token.0),
        })
    }

    /// The origin of a value that it sets.
    pub(super) fn origin(self) -> Origin {
        match self {
            Self::Named(who) => Origin::Person { who },
            Self::Step { step, token } => Origin::Step { step, token },
            Self::Agent(_) => Origin::Agent { who: self.to_string() },
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Step { step, token } => write!(f, "{STEP}{step}@{}", token.0),
            Self::Agent(who) => write!(f, "{AGENT}{who}"),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the name of an actor is read back as the same actor.

    use super::*;

    #[test]
    fn names_of_actors_are_read_back() {
        for (by, actor) in [
            ("ana", Actor::Named("ana".to_owned())),
            ("step:3", Actor::Named("step:3".to_owned())),
            ("step:#3@x", Actor::Named("step:#3@x".to_owned())),
            ("agent:", Actor::Named("agent:".to_owned())),
            ("step:#3@412", Actor::Step { step: StepNumber(3), token: AttemptToken(412) }),
            ("agent:codex/4f2c", Actor::Agent("codex/4f2c".to_owned())),
        ] {
            assert_eq!(Actor::of(by), actor);
            assert_eq!(actor.to_string(), by);
        }
    }
}
