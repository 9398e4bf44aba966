/* proxy FROM TO DELAY_FILE: forwards connections to port FROM of this machine to port TO. Bytes towards TO wait for the
 * microseconds that the file holds (4 bytes). */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static volatile unsigned *delay_us;
static int to_port;

struct direction {
  int in, out, slow;
};

static struct sockaddr_in address_of(int port) {
  struct sockaddr_in found = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  return found;
}

static int written(int out, const char *bytes, ssize_t number) {
  for (ssize_t done = 0; done < number;) {
    ssize_t more = write(out, bytes + done, (size_t)(number - done));
    if (more <= 0) return 0;
    done += more;
  }
  return 1;
}

static void *forward(void *given) {
  struct direction *way = given;
  char bytes[65536];
  ssize_t number;
  while ((number = read(way->in, bytes, sizeof bytes)) > 0) {
    if (way->slow && *delay_us) usleep(*delay_us);
    if (!written(way->out, bytes, number)) break;
  }
  shutdown(way->out, SHUT_WR);
  shutdown(way->in, SHUT_RD);
  return NULL;
}

static void *serve(void *given) {
  int client = (int)(intptr_t)given, server = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  struct sockaddr_in to = address_of(to_port);
  if (connect(server, (struct sockaddr *)&to, sizeof to) == 0) {
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct direction there = {client, server, 1}, back = {server, client, 0};
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, forward, &there);
    pthread_create(&threads[1], NULL, forward, &back);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
  }
  close(client);
  close(server);
  return NULL;
}

int main(int count, char **words) {
  if (count != 4) return 2;
  signal(SIGPIPE, SIG_IGN);
  to_port = atoi(words[2]);
  int file = open(words[3], O_RDONLY), listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  delay_us = mmap(NULL, 4, PROT_READ, MAP_SHARED, file, 0);
  if (delay_us == MAP_FAILED) return 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in from = address_of(atoi(words[1]));
  if (bind(listener, (struct sockaddr *)&from, sizeof from) || listen(listener, 128)) return 1;
  for (;;) {
    int client = accept(listener, NULL, NULL);
    if (client < 0) continue;
    pthread_t thread;
    pthread_create(&thread, NULL, serve, (void *)(intptr_t)client);
    pthread_detach(thread);
  }
}
