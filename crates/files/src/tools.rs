//! Reads tool registries (`format/tools.md`) in YAML or JSON.

use std::path::Path;

use super::syntax::{json_tree, read_text, typed, without_byte_order_mark, yaml_tree};
use plan_ledger::plan::ToolRegistry;
use plan_ledger::{Error, Result};

/// Reads a tool registry. As with plan files, the content decides between JSON and YAML.
pub fn read_tools(path: &Path) -> Result<ToolRegistry> {
    let text = read_text(path, "tool registry")?;
    let text = without_byte_order_mark(&text);
    let tree = match text.trim_start().chars().next() {
        Some('{' | '[') => json_tree(text),
        _ => yaml_tree(text),
    };
    let registry = tree.and_then(|tree| Ok(typed(&tree)?));
    registry.map_err(|error| Error::from(error).at_path(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_registry_is_valid() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tools.yaml");
        let registry = read_tools(&path).unwrap();
        assert!(registry.tools.len() >= 3, "{registry:?}");
    }

    #[test]
    fn errors_have_line_and_column() {
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
        assert!(error.contains("tool registry"), "{error}");
    }
}
