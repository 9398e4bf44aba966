/* Preloaded into a PostgreSQL server: delays its fsync() and fdatasync() by the microseconds that a file holds, and sends
 * its connections to one port of this machine to another (a proxy). DELAY_FILE: 4 bytes; REDIRECT: FROM:TO. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static volatile unsigned *delay_us;
static int from_port, to_port;

__attribute__((constructor)) static void begin(void) {
  const char *file = getenv("DELAY_FILE"), *redirect = getenv("REDIRECT");
  if (file) {
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
      void *seen = mmap(NULL, 4, PROT_READ, MAP_SHARED, fd, 0);
      if (seen != MAP_FAILED) delay_us = seen;
      close(fd);
    }
  }
  if (redirect) {
    from_port = atoi(redirect);
    to_port = atoi(strchr(redirect, ':') + 1);
  }
}

static void wait_for_disk(void) {
  if (delay_us && *delay_us) usleep(*delay_us);
}

int fsync(int fd) {
  static int (*real)(int);
  if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  wait_for_disk();
  return real(fd);
}

int fdatasync(int fd) {
  static int (*real)(int);
  if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  wait_for_disk();
  return real(fd);
}

int connect(int fd, const struct sockaddr *address, socklen_t length) {
  static int (*real)(int, const struct sockaddr *, socklen_t);
  if (!real) real = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
  if (from_port && address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
    struct sockaddr_in other;
    memcpy(&other, address, sizeof other);
    if (ntohs(other.sin_port) == from_port) {
      other.sin_port = htons((unsigned short)to_port);
      return real(fd, (const struct sockaddr *)&other, sizeof other);
    }
  }
  return real(fd, address, length);
}
