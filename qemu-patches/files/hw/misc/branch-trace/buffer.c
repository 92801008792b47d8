/*
 * Branch trace: the memory that the device shares with the agent
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <sys/mman.h>
#include "qapi/error.h"
#include "qemu/atomic.h"
#include "qemu/cutils.h"
#include "qemu/host-utils.h"
#include "qemu/memfd.h"
#include "qemu/sockets.h"
#include "qemu/units.h"
#include "agent-socket.h"
#include "background.h"
#include "buffer.h"

/*
 * Slabs are few and small enough to stay in the cache between the vCPU that
 * fills them and the agent that drains them, and large enough that handing
 * one over (a system call on each side at worst) does not show.
 */
#define SLABS_WANTED        8
#define SLAB_SIZE_WANTED    (256 * KiB)

/* A capture gets this part of the host's memory, and no more. */
#define HOST_SHARE          4

/* While more than that is unmapped at once, other threads wait to map some. */
#define UNMAP_SIZE          (16 * MiB)

/* The part of a slab for events suffices even if CR3 changes all the time. */
#define EVENT_SHARE         16

static void buffer_layout(BranchTraceBuffer *buf, unsigned vcpus,
                          uint64_t size_per_vcpu, uint32_t code_items)
{
    size_t page = qemu_real_host_page_size();
    uint64_t slab_size = pow2floor(size_per_vcpu / SLABS_WANTED);

    slab_size = MIN(MAX(slab_size, BTRAIL_MIN_SLAB_SIZE), SLAB_SIZE_WANTED);
    while (DIV_ROUND_UP(size_per_vcpu, slab_size) > BTRAIL_MAX_SLABS) {
        slab_size *= 2;
    }

    buf->vcpus = vcpus;
    buf->slab_size = slab_size;
    buf->slabs = MAX(DIV_ROUND_UP(size_per_vcpu, slab_size), BTRAIL_MIN_SLABS);
    buf->events_per_slab = slab_size / EVENT_SHARE /
                           sizeof(struct btrail_event);
    buf->records_per_slab = (slab_size - slab_size / EVENT_SHARE) /
                            sizeof(struct btrail_record);
    buf->event_offset = slab_size - slab_size / EVENT_SHARE;

    buf->desc_offset = sizeof(struct btrail_shm_vcpu);
    buf->slab_offset = ROUND_UP(buf->desc_offset + (uint64_t)buf->slabs *
                                sizeof(struct btrail_slab_desc), page);
    buf->vcpu_offset = ROUND_UP(sizeof(struct btrail_shm_header), page);
    buf->vcpu_stride = ROUND_UP(buf->slab_offset +
                                (uint64_t)buf->slabs * slab_size, page);
    buf->code_items = code_items;
    if (code_items) {
        buf->code_offset = buf->vcpu_stride;
        buf->code_page_offset =
            ROUND_UP(buf->code_offset + sizeof(struct btrail_shm_code) +
                     code_items * sizeof(struct btrail_code_item), page);
        buf->vcpu_stride =
            ROUND_UP(buf->code_page_offset +
                     (uint64_t)code_items * BTRAIL_CODE_PAGE_SIZE, page);
    }
    buf->size = buf->vcpu_offset + vcpus * buf->vcpu_stride;
}

static bool buffer_fits(const BranchTraceBuffer *buf, Error **errp)
{
    size_t host = qemu_get_host_physmem();

    if (host && buf->size > host / HOST_SHARE) {
        g_autofree char *size = size_to_str(buf->size);
        g_autofree char *most = size_to_str(host / HOST_SHARE);

        error_setg(errp, "the branch trace buffer for %u vCPUs would have %s, "
                   "more than a quarter of this host's memory (%s): use a "
                   "smaller buffer-size", buf->vcpus, size, most);
        return false;
    }
    return true;
}

