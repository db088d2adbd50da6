/* A C library that is within its rights and no help: calls that a signal interrupts, and reads and
 * writes that do less than they were asked to. To be put before the real one with LD_PRELOAD.
 *
 * UNRELIABLE_CALL is the call, UNRELIABLE_NTH the first one that is struck, UNRELIABLE_EVERY how many
 * come from one struck call to the next (0: only one is struck), UNRELIABLE_HOW is "eintr" or
 * "short", and each strike adds a byte to the file UNRELIABLE_TOLD. Only the program that is named
 * "ledger" is struck, and only at files that have ".ledger" in their names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long calls;

static void tell(void) {
  const char *told = getenv("UNRELIABLE_TOLD");
  int file = told ? (int)syscall(SYS_openat, AT_FDCWD, told, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
  if (file >= 0) {
    syscall(SYS_write, file, "x", 1);
    syscall(SYS_close, file);
  }
}

static int is_ours(const char *path) {
  return path && strstr(path, ".ledger") && strcmp(program_invocation_short_name, "ledger") == 0;
}

/* Whether this call is one that is struck in that way. */
static int strikes(const char *name, const char *how, const char *path) {
  const char *call = getenv("UNRELIABLE_CALL"), *wanted = getenv("UNRELIABLE_HOW");
  if (!call || !wanted || strcmp(call, name) || strcmp(wanted, how) || !is_ours(path)) return 0;
  const char *nth = getenv("UNRELIABLE_NTH"), *every = getenv("UNRELIABLE_EVERY");
  long first = nth ? atol(nth) : 1, step = every ? atol(every) : 0;
  long now = atomic_fetch_add(&calls, 1) + 1;
  int is_struck = now == first || (step > 0 && now > first && (now - first) % step == 0);
  if (is_struck) tell();
  return is_struck;
}

static int strikes_file(const char *name, const char *how, int file) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return strikes(name, how, path);
}

#define REAL(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))
#define INTERRUPTED(name, file)             \
  if (strikes_file(name, "eintr", file)) {  \
    errno = EINTR;                          \
    return -1;                              \
  }
#define SHORTER(name, file, count) \
  if (count > 1 && strikes_file(name, "short", file)) count = count / 2;

ssize_t write(int file, const void *bytes, size_t count) {
  INTERRUPTED("write", file)
  SHORTER("write", file, count)
  return REAL(ssize_t, write, int, const void *, size_t)(file, bytes, count);
}

ssize_t read(int file, void *bytes, size_t count) {
  INTERRUPTED("read", file)
  SHORTER("read", file, count)
  return REAL(ssize_t, read, int, void *, size_t)(file, bytes, count);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
  INTERRUPTED("pwrite", file)
  SHORTER("pwrite", file, count)
  return REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t)(file, bytes, count, at);
}

ssize_t pread64(int file, void *bytes, size_t count, off64_t at) {
  INTERRUPTED("pread", file)
  SHORTER("pread", file, count)
  return REAL(ssize_t, pread64, int, void *, size_t, off64_t)(file, bytes, count, at);
}

int fsync(int file) {
  INTERRUPTED("fsync", file)
  return REAL(int, fsync, int)(file);
}

int fdatasync(int file) {
  INTERRUPTED("fdatasync", file)
  return REAL(int, fdatasync, int)(file);
}

int ftruncate64(int file, off64_t length) {
  INTERRUPTED("ftruncate", file)
  return REAL(int, ftruncate64, int, off64_t)(file, length);
}

int open64(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  if (strikes("open", "eintr", path)) {
    errno = EINTR;
    return -1;
  }
  return REAL(int, open64, const char *, int, mode_t)(path, flags, mode);
}
