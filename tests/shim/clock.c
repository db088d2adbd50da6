/* An LD_PRELOAD library that sets the wall clock of programs whose names begin with "ledger" ahead while they run,
 * by as many seconds as the file CLOCK_AHEAD says. Clocks that measure elapsed time do not change. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long seconds_ahead(void) {
  const char *path = getenv("CLOCK_AHEAD");
  if (!path || strncmp(program_invocation_short_name, "ledger", 6)) return 0;
  int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[32] = {0};
  long length = syscall(SYS_read, file, text, sizeof text - 1);
  syscall(SYS_close, file);
  return length > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  int result = (int)syscall(SYS_clock_gettime, clock, time);
  int error = errno;
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += seconds_ahead();
  errno = error;
  return result;
}
