//! Graphs, drawn as trees.

use super::text::Text;

/// A node of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeRow {
    /// For each level from the root to the node: whether a sibling follows.
    pub follows: Vec<bool>,
    /// The number of its children.
    pub children: usize,
    /// Its mark and name.
    pub label: Text,
    /// The text that is cut if it is too long.
    pub rest: Text,
}

/// The nodes of a tree, each before its children.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tree {
    /// The nodes.
    pub rows: Vec<TreeRow>,
}

impl Tree {
    /// The lines that lead to each node, in the order of the nodes. An only child stands below its parent, after
    /// an arrow.
    pub(crate) fn leads(&self) -> Vec<String> {
        let mut is_only_child = false;
        let mut leads = Vec::new();
        for row in &self.rows {
            leads.push(lead(&row.follows, is_only_child));
            is_only_child = row.children == 1;
        }
        leads
    }
}

fn lead(follows: &[bool], is_only_child: bool) -> String {
    let mut levels = follows.iter().skip(1).copied().collect::<Vec<bool>>();
    let own = if is_only_child { None } else { levels.pop() };
    let mut lead: String = levels.iter().map(|more| if *more { "|   " } else { "    " }).collect();
    match (is_only_child, own) {
        (true, _) => lead.push_str("-> "),
        (false, Some(true)) => lead.push_str("|-- "),
        (false, Some(false)) => lead.push_str("`-- "),
        (false, None) => {}
    }
    lead
}
