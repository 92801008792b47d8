/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: the shared memory of a producer
 *
 * The input is the start of the memory, up to the end of the first slabs; the
 * rest is zero.  The size that the header tells is made right, so that the
 * fuzzer need not guess it.  What the header check lets pass must not lead
 * outside, whatever is in the slabs.
 */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stream.h"
#include "transport.h"

#define SIZE    (256u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

static struct btrail_block *get_block(struct btrail_block_sink *sink)
{
    return btrail_block_new();
}

static int put_block(struct btrail_block_sink *sink,
                     struct btrail_block *block)
{
    btrail_block_free(block);
    return 0;
}

static void send_hello(int sock, int *fds)
{
    struct btrail_msg msg = {
        .magic = BTRAIL_MSG_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .type = BTRAIL_MSG_HELLO,
        .value = SIZE,
    };
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(3 * sizeof(int))];
    } control = { 0 };
    struct iovec iov = { &msg, sizeof(msg) };
    struct msghdr mh = {
        .msg_iov = &iov, .msg_iovlen = 1,
        .msg_control = &control, .msg_controllen = sizeof(control),
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&mh);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(3 * sizeof(int));
    memcpy(CMSG_DATA(c), fds, 3 * sizeof(int));
    require(sendmsg(sock, &mh, 0) == sizeof(msg));
}

/* What the agent does with it, in one thread */
static void drain(struct btrail_transport *t)
{
    struct btrail_block_sink sink = { get_block, put_block };
    struct btrail_event *events = g_new(struct btrail_event,
                                        t->header.events_per_slab);
    unsigned i;

    for (i = 0; i < t->header.vcpus && i < 4; i++) {
        struct btrail_stream *stream = btrail_stream_new(i, &sink);
        uint64_t head = btrail_transport_head(t, i);
        uint64_t tail = btrail_transport_tail(t, i);
        unsigned n = 0;

        for (; tail != head && n < t->header.slabs && n < 8; tail++, n++) {
            struct btrail_slab slab;

            if (!btrail_transport_slab(t, i, tail, &slab, events, NULL) ||
                btrail_stream_append(stream, &slab, BTRAIL_GAP_CORRUPT)) {
                break;
            }
            btrail_transport_release(t, i, tail + 1);
        }
        btrail_stream_flush(stream);
        btrail_stream_free(stream);
    }
    g_free(events);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct btrail_transport *t;
    struct btrail_shm_header *h;
    int fds[3], socks[2];
    uint8_t *map;

    if (size < sizeof(*h) || size > SIZE) {
        return 0;
    }
    fds[0] = memfd_create("shm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    fds[1] = eventfd(0, EFD_CLOEXEC);
    fds[2] = eventfd(0, EFD_CLOEXEC);
    require(!ftruncate(fds[0], SIZE) &&
            !fcntl(fds[0], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) &&
            !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks));
    map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    require(map != MAP_FAILED);
    memcpy(map, data, size);
    h = (struct btrail_shm_header *)map;
    h->total_size = SIZE;
    munmap(map, SIZE);

    send_hello(socks[0], fds);
    t = btrail_transport_connect(socks[1], 1000, -1, NULL);
    if (t) {
        drain(t);
        btrail_transport_free(t);
    } else {
        close(socks[1]);
    }
    close(socks[0]);
    close(fds[0]);
    close(fds[1]);
    close(fds[2]);
    return 0;
}
