//! Whether output is colored: `--color`, else `NO_COLOR` and the kind of the output.

use std::sync::OnceLock;

pub(crate) use clap::ColorChoice;

static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Keeps the choice of the command line, which counts for all output of this process.
pub(crate) fn set_color(choice: ColorChoice) {
    // The command line is parsed once.
    let _ = CHOICE.set(choice);
}

/// Whether to color an output.
pub(super) fn is_colored(is_terminal: bool) -> bool {
    match CHOICE.get().copied().unwrap_or(ColorChoice::Auto) {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
            let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
            is_terminal && !is_set("NO_COLOR") && !is_dumb
        }
    }
}
