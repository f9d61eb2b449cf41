/* One end of a measurement with ENet: PROGRAM send|receive ADDRESS PORT bulk|reliable|unreliable SIZE SECONDS */
#include <enet/enet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static double clock_of(clockid_t which) {
    struct timespec time;
    clock_gettime(which, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static double wall(void) { return clock_of(CLOCK_MONOTONIC); }
static double cpu(void) { return clock_of(CLOCK_PROCESS_CPUTIME_ID); }

/* Packets that were made and that ENet still needs. */
static size_t outstanding;
static void freed(ENetPacket *packet) { (void)packet; outstanding--; }

static int die(const char *what) {
    fprintf(stderr, "enet: %s\n", what);
    return 1;
}

/* The kernel's buffers that all others ask for; ENet asks for 256 KiB. Beyond the system's limit where that is allowed. */
static void grant(ENetSocket socket) {
    int bytes = 8 << 20;
    if (setsockopt(socket, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes))
        setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

/* What a message of 16 MiB needs. */
static void enlarge(ENetHost *host) {
    grant(host->socket);
    host->maximumPacketSize = 64u << 20;
    host->maximumWaitingData = 256u << 20;
    host->mtu = 1452;
}

static int receive(ENetAddress *address) {
    ENetHost *host = enet_host_create(address, 1, 1, 0, 0);
    if (!host) return die("cannot listen");
    enlarge(host);
    puts("ready");
    fflush(stdout);
    ENetEvent event;
    double first = 0, first_cpu = 0, last = wall() + 17, last_cpu = 0, bytes = 0, first_bytes = 0;
    unsigned count = 0;
    for (;;) {
        int got = enet_host_service(host, &event, 20);
        if (got < 0) return die("cannot receive");
        if (got == 0) {
            if (wall() - last > 3) break;
            continue;
        }
        if (event.type == ENET_EVENT_TYPE_DISCONNECT) break;
        if (event.type != ENET_EVENT_TYPE_RECEIVE) continue;
        size_t size = event.packet->dataLength;
        enet_packet_destroy(event.packet);
        bytes += size;
        /* Large ones each, of small ones a few go between two looks at the clock. */
        if (count++ % 64 && size < 100000) continue;
        last = wall(), last_cpu = cpu();
        if (first_bytes == 0) first = last, first_cpu = last_cpu, first_bytes = bytes;
    }
    printf("{\"bytes\": %.0f, \"total\": %.0f, \"seconds\": %f, \"cpu\": %f}\n", bytes - first_bytes, bytes,
           first_bytes > 0 ? last - first : 0, last_cpu - first_cpu);
    return 0;
}

static int send_all(ENetAddress *address, const char *load, size_t size, double seconds) {
    ENetHost *host = enet_host_create(NULL, 1, 1, 0, 0);
    if (!host) return die("no socket");
    enlarge(host);
    ENetPeer *peer = enet_host_connect(host, address, 1, 0);
    ENetEvent event;
    if (!peer || enet_host_service(host, &event, 10000) <= 0 || event.type != ENET_EVENT_TYPE_CONNECT)
        return die("no connection");
    /* Never drops unreliable packets of its own will. */
    enet_peer_throttle_configure(peer, 1000, ENET_PEER_PACKET_THROTTLE_SCALE, 0);
    enet_uint32 flags = strcmp(load, "unreliable") ? ENET_PACKET_FLAG_RELIABLE : 0;
    size_t limit = size > 100000 ? 2 : 4096;
    char *message = calloc(1, size);
    double begin = wall(), begin_cpu = cpu(), bytes = 0;
    unsigned turns = 0;
    while (wall() - begin < seconds) {
        for (int i = 0; i < 512 && outstanding < limit; i++) {
            ENetPacket *packet = enet_packet_create(message, size, flags);
            if (!packet) return die("no memory");
            packet->freeCallback = freed;
            outstanding++;
            if (enet_peer_send(peer, 0, packet) < 0) return die("cannot send");
            bytes += size;
        }
        turns++;
        while (enet_host_service(host, &event, outstanding < limit ? 0 : 1) > 0)
            if (event.type == ENET_EVENT_TYPE_DISCONNECT) return die("disconnected");
    }
    double patience = wall() + 20;
    while (outstanding > 0 && wall() < patience)
        if (enet_host_service(host, &event, 1) > 0 && event.type == ENET_EVENT_TYPE_DISCONNECT)
            return die("disconnected");
    double used = cpu() - begin_cpu;
    enet_peer_disconnect(peer, 0);
    for (double end = wall() + 0.5; wall() < end;)
        if (enet_host_service(host, &event, 10) > 0 && event.type == ENET_EVENT_TYPE_DISCONNECT) break;
    printf("{\"bytes\": %.0f, \"cpu\": %f}\n", bytes, used);
    return 0;
}

int main(int count, char **words) {
    ENetAddress address;
    if (count != 7 || enet_initialize() || enet_address_set_host_ip(&address, words[2])) return die("usage");
    address.port = (enet_uint16)atoi(words[3]);
    if (!strcmp(words[1], "receive")) return receive(&address);
    return send_all(&address, words[4], strtoul(words[5], NULL, 10), atof(words[6]));
}
