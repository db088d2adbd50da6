/* An LD_PRELOAD library that injects permitted faults: calls interrupted by a signal, and short reads
 * and writes.
 *
 * UNRELIABLE_CALL names the call, UNRELIABLE_NTH the first one that is affected, UNRELIABLE_EVERY the
 * distance to the next affected one (0: only one), and UNRELIABLE_HOW is "eintr", "short" or "gone":
 * a segment that is opened does not exist, as if a prune had removed it. Each
 * fault appends a byte to the file UNRELIABLE_LOG. Only the program named "ledger" is affected, and
 * only for files with ".ledger" in their paths. */
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

static void count_fault(void) {
  const char *path = getenv("UNRELIABLE_LOG");
  int file = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
  if (file >= 0) {
    syscall(SYS_write, file, "x", 1);
    syscall(SYS_close, file);
  }
}

static int is_ours(const char *path) {
  return path && strstr(path, ".ledger") && strcmp(program_invocation_short_name, "ledger") == 0;
}

/* The path of an open file. */
static const char *path_of(int file, char *path, size_t size) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, size - 1);
  if (length < 0) return NULL;
  path[length] = 0;
  return path;
}

/* Whether this call is affected in that way. */
static int is_affected(const char *name, const char *how, const char *path) {
  const char *call = getenv("UNRELIABLE_CALL"), *wanted = getenv("UNRELIABLE_HOW");
  if (!call || !wanted || strcmp(call, name) || strcmp(wanted, how) || !is_ours(path)) return 0;
  const char *nth = getenv("UNRELIABLE_NTH"), *every = getenv("UNRELIABLE_EVERY");
  long first = nth ? atol(nth) : 1, step = every ? atol(every) : 0;
  long now = atomic_fetch_add(&calls, 1) + 1;
  int applies = now == first || (step > 0 && now > first && (now - first) % step == 0);
  if (applies) count_fault();
  return applies;
}

static int is_segment(const char *path) {
  size_t length = path ? strlen(path) : 0;
  return length > 4 && strcmp(path + length - 4, ".seg") == 0;
}

static int is_file_affected(const char *name, const char *how, int file) {
  char path[4096];
  return path_of(file, path, sizeof path) && is_affected(name, how, path);
}

#define REAL(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))
#define INTERRUPTED(name, file)             \
  if (is_file_affected(name, "eintr", file)) {  \
    errno = EINTR;                          \
    return -1;                              \
  }
#define SHORTER(name, file, count) \
  if (count > 1 && is_file_affected(name, "short", file)) count = count / 2;

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

/* The number of the error with which opening a path is to fail; 0 for none. */
static int open_fault(const char *path) {
  if (is_affected("open", "eintr", path)) return EINTR;
  if (is_segment(path) && is_affected("open", "gone", path)) return ENOENT;
  return 0;
}

int open64(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  int fault = open_fault(path);
  if (fault) {
    errno = fault;
    return -1;
  }
  return REAL(int, open64, const char *, int, mode_t)(path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  char whole[8192];
  int is_below = folder != AT_FDCWD && path[0] != '/' && path_of(folder, whole, 4096);
  if (is_below) {
    size_t length = strlen(whole);
    snprintf(whole + length, sizeof whole - length, "/%s", path);
  }
  int fault = open_fault(is_below ? whole : path);
  if (fault) {
    errno = fault;
    return -1;
  }
  return REAL(int, openat64, int, const char *, int, mode_t)(folder, path, flags, mode);
}
