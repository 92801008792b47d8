/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory of a guest whose QEMU has nothing of ours
 *
 * QEMU's monitor says where the guest's RAM is in QEMU's process, and the
 * kernel lets whoever may debug that process read it.  Nothing of the guest or
 * of QEMU changes thereby.
 */

#ifndef BTRAIL_STOCK_MEMORY_H
#define BTRAIL_STOCK_MEMORY_H

#include "guest-linux/guest-memory.h"
#include "monitor/hmp-text.h"
#include "monitor/qmp.h"

/**
 * struct stock_vcpu
 * @number:    as QEMU counts them
 * @thread:    its thread, which perf_event_open(2) takes; as it is called here,
 *             also if QEMU has numbers of its own (a container)
 * @registers: as they are while the guest stands still
 * @levels:    of its page tables, as page_walk_levels() says it; 0 also in
 *             system management mode, whose memory and page tables are others
 */
struct stock_vcpu {
    unsigned number;
    pid_t thread;
    struct hmp_registers registers;
    unsigned levels;
};

/**
 * struct stock_memory
 * @pid:     of QEMU
 * @size:    bytes in all ranges: RAM, and ROM, which firmware runs in
 * @files:   the ranges, for guest_memory_open() and the scanner
 * @vcpus:   of struct stock_vcpu
 *
 * It holds until memory is plugged, or the guest or its firmware moves what
 * lies over it, which it cannot while it stands still.
 */
struct stock_memory {
    pid_t pid;
    uint64_t size;
    struct guest_memory_files *files;
    GArray *vcpus;
};

/**
 * stock_memory_open - find the memory of a guest that stands still
 * @pid:    of QEMU, if it is known; 0: whoever listens at the monitor
 * @memory: of that process, as for process_memory_open(), or -1
 *
 * That this is the process of this QEMU is not taken on trust: it has the
 * threads of its vCPUs, and in each range the bytes that the monitor prints.
 *
 * Returns NULL and @error if anything is not as expected, and for a guest that
 * runs, whose memory is encrypted, or whose memory is still on its way here
 * (migration).
 */
struct stock_memory *stock_memory_open(struct qmp *qmp, pid_t pid,
                                       int memory, int timeout_ms, int cancel_fd,
                                       GError **error);
void stock_memory_free(struct stock_memory *m);

/**
 * stock_memory_levels - how the guest walks its page tables
 * @levels: gets FROZEN_CODE_UNPAGED if all vCPUs have paging off; those that
 *          have wait to be started, if others have it on
 *
 * Returns false and @error if they differ, or are of a kind that is not read.
 */
bool stock_memory_levels(const struct stock_memory *m, unsigned *levels,
                         GError **error);

#endif /* BTRAIL_STOCK_MEMORY_H */
