//! What kind of file system a ledger stands on, as far as it matters for what a sync promises.

use std::fmt;

/// A kind of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Medium {
    /// A disk of this machine, or something that cannot be told from one.
    Local,
    /// Memory: a power loss takes everything.
    Memory,
    /// The writable layer of a container: it goes when the container does.
    Overlay,
    /// A file system of another machine: locks and syncs may not mean what they say.
    Network,
    /// A file system in a program (FUSE): nobody knows what its syncs mean.
    Program,
}

impl Medium {
    /// Why a ledger had better not stand there; `None` for a local disk.
    #[must_use]
    pub fn warning(self) -> Option<&'static str> {
        match self {
            Self::Local => None,
            Self::Memory => Some("a file system in memory: a power loss takes the whole ledger"),
            Self::Overlay => {
                Some("the layer of a container: the ledger goes when the container is removed")
            }
            Self::Network => Some(
                "a network file system: locks may not keep other machines out, and what was \
                 synced may still be lost",
            ),
            Self::Program => {
                Some("a file system that is a program (FUSE): what was synced may still be lost")
            }
        }
    }

    /// The medium with that magic number, as Linux gives them in `linux/magic.h`.
    #[must_use]
    pub(super) fn of_magic(magic: u32) -> Self {
        match magic {
            0x0102_1994 | 0x8584_58F6 => Self::Memory,
            0x794C_7630 => Self::Overlay,
            // NFS, SMB, SMB2, CIFS, 9P, Ceph, AFS, Coda, OCFS2, GFS2, Lustre
            0x6969 | 0x517B | 0xFE53_4D42 | 0xFF53_4D42 | 0x0102_1997 | 0x00C3_6400
            | 0x5346_414F | 0x7375_7245 | 0x7461_636F | 0x0116_1970 | 0x0BD0_0BD0 => Self::Network,
            0x6573_5546 => Self::Program,
            _ => Self::Local,
        }
    }
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Memory => "memory",
            Self::Overlay => "overlay",
            Self::Network => "network",
            Self::Program => "fuse",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the kinds that lose data are told from a disk.
    #[test]
    fn media_are_known_by_their_magic_numbers() {
        assert_eq!(Medium::of_magic(0xEF53), Medium::Local);
        assert_eq!(Medium::of_magic(0x0102_1994), Medium::Memory);
        assert_eq!(Medium::of_magic(0xFF53_4D42), Medium::Network);
        assert!(Medium::Local.warning().is_none());
        assert!(Medium::Overlay.warning().is_some());
    }
}
