//! The MCP server in a TOML file. The text of everything else stays as it is.

use toml_edit::{DocumentMut, Item, Table, Value};

use crate::output::Failure;

use super::own::SERVER;
use super::target::Target;

/// The text of the file with the settings.
pub(super) fn with_settings(
    target: Target<'_>,
    text: Option<&str>,
    settings: &str,
) -> Result<String, Failure> {
    let mut document = parse(target, text.unwrap_or_default())?;
    for (name, servers) in own_tables(target, settings) {
        let Some(server) = servers.get(SERVER) else { continue };
        let entry = document.entry(&name).or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
        let other = || target.refused(&format!("expected a table in `{name}`"));
        let table = entry.as_table_like_mut().ok_or_else(other)?;
        match table.get(SERVER) {
            Some(found) if !is_own_server(found) => {
                let why = format!("there is another MCP server with the name `{SERVER}`");
                return Err(target.refused(&why));
            }
            Some(found) if found.to_string() == server.to_string() => {}
            _ => {
                table.insert(SERVER, server.clone());
            }
        }
    }
    Ok(document.to_string())
}

/// The text of the file without the settings; `None` if it has no other content.
pub(super) fn without_settings(
    target: Target<'_>,
    text: &str,
    settings: &str,
) -> Result<Option<String>, Failure> {
    let mut document = parse(target, text)?;
    for (name, _) in own_tables(target, settings) {
        let Some(table) = document.get_mut(&name).and_then(Item::as_table_like_mut) else {
            continue;
        };
        if table.get(SERVER).is_some_and(is_own_server) {
            table.remove(SERVER);
            if table.is_empty() {
                document.remove(&name);
            }
        }
    }
    let text = document.to_string();
    Ok(if text.trim().is_empty() { None } else { Some(text) })
}

fn parse(target: Target<'_>, text: &str) -> Result<DocumentMut, Failure> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        let at = error.span().map_or(0, |span| span.start);
        let line = text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
        target.refused(&format!("the file is not valid TOML: line {line}"))
    })
}

/// The tables of the plugin folder, with this program.
fn own_tables(target: Target<'_>, settings: &str) -> Vec<(String, Table)> {
    let settings = target.program.put_into_text(settings);
    let document: DocumentMut = settings.parse().expect("the plugin folders are valid");
    let tables = document
        .iter()
        .filter_map(|(name, item)| Some((name.to_owned(), item.as_table()?.clone())));
    tables.collect()
}

/// Whether a server is started with the argument `mcp`.
fn is_own_server(server: &Item) -> bool {
    let args = server.get("args").and_then(Item::as_array);
    args.is_some_and(|args| args.iter().filter_map(Value::as_str).any(|word| word == "mcp"))
}
