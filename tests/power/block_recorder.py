"""A disk that records what a file system does to it.

A FUSE file system with one file, `disk`. A loop device over it is the disk of a real file system. Every write
and every flush is appended to a recording, in the order in which the disk executed them: a flush covers the
writes before it, and a power cut may lose any part of those after it.

Usage: block_recorder.py FOLDER IMAGE RECORDING
"""

import errno
import os
import stat
import struct
import sys
import threading

import mfusepy

# Kind, offset, length; then the bytes of a write.
ENTRY = struct.Struct("<QQQ")
WRITE, FLUSH = 1, 2


class Disk(mfusepy.Operations):
    use_ns = True

    def __init__(self, image, recording):
        self.image = os.open(image, os.O_RDWR)
        self.size = os.fstat(self.image).st_size
        self.recording = open(recording, "wb", buffering=0)
        self.order = threading.Lock()

    def record(self, kind, offset, data):
        self.recording.write(ENTRY.pack(kind, offset, len(data)) + data)

    def getattr(self, path, fh=None):
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
        if path == "/disk":
            return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_size": self.size}
        raise mfusepy.FuseOSError(errno.ENOENT)

    def readdir(self, path, fh):
        return [".", "..", "disk"]

    def open(self, path, flags):
        return 0

    def read(self, path, size, offset, fh):
        return os.pread(self.image, size, offset)

    def write(self, path, data, offset, fh):
        with self.order:
            os.pwrite(self.image, data, offset)
            self.record(WRITE, offset, bytes(data))
        return len(data)

    def fsync(self, path, datasync, fh):
        with self.order:
            self.record(FLUSH, 0, b"")
        return 0

    def flush(self, path, fh):
        return 0

    def fallocate(self, path, mode, offset, length, fh):
        # The kernel writes zeros instead, so that the recording has them.
        raise mfusepy.FuseOSError(errno.EOPNOTSUPP)


if __name__ == "__main__":
    folder, image, recording = sys.argv[1:]
    mfusepy.FUSE(Disk(image, recording), folder, foreground=True, direct_io=False)
