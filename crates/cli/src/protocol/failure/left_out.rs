//! The parts that this program was built without. Whatever needs one names the feature to build with.

use super::Failure;

/// A part that this program was built without.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeftOut {
    name: &'static str,
    feature: &'static str,
}

impl LeftOut {
    #[cfg(not(feature = "http"))]
    pub(crate) const HTTP: Self = Self { name: "HTTP", feature: "http" };
    #[cfg(not(feature = "man"))]
    pub(crate) const MAN_PAGES: Self = Self { name: "man pages", feature: "man" };
    #[cfg(not(feature = "mcp"))]
    pub(crate) const MCP: Self = Self { name: "the Model Context Protocol", feature: "mcp" };
    #[cfg(not(feature = "sqlite"))]
    pub(crate) const SQLITE: Self = Self { name: "SQLite", feature: "sqlite" };
    #[cfg(not(feature = "store"))]
    pub(crate) const STORES: Self = Self { name: "stores", feature: "store" };
    #[cfg(not(feature = "tls"))]
    pub(crate) const TLS: Self = Self { name: "TLS", feature: "tls" };

    /// Instructions for getting a program with the feature.
    pub(crate) fn hint(self) -> String {
        let build = "cargo build --release -p plan-ledger-cli --features";
        format!("build it with `{build} {}`, or install a release package", self.feature)
    }

    /// The error of something that needs it.
    pub(crate) fn message(self, what: &str) -> String {
        format!("{what}: this program was built without {}\nhint: {}", self.name, self.hint())
    }

    /// The failure of something that needs it.
    pub(crate) fn failure(self, what: &str) -> Failure {
        Failure::Usage(self.message(what))
    }
}
