/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A producer that does what the input of a fuzz target says: see producer.h
 */

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/agent/bytes.h"
#include "fuzz.h"
#include "producer.h"

/* The next @n bytes, or NULL */
static const uint8_t *take(struct producer *p, size_t n)
{
    const uint8_t *bytes = p->rest;

    if (n > p->left) {
        return NULL;
    }
    p->rest += n;
    p->left -= n;
    return bytes;
}

static bool write_memory(struct producer *p)
{
    const uint8_t *head = take(p, 6), *bytes;
    uint32_t offset;
    uint16_t len;

    if (!head) {
        return false;
    }
    offset = btrail_get32(head);
    len = btrail_get16(head + 4);
    bytes = take(p, len);
    if (!bytes || offset > PRODUCER_MEMORY ||
        len > PRODUCER_MEMORY - offset) {
        return false;
    }
    memcpy(p->memory + offset, bytes, len);
    return true;
}

static bool send_bytes(struct producer *p)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(PRODUCER_FDS * sizeof(int))];
    } control = { 0 };
    const uint8_t *head = take(p, 2), *bytes;
    struct msghdr mh = { .msg_iovlen = 1 };
    struct iovec iov;

    bytes = head ? take(p, head[1]) : NULL;
    if (!bytes || !head[1] || head[0] > PRODUCER_FDS) {
        return false;
    }
    iov = (struct iovec) { (void *)bytes, head[1] };
    mh.msg_iov = &iov;
    if (head[0]) {
        struct cmsghdr *c = &control.align;

        mh.msg_control = &control;
        mh.msg_controllen = CMSG_SPACE(head[0] * sizeof(int));
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(head[0] * sizeof(int));
        memcpy(CMSG_DATA(c), p->fds, head[0] * sizeof(int));
    }
    return sendmsg(p->sock, &mh, MSG_DONTWAIT) == (ssize_t)iov.iov_len;
}

void producer_init(struct producer *p, const uint8_t *data, size_t size)
{
    const uint8_t *action;
    bool more = true;
    int socks[2];
    unsigned i;

    p->fds[0] = memfd_create("shm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    fuzz_require(p->fds[0] >= 0 && !ftruncate(p->fds[0], PRODUCER_MEMORY) &&
                 !fcntl(p->fds[0], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
    p->memory = mmap(NULL, PRODUCER_MEMORY, PROT_READ | PROT_WRITE,
                     MAP_SHARED, p->fds[0], 0);
    fuzz_require(p->memory != MAP_FAILED);
    for (i = 1; i < PRODUCER_FDS; i++) {
        p->fds[i] = eventfd(0, EFD_CLOEXEC);
        fuzz_require(p->fds[i] >= 0);
    }
    fuzz_require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks));
    p->sock = socks[0];
    p->agent_sock = socks[1];

    p->rest = data;
    p->left = size;
    while (more && (action = take(p, 1)) && *action != PRODUCER_LATER) {
        more = *action == PRODUCER_WRITE ? write_memory(p) :
               *action == PRODUCER_SEND ? send_bytes(p) : false;
    }
    fuzz_require(!shutdown(p->sock, SHUT_WR));
}

void producer_later(struct producer *p)
{
    const uint8_t *action;

    while ((action = take(p, 1)) && *action == PRODUCER_WRITE &&
           write_memory(p)) {
        continue;
    }
}

void producer_clear(struct producer *p)
{
    unsigned i;

    munmap(p->memory, PRODUCER_MEMORY);
    close(p->sock);
    for (i = 0; i < PRODUCER_FDS; i++) {
        close(p->fds[i]);
    }
}
