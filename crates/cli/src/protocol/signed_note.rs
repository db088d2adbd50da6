//! Signed notes, in the form that C2SP publishes as `signed-note`: a text, a blank line, and a signature
//! that any tool for such notes can check.
//!
//! Keys are texts, too. A private key is `PRIVATE+KEY+NAME+ID+DATA` and a public key is `NAME+ID+DATA`,
//! where DATA is the base64 form of the algorithm (1: Ed25519) and the key, and ID is the first four
//! bytes of the SHA-256 hash of name, line end and DATA in hexadecimal digits.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest as _, Sha256};

use plan_ledger_views::hex;

/// The number of the algorithm Ed25519.
const ED25519: u8 = 1;

/// The start of a private key.
const PRIVATE: &str = "PRIVATE+KEY+";

/// The start of a signature line.
const SIGNATURE_LINE: &str = "\u{2014} ";

/// Why a key or a note cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoteError {
    /// The text is not a key of this form.
    Key,
    /// The name has a space or a plus, or is empty.
    Name,
    /// The text is not a signed note.
    Form,
    /// The note has no signature by the key.
    Unsigned,
    /// The signature by the key is wrong: the text was changed.
    Wrong,
}

impl std::fmt::Display for NoteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Key => "this is not a key of a signed note (NAME+ID+DATA)",
            Self::Name => "the name of a key has no spaces and no plus",
            Self::Form => "this is not a signed note",
            Self::Unsigned => "it has no signature by this key",
            Self::Wrong => {
                "the signature does not fit: the text was changed, or signed by another key"
            }
        })
    }
}

/// A private key, which signs notes in its name.
#[derive(Debug)]
pub(crate) struct NoteSigner {
    name: String,
    key: SigningKey,
}

/// A public key, which checks notes.
#[derive(Debug)]
pub(crate) struct NoteVerifier {
    name: String,
    key: VerifyingKey,
}

impl NoteSigner {
    /// A key from random bytes.
    ///
    /// # Errors
    /// `Name`.
    pub(crate) fn new(name: &str, seed: [u8; 32]) -> Result<Self, NoteError> {
        if !is_name(name) {
            return Err(NoteError::Name);
        }
        Ok(Self { name: name.to_owned(), key: SigningKey::from_bytes(&seed) })
    }

    /// Reads a private key.
    ///
    /// # Errors
    /// `Key`.
    pub(crate) fn parse(text: &str) -> Result<Self, NoteError> {
        let rest = text.trim().strip_prefix(PRIVATE).ok_or(NoteError::Key)?;
        let (name, id, seed) = split_key(rest)?;
        let signer = Self { name, key: SigningKey::from_bytes(&seed) };
        if signer.verifier().id_text() == id { Ok(signer) } else { Err(NoteError::Key) }
    }

    /// The private key as text.
    pub(crate) fn private_text(&self) -> String {
        let public = self.verifier();
        let data = [&[ED25519], self.key.as_bytes().as_slice()].concat();
        format!("{PRIVATE}{}+{}+{}", self.name, public.id_text(), STANDARD.encode(data))
    }

    /// Its public key.
    pub(crate) fn verifier(&self) -> NoteVerifier {
        NoteVerifier { name: self.name.clone(), key: self.key.verifying_key() }
    }

    /// A text that ends with a line end, and its signature.
    pub(crate) fn sign(&self, text: &str) -> String {
        let signature = self.key.sign(text.as_bytes()).to_bytes();
        let data = [self.verifier().id().as_slice(), signature.as_slice()].concat();
        format!("{text}\n{SIGNATURE_LINE}{} {}\n", self.name, STANDARD.encode(data))
    }
}

