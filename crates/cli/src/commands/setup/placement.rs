//! The files with the settings of each host, and their contents.

use std::path::PathBuf;

use crate::options::Host;
use crate::output::Failure;

/// The settings of a project, or of a user.
#[derive(Debug, Clone)]
pub(super) enum SettingsPlace {
    /// The project in the working folder.
    OfProject,
    /// The user, with this home.
    OfUser(PathBuf),
}

/// A file with settings, and its contents.
#[derive(Debug)]
pub(super) struct Placement {
    pub(super) path: PathBuf,
    pub(super) content: Content,
}

/// The contents of a file.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    /// Members of a JSON object, with comments if the host allows them.
    Json(&'static str),
    /// Tables of a TOML file.
    Toml(&'static str),
    /// The whole file.
    Whole(&'static str),
}

impl SettingsPlace {
    pub(super) fn of_user() -> Result<Self, Failure> {
        let home = dirs::home_dir().ok_or_else(|| {
            Failure::Usage("the home folder is unknown\nhint: set HOME".to_owned())
        })?;
        Ok(Self::OfUser(home))
    }

    fn path(&self, of_project: &str, of_user: &str) -> PathBuf {
        match self {
            Self::OfProject => PathBuf::from(of_project),
            Self::OfUser(home) => home.join(of_user),
        }
    }
}

macro_rules! host_file {
    ($path:literal) => {
        include_str!(concat!("../../../hosts/", $path))
    };
}

/// The files of a host.
pub(super) fn placements(host: Host, place: &SettingsPlace) -> Vec<Placement> {
    let at =
        |of_project, of_user, content| Placement { path: place.path(of_project, of_user), content };
    match host {
        Host::ClaudeCode => vec![
            at(
                ".claude/settings.json",
                ".claude/settings.json",
                Content::Json(host_file!("claude-code/hooks/hooks.json")),
            ),
            at(".mcp.json", ".claude.json", Content::Json(host_file!("claude-code/.mcp.json"))),
        ],
        Host::Codex => vec![
            at(
                ".codex/hooks.json",
                ".codex/hooks.json",
                Content::Json(host_file!("codex/hooks/hooks.json")),
            ),
            at(
                ".codex/config.toml",
                ".codex/config.toml",
                Content::Toml(host_file!("codex/config.toml")),
            ),
        ],
        Host::Gemini => vec![at(
            ".gemini/settings.json",
            ".gemini/settings.json",
            Content::Json(host_file!("gemini/settings.json")),
        )],
        Host::OpenCode => vec![
            at(
                ".opencode/plugins/plan-ledger.js",
                ".config/opencode/plugins/plan-ledger.js",
                Content::Whole(host_file!("opencode/ledger.js")),
            ),
            at(
                "opencode.json",
                ".config/opencode/opencode.json",
                Content::Json(host_file!("opencode/opencode.json")),
            ),
        ],
        Host::Cursor => vec![
            at(
                ".cursor/hooks.json",
                ".cursor/hooks.json",
                Content::Json(host_file!("cursor/hooks/hooks.json")),
            ),
            at(
                ".cursor/mcp.json",
                ".cursor/mcp.json",
                Content::Json(host_file!("cursor/mcp.json")),
            ),
        ],
        Host::VsCode => vec![
            at(
                ".github/hooks/plan-ledger.json",
                ".copilot/hooks/plan-ledger.json",
                Content::Json(host_file!("vscode/hooks.json")),
            ),
            at(
                ".vscode/mcp.json",
                ".config/Code/User/mcp.json",
                Content::Json(host_file!("vscode/mcp.json")),
            ),
        ],
    }
}
