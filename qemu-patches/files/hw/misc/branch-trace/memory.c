/*
 * Branch trace: the guest's RAM, for the agent to read
 *
 * The agent gets descriptors of the files that hold the RAM, opened again for
 * reading only.  RAM that is not in a file, or is mapped privately, is not
 * shared.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/memfd.h"
#include "qemu/rcu.h"
#include "exec/address-spaces.h"
#include "exec/memory.h"
#include "exec/ramblock.h"
#include "hw/misc/branch-trace-transport.h"
#include "hw/misc/vmcoreinfo.h"
#include "memory.h"

typedef struct MemoryTable {
    struct btrail_memory head;
    struct btrail_memory_range ranges[BTRAIL_MEMORY_MAX_RANGES];
} MemoryTable;

typedef struct MemoryShare {
    MemoryTable table;
    int own[BTRAIL_MEMORY_MAX_FILES];   /* QEMU's descriptors */
} MemoryShare;

static int memory_file(MemoryShare *m, int fd)
{
    uint32_t i;

    for (i = 0; i < m->table.head.files; i++) {
        if (m->own[i] == fd) {
            return i;
        }
    }
    if (i == BTRAIL_MEMORY_MAX_FILES) {
        return -1;
    }
    m->own[i] = fd;
    m->table.head.files++;
    return i;
}

static bool memory_range(Int128 start, Int128 len, const MemoryRegion *mr,
                         hwaddr offset_in_region, void *opaque)
{
    MemoryShare *m = opaque;
    struct btrail_memory *head = &m->table.head;
    MemoryRegion *region = (MemoryRegion *)mr;
    uint64_t address = int128_get64(start);
    uint64_t size = int128_get64(len);
    struct btrail_memory_range *last, range;
    int file;

    if (!memory_region_is_ram(region) || memory_region_is_ram_device(region) ||
        !qemu_ram_is_shared(region->ram_block) || region->ram_block->fd < 0) {
        return false;
    }
    file = memory_file(m, region->ram_block->fd);
    if (file < 0) {
        return true;
    }
    range = (struct btrail_memory_range) {
        .address = address,
        .size = size,
        .offset = region->ram_block->fd_offset + offset_in_region,
        .file = file,
    };
    last = head->ranges ? &m->table.ranges[head->ranges - 1] : NULL;
    if (last && last->file == range.file &&
        last->address + last->size == range.address &&
        last->offset + last->size == range.offset) {
        last->size += size;
        return false;
    }
    if (head->ranges == BTRAIL_MEMORY_MAX_RANGES) {
        return true;
    }
    m->table.ranges[head->ranges++] = range;
    return false;
}

static void memory_collect(MemoryShare *m)
{
    VMCoreInfoState *v = vmcoreinfo_find();

    WITH_RCU_READ_LOCK_GUARD() {
        flatview_for_each_range(address_space_to_flatview(
                                    &address_space_memory),
                                memory_range, m);
    }
    if (v && v->has_vmcoreinfo && le16_to_cpu(v->vmcoreinfo.guest_format) ==
        FW_CFG_VMCOREINFO_FORMAT_ELF) {
        m->table.head.note = le64_to_cpu(v->vmcoreinfo.paddr);
        m->table.head.note_size = le32_to_cpu(v->vmcoreinfo.size);
    }
}

static int memory_reopen(int fd)
{
    g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", fd);

    return qemu_open_old(path, O_RDONLY);
}

static int memory_table_fd(const MemoryShare *m, size_t size)
{
    int fd = qemu_memfd_create("branch-trace-memory", size, false, 0, 0, NULL);

    if (fd >= 0 && pwrite(fd, &m->table, size, 0) != size) {
        close(fd);
        return -1;
    }
    return fd;
}

bool branch_trace_memory_send(QIOChannel *ioc)
{
    g_autofree MemoryShare *m = g_new0(MemoryShare, 1);
    struct btrail_msg msg = {
        .magic = BTRAIL_MSG_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .type = BTRAIL_MSG_MEMORY,
    };
    struct iovec iov = { .iov_base = &msg, .iov_len = sizeof(msg) };
    int fds[1 + BTRAIL_MEMORY_MAX_FILES];
    size_t n = 0;
    uint32_t i;
    bool ok;

    memory_collect(m);
    if (m->table.head.ranges) {
        msg.value = sizeof(m->table.head) +
                    m->table.head.ranges * sizeof(m->table.ranges[0]);
        fds[n] = memory_table_fd(m, msg.value);
        while (fds[n] >= 0 && n++ < m->table.head.files) {
            fds[n] = memory_reopen(m->own[n - 1]);
        }
        if (n != 1 + m->table.head.files) {
            msg.reason = BTRAIL_MEMORY_FAILED;
        }
    } else {
        msg.reason = BTRAIL_MEMORY_PRIVATE;
    }
    if (msg.reason) {
        msg.value = 0;
    }
    ok = qio_channel_writev_full(ioc, &iov, 1, fds, msg.reason ? 0 : n, 0,
                                 NULL) == sizeof(msg);
    for (i = 0; i < n; i++) {
        close(fds[i]);
    }
    return ok;
}
