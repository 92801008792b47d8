// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * uring ROUNDS [poll]: reads by io_uring, in threads of the kernel that belong
 * to this process; with poll, one of them takes the requests, too
 */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "programs.h"

#define ENTRIES 8

static void *map(int fd, size_t size, uint64_t offset)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_POPULATE, fd, offset);

    if (p == MAP_FAILED) {
        die("mmap");
    }
    return p;
}

int uring_main(int argc, char **argv)
{
    static char buffer[1 << 18];
    unsigned rounds = argc > 1 ? atoi(argv[1]) : 100;
    bool poll = argc > 2;
    struct io_uring_params p = { 0 };
    struct io_uring_sqe *entries;
    unsigned *sq_tail, *sq_mask, *sq_flags, *array, *cq_head, *cq_tail;
    char *sq, *cq;
    int ring, file = open("/bin/busybox", O_RDONLY);

    if (poll) {
        p.flags = IORING_SETUP_SQPOLL;
        p.sq_thread_idle = 1000;
    }
    ring = syscall(SYS_io_uring_setup, ENTRIES, &p);
    if (ring < 0) {
        die("io_uring_setup");
    }
    sq = map(ring, p.sq_off.array + p.sq_entries * sizeof(unsigned),
             IORING_OFF_SQ_RING);
    cq = map(ring, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe),
             IORING_OFF_CQ_RING);
    entries = map(ring, p.sq_entries * sizeof(*entries), IORING_OFF_SQES);
    sq_tail = (unsigned *)(sq + p.sq_off.tail);
    sq_mask = (unsigned *)(sq + p.sq_off.ring_mask);
    sq_flags = (unsigned *)(sq + p.sq_off.flags);
    array = (unsigned *)(sq + p.sq_off.array);
    cq_head = (unsigned *)(cq + p.cq_off.head);
    cq_tail = (unsigned *)(cq + p.cq_off.tail);
    for (unsigned i = 0; i < rounds; i++) {
        unsigned slot = *sq_tail & *sq_mask;
        struct io_uring_sqe *e = &entries[slot];

        memset(e, 0, sizeof(*e));
        e->opcode = IORING_OP_READ;
        e->flags = IOSQE_ASYNC;
        e->fd = file;
        e->addr = (uintptr_t)buffer;
        e->len = sizeof(buffer);
        array[slot] = slot;
        __atomic_store_n(sq_tail, *sq_tail + 1, __ATOMIC_SEQ_CST);
        if (!poll) {
            if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS,
                        NULL, 0) < 0) {
                die("io_uring_enter");
            }
        } else if (__atomic_load_n(sq_flags, __ATOMIC_SEQ_CST) &
                   IORING_SQ_NEED_WAKEUP) {
            syscall(SYS_io_uring_enter, ring, 1, 0, IORING_ENTER_SQ_WAKEUP,
                    NULL, 0);
        }
        while (__atomic_load_n(cq_tail, __ATOMIC_ACQUIRE) == *cq_head) {
            usleep(200);
        }
        __atomic_store_n(cq_head, *cq_tail, __ATOMIC_RELEASE);
    }
    printf("BT: uring pid=%d reads=%u\n", getpid(), rounds);
    return 0;
}
