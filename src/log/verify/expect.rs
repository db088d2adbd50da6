//! A chain value that was kept elsewhere, and whether the log still holds it.

use std::fmt;
use std::str::FromStr;

use crate::format::Chain;
use crate::log::batch::Ack;

/// A chain value that must be in the log, perhaps of a certain record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The record; any if it is not said.
    pub seq: Option<u64>,
    /// The chain value.
    pub chain: Chain,
}

/// What became of an expected chain value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// This record has it.
    Met {
        /// The record.
        seq: u64,
    },
    /// The record has another one: it, or one before it, was exchanged.
    Differs {
        /// The record.
        seq: u64,
        /// What it has.
        found: Chain,
    },
    /// No record has it, or the record is not there.
    Missing {
        /// The last durable record that is.
        last: u64,
    },
    /// The record is not in the log any more, and so cannot be compared.
    Pruned {
        /// The first record that is.
        first: u64,
    },
}

impl Expectation {
    /// Whether it was met.
    #[must_use]
    pub fn is_met(self) -> bool {
        matches!(self, Self::Met { .. })
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seq {
            Some(seq) => write!(f, "{seq}:{}", self.chain),
            None => write!(f, "{}", self.chain),
        }
    }
}

impl FromStr for Expected {
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
        if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut chain = [0; 32];
        for (place, byte) in chain.iter_mut().enumerate() {
            let digits = hash.get(2 * place..2 * place + 2).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self { seq, chain: Chain(chain) })
    }
}

impl Expected {
    /// What a record says about it, if it is the one that counts.
    pub(super) fn look(&self, seq: u64, chain: Chain) -> Option<(u64, Chain)> {
        let counts = match self.seq {
            Some(wanted) => seq == wanted,
            None => chain == self.chain,
        };
        counts.then_some((seq, chain))
    }

    /// `origin` is what stands before the first record of the log.
    pub(super) fn judge(&self, seen: Seen, origin: Ack, last: Option<Ack>) -> Expectation {
        // Before the first record there is a chain value too: what an empty ledger's root says.
        let is_before = self.seq.is_some_and(|seq| seq < origin.seq);
        let is_there = self.seq.is_some_and(|seq| seq == origin.seq);
        let is_origin = self.chain == origin.chain && (is_there || self.seq.is_none());
        match seen.0 {
            Some((seq, found)) if found == self.chain => Expectation::Met { seq },
            Some((seq, found)) => Expectation::Differs { seq, found },
            None if is_origin => Expectation::Met { seq: origin.seq },
            None if is_before => Expectation::Pruned { first: origin.seq.saturating_add(1) },
            None if is_there && origin.seq > 0 => {
                Expectation::Differs { seq: origin.seq, found: origin.chain }
            }
            None => Expectation::Missing { last: last.map_or(0, |last| last.seq) },
        }
    }
}

/// The record that counts for an expectation.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen(pub(super) Option<(u64, Chain)>);

impl Seen {
    pub(super) fn add(&mut self, other: Self) {
        self.0 = self.0.or(other.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what `ledger root` prints is what `--expect-head` reads, and nothing else is.
    #[test]
    fn an_expectation_is_read_as_it_is_written() {
        let chain = Chain([0xAB; 32]);
        for seq in [None, Some(0), Some(u64::MAX)] {
            let expected = Expected { seq, chain };
            assert_eq!(expected.to_string().parse(), Ok(expected));
        }
        let hash = chain.to_string();
        let upper = hash.to_uppercase();
        assert_eq!(upper.parse(), Ok(Expected { seq: None, chain }));
        for wrong in ["", ":", "7:", &hash[1..], &format!("x:{hash}"), &format!("-1:{hash}")] {
            assert!(wrong.parse::<Expected>().is_err(), "{wrong}");
        }
        let not_ascii = "\u{e9}".repeat(32);
        assert!(not_ascii.parse::<Expected>().is_err());
    }
}
