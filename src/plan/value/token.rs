//! Tokens: the worker's proof that it holds an attempt.
//!
//! A token has the number of the record that dispatched the attempt, and a secret. The client
//! chooses the secret and sends it with its claim; the record keeps only its hash, so a token
//! cannot be made from the log. As text it is `412-` and 32 hexadecimal digits.
//!
//! Invariant: no `Debug` output shows a secret.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ids::AttemptToken;

/// The number of bytes of a secret, and of its hash.
const LENGTH: usize = 16;

/// The secret of a token: 16 random bytes, chosen by the client that claims.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Secret(pub [u8; LENGTH]);

/// The hash of a secret, which the record of the dispatch keeps (`format/events.md`).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretHash(pub [u8; LENGTH]);

/// A token: the number of the record that dispatched the attempt, and the secret of the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    /// The attempt.
    pub seq: AttemptToken,
    /// The secret of the claim.
    pub secret: Secret,
}

/// Why a command about an attempt is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The sender knows the secret with this hash: it is the worker.
    Secret(SecretHash),
    /// The process with the writer lock acts for an attempt of a worker that it hosted or that has
    /// ended.
    LockHolder,
}

impl From<Token> for AttemptToken {
    fn from(token: Token) -> Self {
        token.seq
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-", self.seq)?;
        write_hex(&self.secret.0, f)
    }
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (seq, secret) = text.split_once('-')?;
            let is_number = seq.bytes().all(|byte| byte.is_ascii_digit());
            let seq = AttemptToken(seq.parse().ok().filter(|_| is_number)?);
            Some(Self { seq, secret: Secret(parse_hex(secret)?) })
        };
        parse().ok_or_else(|| {
            "expected a token as a claim prints it: a number, a hyphen, and 32 hexadecimal \
             digits"
                .to_owned()
        })
    }
}

impl FromStr for Secret {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_hex(text).map(Self).ok_or_else(|| {
            "expected a secret: 32 hexadecimal digits, from 16 random bytes".to_owned()
        })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl fmt::Display for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretHash({self})")
    }
}

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&SecretHash(self.0))
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for SecretHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for SecretHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return <[u8; LENGTH]>::deserialize(deserializer).map(Self);
        }
        let text = String::deserialize(deserializer)?;
        parse_hex(&text).map(Self).ok_or_else(|| D::Error::custom("expected 32 hexadecimal digits"))
    }
}

#[cfg(feature = "schema")]
macro_rules! text_schema {
    ($type:ident, $pattern:literal) => {
        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    };
}

#[cfg(feature = "schema")]
text_schema!(Token, "^[0-9]+-[0-9a-fA-F]{32}$");
#[cfg(feature = "schema")]
text_schema!(Secret, "^[0-9a-fA-F]{32}$");
#[cfg(feature = "schema")]
text_schema!(SecretHash, "^[0-9a-f]{32}$");

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

fn parse_hex(text: &str) -> Option<[u8; LENGTH]> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = [0; LENGTH];
    if pairs.len() != bytes.len() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    //! Goal: a token can be read back from its text, and no other text is a token.

    use super::*;

    #[test]
    fn token_round_trips_as_text_and_hides_its_secret() {
        let token = Token { seq: AttemptToken(412), secret: Secret([0x9f; LENGTH]) };
        let text = format!("412-{}", "9f".repeat(LENGTH));
        assert_eq!((token.to_string(), text.parse()), (text.clone(), Ok(token)));
        assert_eq!(serde_json::to_string(&token).unwrap(), format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<Token>(&format!("\"{text}\"")).unwrap(), token);
        assert!(!format!("{token:?}").contains("9f9f"), "{token:?}");
    }

    #[test]
    fn text_that_is_no_token_is_rejected() {
        let digits = "9f".repeat(LENGTH);
        let texts =
            ["412", "412-", "-", &digits, &format!("+1-{digits}"), &format!("1-{digits}0"), "1-zz"];
        for text in texts {
            assert!(text.parse::<Token>().unwrap_err().contains("as a claim prints it"), "{text}");
        }
        assert!("9f".parse::<Secret>().is_err());
    }
}
