//! The small commands by which people judge and limit: verdicts and caps; and what all commands
//! of people share.

use std::path::Path;

use crate::server::{Act, RulingWord, Scope};

use super::args::{CapArgs, JudgeArgs};
use super::exit::{Code, Failure};

/// `ledger accept` and `ledger reject`.
pub(super) fn judge(args: &JudgeArgs, ruling: RulingWord) -> Result<Code, Failure> {
    args.place.act(&Act::Judge {
        run: args.run.clone(),
        step: args.step.clone(),
        ruling,
        by: args.by.clone(),
        evidence: args.evidence.clone(),
    })
}

/// `ledger cap`.
pub(super) fn cap(args: &CapArgs) -> Result<Code, Failure> {
    let scope = match (&args.scope.run, &args.scope.owner, &args.scope.tag) {
        (Some(run), _, _) => Scope::Run(run.clone()),
        (None, Some(owner), _) => Scope::Owner(owner.clone()),
        (None, None, Some(tag)) => Scope::Tag(tag.clone()),
        (None, None, None) => Scope::Ledger,
    };
    args.place.act(&Act::Cap { scope, limit: args.limit.0, by: args.by.clone() })
}

/// The command line by which somebody answers about this ledger.
pub(super) fn command_line(verb: &str, ledger: &Path, words: &[&str]) -> String {
    let mut line = format!("ledger {verb}");
    if ledger != Path::new(".ledger") {
        line.push_str(" --ledger ");
        line.push_str(&quoted(&ledger.display().to_string()));
    }
    for word in words {
        line.push(' ');
        line.push_str(&quoted(word));
    }
    line
}

/// A word as a shell reads it back.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the commands that people are told to type can be typed.

    use super::*;

    #[test]
    fn command_lines_survive_a_shell() {
        let line = |words: &[&str]| command_line("accept", Path::new(".ledger"), words);
        assert_eq!(line(&["my-plan", "3.2"]), "ledger accept my-plan 3.2");
        assert_eq!(line(&["a b", "it's"]), r"ledger accept 'a b' 'it'\''s'");
        assert_eq!(
            command_line("answer", Path::new("x/y z"), &["r", "s"]),
            "ledger answer --ledger 'x/y z' r s"
        );
    }
}
