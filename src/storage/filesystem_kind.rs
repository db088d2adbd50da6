//! The class of file system that stores a ledger, as far as it affects locks and syncs.

use std::fmt;

/// A class of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilesystemKind {
    /// A local disk, or a file system that looks like one.
    Local,
    /// Memory: a power loss takes everything.
    Memory,
    /// The writable layer of a container, which is removed with the container.
    Overlay,
    /// A network file system: locks and syncs may be unreliable.
    Network,
    /// A file system in user space (FUSE): the meaning of a sync is unknown.
    Program,
}

impl FilesystemKind {
    /// Why a ledger is at risk there; `None` for a local disk.
    #[must_use]
    pub fn warning(self) -> Option<&'static str> {
        match self {
            Self::Local => None,
            Self::Memory => Some("a file system in memory: a power loss destroys the ledger"),
            Self::Overlay => {
                Some("a container layer: the ledger is lost when the container is removed")
            }
            Self::Network => Some(
                "a network file system: locks may not exclude other machines, and synced data may be \
                 lost",
            ),
            Self::Program => Some("a FUSE file system: synced data may be lost"),
        }
    }

    /// The class of a magic number of `linux/magic.h`.
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

impl fmt::Display for FilesystemKind {
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

    /// Goal: file systems that may lose data are recognised.
    #[test]
    fn filesystems_are_recognised_by_magic_number() {
        assert_eq!(FilesystemKind::of_magic(0xEF53), FilesystemKind::Local);
        assert_eq!(FilesystemKind::of_magic(0x0102_1994), FilesystemKind::Memory);
        assert_eq!(FilesystemKind::of_magic(0xFF53_4D42), FilesystemKind::Network);
        assert!(FilesystemKind::Local.warning().is_none());
        assert!(FilesystemKind::Overlay.warning().is_some());
    }
}
