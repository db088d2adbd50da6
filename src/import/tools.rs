//! Registries of tools (`format/tools.md`), as YAML or JSON.

use std::path::Path;

use super::{own, text};
use crate::error::{Error, Result};
use crate::plan::ToolRegistry;

/// Reads a registry of tools. As with plan files, the form is told from the content.
pub fn read_tools(path: &Path) -> Result<ToolRegistry> {
    let content = text::read(path, "registry of tools")?;
    let content = content.strip_prefix('\u{feff}').unwrap_or(&content);
    let registry = match content.trim_start().chars().next() {
        Some('{' | '[') => own::json(content),
        _ => own::yaml(content),
    };
    registry.map_err(|refusal| Error::from(refusal).at_path(path))
}

#[cfg(test)]
mod tests {
    //! Goal: the example is read, and a slip of the pen is an error with a place.

    use super::*;

    #[test]
    fn the_example_is_a_registry() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/tools.yaml");
        let registry = read_tools(&path).unwrap();
        assert!(registry.tools.len() >= 3, "{registry:?}");
    }

    #[test]
    fn slips_have_a_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tools");
        for (content, expected) in [
            ("tools: {sh: {timeout: 3}}", "line 1, column 14"),
            ("{\"tools\": {\"sh\": {\"retry\": 3}}}", "line 1"),
            ("tool: {}", "did you mean `tools`?"),
        ] {
            std::fs::write(&path, content).unwrap();
            let error = read_tools(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{content}: {error}");
        }
        let error = read_tools(&folder.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("registry of tools"), "{error}");
    }
}
