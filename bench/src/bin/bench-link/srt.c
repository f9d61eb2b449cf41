/* One end of a measurement with SRT, AES-128.
   PROGRAM send|receive ADDRESS PORT bulk|reliable SIZE SECONDS
     File mode, which loses nothing: large messages as a stream of bytes, small ones by the message API, in order.
   PROGRAM live-send|live-receive ADDRESS PORT LATENCY_MS
     Live mode as it comes: packets wait until LATENCY is over, what is later is dropped. Packets go from standard input
     to the other end's standard output, each behind two bytes of length, most significant first; where the sender has
     connected, it says so by a length of zero. */
#include <arpa/inet.h>
#include <srt/srt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

/* The kernel's receive buffer beyond the system's limit, where that is allowed, as the others have it: libsrt does not ask
   so, and does not tell its socket. */
static void grant(void) {
    for (int descriptor = 3; descriptor < 256; descriptor++) {
        int type = 0, bytes = 8 << 20;
        socklen_t size = sizeof type;
        if (getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM)
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    }
}

static const char secret[] = "a secret of the bench";

static SRTSOCKET make(int messages) {
    SRTSOCKET socket = srt_create_socket();
    bool api = messages;
    int bad = set(socket, SRTO_TRANSTYPE, SRTT_FILE) || srt_setsockflag(socket, SRTO_MESSAGEAPI, &api, sizeof api) ||
              set(socket, SRTO_FC, 64000) || set(socket, SRTO_SNDBUF, 68 << 20) || set(socket, SRTO_RCVBUF, 64 << 20) ||
              set(socket, SRTO_UDP_SNDBUF, 8 << 20) || set(socket, SRTO_UDP_RCVBUF, 4 << 20) ||
              set(socket, SRTO_PBKEYLEN, 16) || srt_setsockflag(socket, SRTO_PASSPHRASE, secret, sizeof secret - 1);
    return bad ? SRT_INVALID_SOCK : socket;
}

static char buffer[1 << 20];

static int receive(struct sockaddr_in *address, int messages, size_t size) {
    SRTSOCKET listener = make(messages);
    if (listener == SRT_INVALID_SOCK || srt_bind(listener, (struct sockaddr *)address, sizeof *address) ||
        srt_listen(listener, 1))
        return die("cannot listen");
    grant();
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
    grant();
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

/* Live mode's defaults but for the latency and the key. */
static SRTSOCKET make_live(int latency) {
    SRTSOCKET socket = srt_create_socket();
    int bad = set(socket, SRTO_TRANSTYPE, SRTT_LIVE) || set(socket, SRTO_LATENCY, latency) ||
              set(socket, SRTO_UDP_SNDBUF, 8 << 20) || set(socket, SRTO_UDP_RCVBUF, 4 << 20) ||
              set(socket, SRTO_PBKEYLEN, 16) || srt_setsockflag(socket, SRTO_PASSPHRASE, secret, sizeof secret - 1);
    return bad ? SRT_INVALID_SOCK : socket;
}

/* The default of SRTO_PAYLOADSIZE: seven packets of MPEG-TS. */
enum { LIVE_SIZE = 1316 };

static int live_send(struct sockaddr_in *address, int latency) {
    SRTSOCKET socket = SRT_INVALID_SOCK;
    for (double patience = wall() + 15;;) {
        socket = make_live(latency);
        if (socket == SRT_INVALID_SOCK) return die("no socket");
        if (!srt_connect(socket, (struct sockaddr *)address, sizeof *address)) break;
        srt_close(socket);
        /* The other end may not listen yet. */
        if (wall() > patience) return die("no connection");
        usleep(50000);
    }
    grant();
    if (fwrite("\0\0", 1, 2, stdout) != 2 || fflush(stdout)) return die("nobody reads");
    unsigned char head[2];
    while (fread(head, 1, 2, stdin) == 2) {
        size_t size = head[0] << 8 | head[1];
        if (size == 0 || size > LIVE_SIZE || fread(buffer, 1, size, stdin) != size) return die("a strange packet");
        if (srt_sendmsg(socket, buffer, (int)size, -1, 1) != (int)size) return die("cannot send");
    }
    size_t blocks = 1;
    for (double end = wall() + 3; blocks > 0 && wall() < end; usleep(1000)) srt_getsndbuffer(socket, &blocks, NULL);
    /* What has come is handed out when its latency is over, and not behind the connection's end. */
    usleep((useconds_t)(latency + 200) * 1000);
    srt_close(socket);
    return 0;
}

static int live_receive(struct sockaddr_in *address, int latency) {
    SRTSOCKET listener = make_live(latency);
    if (listener == SRT_INVALID_SOCK || srt_bind(listener, (struct sockaddr *)address, sizeof *address) ||
        srt_listen(listener, 1))
        return die("cannot listen");
    grant();
    SRTSOCKET socket = srt_accept(listener, NULL, NULL);
    if (socket == SRT_INVALID_SOCK) return die("nobody connects");
    for (;;) {
        int got = srt_recvmsg(socket, buffer, LIVE_SIZE);
        if (got <= 0) return 0;
        unsigned char head[2] = {(unsigned char)(got >> 8), (unsigned char)got};
        if (fwrite(head, 1, 2, stdout) != 2 || fwrite(buffer, 1, (size_t)got, stdout) != (size_t)got || fflush(stdout))
            return die("nobody reads");
    }
}

int main(int count, char **words) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (count < 5 || srt_startup() < 0 || inet_pton(AF_INET, words[2], &address.sin_addr) != 1) return die("usage");
    srt_setloglevel(0);
    address.sin_port = htons((unsigned short)atoi(words[3]));
    if (!strcmp(words[1], "live-send")) return live_send(&address, atoi(words[4]));
    if (!strcmp(words[1], "live-receive")) return live_receive(&address, atoi(words[4]));
    if (count != 7) return die("usage");
    int messages = strcmp(words[4], "bulk") != 0;
    size_t size = strtoul(words[5], NULL, 10);
    return !strcmp(words[1], "receive") ? receive(&address, messages, size)
                                        : send_all(&address, messages, size, atof(words[6]));
}