static void buffer_write_header(BranchTraceBuffer *buf)
{
    *(struct btrail_shm_header *)buf->base = (struct btrail_shm_header) {
        .magic = BTRAIL_SHM_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .header_size = sizeof(struct btrail_shm_header),
        .total_size = buf->size,
        .vcpu_offset = buf->vcpu_offset,
        .vcpu_stride = buf->vcpu_stride,
        .desc_offset = buf->desc_offset,
        .slab_offset = buf->slab_offset,
        .vcpus = buf->vcpus,
        .slabs = buf->slabs,
        .slab_size = buf->slab_size,
        .records_per_slab = buf->records_per_slab,
        .event_offset = buf->event_offset,
        .events_per_slab = buf->events_per_slab,
        .record_size = sizeof(struct btrail_record),
        .event_size = sizeof(struct btrail_event),
        .code_offset = buf->code_offset,
        .code_page_offset = buf->code_page_offset,
        .code_items = buf->code_items,
    };
}

/* The agent gets the second one.  On failure @fds are -1. */
static bool create_sockets(int fds[2], Error **errp)
{
    if (qemu_socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0) {
        error_setg_errno(errp, errno, "cannot create a socket");
    } else if (branch_trace_agent_prepare(fds[0], errp)) {
        return true;
    } else {
        close(fds[0]);
        close(fds[1]);
    }
    fds[0] = fds[1] = -1;
    return false;
}

bool branch_trace_buffer_create(BranchTraceBuffer *buf, unsigned vcpus,
                                uint64_t size_per_vcpu, uint32_t code_items,
                                Error **errp)
{
    *buf = (BranchTraceBuffer) {
        .fd = -1,
        .ready = { -1, -1 },
        .free = { -1, -1 },
    };
    buffer_layout(buf, vcpus, size_per_vcpu, code_items);
    if (!buffer_fits(buf, errp)) {
        return false;
    }

    /* Sealed, or the agent could make us take a SIGBUS. */
    buf->fd = qemu_memfd_create("branch-trace", buf->size, false, 0,
                                F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL,
                                errp);
    if (buf->fd < 0) {
        return false;
    }
    buf->base = mmap(NULL, buf->size, PROT_READ | PROT_WRITE, MAP_SHARED,
                     buf->fd, 0);
    if (buf->base == MAP_FAILED) {
        error_setg_errno(errp, errno, "cannot map %" PRIu64 " bytes of "
                         "branch trace buffer", buf->size);
        buf->base = NULL;
        return false;
    }
    if (!create_sockets(buf->ready, errp) ||
        !create_sockets(buf->free, errp)) {
        return false;
    }
    buffer_write_header(buf);
    return true;
}

void branch_trace_buffer_destroy(BranchTraceBuffer *buf)
{
    int fds[] = {
        buf->fd, buf->ready[0], buf->ready[1], buf->free[0], buf->free[1],
    };
    uint64_t at;
    unsigned i;

    for (at = 0; buf->base && at < buf->size; at += UNMAP_SIZE) {
        munmap(buf->base + at, MIN(buf->size - at, UNMAP_SIZE));
    }
    for (i = 0; i < ARRAY_SIZE(fds); i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

uint8_t *branch_trace_buffer_area(const BranchTraceBuffer *buf, unsigned vcpu)
{
    assert(vcpu < buf->vcpus);
    return buf->base + buf->vcpu_offset + vcpu * buf->vcpu_stride;
}

void branch_trace_buffer_signal(BranchTraceBuffer *buf)
{
    struct btrail_shm_header *header = (struct btrail_shm_header *)buf->base;
    uint64_t one = 1;

    /* Pairs with the agent's barrier between going to sleep and its check. */
    smp_mb();
    if (qatomic_read(&header->agent_sleeps)) {
        /* If there is no room, there is enough to wake it up already. */
        send(buf->ready[0], &one, sizeof(one), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

bool branch_trace_buffer_read_free(BranchTraceBuffer *buf)
{
    uint64_t count[64];

    /* The rest is read the next time. */
    return branch_trace_agent_read(buf->free[0], count, sizeof(count)) > 0 ||
           errno == EAGAIN;
}

static void close_job(void *opaque)
{
    g_autofree int *fds = opaque;

    close(fds[0]);
    close(fds[1]);
}

bool branch_trace_buffer_renew_free(BranchTraceBuffer *buf, Error **errp)
{
    g_autofree int *old = g_memdup2(buf->free, sizeof(buf->free));
    int fds[2];

    if (!branch_trace_background_has_room(errp) ||
        !create_sockets(fds, errp)) {
        return false;
    }
    memcpy(buf->free, fds, sizeof(fds));
    branch_trace_background_run(close_job, g_steal_pointer(&old));
    return true;
}
