/* One end of a measurement with SRT, AES-128: PROGRAM send|receive ADDRESS PORT bulk|reliable SIZE SECONDS
   File mode, which loses nothing: large messages as a stream of bytes, small ones by the message API, in order. */
#include <arpa/inet.h>
#include <srt/srt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double clock_of(clockid_t which) {
    struct timespec time;
    clock_gettime(which, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static double wall(void) { return clock_of(CLOCK_MONOTONIC); }
static double cpu(void) { return clock_of(CLOCK_PROCESS_CPUTIME_ID); }

static int die(const char *what) {
    fprintf(stderr, "srt: %s: %s\n", what, srt_getlasterror_str());
    return 1;
}

static int set(SRTSOCKET socket, SRT_SOCKOPT option, int value) {
    return srt_setsockflag(socket, option, &value, sizeof value);
}

static SRTSOCKET make(int messages) {
    static const char secret[] = "a secret of the bench";
    SRTSOCKET socket = srt_create_socket();
    bool api = messages;
    int bad = set(socket, SRTO_TRANSTYPE, SRTT_FILE) || srt_setsockflag(socket, SRTO_MESSAGEAPI, &api, sizeof api) ||
              set(socket, SRTO_FC, 64000) || set(socket, SRTO_SNDBUF, 64 << 20) || set(socket, SRTO_RCVBUF, 64 << 20) ||
              set(socket, SRTO_UDP_SNDBUF, 4 << 20) || set(socket, SRTO_UDP_RCVBUF, 4 << 20) ||
              set(socket, SRTO_PBKEYLEN, 16) || srt_setsockflag(socket, SRTO_PASSPHRASE, secret, sizeof secret - 1);
    return bad ? SRT_INVALID_SOCK : socket;
}

static char buffer[1 << 20];

static int receive(struct sockaddr_in *address, int messages, size_t size) {
    SRTSOCKET listener = make(messages);
    if (listener == SRT_INVALID_SOCK || srt_bind(listener, (struct sockaddr *)address, sizeof *address) ||
        srt_listen(listener, 1))
        return die("cannot listen");
    puts("ready");
    fflush(stdout);
    SRTSOCKET socket = srt_accept(listener, NULL, NULL);
    if (socket == SRT_INVALID_SOCK) return die("nobody connects");
    double first = 0, first_cpu = 0, last = 0, last_cpu = 0, bytes = 0, first_bytes = 0;
    unsigned count = 0;
    for (;;) {
        int got = messages ? srt_recvmsg(socket, buffer, (int)sizeof buffer) : srt_recv(socket, buffer, (int)sizeof buffer);
        if (got <= 0) break;
        bytes += got;
        if (messages && count++ % 64) continue;
        last = wall(), last_cpu = cpu();
        if (first_bytes == 0 && bytes >= size) first = last, first_cpu = last_cpu, first_bytes = bytes;
    }
    printf("{\"bytes\": %.0f, \"total\": %.0f, \"seconds\": %f, \"cpu\": %f}\n",
           first_bytes > 0 ? bytes - first_bytes : 0, bytes, first_bytes > 0 ? last - first : 0, last_cpu - first_cpu);
    return 0;
}

static int send_all(struct sockaddr_in *address, int messages, size_t size, double seconds) {
    SRTSOCKET socket = make(messages);
    if (socket == SRT_INVALID_SOCK || srt_connect(socket, (struct sockaddr *)address, sizeof *address))
        return die("no connection");
    double begin = wall(), begin_cpu = cpu(), bytes = 0;
    size_t piece = messages ? size : sizeof buffer;
    while (wall() - begin < seconds) {
        for (int i = 0; i < (messages ? 64 : 1); i++) {
            int sent = messages ? srt_sendmsg(socket, buffer, (int)piece, -1, 1) : srt_send(socket, buffer, (int)piece);
            if (sent <= 0) return die("cannot send");
            bytes += sent;
        }
    }
    size_t blocks = 1;
    for (double end = wall() + 20; blocks > 0 && wall() < end; usleep(1000)) srt_getsndbuffer(socket, &blocks, NULL);
    double used = cpu() - begin_cpu;
    srt_close(socket);
    printf("{\"bytes\": %.0f, \"cpu\": %f}\n", bytes, used);
    return 0;
}

int main(int count, char **words) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (count != 7 || srt_startup() < 0 || inet_pton(AF_INET, words[2], &address.sin_addr) != 1) return die("usage");
    srt_setloglevel(0);
    address.sin_port = htons((unsigned short)atoi(words[3]));
    int messages = strcmp(words[4], "bulk") != 0;
    size_t size = strtoul(words[5], NULL, 10);
    return !strcmp(words[1], "receive") ? receive(&address, messages, size)
                                        : send_all(&address, messages, size, atof(words[6]));
}