impl NoteVerifier {
    /// Reads a public key.
    ///
    /// # Errors
    /// `Key`.
    pub(crate) fn parse(text: &str) -> Result<Self, NoteError> {
        let (name, id, bytes) = split_key(text.trim())?;
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| NoteError::Key)?;
        let verifier = Self { name, key };
        if verifier.id_text() == id { Ok(verifier) } else { Err(NoteError::Key) }
    }

    /// The name of the key.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn data(&self) -> Vec<u8> {
        [&[ED25519], self.key.as_bytes().as_slice()].concat()
    }

    fn id(&self) -> [u8; 4] {
        let named = [self.name.as_bytes(), b"\n", &self.data()].concat();
        let hash: [u8; 32] = Sha256::digest(named).into();
        [hash[0], hash[1], hash[2], hash[3]]
    }

    fn id_text(&self) -> String {
        hex(&self.id())
    }

    /// The text of a note that this key signed.
    ///
    /// # Errors
    /// `Form`, `Unsigned`, `Wrong`.
    pub(crate) fn open<'a>(&self, note: &'a str) -> Result<&'a str, NoteError> {
        let end = note.rfind("\n\n").ok_or(NoteError::Form)?;
        let (text, lines) = note.split_at(end + 1);
        let mut found = NoteError::Unsigned;
        for line in lines.trim_start_matches('\n').lines() {
            let line = line.strip_prefix(SIGNATURE_LINE).ok_or(NoteError::Form)?;
            let (name, data) = line.split_once(' ').ok_or(NoteError::Form)?;
            let data = STANDARD.decode(data).map_err(|_| NoteError::Form)?;
            let (id, signature) = data.split_first_chunk::<4>().ok_or(NoteError::Form)?;
            if name != self.name || *id != self.id() {
                continue;
            }
            found = NoteError::Wrong;
            let signature = Signature::from_slice(signature).map_err(|_| NoteError::Wrong)?;
            if self.key.verify_strict(text.as_bytes(), &signature).is_ok() {
                return Ok(text);
            }
        }
        Err(found)
    }
}

impl std::fmt::Display for NoteVerifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}+{}+{}", self.name, self.id_text(), STANDARD.encode(self.data()))
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.chars().any(|c| c.is_whitespace() || c.is_control() || c == '+')
}

/// The name, the id and the 32 bytes of a key.
fn split_key(text: &str) -> Result<(String, String, [u8; 32]), NoteError> {
    let mut parts = text.splitn(3, '+');
    let (Some(name), Some(id), Some(data)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(NoteError::Key);
    };
    let data = STANDARD.decode(data).map_err(|_| NoteError::Key)?;
    match data.split_first() {
        Some((&ED25519, bytes)) if is_name(name) => {
            let bytes = bytes.try_into().map_err(|_| NoteError::Key)?;
            Ok((name.to_owned(), id.to_owned(), bytes))
        }
        _ => Err(NoteError::Key),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: notes and keys are those of another implementation of the form, in both directions.

    use signed_note::{Note, StandardVerifier, VerifierList};

    use super::*;

    const TEXT: &str = "plan-ledger root\nseq 7\n";

    fn signer() -> NoteSigner {
        NoteSigner::new("example.org/night", [7; 32]).unwrap()
    }

    #[test]
    fn another_implementation_accepts_key_and_note() {
        let verifier = StandardVerifier::new(&signer().verifier().to_string()).unwrap();
        let note = Note::from_bytes(signer().sign(TEXT).as_bytes()).unwrap();
        let (verified, others) = note.verify(&VerifierList::new(vec![Box::new(verifier)])).unwrap();
        assert_eq!((verified.len(), others.len(), note.text()), (1, 0, TEXT.as_bytes()));
    }

    #[test]
    fn changed_note_is_rejected() {
        let (signer, other) = (signer(), NoteSigner::new("other", [8; 32]).unwrap());
        let note = signer.sign(TEXT);
        assert_eq!(signer.verifier().open(&note), Ok(TEXT));
        assert_eq!(other.verifier().open(&note), Err(NoteError::Unsigned));
        let same_name = NoteSigner::new("example.org/night", [9; 32]).unwrap();
        assert_eq!(same_name.verifier().open(&note), Err(NoteError::Unsigned));
        for place in 0..note.len() {
            let mut bytes = note.clone().into_bytes();
            bytes[place] ^= 1;
            if let Ok(changed) = String::from_utf8(bytes) {
                assert!(signer.verifier().open(&changed).is_err(), "byte {place}");
            }
        }
        assert_eq!(signer.verifier().open("no note"), Err(NoteError::Form));
    }

    #[test]
    fn keys_survive_their_text() {
        let signer = signer();
        let again = NoteSigner::parse(&format!("{}\n", signer.private_text())).unwrap();
        assert_eq!(again.sign(TEXT), signer.sign(TEXT));
        let public = signer.verifier().to_string();
        assert_eq!(NoteVerifier::parse(&public).unwrap().to_string(), public);
        for wrong in ["", "a+b", "a b+00000000+AQ==", &public.replace("night", "day")] {
            assert_eq!(NoteVerifier::parse(wrong).unwrap_err(), NoteError::Key, "{wrong}");
        }
        assert_eq!(NoteSigner::new("a+b", [1; 32]).unwrap_err(), NoteError::Name);
    }
}
