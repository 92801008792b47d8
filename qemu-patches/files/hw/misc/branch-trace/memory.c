/*
 * Branch trace: the guest's RAM, for the agent to read
 *
 * The agent gets descriptors of the files that hold the RAM, opened again for
 * reading only.  RAM that is not in a file, or is mapped privately, is not
 * shared.
 *
 * RAM comes and goes, and so does the guest's note.  Nothing reports that: it
 * costs little to look where it is, and more to be called whenever the guest
 * moves one of its devices.
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
#include "system/hostmem.h"
#include "memory.h"

typedef struct MemoryTable {
    struct btrail_memory head;
    struct btrail_memory_range ranges[BTRAIL_MEMORY_MAX_RANGES];
} MemoryTable;

struct BranchTraceMemory {
    MemoryTable table;
    int own[BTRAIL_MEMORY_MAX_FILES];   /* QEMU's descriptors */
    /* Which files they are: a descriptor can become that of another one. */
    dev_t devices[BTRAIL_MEMORY_MAX_FILES];
    ino_t inodes[BTRAIL_MEMORY_MAX_FILES];
};

static int memory_file(BranchTraceMemory *m, int fd)
{
    struct stat st = { 0 };
    uint32_t i;

    for (i = 0; i < m->table.head.files; i++) {
        if (m->own[i] == fd) {
            return i;
        }
    }
    if (i == BTRAIL_MEMORY_MAX_FILES) {
        return -1;
    }
    fstat(fd, &st);
    m->own[i] = fd;
    m->devices[i] = st.st_dev;
    m->inodes[i] = st.st_ino;
    m->table.head.files++;
    return i;
}

/* Is it what the guest takes for its memory, and not that of some device? */
static bool memory_is_ram(MemoryRegion *region)
{
    return memory_region_is_ram(region) &&
           object_dynamic_cast(memory_region_owner(region),
                               TYPE_MEMORY_BACKEND);
}

/* Adds a range; returns false if it cannot be shared. */
static bool memory_add(BranchTraceMemory *m, MemoryRegion *region,
                       struct btrail_memory_range range)
{
    struct btrail_memory *head = &m->table.head;
    struct btrail_memory_range *last = head->ranges ?
                                       &m->table.ranges[head->ranges - 1] :
                                       NULL;
    int file;

    if (!memory_region_is_ram(region) || memory_region_is_ram_device(region) ||
        !qemu_ram_is_shared(region->ram_block) || region->ram_block->fd < 0) {
        return false;
    }
    file = memory_file(m, region->ram_block->fd);
    if (file < 0) {
        return false;
    }
    range.offset += region->ram_block->fd_offset;
    range.file = file;
    if (last && last->file == range.file &&
        last->address + last->size == range.address &&
        last->offset + last->size == range.offset) {
        last->size += range.size;
        return true;
    }
    if (head->ranges == BTRAIL_MEMORY_MAX_RANGES) {
        return false;
    }
    m->table.ranges[head->ranges++] = range;
    return true;
}

static bool memory_range(Int128 start, Int128 len, const MemoryRegion *mr,
                         hwaddr offset_in_region, void *opaque)
{
    BranchTraceMemory *m = opaque;
    MemoryRegion *region = (MemoryRegion *)mr;
    const struct btrail_memory_range range = {
        .address = int128_get64(start),
        .size = int128_get64(len),
        .offset = offset_in_region,
    };

    if (!memory_add(m, region, range) && memory_is_ram(region)) {
        m->table.head.unshared += range.size;
    }
    return false;
}

static void memory_collect(BranchTraceMemory *m)
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

static int memory_table_fd(const BranchTraceMemory *m, size_t size)
{
    int fd = qemu_memfd_create("branch-trace-memory", size, false, 0, 0, NULL);

    if (fd >= 0 && pwrite(fd, &m->table, size, 0) != size) {
        close(fd);
        return -1;
    }
    return fd;
}

int branch_trace_memory_send(QIOChannel *ioc, BranchTraceMemory **known)
{
    g_autofree BranchTraceMemory *m = g_new0(BranchTraceMemory, 1);
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
    if (*known && !memcmp(m, *known, sizeof(*m))) {
        return 0;
    }
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
    if (!ok) {
        return -1;
    }
    g_free(*known);
    /* What has failed may not fail the next time. */
    *known = msg.reason == BTRAIL_MEMORY_FAILED ? NULL : g_steal_pointer(&m);
    return 1;
}
