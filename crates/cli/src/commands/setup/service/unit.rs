//! The unit of systemd that resumes a run, and the line for cron.
//!
//! Each value is quoted for the one that reads it: systemd expands `%` and `$`, cron expands `%`, and a
//! shell reads the rest of its line.

use std::path::PathBuf;

use crate::protocol::sh_word;

const FIRST_LINE: &str = "# Written by `ledger setup service`, which also changes and removes it.";

/// Whether `ledger setup service` wrote a file.
pub(super) fn is_own(text: &str) -> bool {
    text.starts_with(FIRST_LINE)
}

#[derive(Debug)]
pub(super) struct Unit {
    /// The name of its file.
    pub(super) name: String,
    pub(super) run: String,
    /// The digest of the command line and the folder.
    pub(super) digest: String,
    /// This program.
    pub(super) program: String,
    /// The working folder.
    pub(super) folder: String,
    /// The ledger's folder.
    pub(super) ledger: String,
    /// Variables of the user's shell: the search path for programs, and those of the command line.
    pub(super) variables: Vec<(&'static str, String)>,
    /// The file with keys.
    pub(super) environment_file: PathBuf,
}

impl Unit {
    /// The words that it starts.
    fn words(&self) -> [String; 6] {
        [
            self.program.clone(),
            "resume".to_owned(),
            format!("--ledger={}", self.ledger),
            format!("--service={}", self.digest),
            "--".to_owned(),
            self.run.clone(),
        ]
    }

    /// Whether a value has a line break, which would end its line.
    pub(super) fn has_line_breaks(&self) -> bool {
        let keys = self.environment_file.display().to_string();
        let values = [&self.run, &self.program, &self.folder, &self.ledger, &keys];
        let variables = self.variables.iter().map(|(_, value)| value);
        values.into_iter().chain(variables).any(|value| value.chars().any(char::is_control))
    }

    /// The command line, for people.
    pub(super) fn command_line(&self) -> String {
        self.words().map(|word| sh_word(&word)).join(" ")
    }

    /// The text of the file.
    pub(super) fn text(&self) -> String {
        let line = self.words().map(|word| quoted(&word).replace('$', "$$")).join(" ");
        let plain = |text: &str| text.replace('%', "%%");
        let variables = self
            .variables
            .iter()
            .map(|(name, value)| format!("Environment={}\n", quoted(&format!("{name}={value}"))));
        format!(
            "{FIRST_LINE}\n\
             [Unit]\n\
             Description=ledger: resumes run {}\n\
             \n\
             [Service]\n\
             Type=exec\n\
             WorkingDirectory={}\n\
             {}\
             # Keys for the workers, one line NAME=VALUE for each.\n\
             EnvironmentFile=-{}\n\
             ExecStart={line}\n\
             # After a crash of the runner. It ends with 3 if it waits for a person; a rerun would not help after\n\
             # 1, 2, 4, 5 and 6.\n\
             Restart=on-failure\n\
             RestartSec=60\n\
             SuccessExitStatus=3\n\
             RestartPreventExitStatus=1 2 4 5 6\n\
             # Workers that outlive a runner are taken over by the next one.\n\
             KillMode=process\n\
             \n\
             [Install]\n\
             WantedBy=default.target\n",
            plain(&self.run),
            plain(&self.folder),
            variables.collect::<String>(),
            plain(&self.environment_file.display().to_string()),
        )
    }

    pub(super) fn cron_line(&self) -> String {
        let keys = sh_word(&self.environment_file.display().to_string());
        let variables =
            self.variables.iter().map(|(name, value)| format!("{name}={}", sh_word(value)));
        let variables = variables.collect::<Vec<_>>().join(" ");
        let folder = sh_word(&self.folder);
        let command = self.command_line();
        // Cron reads `%` as a line break.
        format!("@reboot cd {folder} && export {variables} && set -a && . {keys} && {command}")
            .replace('%', r"\%")
    }
}

/// A word for systemd, in quotes.
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%"))
}
