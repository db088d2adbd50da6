//! Numbers of payload encodings. This layer does not decode payloads.

/// The encoding of a payload. The numbers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Codec {
    /// bincode 1.3 with variable-length integers.
    Bincode = 1,
    /// Canonical JSON.
    Json = 2,
    /// Opaque bytes.
    Raw = 3,
}

impl Codec {
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Bincode => 1,
            Self::Json => 2,
            Self::Raw => 3,
        }
    }

    pub(super) fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Bincode),
            2 => Some(Self::Json),
            3 => Some(Self::Raw),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each number means one codec or none; the numbers never change.
    #[test]
    fn codec_numbers_are_unique() {
        let known: Vec<u8> = (0..=255)
            .filter(|number| Codec::from_number(*number).is_some_and(|it| it.number() == *number))
            .collect();
        assert_eq!(known, [1, 2, 3]);
        assert_eq!((0..=255).filter_map(Codec::from_number).count(), known.len());
    }
}
