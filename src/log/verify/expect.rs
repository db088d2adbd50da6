//! A chain value that was kept elsewhere, and whether the log still contains it.

use std::fmt;
use std::str::FromStr;

use crate::format::Chain;
use crate::log::bytes::parse_hash;
use crate::log::record::Ack;

/// A chain value that must be in the log, optionally at a certain record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpectedChain {
    /// The record; any record if `None`.
    pub seq: Option<u64>,
    /// The chain value.
    pub chain: Chain,
}

/// Whether the expected chain value was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectationResult {
    /// A record has it.
    Met {
        /// The record.
        seq: u64,
    },
    /// The record has another one: it, or an earlier record, was replaced.
    Differs {
        /// The record.
        seq: u64,
        /// Its chain value.
        found: Chain,
    },
    /// No record has it, or the record does not exist.
    Missing {
        /// The last durable record.
        last: u64,
    },
    /// The record was pruned, so it cannot be compared.
    Pruned {
        /// The first record in the log.
        first: u64,
    },
}

impl ExpectationResult {
    /// Whether it was met.
    #[must_use]
    pub fn is_met(self) -> bool {
        matches!(self, Self::Met { .. })
    }
}

impl fmt::Display for ExpectedChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seq {
            Some(seq) => write!(f, "{seq}:{}", self.chain),
            None => write!(f, "{}", self.chain),
        }
    }
}

impl FromStr for ExpectedChain {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "expected a chain value of 64 hexadecimal digits, or SEQ:HASH as `ledger root` \
             prints it"
                .to_owned()
        };
        let (seq, hash) = match text.split_once(':') {
            Some((seq, hash)) => (Some(seq.parse().map_err(|_| wrong())?), hash),
            None => (None, text),
        };
        let chain = parse_hash(&hash.to_ascii_lowercase()).map(Chain).ok_or_else(wrong)?;
        Ok(Self { seq, chain })
    }
}

impl ExpectedChain {
    /// A record and its chain value, if it is the one to compare.
    pub(crate) fn candidate(&self, seq: u64, chain: Chain) -> Option<(u64, Chain)> {
        let counts = match self.seq {
            Some(wanted) => seq == wanted,
            None => chain == self.chain,
        };
        counts.then_some((seq, chain))
    }

    /// The result. `origin` is the record before the first one of the log.
    pub(crate) fn compare(
        &self,
        found: FoundRecord,
        origin: Ack,
        last: Option<Ack>,
    ) -> ExpectationResult {
        // An empty ledger has a chain value too: that of its genesis.
        let is_before = self.seq.is_some_and(|seq| seq < origin.seq);
        let is_there = self.seq.is_some_and(|seq| seq == origin.seq);
        let is_origin = self.chain == origin.chain && (is_there || self.seq.is_none());
        match found.0 {
            Some((seq, actual)) if actual == self.chain => ExpectationResult::Met { seq },
            Some((seq, actual)) => ExpectationResult::Differs { seq, found: actual },
            None if is_origin => ExpectationResult::Met { seq: origin.seq },
            None if is_before => ExpectationResult::Pruned { first: origin.seq.saturating_add(1) },
            None if is_there && origin.seq > 0 => {
                ExpectationResult::Differs { seq: origin.seq, found: origin.chain }
            }
            None => ExpectationResult::Missing { last: last.map_or(0, |last| last.seq) },
        }
    }
}

/// The record to compare, if it was read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FoundRecord(pub(crate) Option<(u64, Chain)>);

impl FoundRecord {
    pub(crate) fn add(&mut self, other: Self) {
        self.0 = self.0.or(other.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the format that `ledger root` prints is accepted.
    #[test]
    fn expected_chain_round_trips_as_text() {
        let chain = Chain([0xAB; 32]);
        for seq in [None, Some(0), Some(u64::MAX)] {
            let expected = ExpectedChain { seq, chain };
            assert_eq!(expected.to_string().parse(), Ok(expected));
        }
        let hash = chain.to_string();
        let upper = hash.to_uppercase();
        assert_eq!(upper.parse(), Ok(ExpectedChain { seq: None, chain }));
        for wrong in ["", ":", "7:", &hash[1..], &format!("x:{hash}"), &format!("-1:{hash}")] {
            assert!(wrong.parse::<ExpectedChain>().is_err(), "{wrong}");
        }
        let not_ascii = "\u{e9}".repeat(32);
        assert!(not_ascii.parse::<ExpectedChain>().is_err());
    }
}
