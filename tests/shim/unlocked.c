/* An LD_PRELOAD library that behaves like a file system without locks: every valid request for a lock
 * succeeds, and none excludes another one. */
#include <errno.h>
#include <sys/file.h>

int flock(int file, int operation) {
  int wanted = operation & (LOCK_SH | LOCK_EX | LOCK_UN);
  if (file >= 0 && wanted != 0) return 0;
  errno = file < 0 ? EBADF : EINVAL;
  return -1;
}
